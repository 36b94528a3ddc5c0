/* SPDX-License-Identifier: MIT */
/*
 * Goal:   each transition of the state word does what its diagram says, from every state, and
 *         changes nothing else in the word.
 * Method: a table of states and transitions; the limits of each field; threads that wake one task.
 *         tests/model/model_state.c exhausts all interleavings.
 */
#include <errno.h>
#include <sched.h>

#include "tap.h"
#include "task/task.h"

static struct wf_state_view view_of(struct wf_state *state)
{
    struct wf_state_view view;
    wf_state_read(state, &view);
    return view;
}

/* Completes a task without a joiner. */
static unsigned end_of(struct wf_state *state)
{
    void *joiner = state;
    unsigned ended = wf_state_complete(state, &joiner);
    CHECK(joiner == NULL);
    return ended;
}

/* S4.35, S4.36: the state of a new task. */
static void state_init_is_active_with_its_references(void)
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

/* S4.37, S1.20, behaviour 10: suspension is a transition from active to idle, and from no other
 * state; a wake in between prevents it */
static void state_wake_while_active_is_consumed_by_the_next_park(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_NOTED);
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_NOTED); /* idempotent */
    CHECK(view_of(&state).is_notified);
    CHECK(!wf_state_park(&state)); /* the task continues */
    CHECK_EQ(view_of(&state).lifecycle, WF_ACTIVE);
    CHECK(!view_of(&state).is_notified);
    CHECK(wf_state_park(&state));
    CHECK_EQ(view_of(&state).lifecycle, WF_IDLE);
}

/* S4.37: exactly one of the wakers of an idle task queues it. */
static void state_wake_of_an_idle_task_queues_it_once(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK(wf_state_park(&state));
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_QUEUE);
    CHECK(!view_of(&state).is_notified); /* the task runs anyway */
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_NOTED);
}

static void state_complete_ignores_wake_and_cancel(void)
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

/* The flags in which two words differ. */
static unsigned changed_flags(uint64_t before, struct wf_state *state)
{
    const uint64_t changed = (before ^ wf_load_relaxed(&state->word)) >> 24 & 0xff;
    return (unsigned)changed;
}

/* S4.43: a detached task needs no flag, since it has no handles: the run has the only reference,
 * and the end frees the task. */
static void state_flags_are_independent(void)
{
    struct wf_state state;
    int joining_task;
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
            CHECK_EQ(wf_state_cancel(&state), WF_WAKE_NOTED); /* already notified, and cancelled */
            CHECK(view_of(&state).is_cancelled);
            break;
        case 2:
            CHECK(wf_state_join(&state, &joining_task)); /* a joiner */
            break;
        default:
            CHECK(wf_state_share(&state)); /* several joiners */
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
    CHECK(joiner == &joining_task);
    wf_state_init(&state, 1); /* a detached task */
    CHECK(!wf_state_has_one_handle(&state));
    CHECK_EQ(end_of(&state), WF_ENDED_LAST);
}

/* S2.20: each transition is one operation on the word; the tests before and after this one show the
 * others. */
static void state_complete_returns_the_joiner(void)
{
    struct wf_state state;
    int joining_task;
    void *joiner = NULL;
    wf_state_init(&state, 2);
    CHECK(wf_state_has_one_handle(&state));
    CHECK(!wf_state_is_complete(&state));
    CHECK(wf_state_join(&state, &joining_task));
    CHECK(wf_state_unjoin(&state));
    CHECK(wf_state_join(&state, &joining_task));
    CHECK_EQ(wf_state_complete(&state, &joiner), 0);
    CHECK(joiner == &joining_task);
    CHECK(wf_state_is_complete(&state));
    CHECK(!wf_state_unjoin(&state)); /* too late */
    CHECK(wf_state_is_sole(&state));
    CHECK(wf_state_unref(&state));
}

/* Neither of two handles of an ended task is the only one. */
static void state_has_one_handle_is_false_with_two_handles(void)
{
    struct wf_state state;
    wf_state_init(&state, 3);
    CHECK(!wf_state_has_one_handle(&state));
    CHECK_EQ(end_of(&state), 0);
    CHECK(!wf_state_has_one_handle(&state));
    CHECK(!wf_state_unref(&state));
    CHECK(wf_state_unref(&state));
}

static void state_join_fails_after_complete(void)
{
    struct wf_state state;
    int joining_task;
    wf_state_init(&state, 2);
    CHECK_EQ(end_of(&state), 0);
    CHECK(!wf_state_join(&state, &joining_task));
    CHECK(!wf_state_share(&state));
}

static void state_complete_of_a_shared_task_keeps_the_run_reference(void)
{
    struct wf_state state;
    wf_state_init(&state, 2);
    CHECK(wf_state_share(&state));
    CHECK(wf_state_share(&state)); /* by another joiner */
    CHECK_EQ(end_of(&state), WF_ENDED_SHARED);
    CHECK_EQ(view_of(&state).references, 2);
    CHECK(!wf_state_unref(&state));
    CHECK(wf_state_unref(&state));
}

