/* SPDX-License-Identifier: MIT */
/*
 * Goal:   each transition of the state word does what its picture says, from every state, and
 *         nothing else in the word changes with it.
 * Method: a table of states and transitions by hand; the limits of each field; threads that wake
 *         one task.  All orders of steps are exhausted in tests/model/model_state.c.
 */
#include <errno.h>
#include <sched.h>

#include "sched/sched.h"
#include "tap.h"

static struct wf_state_view view_of(struct wf_state *state)
{
    struct wf_state_view view;
    wf_state_read(state, &view);
    return view;
}

/* Completes a task that nobody joined. */
static unsigned end_of(struct wf_state *state)
{
    void *joiner = state;
    unsigned ended = wf_state_complete(state, &joiner);
    CHECK(joiner == NULL);
    return ended;
}

/* S4.35, S4.36: what a new task looks like. */
static void a_task_begins_active_with_its_references(void)
{
    struct wf_state state;
    wf_state_init(&state, 2);
    struct wf_state_view view = view_of(&state);
    CHECK_EQ(view.lifecycle, WF_ACTIVE);
    CHECK(!view.is_notified);
    CHECK(!view.is_cancelled);
    CHECK_EQ(view.shields, 0);
    CHECK_EQ(view.references, 2);
}

/* S4.37, S1.20, behaviour 10: to suspend is a step from active to idle, which a wake in between
 * forbids, and of no other state */
static void a_wake_while_active_is_taken_by_the_next_park(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_NOTED);
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_NOTED); /* twice is once */
    CHECK(view_of(&state).is_notified);
    CHECK(!wf_state_park(&state)); /* goes on */
    CHECK_EQ(view_of(&state).lifecycle, WF_ACTIVE);
    CHECK(!view_of(&state).is_notified);
    CHECK(wf_state_park(&state));
    CHECK_EQ(view_of(&state).lifecycle, WF_IDLE);
}

/* S4.37: exactly one of those who wake an idle task queues it. */
static void only_the_first_wake_of_an_idle_task_queues_it(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK(wf_state_park(&state));
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_QUEUE);
    CHECK(!view_of(&state).is_notified); /* it is going to look anyway */
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_NOTED);
}

static void a_complete_task_is_neither_woken_nor_cancelled(void)
{
    struct wf_state state;
    wf_state_init(&state, 2);
    CHECK_EQ(end_of(&state), 0);
    CHECK_EQ(view_of(&state).lifecycle, WF_COMPLETE);
    CHECK_EQ(view_of(&state).references, 1);
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_LATE);
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_LATE);
    CHECK(!wf_state_is_cancelled(&state));
    CHECK(wf_state_unref(&state));
}

/* The flags that two words do not have in common. */
static unsigned changed_flags(uint64_t before, struct wf_state *state)
{
    const uint64_t changed = (before ^ wf_load_relaxed(&state->word)) >> 24 & 0xff;
    return (unsigned)changed;
}

/* S4.43: that nobody will ever want the result needs no flag, since there are no handles: the run
 * has the only reference, and its end frees the task. */
static void each_thing_that_is_said_of_a_task_is_a_flag_of_its_own(void)
{
    struct wf_state state;
    int somebody;
    void *joiner = NULL;
    unsigned seen = 0;
    unsigned flag = 0;
    wf_state_init(&state, 2);
    for (int i = 0; i < 4; i++) {
        const uint64_t before = wf_load_relaxed(&state.word);
        switch (i) {
        case 0:
            CHECK_EQ(wf_state_wake(&state), WF_WAKE_NOTED); /* notified */
            CHECK(view_of(&state).is_notified);
            break;
        case 1:
            CHECK_EQ(wf_state_cancel(&state), WF_WAKE_NOTED); /* notified again, and cancelled */
            CHECK(view_of(&state).is_cancelled);
            break;
        case 2:
            CHECK(wf_state_join(&state, &somebody)); /* somebody wants the result */
            break;
        default:
            CHECK(wf_state_share(&state)); /* several do */
            break;
        }
        flag = changed_flags(before, &state);
        CHECK_EQ(__builtin_popcount(flag), 1);
        CHECK_EQ(seen & flag, 0);
        seen |= flag;
        CHECK_EQ(view_of(&state).references, 2);
        CHECK_EQ(view_of(&state).lifecycle, WF_ACTIVE);
    }
    CHECK_EQ(wf_state_complete(&state, &joiner), WF_ENDED_SHARED);
    CHECK(joiner == &somebody);
    wf_state_init(&state, 1); /* nobody ever will */
    CHECK(!wf_state_has_one_handle(&state));
    CHECK_EQ(end_of(&state), WF_ENDED_LAST);
}

