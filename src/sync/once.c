/* SPDX-License-Identifier: MIT */
/*
 * sync/once.c - something that is done once: weft_once, and a value that is made once.
 *
 * NEW -> RUNNING by whoever comes first, and RUNNING -> DONE if nobody waits: two compare-and-
 * exchanges.  Who waits makes it AWAITED, under the lock of the queue; from then on the word
 * changes under that lock.  AWAITED -> DONE lets all who wait go on.  If it could not be done, the
 * turn is handed to who waits longest, while it stays AWAITED; if nobody waits it is NEW again.
 *
 * Whoever does it may not come back: by weft_fail, or because its runtime is closed by force.  So
 * it leaves a cleanup and a parting behind, which hand it on.
 */
#include <errno.h>
#include <pthread.h>

#include "sched/fast.h"
#include "sync/sync.h"

enum {
    NEW,
    RUNNING,
    AWAITED, /* running, and somebody may wait */
    DONE,
};

/* What the wait gives to who has to do it next. */
#define YOUR_TURN 1

_Static_assert(sizeof(struct wf_once) <= sizeof(weft_once), "it fits");
_Static_assert(offsetof(struct wf_once, word) == 0 && DONE == WEFT_ONCE_DONE, "read by users");

static struct wf_once *once_of(weft_once *once)
{
    return (struct wf_once *)(void *)once;
}

/* Who calls; never 0. */
static uintptr_t caller(const struct weft_task *self)
{
    return self != NULL ? (uintptr_t)self : (uintptr_t)pthread_self() | 1;
}

/* [the one who does it]  The same, when somebody waits. */
static __attribute__((noinline)) void leave_waiters(struct wf_once *once, bool is_done)
{
    struct wf_wakes wakes = {.count = 0};
    struct wf_wait_node *node;
    wf_lock_acquire(&once->queue.lock);
    if (is_done) {
        wf_store_release(&once->word, DONE); /* (O1) */
        while ((node = wf_waitq_claim(&once->queue)) != NULL) {
            wf_wakes_add(&wakes, node);
        }
    } else if ((node = wf_waitq_claim(&once->queue)) != NULL) {
        wf_plain_store(&node->result, YOUR_TURN);
        wf_wakes_add(&wakes, node);
    } else {
        wf_store_release(&once->word, NEW); /* (O1): what was begun is seen by who begins anew */
    }
    wf_lock_release(&once->queue.lock);
    wf_wakes_do(&wakes);
}

/* [the one who does it]  It is done, or not. */
static void end_turn(struct wf_once *once, bool is_done)
{
    uint64_t word = RUNNING;
    if (!wf_cas_release(&once->word, &word, is_done ? DONE : NEW)) { /* (O1) */
        leave_waiters(once, is_done);
    }
}

/* [the one who does it]  The same, if it was known by name. */
static void leave(struct wf_once *once, bool is_done)
{
    wf_store_relaxed(&once->owner, 0); /* relaxed: only compared with the reader's own name */
    end_turn(once, is_done);
}

static void pass_on(struct wf_wait_node *node)
{
    if (wf_plain_load(&node->result) == YOUR_TURN) {
        leave(wf_container_of(node->queue, struct wf_once, queue), false);
    }
}

/* [any] */
static bool take_turn(struct wf_once *once)
{
    uint64_t word = NEW;
    return wf_cas_acquire(&once->word, &word, RUNNING); /* (O1) */
}