/* S4.38 */
static void state_unref_reports_the_last_reference(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK_EQ(wf_state_ref(&state), 0);
    CHECK_EQ(wf_state_ref(&state), 0);
    CHECK(!wf_state_unref(&state));
    CHECK_EQ(end_of(&state), 0);
    CHECK(wf_state_unref(&state));

    wf_state_init(&state, 1); /* detached: the end drops the last reference */
    CHECK_EQ(end_of(&state), WF_ENDED_LAST);
}

/* S4.38: 24 bits; one reference more fails and changes nothing. */
static void state_ref_fails_at_the_limit(void)
{
    enum { REFERENCES_MAX = (1 << 24) - 1 };
    struct wf_state state;
    wf_state_init(&state, REFERENCES_MAX - 1);
    CHECK_EQ(wf_state_shield(&state), 0);
    CHECK_EQ(wf_state_ref(&state), 0);
    CHECK_EQ(wf_state_ref(&state), -EOVERFLOW);
    struct wf_state_view view = view_of(&state);
    CHECK_EQ(view.references, REFERENCES_MAX);
    CHECK_EQ(view.shields, 1);
    CHECK_EQ(view.lifecycle, WF_ACTIVE);
}

/* part of behaviour 32 */
static void state_cancel_wakes_active_and_idle_tasks(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_NOTED);
    CHECK(wf_state_is_cancelled(&state));
    CHECK(!wf_state_park(&state)); /* the task checks before it sleeps */
    CHECK(wf_state_park(&state));  /* but may sleep again: a cleanup may wait */
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_QUEUE);

    wf_state_init(&state, 1);
    CHECK(wf_state_park(&state));
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_QUEUE);
    CHECK(wf_state_is_cancelled(&state));
}

/* S4.39, part of behaviour 33 */
static void state_shield_defers_cancel_until_the_outermost_unshield(void)
{
    struct wf_state state;
    wf_state_init(&state, 1);
    CHECK_EQ(wf_state_shield(&state), 0);
    CHECK_EQ(wf_state_shield(&state), 0);
    CHECK(wf_state_park(&state));
    CHECK_EQ(wf_state_cancel(&state), WF_WAKE_NOTED); /* stays idle */
    CHECK_EQ(view_of(&state).lifecycle, WF_IDLE);
    CHECK_EQ(wf_state_wake(&state), WF_WAKE_QUEUE);
    CHECK(!wf_state_is_cancelled(&state));
    CHECK_EQ(wf_state_unshield(&state), 0);
    CHECK(!wf_state_is_cancelled(&state));
    CHECK_EQ(wf_state_unshield(&state), 0);
    CHECK(wf_state_is_cancelled(&state));
    CHECK_EQ(wf_state_unshield(&state), -EINVAL);
}

/* S4.39, part of behaviour 33: the 256th shield fails and changes no neighbouring field. */
static void state_shield_fails_at_the_limit(void)
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
static uint64_t queued; /* plain: written by the waker that must queue, read by the worker */
static wf_atomic_u64 wakes;

static void *wake(void *arg)
{
    (void)arg;
    for (int i = 0; i < WAKES; i++) {
        (void)wf_fetch_add_relaxed(&wakes, 1); /* relaxed: the state word orders it */
        if (wf_state_wake(&task) == WF_WAKE_QUEUE) {
            queued++;
            wf_parker_unpark(&worker);
        }
    }
    return NULL;
}

/* behaviour 11: the task checks at least once after the last wake, and is never queued twice. */
static void state_wake_loses_none_under_threads(void)
{
    pthread_t threads[WAKERS];
    wf_state_init(&task, 1);
    for (int i = 0; i < WAKERS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], wake, NULL, NULL), 0);
    }
    uint64_t resumed = 0;
    while (wf_load_relaxed(&wakes) < (uint64_t)WAKERS * WAKES) {
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
    TAP_TEST(state_init_is_active_with_its_references),
    TAP_TEST(state_wake_while_active_is_consumed_by_the_next_park),
    TAP_TEST(state_wake_of_an_idle_task_queues_it_once),
    TAP_TEST(state_complete_ignores_wake_and_cancel),
    TAP_TEST(state_flags_are_independent),
    TAP_TEST(state_complete_returns_the_joiner),
    TAP_TEST(state_has_one_handle_is_false_with_two_handles),
    TAP_TEST(state_join_fails_after_complete),
    TAP_TEST(state_complete_of_a_shared_task_keeps_the_run_reference),
    TAP_TEST(state_unref_reports_the_last_reference),
    TAP_TEST(state_ref_fails_at_the_limit),
    TAP_TEST(state_cancel_wakes_active_and_idle_tasks),
    TAP_TEST(state_shield_defers_cancel_until_the_outermost_unshield),
    TAP_TEST(state_shield_fails_at_the_limit),
    TAP_TEST(state_wake_loses_none_under_threads),
};
TAP_MAIN(tests)
