/* SPDX-License-Identifier: MIT */
/*
 * sync/once.c - a function that runs once (weft_once), and a value that is made once (weft_cell).
 *
 *   NEW      --begin: CAS-->           RUNNING   the first caller becomes the runner
 *   RUNNING  --end: CAS-->             DONE      without waiters: two compare-and-exchanges in all
 *   RUNNING  --a waiter: CAS-->        AWAITED   under the lock of the queue, as all steps below
 *   AWAITED  --end: store-->           DONE      grants all waiters
 *   AWAITED  --end, failed: -->        AWAITED   the first waiter becomes the runner
 *   AWAITED  --end, failed: store-->   NEW       the queue is empty
 *   RUNNING  --end, failed: CAS-->     NEW
 *
 * The function may never return: because of weft_fail, or because a forced close ends its task.  So
 * the runner has a cleanup and an abandon hook, which make the next waiter the runner.
 */
#include <errno.h>
#include <pthread.h>

#include "future/future.h"
#include "sync/sync.h"

enum {
    NEW,
    RUNNING,
    AWAITED, /* running, and there may be waiters */
    DONE,
};

/* The result of a wait that makes the waiter the runner. */
#define IS_RUNNER 1

_Static_assert(sizeof(struct wf_once) <= sizeof(weft_once), "it fits");
_Static_assert(offsetof(struct wf_once, word) == 0 && DONE == WEFT_ONCE_DONE, "read by users");

static struct wf_once *once_of(weft_once *once)
{
    return (struct wf_once *)(void *)once;
}

/* A word that identifies the calling task or thread; never 0. */
static uintptr_t once_caller(const struct weft_task *self)
{
    return self != NULL ? (uintptr_t)self : (uintptr_t)pthread_self() | 1;
}

/* [runner]  As once_end, with waiters. */
static __attribute__((noinline)) void once_end_slow(struct wf_once *once, bool is_done)
{
    struct wf_wakes wakes = {.count = 0};
    struct wf_wait_node *node;
    wf_lock_acquire(&once->queue.lock);
    if (is_done) {
        wf_store_release(&once->word, DONE); /* (sync.O1) */
        while ((node = wf_waitq_claim(&once->queue)) != NULL) {
            wf_wakes_add(&wakes, node);
        }
    } else if ((node = wf_waitq_claim(&once->queue)) != NULL) {
        wf_plain_store(&node->result, IS_RUNNER);
        wf_wakes_add(&wakes, node);
    } else {
        wf_store_release(&once->word, NEW); /* (sync.O1): the next runner sees what this one did */
    }
    wf_lock_release(&once->queue.lock);
    wf_wakes_do(&wakes);
}

/* [runner]  Ends the run.  `is_done`: the function has succeeded.  Else the first waiter or,
 * without waiters, the next caller becomes the runner. */
static void once_end(struct wf_once *once, bool is_done)
{
    uint64_t word = RUNNING;
    if (!wf_cas_release(&once->word, &word, is_done ? DONE : NEW)) { /* (sync.O1) */
        once_end_slow(once, is_done);
    }
}

/* [runner]  As once_end, for a runner that has set `owner`. */
static void once_leave(struct wf_once *once, bool is_done)
{
    wf_store_relaxed(&once->owner, 0); /* relaxed: a reader compares it with its own word only */
    once_end(once, is_done);
}

static void once_pass_on(struct wf_wait_node *node)
{
    if (wf_plain_load(&node->result) == IS_RUNNER) {
        once_leave(wf_container_of(node->queue, struct wf_once, queue), false);
    }
}

/* [any]  True: the caller is the runner. */
static bool once_try_begin(struct wf_once *once)
{
    uint64_t word = NEW;
    return wf_cas_acquire(&once->word, &word, RUNNING); /* (sync.O1) */
}

int wf_once_begin(struct wf_once *once, struct wf_wait_node *node)
{
    node->pass_on = once_pass_on;
    int rc = -EAGAIN;
    wf_lock_acquire(&once->queue.lock);
    while (rc == -EAGAIN) { /* each iteration but the last lost to a step of another caller */
        uint64_t word = wf_load_acquire(&once->word); /* (sync.O1) */
        if (word == NEW) {
            rc = once_try_begin(once) ? IS_RUNNER : -EAGAIN;
        } else if (word == DONE) {
            rc = 0;
        } else if (word == AWAITED || /* relaxed: the lock orders the queue */
                   wf_cas_relaxed(&once->word, &word, AWAITED)) {
            rc = -EINPROGRESS;
        }
    }
    if (rc == -EINPROGRESS) {
        wf_waitq_push(&once->queue, node);
    }
    wf_lock_release(&once->queue.lock);
    return rc;
}

/* The runner, in the frame in which the function runs. */
struct once_run {
    struct wf_once *once;
    struct weft_task *self;
    weft_cleanup cleanup;        /* for weft_fail */
    struct wf_abandon_hook hook; /* for a forced close */
};

static void once_cleanup(void *arg)
{
    struct once_run *run = arg;
    wf_abandon_hook_remove(run->self, &run->hook);
    once_leave(run->once, false);
}

static void once_abandon(struct wf_abandon_hook *hook)
{
    once_leave(wf_container_of(hook, struct once_run, hook)->once, false);
}

