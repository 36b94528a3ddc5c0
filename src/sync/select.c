/* SPDX-License-Identifier: MIT */
/*
 * sync/select.c - waiting for the first of several cases.
 *
 * The select takes the locks of all its channels, in the order of their addresses.  While it holds
 * them no channel case can become ready or cease to be.  It checks the cases in a random order, and
 * the first case that can run does: each ready case has the same chance.  If none can run, the
 * select puts a node for each case into its channel before it releases the locks, so that each
 * later peer finds the node.  The nodes are queued in the same random order, since a later peer
 * claims the first node of its channel.  A select never meets itself: while it checks, it is in no
 * queue.
 *
 * The nodes share a selection, which is won once: by a sender, receiver or closer that claims a
 * node (waitq.c), by a task that ends (join.c), or by the select itself, if its time has come or it
 * was interrupted.  So exactly one case runs, or none.  A winner wins a channel case under the lock
 * of the channel.  To leave its queues the select takes the locks one after the other, except that
 * of the case that has won and whose grant it has seen.
 *
 * Events of the layers above (source.h) are checked before the locks are taken, because the check
 * takes longer than a spin lock may be held.  An event may be gone when its case is about to run:
 * then nothing was done, and the select starts again.
 */
#include <errno.h>
#include <string.h>

#include "future/future.h"
#include "sync/chan.h"
#include "sync/source.h"

/* Cases that need no allocation. */
#define FRAME_CASES 16u

/* The winner if the select has won itself: no case runs. */
#define NO_CASE INT32_MAX

/* Nothing was done, and the select must start again. */
#define RESTART (-ERESTART)

/* The nodes by which one case waits in its channel, source or task. */
struct arm {
    struct wf_wait_node node; /* in a channel, or with a source */
    struct wf_joiner joiner;  /* in the list of a task */
};

struct select {
    struct wf_selection selection;
    struct wf_abandon_hook hook;
    struct weft_task *self; /* NULL: a thread */
    weft_case *cases;
    uint32_t count;
    struct arm *arms;         /* by case */
    struct weft_chan **chans; /* all channels of the cases, each once, by address */
    uint32_t chan_count;
    uint32_t *order; /* in which cases are checked and queued */
    int32_t timer;   /* the earliest time case, of equal ones the first in order; NO_CASE: none */
    weft_time at;    /* its time; WEFT_NEVER: none */
    bool has_events; /* some case is an event */
};

/* ---- checks -------------------------------------------------------------------------------- */

static const struct wf_source *source_of(const weft_case *it)
{
    return it->object;
}

weft_case wf_case_of(const struct wf_source *source, void *item)
{
    void *object = (void *)(uintptr_t)source; /* the cast drops const: it is only read */
    return (weft_case){.kind = WEFT_CASE_EVENT, .object = object, .item = item};
}

/* 0: it can never run; 1: it can; negative: it is invalid. */
static int select_check_case(const weft_case *it, const struct weft_task *self)
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

static int select_check(const weft_case *cases, size_t count, bool is_trying,
                        const struct weft_task *self)
{
    bool is_any = is_trying;
    if (cases == NULL || count == 0 || count >= NO_CASE) {
        return -EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        const int rc = select_check_case(&cases[i], self);
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

/* Inserts the channel by address, unless it is there. */
static void select_add_chan(struct select *select, struct weft_chan *chan)
{
    uint32_t at = select->chan_count;
    while (at > 0 && (uintptr_t)select->chans[at - 1] > (uintptr_t)chan) {
        at--;
    }
    if (at > 0 && select->chans[at - 1] == chan) {
        return;
    }
    memmove(&select->chans[at + 1], &select->chans[at],
            (select->chan_count - at) * sizeof(select->chans[0]));
    select->chans[at] = chan;
    select->chan_count++;
}

static void select_lock(struct select *select)
{
    for (uint32_t i = 0; i < select->chan_count; i++) {
        wf_spin_acquire(&select->chans[i]->lock);
    }
}

static void select_unlock(struct select *select)
{
    for (uint32_t i = 0; i < select->chan_count; i++) {
        wf_spin_release(&select->chans[i]->lock);
    }
}

/* ---- scanning ------------------------------------------------------------------------------ */

/* Non-worker threads have no random numbers of their own. */
static wf_atomic_u64 thread_seed;

/* Fills `order` with a random permutation. */
static void select_shuffle(struct select *select)
{
    struct wf_worker *worker = wf_worker_self();
    struct wf_random own;
    struct wf_random *random = &own;
    if (worker != NULL) {
        random = &worker->random;
    } else {
        wf_random_init(&own, wf_fetch_add_relaxed(&thread_seed, 1)); /* relaxed: only a seed */
    }
    for (uint32_t i = 0; i < select->count; i++) {
        const uint32_t other = wf_random_below(random, i + 1);
        select->order[i] = select->order[other];
        select->order[other] = i;
    }
}

/* [locked: all]  Runs the case if it can run: 0 or -EPIPE; an event runs later.  -EAGAIN: it cannot
 * run.  -ENOMEM: its channel must grow first. */
static int select_try_case(weft_case *it, weft_time now, struct weft_task **woken)
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
        return it->result; /* of its begin */
    case WEFT_CASE_NONE:
    default:
        return -EAGAIN;
    }
}