/* S2.20: each step of a life is one operation on the word; those before and after this one are in
 * the tests around it. */
static void the_end_hands_over_who_joined(void)
{
    struct wf_state state;
    int somebody;
    void *joiner = NULL;
    wf_state_init(&state, 2);
    CHECK(wf_state_has_one_handle(&state));
    CHECK(!wf_state_is_complete(&state));
    CHECK(wf_state_join(&state, &somebody));
    CHECK(wf_state_unjoin(&state));
    CHECK(wf_state_join(&state, &somebody));
    CHECK_EQ(wf_state_complete(&state, &joiner), 0);
    CHECK(joiner == &somebody);
    CHECK(wf_state_is_complete(&state));
    CHECK(!wf_state_unjoin(&state)); /* too late */
    CHECK(wf_state_is_sole(&state));
    CHECK(wf_state_unref(&state));
}

/* Of two handles of a task that has ended, neither is the only one. */
static void two_handles_are_not_one_and_a_run(void)
{
    struct wf_state state;
    wf_state_init(&state, 3);
    CHECK(!wf_state_has_one_handle(&state));
    CHECK_EQ(end_of(&state), 0);
    CHECK(!wf_state_has_one_handle(&state));
    CHECK(!wf_state_unref(&state));
    CHECK(wf_state_unref(&state));
}

static void who_joins_too_late_is_told(void)
{
    struct wf_state state;
    int somebody;
    wf_state_init(&state, 2);
    CHECK_EQ(end_of(&state), 0);
    CHECK(!wf_state_join(&state, &somebody));
    CHECK(!wf_state_share(&state));
}

static void a_shared_end_keeps_the_reference_of_the_run(void)
{
    struct wf_state state;
    wf_state_init(&state, 2);
    CHECK(wf_state_share(&state));
    CHECK(wf_state_share(&state)); /* by another */
    CHECK_EQ(end_of(&state), WF_ENDED_SHARED);
    CHECK_EQ(view_of(&state).references, 2);
    CHECK(!wf_state_unref(&state));
    CHECK(wf_state_unref(&state));
}

/* S4.38 */
static void the_last_reference_is_told_so(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK_EQ(wf_state_ref(&state), 0);
    CHECK_EQ(wf_state_ref(&state), 0);
    CHECK(!wf_state_unref(&state));
    CHECK_EQ(end_of(&state), 0);
    CHECK(wf_state_unref(&state));

    wf_state_init(&state, 1); /* detached: its end is the last */
    CHECK_EQ(end_of(&state), WF_ENDED_LAST);
}

/* S4.38: 24 bits, and one too many is refused and changes nothing. */
static void references_are_counted_up_to_their_limit(void)
{
    enum { MOST = (1 << 24) - 1 };
    struct wf_state state;
    wf_state_init(&state, MOST - 1);
    CHECK_EQ(wf_state_shield(&state), 0);
    CHECK_EQ(wf_state_ref(&state), 0);
    CHECK_EQ(wf_state_ref(&state), -EOVERFLOW);
    struct wf_state_view view = view_of(&state);
    CHECK_EQ(view.references, MOST);
    CHECK_EQ(view.shields, 1);
    CHECK_EQ(view.lifecycle, WF_ACTIVE);
}

