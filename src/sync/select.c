/* SPDX-License-Identifier: MIT */
/*
 * sync/select.c - waiting for the first of several.
 *
 * The locks of all channels that take part are taken, in the order of their addresses.  While they
 * are held nothing can become ready or cease to be, so the cases are looked at in a random order,
 * and the first that can run does: of several that can, each has the same chance.  If none can, a
 * node for each case goes into its channel before the locks are given back: whoever comes later
 * finds it there.  A select meets itself at no time: when it looks, it is in no queue.
 *
 * The nodes share a selection, which is won once: by a sender, receiver or closer that claims a
 * node (waitq.c), by a task that ends (join.c), or by the select itself, if its time has come or it
 * may not wait any longer.  So exactly one case runs, or none.  Whoever wins by a channel does so
 * under its lock, and the select takes the locks, one after the other, to leave its queues: all of
 * them, but for the one that has won and whose grant it has seen.
 *
 * Events of the layers above (source.h) are looked at before the locks are taken, which would be
 * held for too long; and may be gone when their case is to run.  Then nothing has been done, and
 * all begins anew.
 */
#include <errno.h>
#include <string.h>

#include "sched/fast.h"
#include "sync/chan.h"
#include "sync/source.h"

/* Cases without memory. */
#define FEW 16u

/* Won by the select itself: no case runs. */
#define NOBODY INT32_MAX

/* Nothing was done, and all has to begin anew. */
#define ANEW (-ERESTART)

/* What stands for a case in the lists of others. */
struct arm {
    struct wf_wait_node node; /* in a channel, or with a source */
    struct wf_joiner joiner;  /* in the list of a task */
};

struct select {
    struct wf_selection selection;
    struct wf_parting parting;
    struct weft_task *self; /* NULL: a thread */
    weft_case *cases;
    uint32_t count;
    struct arm *arms;         /* by case */
    struct weft_chan **chans; /* all that take part, each once, by address */
    uint32_t chan_count;
    uint32_t *order; /* in which cases are looked at */
    char *memory;    /* of the arrays; NULL: they lie in the frame */
    int32_t timer;   /* the case whose time comes first */
    weft_time at;    /* then; WEFT_NEVER: there is none */
    bool has_events; /* some case is one */
};

/* ---- what is asked for --------------------------------------------------------------------- */

static const struct wf_source *source_of(const weft_case *it)
{
    return it->object;
}

weft_case wf_case_of(const struct wf_source *source, void *item)
{
    void *object = (void *)(uintptr_t)source; /* only read */
    return (weft_case){.kind = WEFT_CASE_EVENT, .object = object, .item = item};
}

/* 0: it can never run; 1: it can. */
static int check_case(const weft_case *it, const struct weft_task *self)
{
    switch (it->kind) {
    case WEFT_CASE_NONE:
        return 0;
    case WEFT_CASE_SEND:
    case WEFT_CASE_RECV:
        return it->object != NULL && it->item != NULL ? 1 : -EINVAL;
    case WEFT_CASE_TASK:
        if (it->object == NULL) {
            return -EINVAL;
        }
        return it->object != self ? 1 : -EDEADLK;
    case WEFT_CASE_TIME:
        return 1;
    case WEFT_CASE_EVENT: {
        const int rc = it->object != NULL ? source_of(it)->check(it) : -EINVAL;
        return rc != 0 ? rc : 1;
    }
    default:
        return -EINVAL;
    }
}

static int check(const weft_case *cases, size_t count, bool is_trying, const struct weft_task *self)
{
    bool is_any = is_trying;
    if (cases == NULL || count == 0 || count >= NOBODY) {
        return -EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        const int rc = check_case(&cases[i], self);
        if (rc < 0) {
            return rc;
        }
        if (cases[i].kind == WEFT_CASE_EVENT && self == NULL && !is_trying) {
            return -EPERM;
        }
        is_any = is_any || rc > 0;
    }
    return is_any ? 0 : -EINVAL;
}

/* ---- the locks ----------------------------------------------------------------------------- */

/* Into its place by address, unless it is there. */
static void add_chan(struct select *select, struct weft_chan *chan)
{
    uint32_t place = select->chan_count;
    while (place > 0 && (uintptr_t)select->chans[place - 1] > (uintptr_t)chan) {
        place--;
    }
    if (place > 0 && select->chans[place - 1] == chan) {
        return;
    }
    memmove(&select->chans[place + 1], &select->chans[place],
            (select->chan_count - place) * sizeof(select->chans[0]));
    select->chans[place] = chan;
    select->chan_count++;
}

static void lock_all(struct select *select)
{
    for (uint32_t i = 0; i < select->chan_count; i++) {
        wf_spin_acquire(&select->chans[i]->lock);
    }
}