/* 0: it was done; YOUR_TURN: the caller does it; -EINPROGRESS: another one does. */
int wf_once_begin(struct wf_once *once, struct wf_wait_node *node)
{
    node->pass_on = pass_on;
    int rc = -EAGAIN;
    wf_lock_acquire(&once->queue.lock);
    while (rc == -EAGAIN) { /* each turn but the last is another's that began or ended */
        uint64_t word = wf_load_acquire(&once->word); /* (O1) */
        if (word == NEW) {
            rc = take_turn(once) ? YOUR_TURN : -EAGAIN;
        } else if (word == DONE) {
            rc = 0;
        } else if (word == AWAITED || /* relaxed: carries nothing; the lock orders the queue */
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

/* Who does it, in the frame in which it is done. */
struct doing {
    struct wf_once *once;
    struct weft_task *self;
    weft_cleanup cleanup;      /* for weft_fail */
    struct wf_parting parting; /* for a forced close */
};

static void hand_on(void *arg)
{
    struct doing *doing = arg;
    wf_parting_remove(doing->self, &doing->parting);
    leave(doing->once, false);
}

static void forget(struct wf_parting *parting)
{
    leave(wf_container_of(parting, struct doing, parting)->once, false);
}

static intptr_t do_it(struct wf_once *once, struct weft_task *self, weft_fn fn, void *arg)
{
    const bool is_green = self != NULL && self->body != WF_BODY_POLL;
    struct doing doing = {.once = once, .self = self, .parting = {.forget = forget}};
    wf_store_relaxed(&once->owner, caller(self)); /* relaxed: as above */
    if (is_green) {
        weft_cleanup_push(&doing.cleanup, hand_on, &doing);
        wf_parting_add(self, &doing.parting);
    }
    const intptr_t result = fn(arg);
    if (is_green) {
        wf_parting_remove(self, &doing.parting);
        weft_cleanup_pop(&doing.cleanup, 0);
    }
    leave(once, result >= 0);
    return result;
}

static __attribute__((noinline)) intptr_t do_slowly(struct wf_once *once, weft_fn fn, void *arg)
{
    struct weft_task *self = wf_task_self();
    struct wf_wait_node node;
    if (wf_load_relaxed(&once->owner) == caller(self)) { /* relaxed: as above */
        return -EDEADLK;
    }
    if (take_turn(once)) {
        return do_it(once, self, fn, arg);
    }
    wf_node_init(&node, self);
    int rc = wf_once_begin(once, &node);
    if (rc == -EINPROGRESS) {
        rc = wf_waitq_wait(&node, WEFT_WAIT_ONCE, once, WEFT_NEVER);
        rc = rc == 0 ? wf_plain_load(&node.result) : rc;
    }
    return rc == YOUR_TURN ? do_it(once, self, fn, arg) : rc;
}

/* Others call weft_once_is_done, which is the same and inline; the model's words are no words. */
bool wf_once_is_done(const struct wf_once *once)
{
    return wf_load_acquire(&once->word) == DONE; /* (O1) */
}

intptr_t weft_once_do(weft_once *out, weft_fn fn, void *arg)
{
    if (out == NULL || fn == NULL) {
        return -EINVAL;
    }
    return wf_once_is_done(once_of(out)) ? 0 : do_slowly(once_of(out), fn, arg);
}

/* ---- a value ------------------------------------------------------------------------------- */

_Static_assert(sizeof(struct wf_cell) <= sizeof(weft_cell), "it fits");
_Static_assert(offsetof(struct wf_cell, value) == offsetof(weft_cell, value), "read by users");

static struct wf_cell *cell_of(weft_cell *cell)
{
    return (struct wf_cell *)(void *)cell;
}

struct making {
    struct wf_cell *cell;
    void *(*make)(void *arg);
    void *arg;
};

/* [the one whose turn it is] */
static void put(struct wf_cell *cell, void *value)
{
    wf_store_release(&cell->value, value); /* (O2) */
}

static intptr_t make_value(void *arg)
{
    const struct making *making = arg;
    void *value = making->make(making->arg);
    if (value == NULL) {
        return -ENOMEM;
    }
    put(making->cell, value);
    return 0;
}

/* Of one who comes with a value while another makes one: if that fails, it is its turn. */
struct bringing {
    struct wf_cell *cell;
    void *value;
};

static intptr_t bring_value(void *arg)
{
    const struct bringing *bringing = arg;
    put(bringing->cell, bringing->value);
    return 1; /* by this call */
}

static __attribute__((noinline)) int set_slowly(struct wf_cell *cell, void *value)
{
    struct bringing bringing = {.cell = cell, .value = value};
    const int rc =
        wf_once_is_done(&cell->once) ? 0 : (int)do_slowly(&cell->once, bring_value, &bringing);
    return rc == 0 ? -EEXIST : rc < 0 ? rc : 0;
}

int weft_cell_set(weft_cell *out, void *value)
{
    if (out == NULL || value == NULL) {
        return -EINVAL;
    }
    struct wf_cell *cell = cell_of(out);
    if (!take_turn(&cell->once)) {
        return set_slowly(cell, value);
    }
    /* Nothing that could end the task comes in between, so nobody has to know whose turn it is. */
    put(cell, value);
    end_turn(&cell->once, true);
    return 0;
}

int weft_cell_make(weft_cell *out, void *(*make)(void *arg), void *arg, void **value)
{
    if (out == NULL || make == NULL || value == NULL) {
        return -EINVAL;
    }
    struct making making = {.cell = cell_of(out), .make = make, .arg = arg};
    const int rc = (int)weft_once_do(&out->once, make_value, &making);
    /* relaxed: if it was done, that was seen (O1) */
    *value = rc < 0 ? NULL : wf_load_relaxed(&making.cell->value);
    return rc < 0 ? rc : 0;
}
