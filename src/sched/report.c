/* SPDX-License-Identifier: MIT */
/*
 * sched/report.c - what is said when a task runs into the guard of its stack, or breaks a rule that
 * the library cannot go on without; and by weft_run of tasks that do not end.
 *
 * Runs in a signal handler: no allocation, no stdio, only loads of what cannot go away while the
 * task stands on its stack.  The process ends afterwards, but for the last.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/sched.h"

struct text {
    char bytes[768];
    size_t used;
};

static void add(struct text *text, const char *more)
{
    for (; *more != '\0' && text->used < sizeof(text->bytes); more++) {
        text->bytes[text->used++] = *more;
    }
}

static void add_number(struct text *text, uint64_t number, unsigned base)
{
    char digits[24];
    size_t first = sizeof(digits) - 1;
    digits[first] = '\0';
    do {
        digits[--first] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    add(text, &digits[first]);
}

/* The program's code, as the linker has it; weak, for linkers that do not know the names. */
extern const char __executable_start[] __attribute__((weak));
extern const char etext[] __attribute__((weak));

/* An address of the program as addr2line wants it; one of a library as it is. */
static void add_place(struct text *text, uintptr_t address)
{
    const uintptr_t begin = (uintptr_t)__executable_start;
    const bool is_ours = begin != 0 && address >= begin && address < (uintptr_t)etext;
    add(text, is_ours ? "program+0x" : "0x");
    add_number(text, is_ours ? address - begin : address, 16);
}

/* Of a task that is alive. */
static void add_task(struct text *text, const struct weft_task *task)
{
    char name[WEFT_NAME_SIZE];
    wf_task_name(task, name);
    add(text, "task ");
    add_number(text, wf_load_relaxed(&task->id), 10); /* relaxed: const while it runs */
    add(text, " \"");
    add(text, name);
    add(text, "\", spawned at ");
    add_place(text, wf_load_relaxed(&task->site));
    add(text, ", function ");
    add_place(text, (uintptr_t)wf_load_relaxed(&task->fn));
}

static void say(struct text *text)
{
    add(text, "\n");
    ssize_t written = write(STDERR_FILENO, text->bytes, text->used);
    (void)written; /* nobody to tell */
}

_Noreturn void wf_misuse(const char *what)
{
    struct text text = {.used = 0};
    const struct weft_task *task = wf_task_self();
    add(&text, "weft: ");
    if (task != NULL) {
        add_task(&text, task);
        add(&text, ": ");
    }
    add(&text, what);
    say(&text);
    abort();
}

void wf_overflow_print(const struct wf_overflow *overflow)
{
    struct text text = {.used = 0};
    const struct weft_task *task = overflow->user;
    add(&text, overflow->is_stray ? "weft: wild access to the guard of the stack of "
                                  : "weft: stack overflow in ");
    if (task == NULL) {
        add(&text, "no task");
    } else {
        add_task(&text, task);
    }
    add(&text, ", stack of ");
    add_number(&text, overflow->size >> 10, 10);
    add(&text, " KiB, address 0x");
    add_number(&text, (uint64_t)(uintptr_t)overflow->address, 16);
    const struct weft_task *self = overflow->is_stray ? wf_task_self() : NULL;
    if (self != NULL) {
        add(&text, ", by ");
        add_task(&text, self);
        add(&text, " (a large frame jumps over its own guard, unless the program was compiled with "
                   "-fstack-clash-protection)");
    }
    say(&text);
}

void wf_left_print(const struct weft_task *task)
{
    struct text text = {.used = 0};
    add(&text, "weft: weft_run waits for ");
    add_task(&text, task);
    add(&text, ": it was cancelled and goes on");
    say(&text);
}
