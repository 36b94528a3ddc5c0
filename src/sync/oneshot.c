/* SPDX-License-Identifier: MIT */
/*
 * sync/oneshot.c - one value, sent once.
 *
 * One word is state and lock in one: to change anything, a caller exchanges the state for HELD, and
 * stores the next state by a plain store.  That store is its last access to the oneshot, so the
 * oneshot may lie in the frame of the receiver.
 *
 *     EMPTY --send--> SENT --recv--> TAKEN
 *       |  \--recv--> WAITED --send--> SENT          `waiter` is the receiver
 *       |               |  \--cancel, deadline--> EMPTY
 *       +--close------> CLOSED <--close--+
 *
 * The receiver leaves WAITED only while it holds the word, so another holder of the word may touch
 * the waiter.  The sender wakes a task of its own runtime after the store, by its address.  It
 * wakes a thread, or a task of another runtime, before the store, because after the store both may
 * be gone.  A receiver that wakes up before the store sees HELD, and waits for the next state.
 */
#include <errno.h>
#include <stdalign.h>

#include "future/future.h"
#include "sync/chan.h"

enum { EMPTY, HELD, WAITED, SENT, TAKEN, CLOSED };

struct wf_oneshot {
    wf_atomic_u32 word;       /* [any: exchange]  the state */
    struct wf_waiter *waiter; /* [held]  while WAITED */
    void *value;              /* [held: write] [receiver: read]  once SENT */
};

/* A receiver that waits. */
struct oneshot_wait {
    struct wf_waiter waiter;
    struct wf_abandon_hook hook;
    struct wf_oneshot *oneshot;
};

_Static_assert(sizeof(struct wf_oneshot) <= sizeof(weft_oneshot), "it fits");
_Static_assert(alignof(struct wf_oneshot) <= alignof(weft_oneshot), "it fits");

static struct wf_oneshot *oneshot_of(weft_oneshot *oneshot)
{
    return (struct wf_oneshot *)(void *)oneshot;
}

/* [any]  Takes the word (HELD) and returns the state that it had. */
static inline uint32_t oneshot_lock(struct wf_oneshot *oneshot)
{
    uint32_t state;
    unsigned polls = 0;
    /* (sync.S1) */
    while ((state = wf_exchange_acquire(&oneshot->word, HELD)) ==
           HELD) { /* ends: it is held for a few steps */
        wf_spin_pause(&oneshot->word, HELD, polls++);
    }
    return state;
}

/* [held]  Releases the word with this state.  The oneshot may be gone after this, if the state is
 * SENT or CLOSED. */
static inline void oneshot_unlock(struct wf_oneshot *oneshot, uint32_t state)
{
    wf_store_release(&oneshot->word, state); /* (sync.S1) */
#ifdef WF_MODEL
    (void)wf_futex_wake(&oneshot->word, MODEL_THREADS_MAX); /* see spin.c */
#endif
}

/* [any]  Waits until the word is not HELD, and returns the state. */
static inline uint32_t oneshot_state(struct wf_oneshot *oneshot)
{
    uint32_t state;
    unsigned polls = 0;
    while ((state = wf_load_acquire(&oneshot->word)) == HELD) { /* (sync.S1) */
        wf_spin_pause(&oneshot->word, HELD, polls++);
    }
    return state;
}

/* [held, WAITED]  Releases the word with this state, and wakes the receiver. */
static void oneshot_unlock_and_wake(struct wf_oneshot *oneshot, uint32_t state)
{
    struct wf_worker *worker = wf_worker_self();
    struct wf_waiter *waiter = wf_plain_load(&oneshot->waiter);
    struct weft_task *task = waiter->task;
    if (task == NULL || worker == NULL || worker->pool != task->pool) {
        wf_waiter_wake(waiter);
        WF_JITTER();
        oneshot_unlock(oneshot, state);
    } else {
        oneshot_unlock(oneshot, state);
        WF_JITTER();
        wf_task_wake_on(worker, task);
    }
}

int weft_oneshot_send(weft_oneshot *out, void *value)
{
    WF_NOT_NULL(out, "weft_oneshot_send: oneshot is NULL");
    struct wf_oneshot *oneshot = oneshot_of(out);
    const uint32_t state = oneshot_lock(oneshot);
    switch (state) {
    case EMPTY:
        wf_plain_store(&oneshot->value, value);
        oneshot_unlock(oneshot, SENT);
        return 0;
    case WAITED:
        wf_plain_store(&oneshot->value, value);
        oneshot_unlock_and_wake(oneshot, SENT);
        return 0;
    default:
        oneshot_unlock(oneshot, state);
        return state == CLOSED ? -EPIPE : -EALREADY;
    }
}

int weft_oneshot_close(weft_oneshot *out)
{
    WF_NOT_NULL(out, "weft_oneshot_close: oneshot is NULL");
    struct wf_oneshot *oneshot = oneshot_of(out);
    const uint32_t state = oneshot_lock(oneshot);
    if (state == WAITED) {
        oneshot_unlock_and_wake(oneshot, CLOSED);
        return 0;
    }
    oneshot_unlock(oneshot, state == EMPTY ? CLOSED : state);
    return state == CLOSED ? -EPIPE : 0;
}