static void unlock_all(struct select *select)
{
    for (uint32_t i = 0; i < select->chan_count; i++) {
        wf_spin_release(&select->chans[i]->lock);
    }
}

/* ---- looking ------------------------------------------------------------------------------- */

/* Threads that are no workers have no random numbers of their own. */
static wf_atomic_u64 outside_seed;

/* Every order is as likely as any other. */
static void shuffle(struct select *select)
{
    struct wf_worker *worker = wf_worker_self();
    struct wf_random own;
    struct wf_random *random = &own;
    if (worker != NULL) {
        random = &worker->random;
    } else {
        wf_random_init(&own, wf_fetch_add_relaxed(&outside_seed, 1)); /* relaxed: a number */
    }
    for (uint32_t i = 0; i < select->count; i++) {
        const uint32_t other = wf_random_below(random, i + 1);
        select->order[i] = select->order[other];
        select->order[other] = i;
    }
}

/* [locked: all]  Runs the case if it can: 0 or -EPIPE; an event runs later.  -EAGAIN: it cannot.
 * -ENOMEM: its channel has to grow first. */
static int try_case(weft_case *it, weft_time now, struct weft_task **woken)
{
    switch (it->kind) {
    case WEFT_CASE_SEND:
        return wf_chan_send_locked(it->object, it->item, woken);
    case WEFT_CASE_RECV:
        return wf_chan_recv_locked(it->object, it->item, woken);
    case WEFT_CASE_TASK:
        return weft_try_join(it->object, &it->value);
    case WEFT_CASE_TIME:
        return now >= it->at ? 0 : -EAGAIN;
    case WEFT_CASE_EVENT:
        return it->result; /* of when it began */
    case WEFT_CASE_NONE:
    default:
        return -EAGAIN;
    }
}

/* [locked: all]  The first that can run, does: its index.  -EAGAIN; -ENOMEM and the channel. */
static int look(struct select *select, struct weft_task **woken, struct weft_chan **full)
{
    const weft_time now = select->at != WEFT_NEVER ? wf_clock_now() : 0;
    *woken = NULL;
    for (uint32_t i = 0; i < select->count; i++) {
        const uint32_t index = select->order[i];
        weft_case *it = &select->cases[index];
        const int rc = try_case(it, now, woken);
        if (rc == -ENOMEM && it->kind == WEFT_CASE_SEND) {
            *full = it->object;
            return rc;
        }
        if (rc != -EAGAIN) {
            it->result = rc;
            return (int)index;
        }
    }
    return -EAGAIN;
}

/* [any]  Leaves all locks held if nothing can run. */
static int look_at_all(struct select *select)
{
    struct weft_task *woken;
    struct weft_chan *full = NULL;
    int rc;
    for (;;) { /* Ends: each turn a channel grows, or cannot. */
        lock_all(select);
        rc = look(select, &woken, &full);
        if (rc != -ENOMEM) {
            break;
        }
        unlock_all(select);
        rc = wf_chan_grow(full);
        if (rc != 0) {
            return rc;
        }
    }
    if (rc >= 0) {
        unlock_all(select);
        if (woken != NULL) {
            wf_task_wake(woken);
        }
    }
    return rc;
}

/* ---- events -------------------------------------------------------------------------------- */

/* [waiter]  Before the locks are taken. */
static void begin_events(struct select *select)
{
    for (uint32_t i = 0; i < select->count; i++) {
        weft_case *it = &select->cases[i];
        if (it->kind == WEFT_CASE_EVENT) {
            struct wf_wait_node *node = &select->arms[i].node;
            wf_node_init(node, select->self);
            node->selection = &select->selection;
            node->index = (int32_t)i;
            it->value = 0;
            it->result = source_of(it)->begin(it, node);
        }
    }
}

/* [waiter, closer]  All that have begun. */
static void end_events(struct select *select)
{
    for (uint32_t i = 0; i < select->count; i++) {
        if (select->cases[i].kind == WEFT_CASE_EVENT) {
            source_of(&select->cases[i])->end(&select->cases[i], &select->arms[i].node);
        }
    }
}

/* [waiter]  The case was chosen: its index.  ANEW: what it was chosen for is gone. */
static int run_event(struct select *select, int index)
{
    weft_case *it = &select->cases[index];
    if (it->kind == WEFT_CASE_EVENT && it->result == 0) {
        it->result = source_of(it)->run(it);
        return it->result == -EAGAIN ? ANEW : index;
    }
    return index;
}

/* ---- winning and leaving ------------------------------------------------------------------- */

/* [waiter, closer]  Wins, unless somebody has; gives who has. */
static int32_t win(struct select *select, int32_t index)
{
    int32_t winner = -1;
    /* relaxed: who wins under a lock is waited for by taking that lock */
    return wf_cas_relaxed(&select->selection.winner, &winner, index) ? index : winner;
}