/* [locked: all]  Returns the index of the first case, in shuffled order, that could run; it has
 * run.  -EAGAIN: none can.  -ENOMEM: the channel *full must grow first. */
static int select_scan(struct select *select, struct weft_task **woken, struct weft_chan **full)
{
    const weft_time now = select->at != WEFT_NEVER ? wf_clock_now() : 0;
    *woken = NULL;
    for (uint32_t i = 0; i < select->count; i++) {
        const uint32_t index = select->order[i];
        weft_case *it = &select->cases[index];
        const int rc = select_try_case(it, now, woken);
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

/* [any]  Takes all locks, and runs the first case that can run.  Returns its index; -EAGAIN: none
 * can, and the locks are held.  With every other result the locks are released. */
static int select_poll(struct select *select)
{
    struct weft_task *woken;
    struct weft_chan *full = NULL;
    int rc;
    for (;;) { /* Ends: a channel grows in each iteration, or cannot. */
        select_lock(select);
        rc = select_scan(select, &woken, &full);
        if (rc != -ENOMEM) {
            break;
        }
        select_unlock(select);
        rc = wf_chan_grow(full);
        if (rc != 0) {
            return rc;
        }
    }
    if (rc >= 0) {
        select_unlock(select);
        if (woken != NULL) {
            wf_task_wake(woken);
        }
    }
    return rc;
}

/* ---- events -------------------------------------------------------------------------------- */

/* [waiter]  Begins all events, before the locks are taken. */
static void select_begin_events(struct select *select)
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

/* [waiter, closer]  Ends all events. */
static void select_end_events(struct select *select)
{
    for (uint32_t i = 0; i < select->count; i++) {
        if (select->cases[i].kind == WEFT_CASE_EVENT) {
            source_of(&select->cases[i])->end(&select->cases[i], &select->arms[i].node);
        }
    }
}

/* [waiter]  Runs the chosen case if it is an event.  Returns `index`; RESTART: the event is
 * gone. */
static int select_run_event(struct select *select, int index)
{
    weft_case *it = &select->cases[index];
    if (it->kind == WEFT_CASE_EVENT && it->result == 0) {
        it->result = source_of(it)->run(it);
        return it->result == -EAGAIN ? RESTART : index;
    }
    return index;
}

/* ---- winning and leaving ------------------------------------------------------------------- */

/* [waiter, closer]  Wins the selection for this case, unless it is won already.  Returns the
 * winner. */
static int32_t select_win(struct select *select, int32_t index)
{
    int32_t winner = -1;
    /* relaxed: the select takes the lock under which another has won */
    return wf_cas_relaxed(&select->selection.winner, &winner, index) ? index : winner;
}

/* [waiter, closer]  The selection is won, so no other grant follows: leaves all queues and lists.
 */
static void select_leave(struct select *select, int32_t winner)
{
    for (uint32_t i = 0; i < select->count; i++) {
        struct arm *arm = &select->arms[i];
        switch (select->cases[i].kind) {
        case WEFT_CASE_SEND:
        case WEFT_CASE_RECV:
            /* A thread is woken after the grant, under the lock, so it must take the lock. */
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

/* [closer]  The task never runs again. */
static void select_abandon(struct wf_abandon_hook *hook)
{
    struct select *select = wf_container_of(hook, struct select, hook);
    const int32_t winner = select_win(select, NO_CASE);
    select_leave(select, winner);
    if (winner != NO_CASE && select->cases[winner].kind == WEFT_CASE_RECV &&
        select->arms[winner].node.result == 0) {
        WF_REACHED("select.item_comes_back");
        wf_chan_put_back(select->cases[winner].object, select->cases[winner].item);
    }
    if (select->has_events) {
        select_end_events(select);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* [locked: all]  Enters the queues of the channels, in shuffled order. */
static void select_enter_chans(struct select *select)
{
    for (uint32_t n = 0; n < select->count; n++) {
        const uint32_t i = select->order[n];
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

/* [waiter]  Enters the lists of the tasks.  A task that has ended meanwhile wins. */
static void select_enter_tasks(struct select *select)
{
    for (uint32_t n = 0; n < select->count; n++) {
        const uint32_t i = select->order[n];
        struct wf_joiner *joiner = &select->arms[i].joiner;
        if (select->cases[i].kind == WEFT_CASE_TASK) {
            *joiner = (struct wf_joiner){.waiter = &select->selection.waiter,
                                         .winner = &select->selection.winner,
                                         .index = (int32_t)i};
            if (!wf_joiner_enter(select->cases[i].object, joiner)) {
                (void)select_win(select, (int32_t)i);
            }
        }
    }
}

/* [waiter]  Enters the queues of the sources.  An event that has come meanwhile wins. */
static void select_enter_events(struct select *select)
{
    for (uint32_t n = 0; n < select->count; n++) {
        const uint32_t i = select->order[n];
        weft_case *it = &select->cases[i];
        if (it->kind == WEFT_CASE_EVENT) {
            const int rc = source_of(it)->enter(it, &select->arms[i].node);
            if (rc != -EINPROGRESS && select_win(select, (int32_t)i) == (int32_t)i) {
                select->arms[i].node.result = rc;
            }
        }
    }
}

/* [waiter]  The winner; -1: none yet. */
static int32_t select_winner(struct select *select)
{
    return wf_load_relaxed(&select->selection.winner); /* relaxed: see select_win */
}

/* [task]  Waits for the winner; NO_CASE: *rc says why. */
static inline __attribute__((always_inline)) int32_t select_wait_task(struct select *select,
                                                                      int *rc)
{
    struct weft_task *self = select->self;
    int32_t winner;
    wf_abandon_hook_add(self, &select->hook);
    wf_wait_begin_until(self, select->has_events ? WEFT_WAIT_EXTERNAL_SELECT : WEFT_WAIT_SELECT,
                        NULL, select->at);
    while ((winner = select_winner(select)) < 0) { /* ends: an interrupted select wins */
        wf_suspend(self);
        if (select_winner(select) >= 0) {
            continue;
        }
        if (select->at != WEFT_NEVER && wf_clock_now() >= select->at) {
            (void)select_win(select, select->timer);
        } else if ((*rc = wf_interrupted(self)) != 0) {
            (void)select_win(select, NO_CASE);
        }
    }
    wf_wait_end(self);
    wf_abandon_hook_remove(self, &select->hook);
    return winner;
}

/* [non-worker thread]  Waits for the winner. */
static int32_t select_wait_thread(struct select *select)
{
    int rc = 0;
    while (select_winner(select) < 0) { /* ends with the winner, or at the time */
        rc = wf_parker_park(&select->selection.waiter.parker, select->at);
        if (rc != 0) {
            (void)select_win(select, select->timer);
        }
    }
    return select_winner(select);
}

/* [waiter]  Runs the case that has won.  Returns its index; RESTART: its event is gone. */
static int select_run_winner(struct select *select, int32_t winner)
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
    return select_run_event(select, winner);
}

/* [locked: all]  Releases the locks, waits until a case can run, and runs it.  Returns its index,
 * RESTART, or the error that interrupted the wait. */
static inline __attribute__((always_inline)) int select_wait(struct select *select)
{
    int rc = 0;
    select_enter_chans(select);
    select_unlock(select);
    WF_JITTER();
    select_enter_tasks(select);
    if (select->has_events) {
        select_enter_events(select);
    }
    const int32_t winner =
        select->self != NULL ? select_wait_task(select, &rc) : select_wait_thread(select);
    select_leave(select, winner);
    rc = winner == NO_CASE ? rc : select_run_winner(select, winner);
    if (select->has_events) {
        select_end_events(select);
    }
    return rc;
}

/* ---- the call ------------------------------------------------------------------------------ */

/* `at` is the time of one case at least: stores the first of these cases in shuffled order. */
static void select_choose_timer(struct select *select)
{
    for (uint32_t i = 0; i < select->count && select->timer == NO_CASE; i++) {
        const uint32_t index = select->order[i];
        const weft_case *it = &select->cases[index];
        if (it->kind == WEFT_CASE_TIME && it->at == select->at) {
            select->timer = (int32_t)index;
        }
    }
}

static void select_init(struct select *select, weft_case *cases, uint32_t count)
{
    select->cases = cases;
    select->count = count;
    select->chan_count = 0;
    select->at = WEFT_NEVER;
    select->has_events = false;
    select->timer = NO_CASE;
    select->hook = (struct wf_abandon_hook){.abandon = select_abandon};
    wf_atomic_init(&select->selection.winner, -1);
    wf_waiter_init(&select->selection.waiter, select->self);
    for (uint32_t i = 0; i < count; i++) {
        const weft_case *it = &cases[i];
        if (it->kind == WEFT_CASE_SEND || it->kind == WEFT_CASE_RECV) {
            select_add_chan(select, it->object);
        } else if (it->kind == WEFT_CASE_TIME && it->at < select->at) {
            select->at = it->at;
        } else if (it->kind == WEFT_CASE_EVENT) {
            select->has_events = true;
        }
    }
    select_shuffle(select);
    if (select->at != WEFT_NEVER) {
        select_choose_timer(select);
    }
}

static inline __attribute__((always_inline)) int select_run_once(struct select *select,
                                                                 bool is_trying)
{
    struct weft_task *self = select->self;
    if (select->has_events) {
        select_begin_events(select);
    }
    int rc = select_poll(select);
    if (rc == -EAGAIN && !is_trying) {
        rc = self != NULL ? wf_interrupted(self) : 0;
        if (rc == 0) {
            return select_wait(select);
        }
        select_unlock(select);
    } else if (rc == -EAGAIN) {
        select_unlock(select);
    }
    if (select->has_events) {
        rc = rc >= 0 ? select_run_event(select, rc) : rc;
        select_end_events(select);
    }
    if (self != NULL && rc != -ECANCELED && rc != -ETIMEDOUT) {
        wf_task_spend(self);
    }
    return rc;
}

/* [any]  The arrays have `count` elements. */
static inline __attribute__((always_inline)) int select_run(struct select *select, weft_case *cases,
                                                            uint32_t count, bool is_trying)
{
    int rc;
    do { /* each iteration but the last lost an event to another receiver */
        select_init(select, cases, count);
        rc = select_run_once(select, is_trying);
    } while (rc == RESTART);
    return rc;
}

/* [any]  More cases than FRAME_CASES: allocates the arrays.  If a forced close comes while the task
 * waits, or yields because its budget is used up, the hook frees the arrays.  The hook runs after
 * select_abandon, which still uses the arrays. */
static __attribute__((noinline)) int select_run_many(struct select *select, weft_case *cases,
                                                     uint32_t count, bool is_trying)
{
    const size_t each = sizeof(struct arm) + sizeof(struct weft_chan *) + sizeof(uint32_t);
    char *memory = wf_alloc_zeroed(count, each);
    if (memory == NULL) {
        return -ENOMEM;
    }
    struct wf_undo_hook hook;
    wf_undo_hook_add(&hook, wf_free, memory);
    select->arms = (struct arm *)(void *)memory;
    select->chans = (struct weft_chan **)(void *)(memory + count * sizeof(struct arm));
    select->order = (uint32_t *)(void *)(select->chans + count);
    const int rc = select_run(select, cases, count, is_trying);
    wf_undo_hook_remove(&hook);
    wf_free(memory);
    return rc;
}

static int select_one(weft_case *cases, size_t count, bool is_trying)
{
    struct select select;
    struct arm arms[FRAME_CASES];
    struct weft_chan *chans[FRAME_CASES];
    uint32_t order[FRAME_CASES];
    select.self = wf_task_self();
    const int rc = select_check(cases, count, is_trying, select.self);
    if (rc != 0) {
        return rc;
    }
    if (count > FRAME_CASES) {
        return select_run_many(&select, cases, (uint32_t)count, is_trying);
    }
    select.arms = arms;
    select.chans = chans;
    select.order = order;
    return select_run(&select, cases, (uint32_t)count, is_trying);
}

int weft_select(weft_case *cases, size_t count)
{
    return select_one(cases, count, false);
}

int weft_try_select(weft_case *cases, size_t count)
{
    return select_one(cases, count, true);
}
