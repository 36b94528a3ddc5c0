/* SPDX-License-Identifier: MIT */
/*
 * sync/oneshot.c - one value, once.
 *
 * One word is state and lock in one: who wants to change anything takes the state out, leaving
 * HELD, and puts the next one in by a plain store.  That store is the last that anybody does to the
 * oneshot, so it may lie in the frame of the one that receives.
 *
 *     EMPTY --send--> SENT --recv--> TAKEN
 *       |  \--recv--> WAITED --send--> SENT          waiter: who is to be woken
 *       |               |  \--cancel, deadline--> EMPTY
 *       +--close------> CLOSED <--close--+
 *
 * Who waits leaves WAITED only by taking the state out, so whoever holds it may touch the waiter. A
 * task of the same runtime is woken after the store, by its address; a thread, and a task of
 * another runtime, which may be gone with it, before: they see HELD, and look until they see the
 * rest.
 */
#include <errno.h>
#include <stdalign.h>

#include "sched/fast.h"
#include "sync/chan.h"

enum { EMPTY, HELD, WAITED, SENT, TAKEN, CLOSED };

struct wf_oneshot {
    wf_atomic_u32 word;       /* [any: exchange]  see above */
    struct wf_waiter *waiter; /* [held]  while WAITED */
    void *value;              /* [held: write] [receiver: read]  once SENT */
};

/* What others know of a wait. */
struct wait {
    struct wf_waiter waiter;
    struct wf_parting parting;
    struct wf_oneshot *oneshot;
};

_Static_assert(sizeof(struct wf_oneshot) <= sizeof(weft_oneshot), "it fits");
_Static_assert(alignof(struct wf_oneshot) <= alignof(weft_oneshot), "it fits");

static struct wf_oneshot *inside(weft_oneshot *oneshot)
{
    return (struct wf_oneshot *)(void *)oneshot;
}

/* [any]  Takes the state out. */
static inline uint32_t hold(struct wf_oneshot *oneshot)
{
    uint32_t state;
    unsigned looks = 0;
    /* (O1) */
    while ((state = wf_exchange_acquire(&oneshot->word, HELD)) == HELD) { /* for a few steps */
        wf_spin_pause(&oneshot->word, HELD, looks++);
    }
    return state;
}

/* [held]  The oneshot may be gone from here on, if it was sent or closed. */
static inline void put(struct wf_oneshot *oneshot, uint32_t state)
{
    wf_store_release(&oneshot->word, state); /* (O1) */
#ifdef WF_MODEL
    (void)wf_futex_wake(&oneshot->word, MODEL_THREADS_MAX); /* see spin.c */
#endif
}

/* [any]  The state, as soon as nobody holds it. */
static inline uint32_t state_of(struct wf_oneshot *oneshot)
{
    uint32_t state;
    unsigned looks = 0;
    while ((state = wf_load_acquire(&oneshot->word)) == HELD) { /* (O1) */
        wf_spin_pause(&oneshot->word, HELD, looks++);
    }
    return state;
}

/* [held, WAITED]  Ends the wait by this state. */
static void put_and_wake(struct wf_oneshot *oneshot, uint32_t state)
{
    struct wf_worker *worker = wf_worker_self();
    struct wf_waiter *waiter = wf_plain_load(&oneshot->waiter);
    struct weft_task *task = waiter->task;
    if (task == NULL || worker == NULL || worker->pool != task->pool) {
        wf_waiter_wake(waiter);
        WF_JITTER();
        put(oneshot, state);
    } else {
        put(oneshot, state);
        WF_JITTER();
        wf_task_wake_on(worker, task);
    }
}

int weft_oneshot_send(weft_oneshot *outside, void *value)
{
    if (outside == NULL) {
        return -EINVAL;
    }
    struct wf_oneshot *oneshot = inside(outside);
    const uint32_t state = hold(oneshot);
    switch (state) {
    case EMPTY:
        wf_plain_store(&oneshot->value, value);
        put(oneshot, SENT);
        return 0;
    case WAITED:
        wf_plain_store(&oneshot->value, value);
        put_and_wake(oneshot, SENT);
        return 0;
    default:
        put(oneshot, state);
        return state == CLOSED ? -EPIPE : -EALREADY;
    }
}

int weft_oneshot_close(weft_oneshot *outside)
{
    if (outside == NULL) {
        return -EINVAL;
    }
    struct wf_oneshot *oneshot = inside(outside);
    const uint32_t state = hold(oneshot);
    if (state == WAITED) {
        put_and_wake(oneshot, CLOSED);
        return 0;
    }
    put(oneshot, state == EMPTY ? CLOSED : state);
    return state == CLOSED ? -EPIPE : 0;
}

