/* SPDX-License-Identifier: MIT */
/*
 * model/fiber.c - the test's threads as fibers on one OS thread.
 *
 * A fiber is made once per process and then loops: wait at `home`, run the thread's body, wait
 * again. Switching marks a point on one stack and jumps to one on another; a run that is abandoned
 * in the middle is undone by jumping to `home`, whose frame never returns.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "model/engine.h"

struct engine engine;

static char stacks[MODEL_THREADS_MAX][STACK_SIZE] __attribute__((aligned(64)));
static jump_point *scheduler; /* where the scheduler waits for the fiber that it started last */
static unsigned starting;     /* the fiber that is entered for the first time */

/* Separate from the function that marks a point: the compiler requires two functions. */
static __attribute__((noinline)) _Noreturn void jump_to(jump_point *point)
{
    JUMP_TO(*point);
}

/* The body of every fiber; its frame stays for the whole process. */
static void fiber_main(void)
{
    struct thread *self = &engine.threads[starting];
    for (;;) {
        if (JUMP_HERE(self->home) == 0) {
            jump_to(scheduler);
        }
        unsigned index = (unsigned)(self - engine.threads);
        engine.test->threads[index]();
        self->state = THREAD_DONE;
        self->step = NULL;
    }
}

static void make_fiber(unsigned index)
{
    jump_point here;
    ucontext_t context;
    if (getcontext(&context) != 0) {
        abort();
    }
    context.uc_stack.ss_sp = stacks[index];
    context.uc_stack.ss_size = STACK_SIZE;
    context.uc_link = NULL;
    makecontext(&context, fiber_main, 0);
    starting = index;
    scheduler = &here;
    if (JUMP_HERE(here) == 0) {
        (void)setcontext(&context);
        abort();
    }
}

void fiber_prepare(void)
{
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        make_fiber(i);
    }
}

/* Nests: a step that wakes a sleeper runs the sleeper on before it returns. */
static void enter(unsigned index, jump_point *where)
{
    jump_point here;
    jump_point *outer = scheduler;
    scheduler = &here;
    engine.current = (int)index;
    if (JUMP_HERE(here) == 0) {
        jump_to(where);
    }
    engine.current = -1;
    scheduler = outer;
}

void fiber_start(unsigned index)
{
    engine.threads[index].state = THREAD_READY;
    enter(index, &engine.threads[index].home);
}

void fiber_resume(unsigned index)
{
    enter(index, &engine.threads[index].context);
}

void fiber_publish(struct step *step)
{
    struct thread *self = &engine.threads[engine.current];
    self->step = step;
    if (JUMP_HERE(self->context) == 0) {
        jump_to(scheduler);
    }
}

void fiber_abandon(void)
{
    jump_to(scheduler);
}

bool fiber_guard(void (*fn)(void))
{
    jump_point here;
    jump_point *outer = scheduler;
    scheduler = &here;
    engine.current = -1;
    if (fn != NULL && JUMP_HERE(here) == 0) {
        fn();
    }
    scheduler = outer;
    return !engine.is_failed;
}

void model_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!engine.is_failed) {
        (void)vsnprintf(engine.failure, sizeof(engine.failure), format, args);
    }
    va_end(args);
    engine.is_failed = true;
    fiber_abandon();
}