/* [receiver]  The result of a receive in this state; -EAGAIN: there is no value yet. */
static inline int oneshot_take(struct wf_oneshot *oneshot, uint32_t state, void **value)
{
    if (state == SENT) { /* another receiver may take it first */
        state = oneshot_lock(oneshot);
        void *sent = wf_plain_load(&oneshot->value);
        oneshot_unlock(oneshot, TAKEN);
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

/* [receiver, closer]  Ends the wait.  Returns the state that had ended the wait before; EMPTY: none
 * had. */
static uint32_t oneshot_stop(struct wf_oneshot *oneshot)
{
    const uint32_t state = oneshot_lock(oneshot);
    oneshot_unlock(oneshot, state == WAITED ? EMPTY : state);
    return state == WAITED ? EMPTY : state;
}

/* [closer]  The task never runs again. */
static void oneshot_abandon(struct wf_abandon_hook *hook)
{
    (void)oneshot_stop(wf_container_of(hook, struct oneshot_wait, hook)->oneshot);
}

/* [receiver]  Waits.  Returns the state that ended the wait; EMPTY: the wait was interrupted, and
 * *rc says why. */
static inline __attribute__((always_inline)) uint32_t
oneshot_wait_task(struct weft_task *self, struct oneshot_wait *wait, int *rc)
{
    uint32_t state;
    wf_abandon_hook_add(self, &wait->hook);
    wf_wait_begin(self, WEFT_WAIT_RECEIVE, wait->oneshot);
    for (;;) { /* Ends with the value, the close, or an interruption. */
        wf_suspend(self);
        state = oneshot_state(wait->oneshot);
        if (state != WAITED) {
            break;
        }
        *rc = wf_interrupted(self);
        if (*rc != 0) {
            state = oneshot_stop(wait->oneshot);
            break;
        }
    }
    wf_wait_end(self);
    wf_abandon_hook_remove(self, &wait->hook);
    return state;
}

int wf_oneshot_begin(weft_oneshot *out, struct wf_waiter *waiter, void **value)
{
    struct wf_oneshot *oneshot = oneshot_of(out);
    const uint32_t state = oneshot_lock(oneshot);
    if (state == EMPTY) {
        wf_plain_store(&oneshot->waiter, waiter);
        oneshot_unlock(oneshot, WAITED);
        return -EINPROGRESS;
    }
    oneshot_unlock(oneshot, state);
    return oneshot_take(oneshot, state, value);
}

int wf_oneshot_granted(weft_oneshot *out, void **value)
{
    const uint32_t state = oneshot_state(oneshot_of(out));
    return state == WAITED ? -EINPROGRESS : oneshot_take(oneshot_of(out), state, value);
}

void wf_oneshot_abandon(weft_oneshot *out)
{
    (void)oneshot_stop(oneshot_of(out));
}

int weft_oneshot_try_recv(weft_oneshot *out, void **value)
{
    WF_NOT_NULL(out, "weft_oneshot_try_recv: oneshot is NULL");
    struct weft_task *self = wf_task_self();
    const int rc = oneshot_take(oneshot_of(out), oneshot_state(oneshot_of(out)), value);
    if (self != NULL) {
        wf_task_spend(self);
    }
    return rc;
}

/* [any]  There is no value yet: waits for it. */
static __attribute__((noinline)) int oneshot_recv_slow(struct wf_oneshot *oneshot, void **value,
                                                       struct weft_task *self)
{
    struct oneshot_wait wait = {.hook = {.abandon = oneshot_abandon}, .oneshot = oneshot};
    int rc = self != NULL ? wf_interrupted(self) : 0;
    wf_waiter_init(&wait.waiter, self);
    uint32_t state = oneshot_lock(oneshot);
    if (state == EMPTY && rc == 0) {
        wf_plain_store(&oneshot->waiter, &wait.waiter);
        oneshot_unlock(oneshot, WAITED);
        if (self != NULL) {
            state = oneshot_wait_task(self, &wait, &rc);
        } else {
            (void)wf_parker_park(&wait.waiter.parker,
                                 WF_FOREVER); /* the sender or the closer unparks it */
            state = oneshot_state(oneshot);
        }
    } else {
        oneshot_unlock(oneshot, state);
    }
    return state == EMPTY ? rc : oneshot_take(oneshot, state, value);
}

int weft_oneshot_recv(weft_oneshot *out, void **value)
{
    WF_NOT_NULL(out, "weft_oneshot_recv: oneshot is NULL");
    struct weft_task *self = wf_task_self();
    const int rc = oneshot_take(oneshot_of(out), oneshot_state(oneshot_of(out)), value);
    if (rc == -EAGAIN) {
        return oneshot_recv_slow(oneshot_of(out), value, self);
    }
    if (self != NULL) {
        wf_task_spend(self);
    }
    return rc;
}