/* [receiver]  What a state says to it; -EAGAIN: nothing yet. */
static inline int take(struct wf_oneshot *oneshot, uint32_t state, void **value)
{
    if (state == SENT) { /* but somebody else may be faster */
        state = hold(oneshot);
        void *sent = wf_plain_load(&oneshot->value);
        put(oneshot, TAKEN);
        if (state == SENT) {
            if (value != NULL) {
                *value = sent;
            }
            return 0;
        }
    }
    switch (state) {
    case CLOSED:
        return -EPIPE;
    case TAKEN:
        return -EALREADY;
    case WAITED:
        return -EBUSY;
    default:
        return -EAGAIN;
    }
}

/* [receiver, closer]  Stops to wait; the state that ended it, or EMPTY. */
static uint32_t stop(struct wf_oneshot *oneshot)
{
    const uint32_t state = hold(oneshot);
    put(oneshot, state == WAITED ? EMPTY : state);
    return state == WAITED ? EMPTY : state;
}

/* [closer]  The task will never run again. */
static void forget(struct wf_parting *parting)
{
    (void)stop(wf_container_of(parting, struct wait, parting)->oneshot);
}

/* [receiver]  Waits until the state is one that ends the wait, or EMPTY: *rc says why. */
static inline __attribute__((always_inline)) uint32_t wait_in_task(struct weft_task *self,
                                                                   struct wait *wait, int *rc)
{
    uint32_t state;
    wf_parting_add(self, &wait->parting);
    wf_wait_begin(self, WEFT_WAIT_RECEIVE, wait->oneshot);
    for (;;) { /* Ends with the value, the close, or when it may not wait on. */
        wf_suspend(self);
        state = state_of(wait->oneshot);
        if (state != WAITED) {
            break;
        }
        *rc = wf_interrupted(self);
        if (*rc != 0) {
            state = stop(wait->oneshot);
            break;
        }
    }
    wf_wait_end(self);
    wf_parting_remove(self, &wait->parting);
    return state;
}

int wf_oneshot_begin(weft_oneshot *outside, struct wf_waiter *waiter, void **value)
{
    struct wf_oneshot *oneshot = inside(outside);
    const uint32_t state = hold(oneshot);
    if (state == EMPTY) {
        wf_plain_store(&oneshot->waiter, waiter);
        put(oneshot, WAITED);
        return -EINPROGRESS;
    }
    put(oneshot, state);
    return take(oneshot, state, value);
}

int wf_oneshot_granted(weft_oneshot *outside, void **value)
{
    const uint32_t state = state_of(inside(outside));
    return state == WAITED ? -EINPROGRESS : take(inside(outside), state, value);
}

void wf_oneshot_abandon(weft_oneshot *outside)
{
    (void)stop(inside(outside));
}

int weft_oneshot_try_recv(weft_oneshot *outside, void **value)
{
    if (outside == NULL) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_self();
    const int rc = take(inside(outside), state_of(inside(outside)), value);
    if (self != NULL) {
        wf_task_spend(self);
    }
    return rc;
}

/* [any]  There was nothing. */
static __attribute__((noinline)) int wait_and_take(struct wf_oneshot *oneshot, void **value,
                                                   struct weft_task *self)
{
    struct wait wait = {.parting = {.forget = forget}, .oneshot = oneshot};
    int rc = self != NULL ? wf_interrupted(self) : 0;
    wf_waiter_init(&wait.waiter, self);
    uint32_t state = hold(oneshot);
    if (state == EMPTY && rc == 0) {
        wf_plain_store(&oneshot->waiter, &wait.waiter);
        put(oneshot, WAITED);
        if (self != NULL) {
            state = wait_in_task(self, &wait, &rc);
        } else {
            (void)wf_parker_park(&wait.waiter.parker, WF_FOREVER); /* woken by the end of it */
            state = state_of(oneshot);
        }
    } else {
        put(oneshot, state);
    }
    return state == EMPTY ? rc : take(oneshot, state, value);
}

int weft_oneshot_recv(weft_oneshot *outside, void **value)
{
    if (outside == NULL) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_self();
    const int rc = take(inside(outside), state_of(inside(outside)), value);
    if (rc == -EAGAIN) {
        return wait_and_take(inside(outside), value, self);
    }
    if (self != NULL) {
        wf_task_spend(self);
    }
    return rc;
}