/* [waiter, closer]  Somebody has won: nobody else grants anything.  After this nobody knows of it.
 */
static void leave_all(struct select *select, int32_t winner)
{
    for (uint32_t i = 0; i < select->count; i++) {
        struct arm *arm = &select->arms[i];
        switch (select->cases[i].kind) {
        case WEFT_CASE_SEND:
        case WEFT_CASE_RECV:
            /* A thread is woken after the grant, under the lock. */
            if ((int32_t)i != winner || select->self == NULL || !wf_waitq_is_granted(&arm->node)) {
                (void)wf_waitq_leave(&arm->node);
            }
            break;
        case WEFT_CASE_TASK:
            wf_joiner_leave(select->cases[i].object, &arm->joiner);
            break;
        case WEFT_CASE_EVENT:
            source_of(&select->cases[i])->leave(&select->cases[i], &arm->node);
            break;
        default:
            break;
        }
    }
}

/* [closer]  The task will never run again. */
static void forget(struct wf_parting *parting)
{
    struct select *select = wf_container_of(parting, struct select, parting);
    const int32_t winner = win(select, NOBODY);
    leave_all(select, winner);
    if (winner != NOBODY && select->cases[winner].kind == WEFT_CASE_RECV &&
        select->arms[winner].node.result == 0) {
        WF_REACHED("select.item_comes_back");
        wf_chan_put_back(select->cases[winner].object, select->cases[winner].item);
    }
    if (select->has_events) {
        end_events(select);
    }
    wf_free(select->memory);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* [locked: all]  Into the queues of the channels, in the order of the cases. */
static void enter_chans(struct select *select)
{
    for (uint32_t i = 0; i < select->count; i++) {
        const weft_case *it = &select->cases[i];
        struct wf_wait_node *node = &select->arms[i].node;
        if (it->kind == WEFT_CASE_SEND || it->kind == WEFT_CASE_RECV) {
            wf_chan_node_init(node, select->self, it->item);
            node->selection = &select->selection;
            node->index = (int32_t)i;
            wf_chan_push_locked(it->object, node, it->kind == WEFT_CASE_SEND);
        }
    }
}

/* [waiter]  Into the lists of the tasks; one that has ended since wins. */
static void enter_tasks(struct select *select)
{
    for (uint32_t i = 0; i < select->count; i++) {
        struct wf_joiner *joiner = &select->arms[i].joiner;
        if (select->cases[i].kind == WEFT_CASE_TASK) {
            *joiner = (struct wf_joiner){.waiter = &select->selection.waiter,
                                         .winner = &select->selection.winner,
                                         .index = (int32_t)i};
            if (!wf_joiner_enter(select->cases[i].object, joiner)) {
                (void)win(select, (int32_t)i);
            }
        }
    }
}

/* [waiter]  To where the events come; one that is there since wins. */
static void enter_events(struct select *select)
{
    for (uint32_t i = 0; i < select->count; i++) {
        weft_case *it = &select->cases[i];
        if (it->kind == WEFT_CASE_EVENT) {
            const int rc = source_of(it)->enter(it, &select->arms[i].node);
            if (rc != -EINPROGRESS && win(select, (int32_t)i) == (int32_t)i) {
                select->arms[i].node.result = rc;
            }
        }
    }
}

/* [waiter]  Somebody has won; -1: nobody yet. */
static int32_t winner_of(struct select *select)
{
    return wf_load_relaxed(&select->selection.winner); /* relaxed: as in win() */
}

/* [task]  The winner; NOBODY: *rc says why. */
static inline __attribute__((always_inline)) int32_t wait_in_task(struct select *select, int *rc)
{
    struct weft_task *self = select->self;
    int32_t winner;
    wf_parting_add(self, &select->parting);
    wf_wait_begin_until(self, select->has_events ? WEFT_WAIT_OUTER_SELECT : WEFT_WAIT_SELECT, NULL,
                        select->at);
    while ((winner = winner_of(select)) < 0) { /* woken by the winner, or if it may not wait on */
        wf_suspend(self);
        if (winner_of(select) >= 0) {
            continue;
        }
        if (select->at != WEFT_NEVER && wf_clock_now() >= select->at) {
            (void)win(select, select->timer);
        } else if ((*rc = wf_interrupted(self)) != 0) {
            (void)win(select, NOBODY);
        }
    }
    wf_wait_end(self);
    wf_parting_remove(self, &select->parting);
    return winner;
}

/* [foreign thread] */
static int32_t wait_in_thread(struct select *select)
{
    int rc = 0;
    while (winner_of(select) < 0) { /* woken by the winner, or at the time */
        rc = wf_parker_park(&select->selection.waiter.parker, select->at);
        if (rc != 0) {
            (void)win(select, select->timer);
        }
    }
    return winner_of(select);
}

/* [waiter]  Its index; or ANEW. */
static int run_winner(struct select *select, int32_t winner)
{
    weft_case *it = &select->cases[winner];
    switch (it->kind) {
    case WEFT_CASE_TASK:
        it->result = weft_try_join(it->object, &it->value);
        break;
    case WEFT_CASE_TIME:
        it->result = 0;
        break;
    default:
        it->result = select->arms[winner].node.result;
        break;
    }
    return run_event(select, winner);
}

/* [any]  All locks are held, and nothing can run.  The index of what has then; or ANEW. */
static inline __attribute__((always_inline)) int wait_for_first(struct select *select)
{
    int rc = 0;
    enter_chans(select);
    unlock_all(select);
    WF_JITTER();
    enter_tasks(select);
    if (select->has_events) {
        enter_events(select);
    }
    const int32_t winner =
        select->self != NULL ? wait_in_task(select, &rc) : wait_in_thread(select);
    leave_all(select, winner);
    rc = winner == NOBODY ? rc : run_winner(select, winner);
    if (select->has_events) {
        end_events(select);
    }
    return rc;
}

/* ---- the call ------------------------------------------------------------------------------ */

static void set_up(struct select *select, weft_case *cases, uint32_t count)
{
    select->cases = cases;
    select->count = count;
    select->chan_count = 0;
    select->at = WEFT_NEVER;
    select->has_events = false;
    select->timer = NOBODY;
    select->parting = (struct wf_parting){.forget = forget};
    wf_atomic_init(&select->selection.winner, -1);
    wf_waiter_init(&select->selection.waiter, select->self);
    for (uint32_t i = 0; i < count; i++) {
        const weft_case *it = &cases[i];
        if (it->kind == WEFT_CASE_SEND || it->kind == WEFT_CASE_RECV) {
            add_chan(select, it->object);
        } else if (it->kind == WEFT_CASE_TIME && it->at < select->at) {
            select->at = it->at;
            select->timer = (int32_t)i;
        } else if (it->kind == WEFT_CASE_EVENT) {
            select->has_events = true;
        }
    }
    shuffle(select);
}

static inline __attribute__((always_inline)) int run_once(struct select *select, bool is_trying)
{
    struct weft_task *self = select->self;
    if (select->has_events) {
        begin_events(select);
    }
    int rc = look_at_all(select);
    if (rc == -EAGAIN && !is_trying) {
        rc = self != NULL ? wf_interrupted(self) : 0;
        if (rc == 0) {
            return wait_for_first(select);
        }
        unlock_all(select);
    } else if (rc == -EAGAIN) {
        unlock_all(select);
    }
    if (select->has_events) {
        rc = rc >= 0 ? run_event(select, rc) : rc;
        end_events(select);
    }
    if (self != NULL && rc != -ECANCELED && rc != -ETIMEDOUT) {
        wf_task_spend(self);
    }
    return rc;
}

/* [any]  The arrays are there, with room for `count`. */
static inline __attribute__((always_inline)) int run(struct select *select, weft_case *cases,
                                                     uint32_t count, bool is_trying)
{
    int rc;
    do { /* each turn an event was there, and somebody else was faster */
        set_up(select, cases, count);
        rc = run_once(select, is_trying);
    } while (rc == ANEW);
    return rc;
}

/* More cases than the frame has room for. */
static __attribute__((noinline)) int run_many(struct select *select, weft_case *cases,
                                              uint32_t count, bool is_trying)
{
    const size_t each = sizeof(struct arm) + sizeof(struct weft_chan *) + sizeof(uint32_t);
    char *memory = wf_alloc_zeroed(count, each);
    if (memory == NULL) {
        return -ENOMEM;
    }
    select->memory = memory;
    select->arms = (struct arm *)(void *)memory;
    select->chans = (struct weft_chan **)(void *)(memory + count * sizeof(struct arm));
    select->order = (uint32_t *)(void *)(select->chans + count);
    const int rc = run(select, cases, count, is_trying);
    wf_free(memory);
    return rc;
}

int weft_select(weft_case *cases, size_t count, int try_only)
{
    struct select select;
    struct arm arms[FEW];
    struct weft_chan *chans[FEW];
    uint32_t order[FEW];
    select.self = wf_task_self();
    const int rc = check(cases, count, try_only != 0, select.self);
    if (rc != 0) {
        return rc;
    }
    if (count > FEW) {
        return run_many(&select, cases, (uint32_t)count, try_only != 0);
    }
    select.arms = arms;
    select.chans = chans;
    select.order = order;
    select.memory = NULL;
    return run(&select, cases, (uint32_t)count, try_only != 0);
}