static intptr_t once_run_fn(struct wf_once *once, struct weft_task *self, weft_fn fn, void *arg)
{
    const bool is_green = self != NULL && self->body != WF_BODY_POLL;
    struct once_run run = {.once = once, .self = self, .hook = {.abandon = once_abandon}};
    wf_store_relaxed(&once->owner, once_caller(self)); /* relaxed: see once_leave */
    if (is_green) {
        weft_cleanup_push(&run.cleanup, once_cleanup, &run);
        wf_abandon_hook_add(self, &run.hook);
    }
    const intptr_t result = fn(arg);
    if (is_green) {
        wf_abandon_hook_remove(self, &run.hook);
        weft_cleanup_pop(&run.cleanup, false);
    }
    once_leave(once, result >= 0);
    return result;
}

static __attribute__((noinline)) intptr_t once_do_slow(struct wf_once *once, weft_fn fn, void *arg)
{
    struct weft_task *self = wf_task_self();
    struct wf_wait_node node;
    if (wf_load_relaxed(&once->owner) == once_caller(self)) { /* relaxed: see once_leave */
        return -EDEADLK;
    }
    if (once_try_begin(once)) {
        return once_run_fn(once, self, fn, arg);
    }
    wf_node_init(&node, self);
    int rc = wf_once_begin(once, &node);
    if (rc == -EINPROGRESS) {
        rc = wf_waitq_wait(&node, WEFT_WAIT_ONCE, once, WEFT_NEVER);
        rc = rc == 0 ? wf_plain_load(&node.result) : rc;
    }
    return rc == IS_RUNNER ? once_run_fn(once, self, fn, arg) : rc;
}

/* Users call weft_once_is_done, which is inline; it cannot read the model checker's atomics. */
bool wf_once_is_done(const struct wf_once *once)
{
    return wf_load_acquire(&once->word) == DONE; /* (sync.O1) */
}

intptr_t weft_once_do(weft_once *out, weft_fn fn, void *arg)
{
    WF_NOT_NULL(out, "weft_once_do: once is NULL");
    WF_NOT_NULL(fn, "weft_once_do: fn is NULL");
    return wf_once_is_done(once_of(out)) ? 0 : once_do_slow(once_of(out), fn, arg);
}

/* ---- cells --------------------------------------------------------------------------------- */

_Static_assert(sizeof(struct wf_cell) <= sizeof(weft_cell), "it fits");
_Static_assert(offsetof(struct wf_cell, value) == offsetof(weft_cell, value), "read by users");

static struct wf_cell *cell_of(weft_cell *cell)
{
    return (struct wf_cell *)(void *)cell;
}

struct cell_make {
    struct wf_cell *cell;
    void *(*make)(void *arg);
    void *arg;
};

/* [runner] */
static void cell_put(struct wf_cell *cell, void *value)
{
    wf_store_release(&cell->value, value); /* release: pairs with the load of weft_cell_get */
}

static intptr_t cell_make_value(void *arg)
{
    const struct cell_make *args = arg;
    void *value = args->make(args->arg);
    if (value == NULL) {
        return -ENOMEM;
    }
    cell_put(args->cell, value);
    return 0;
}

/* A value for weft_cell_set, while another runner makes one: used if that runner fails. */
struct cell_set {
    struct wf_cell *cell;
    void *value;
};

static intptr_t cell_set_value(void *arg)
{
    const struct cell_set *args = arg;
    cell_put(args->cell, args->value);
    return 1; /* set by this call */
}

static __attribute__((noinline)) int cell_set_slow(struct wf_cell *cell, void *value)
{
    struct cell_set args = {.cell = cell, .value = value};
    const int rc =
        wf_once_is_done(&cell->once) ? 0 : (int)once_do_slow(&cell->once, cell_set_value, &args);
    return rc == 0 ? -EEXIST : rc < 0 ? rc : 0;
}

int weft_cell_set(weft_cell *out, void *value)
{
    WF_NOT_NULL(out, "weft_cell_set: cell is NULL");
    if (value == NULL) {
        return -EINVAL;
    }
    struct wf_cell *cell = cell_of(out);
    if (!once_try_begin(&cell->once)) {
        return cell_set_slow(cell, value);
    }
    /* The task cannot end in between, so the runner needs no cleanup and no hook.  No function
     * runs that could call back, so the runner does not set `owner`. */
    cell_put(cell, value);
    once_end(&cell->once, true);
    return 0;
}

int weft_cell_make(weft_cell *out, void **value, void *(*make)(void *arg), void *arg)
{
    WF_NOT_NULL(out, "weft_cell_make: cell is NULL");
    WF_NOT_NULL(make, "weft_cell_make: make is NULL");
    WF_NOT_NULL(value, "weft_cell_make: out is NULL");
    struct cell_make args = {.cell = cell_of(out), .make = make, .arg = arg};
    const int rc = (int)weft_once_do(&out->once, cell_make_value, &args);
    /* relaxed: weft_once_do has acquired (sync.O1) */
    *value = rc < 0 ? NULL : wf_load_relaxed(&args.cell->value);
    return rc < 0 ? rc : 0;
}