/* part of behaviour 32 */
static void a_cancel_wakes_whatever_the_task_does(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_NOTED);
    CHECK(wf_state_is_cancelled(&state));
    CHECK(!wf_state_park(&state)); /* it looks before it sleeps */
    CHECK(wf_state_park(&state));  /* but may sleep again: to clean up takes waiting */
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_QUEUE);

    wf_state_init(&state, 1);
    CHECK(wf_state_park(&state));
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_QUEUE);
    CHECK(wf_state_is_cancelled(&state));
}

/* S4.39, part of behaviour 33 */
static void behind_shields_a_cancel_waits_for_the_outermost_end(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK_EQ(wf_state_shield(&state), 0);
    CHECK_EQ(wf_state_shield(&state), 0);
    CHECK(wf_state_park(&state));
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_NOTED); /* sleeps on */
    CHECK_EQ(view_of(&state).lifecycle, WF_IDLE);
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_QUEUE);
    CHECK(!wf_state_is_cancelled(&state));
    CHECK_EQ(wf_state_unshield(&state), 0);
    CHECK(!wf_state_is_cancelled(&state));
    CHECK_EQ(wf_state_unshield(&state), 0);
    CHECK(wf_state_is_cancelled(&state));
    CHECK_EQ(wf_state_unshield(&state), -EINVAL);
}

/* S4.39, part of behaviour 33: the 256th shield is refused, and does not leak into a neighbour. */
static void shields_are_counted_up_to_their_limit(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    for (int i = 0; i < 255; i++) {
        CHECK_EQ(wf_state_shield(&state), 0);
    }
    CHECK_EQ(wf_state_shield(&state), -EOVERFLOW);
    CHECK_EQ(view_of(&state).shields, 255);
    CHECK_EQ(view_of(&state).references, 1);
    for (int i = 0; i < 255; i++) {
        CHECK_EQ(wf_state_unshield(&state), 0);
    }
    CHECK_EQ(view_of(&state).shields, 0);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { WAKERS = 3, WAKES = 20000 };

static struct wf_state task;
static struct wf_parker worker;
static uint64_t queued; /* plain: written by who was told to queue, read by the worker */
static wf_atomic_u64 news;

static void *wake(void *arg)
{
    (void)arg;
    for (int i = 0; i < WAKES; i++) {
        (void)wf_fetch_add_relaxed(&news, 1); /* relaxed: the state word orders it */
        if (wf_state_wake(&task) == WF_WAKE_QUEUE) {
            queued++;
            wf_parker_unpark(&worker);
        }
    }
    return NULL;
}

/* behaviour 11: the task looks at least once after the last wake, and is never queued twice. */
static void a_storm_of_wakes_loses_none(void)
{
    pthread_t threads[WAKERS];
    wf_state_init(&task, 1);
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], wake, NULL, NULL), 0);
    }
    uint64_t resumed = 0;
    while (wf_load_relaxed(&news) < (uint64_t)WAKERS * WAKES) {
        if (wf_state_park(&task)) {
            CHECK_EQ(wf_parker_park(&worker, WF_FOREVER), 0);
            resumed++;
            CHECK_EQ(queued, resumed);
        }
    }
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(a_task_begins_active_with_its_references),
    TAP_TEST(a_wake_while_active_is_taken_by_the_next_park),
    TAP_TEST(only_the_first_wake_of_an_idle_task_queues_it),
    TAP_TEST(a_complete_task_is_neither_woken_nor_cancelled),
    TAP_TEST(each_thing_that_is_said_of_a_task_is_a_flag_of_its_own),
    TAP_TEST(the_end_hands_over_who_joined),
    TAP_TEST(two_handles_are_not_one_and_a_run),
    TAP_TEST(who_joins_too_late_is_told),
    TAP_TEST(a_shared_end_keeps_the_reference_of_the_run),
    TAP_TEST(the_last_reference_is_told_so),
    TAP_TEST(references_are_counted_up_to_their_limit),
    TAP_TEST(a_cancel_wakes_whatever_the_task_does),
    TAP_TEST(behind_shields_a_cancel_waits_for_the_outermost_end),
    TAP_TEST(shields_are_counted_up_to_their_limit),
    TAP_TEST(a_storm_of_wakes_loses_none),
};
TAP_MAIN(tests)
