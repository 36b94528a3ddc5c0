/* SPDX-License-Identifier: MIT */
/*
 * Goal:   no task of a scope outlives it; the first error cancels the other tasks, and the close
 *         returns it; a scope ends in order however its owner ends.
 * Method: scopes with tasks that work, fail, wait and spawn; the tasks write plain memory of the
 *         owner's frame, which the owner reads after the close.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "helpers.h"
#include "sched_helpers.h"

/* ---- open and close -------------------------------------------------------------------------- */

static intptr_t set_to_one(void *arg)
{
    int *cell = arg;
    (void)weft_yield();
    *cell = 1;
    return 5; /* the scope checks only for errors */
}

static intptr_t fill_a_scope(void *arg)
{
    (void)arg;
    const int counts[] = {0, 1, 2, 100, 500};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        int cells[500] = {0};
        weft_scope scope;
        CHECK_EQ(weft_scope_open(&scope, NULL), 0);
        for (int j = 0; j < counts[i]; j++) {
            CHECK_EQ(weft_scope_go(&scope, set_to_one, &cells[j]), 0);
        }
        CHECK_EQ(weft_scope_close(&scope), 0);
        for (int j = 0; j < counts[i]; j++) {
            CHECK_EQ(cells[j], 1);
        }
    }
    return 0;
}

static void scope_close_waits_for_all_tasks(void)
{
    run_under(EVERYWHERE, fill_a_scope);
}

struct spawner {
    weft_scope *scope;
    wf_atomic_u32 *count;
    int depth;
};

static intptr_t spawn_into_scope(void *arg)
{
    const struct spawner *spawner = arg;
    raise_by_one(spawner->count);
    if (spawner->depth > 0) {
        const struct spawner next = {spawner->scope, spawner->count, spawner->depth - 1};
        const weft_task_options options = {.arg_copy = sizeof(next), .name = "branch"};
        struct spawner copy = next;
        CHECK_EQ(weft_scope_spawn(spawner->scope, spawn_into_scope, &copy, &options), 0);
        CHECK_EQ(weft_scope_spawn(spawner->scope, spawn_into_scope, &copy, &options), 0);
    }
    return 0;
}

static intptr_t grow_tree(void *arg)
{
    (void)arg;
    wf_atomic_u32 count = {0};
    weft_scope scope;
    struct spawner root = {&scope, &count, 7};
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, spawn_into_scope, &root), 0);
    CHECK_EQ(weft_scope_close(&scope), 0);
    CHECK_EQ(wf_load_acquire(&count), 255);
    return 0;
}

static void scope_tasks_may_spawn_into_the_scope(void)
{
    run_under(EVERYWHERE, grow_tree);
}

static intptr_t nest_scopes(void *arg)
{
    int *depth = arg;
    int cells[4] = {0};
    weft_scope outer;
    weft_scope inner;
    CHECK_EQ(weft_scope_open(&outer, NULL), 0);
    CHECK_EQ(weft_scope_go(&outer, set_to_one, &cells[0]), 0);
    CHECK_EQ(weft_scope_open(&inner, NULL), 0);
    CHECK_EQ(weft_scope_go(&inner, set_to_one, &cells[1]), 0);
    CHECK_EQ(weft_scope_go(&outer, set_to_one, &cells[2]), 0); /* the outer one is still open */
    int next = *depth - 1;
    if (*depth > 0) {
        CHECK_EQ(weft_scope_go(&inner, nest_scopes, &next), 0);
    }
    CHECK_EQ(weft_scope_go(&inner, set_to_one, &cells[3]), 0);
    CHECK_EQ(weft_scope_close(&inner), 0);
    CHECK(cells[1] == 1 && cells[3] == 1);
    CHECK_EQ(weft_scope_close(&outer), 0);
    CHECK(cells[0] == 1 && cells[2] == 1);
    return 0;
}

static intptr_t nest_five_deep(void *arg)
{
    (void)arg;
    int depth = 5;
    return nest_scopes(&depth);
}

static void scope_nests_within_a_task_and_its_children(void)
{
    run_under(EVERYWHERE, nest_five_deep);
}

static void end_by_attribute(int *cell)
{
    weft_scope scope __attribute__((cleanup(weft_scope_auto_close)));
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, set_to_one, cell), 0);
}

static intptr_t end_scopes(void *arg)
{
    (void)arg;
    int cell = 0;
    end_by_attribute(&cell);
    CHECK_EQ(cell, 1);
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_close(&scope), 0);
    weft_scope_auto_close(&scope); /* is closed: no effect */
    CHECK_EQ(weft_scope_go(&scope, set_to_one, &cell), -EINVAL);
    CHECK_EQ(weft_scope_open(&scope, NULL), 0); /* can be used again */
    CHECK_EQ(weft_scope_go(&scope, set_to_one, &cell), 0);
    CHECK_EQ(weft_scope_close(&scope), 0);
    return 0;
}

static void scope_end_closes_by_attribute_and_scope_can_be_reused(void)
{
    run_under(EVERYWHERE, end_scopes);
}

static intptr_t close_foreign_scope(void *arg)
{
    CHECK_EQ(weft_scope_close(arg), -EPERM);
    return 0;
}

static intptr_t close_by_another_task(void *arg)
{
    (void)arg;
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_await(go(close_foreign_scope, &scope)), 0);
    CHECK_EQ(weft_scope_go(&scope, close_foreign_scope, &scope), 0);
    CHECK_EQ(weft_scope_close(&scope), 0);
    return 0;
}

static void scope_close_fails_with_eperm_for_non_owners(void)
{
    run_under(EVERYWHERE, close_by_another_task);
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), -EPERM); /* not inside a task */
}

static intptr_t close_outer_first(void *arg)
{
    (void)arg;
    weft_scope outer;
    weft_scope inner;
    CHECK_EQ(weft_scope_open(&outer, NULL), 0);
    CHECK_EQ(weft_scope_open(&inner, NULL), 0);
    CHECK_EQ(weft_scope_close(&outer), -EINVAL);
    CHECK_EQ(weft_scope_close(&inner), 0);
    CHECK_EQ(weft_scope_close(&outer), 0);
    return 0;
}

static void scope_close_fails_while_an_inner_scope_is_open(void)
{
    run_under(EVERYWHERE, close_outer_first);
}

static intptr_t return_with_open_scope(void *arg)
{
    CHECK_EQ(weft_scope_open(arg, NULL), 0);
    return 0;
}

static void run_task_with_open_scope(void)
{
    static weft_scope scope; /* the check must not depend on a frame that is gone */
    (void)weft_run(return_with_open_scope, &scope, NULL);
}

static void task_end_with_an_open_scope_aborts(void)
{
    char text[4096];
    const int status = tap_run_child(run_task_with_open_scope, text, sizeof(text));
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK(strstr(text, "scope") != NULL);
}

/* ---- errors ---------------------------------------------------------------------------------- */

struct member {
    wf_atomic_u32 *started;
    int code; /* plain: the code that ended its loop */
};

static intptr_t yield_until_error(void *arg)
{
    struct member *member = arg;
    raise_by_one(member->started);
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield();
    }
    member->code = rc;
    return rc;
}

enum { MEMBERS = 10 };

static intptr_t fail_after_all_began(void *arg)
{
    wait_for(arg, MEMBERS);
    return -EIO;
}

static intptr_t fail_one_of_many(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    struct member members[MEMBERS];
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < MEMBERS; i++) {
        members[i] = (struct member){&started, 0};
        CHECK_EQ(weft_scope_go(&scope, yield_until_error, &members[i]), 0);
    }
    CHECK_EQ(weft_scope_go(&scope, fail_after_all_began, &started), 0);
    CHECK_EQ(weft_scope_close(&scope), -EIO); /* not the -ECANCELED of the other tasks */
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(members[i].code, -ECANCELED);
    }
    CHECK_EQ(weft_check(), 0); /* the owner is not cancelled */
    return 0;
}

static void scope_first_error_cancels_the_other_tasks(void)
{
    run_under(EVERYWHERE, fail_one_of_many);
}

static intptr_t fail_with_message(void *arg)
{
    (void)arg;
    weft_fail(-EPROTO, "a message");
}

static intptr_t fail_inside_scopes(void *arg)
{
    (void)arg;
    weft_scope outer;
    weft_scope inner;
    wf_atomic_u32 never = {0};
    CHECK_EQ(weft_scope_open(&outer, NULL), 0);
    CHECK_EQ(weft_scope_go(&outer, stand_by_or_leave, &never), 0);
    CHECK_EQ(weft_scope_open(&inner, NULL), 0);
    CHECK_EQ(weft_scope_go(&inner, stand_by_or_leave, &never), 0);
    CHECK_EQ(weft_scope_go(&inner, fail_with_message, NULL), 0);
    CHECK_EQ(weft_scope_close(&inner), -EPROTO); /* the outer scope is not affected */
    CHECK_EQ(weft_scope_go(&outer, echo, NULL), 0);
    CHECK_EQ(weft_scope_cancel(&outer, -ENOENT), 0);
    CHECK_EQ(weft_scope_close(&outer), -ENOENT);
    return 0;
}

static void scope_error_does_not_reach_the_outer_scope(void)
{
    run_under(EVERYWHERE, fail_inside_scopes);
}

/* ---- cancel ---------------------------------------------------------------------------------- */

static intptr_t cancel_a_scope(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    struct member members[MEMBERS];
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < MEMBERS; i++) {
        members[i] = (struct member){&started, 0};
        CHECK_EQ(weft_scope_go(&scope, yield_until_error, &members[i]), 0);
    }
    wait_for(&started, MEMBERS);
    CHECK_EQ(weft_scope_cancel(&scope, -ENOSPC), 0);
    CHECK_EQ(weft_scope_cancel(&scope, -EIO), 0); /* the first cancel wins */
    CHECK_EQ(weft_scope_go(&scope, echo, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_close(&scope), -ENOSPC);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(members[i].code, -ECANCELED);
    }
    return 0;
}

static void scope_cancel_rejects_new_tasks_and_sets_the_error(void)
{
    run_under(EVERYWHERE, cancel_a_scope);
}

struct shared_scope {
    weft_scope *scope;
    wf_atomic_u32 is_open;
};

static intptr_t own_a_scope(void *arg)
{
    struct shared_scope *shared_scope = arg;
    wf_atomic_u32 never = {0};
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, stand_by_or_leave, &never), 0);
    shared_scope->scope = &scope;
    raise_by_one(&shared_scope->is_open);
    return weft_scope_close(&scope);
}

static void cancel_from_outside(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct shared_scope shared_scope = {.scope = NULL};
    weft_task *owner = go_into(runtime, own_a_scope, &shared_scope);
    wait_for(&shared_scope.is_open, 1);
    wait_for_state(owner, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(owner).wait, WEFT_WAIT_SCOPE);
    CHECK_EQ(weft_scope_cancel(shared_scope.scope, -ENOLINK), 0);
    CHECK_EQ(weft_await(owner), -ENOLINK);
}

static void scope_cancel_works_from_a_thread(void)
{
    open_under(EVERYWHERE, cancel_from_outside);
}

struct owned {
    wf_atomic_u32 started;
    struct member members[MEMBERS];
    int has_closed;
};

static intptr_t own_members(void *arg)
{
    struct owned *owned = arg;
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < MEMBERS; i++) {
        owned->members[i] = (struct member){&owned->started, 0};
        CHECK_EQ(weft_scope_go(&scope, yield_until_error, &owned->members[i]), 0);
    }
    int rc = weft_scope_close(&scope);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(owned->members[i].code, -ECANCELED); /* the close waited for all tasks */
    }
    owned->has_closed = 1;
    return rc;
}

static intptr_t cancel_owner(void *arg)
{
    (void)arg;
    struct owned owned = {.has_closed = 0};
    weft_task *owner = go(own_members, &owned);
    wait_for(&owned.started, MEMBERS);
    CHECK_EQ(weft_cancel(owner), 0); /* during the close, or before it */
    CHECK_EQ(weft_await(owner), -ECANCELED);
    CHECK_EQ(owned.has_closed, 1);
    return 0;
}

static void cancel_of_the_owner_cancels_the_tasks_of_its_scope(void)
{
    run_under(EVERYWHERE, cancel_owner);
}

/* ---- owners that fail ------------------------------------------------------------------------ */

static void check_cleanup_order(void *arg)
{
    struct owned *owned = arg;
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(owned->members[i].code, 0); /* newest first: it was pushed after the scope */
    }
    owned->has_closed = 1;
}

static __attribute__((noinline)) void fail_deep_inside(struct owned *owned)
{
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, check_cleanup_order, owned);
    weft_fail(-EBADMSG, "depth %d", 2);
}

static intptr_t fail_with_open_scopes(void *arg)
{
    struct owned *owned = arg;
    weft_scope outer;
    weft_scope inner;
    CHECK_EQ(weft_scope_open(&outer, NULL), 0);
    CHECK_EQ(weft_scope_open(&inner, NULL), 0);
    for (int i = 0; i < MEMBERS; i++) {
        owned->members[i] = (struct member){&owned->started, 0};
        CHECK_EQ(weft_scope_go(i % 2 == 0 ? &outer : &inner, yield_until_error, &owned->members[i]),
                 0);
    }
    wait_for(&owned->started, MEMBERS);
    fail_deep_inside(owned);
    return 0;
}

static intptr_t join_failing_owner(void *arg)
{
    (void)arg;
    struct owned owned = {.has_closed = 0};
    weft_task *owner = go(fail_with_open_scopes, &owned);
    CHECK_EQ(weft_await(owner), -EBADMSG);
    CHECK_EQ(owned.has_closed, 1);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(owned.members[i].code, -ECANCELED); /* ended before the owner */
    }
    return 0;
}

static void fail_of_the_owner_closes_its_scopes(void)
{
    run_under(EVERYWHERE, join_failing_owner);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static intptr_t exceed_scope_deadline(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    struct member member = {&started, 0};
    weft_scope scope;
    const weft_scope_options options = {.deadline = 1}; /* in the past */
    CHECK_EQ(weft_scope_open(&scope, &options), 0);
    CHECK_EQ(weft_check(), -ETIMEDOUT); /* also for the owner */
    CHECK_EQ(weft_scope_go(&scope, yield_until_error, &member), 0);
    CHECK_EQ(weft_scope_close(&scope), -ETIMEDOUT);
    /* The task sees the deadline itself, or the owner cancels it when its close is out of time. */
    CHECK(member.code == -ETIMEDOUT || member.code == -ECANCELED);
    CHECK_EQ(weft_check(), 0); /* only until the close */
    CHECK_EQ(weft_deadline_set(WEFT_NEVER), WEFT_NEVER);
    return 0;
}

static void scope_deadline_holds_for_owner_and_tasks(void)
{
    run_under(EVERYWHERE, exceed_scope_deadline);
}

static intptr_t record_deadline(void *arg)
{
    weft_time *deadline = arg;
    *deadline = info_of(weft_self()).deadline;
    return 0;
}

static intptr_t nest_deadlines(void *arg)
{
    (void)arg;
    const weft_time late = wf_clock_now() + 3600 * WF_NS_PER_S;
    const weft_time later = late + WF_NS_PER_S;
    const struct {
        weft_time outer;
        weft_time inner;
        weft_time effective;
    } rows[] = {{late, later, late}, {later, late, late}, {0, late, late}, {late, 0, late}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        weft_scope outer;
        weft_scope inner;
        weft_time seen = 0;
        CHECK_EQ(weft_scope_open(&outer, &(weft_scope_options){.deadline = rows[i].outer}), 0);
        CHECK_EQ(weft_scope_open(&inner, &(weft_scope_options){.deadline = rows[i].inner}), 0);
        CHECK_EQ(info_of(weft_self()).deadline, rows[i].effective);
        CHECK_EQ(weft_scope_go(&inner, record_deadline, &seen), 0);
        CHECK_EQ(weft_scope_close(&inner), 0);
        CHECK_EQ(seen, rows[i].effective);
        CHECK_EQ(weft_scope_close(&outer), 0);
        CHECK_EQ(info_of(weft_self()).deadline, WEFT_NEVER);
    }
    return 0;
}

static void scope_deadlines_nest_to_the_earliest(void)
{
    run_under(EVERYWHERE, nest_deadlines);
}

static intptr_t wait_for_scope_deadline(void *arg)
{
    (void)arg;
    wf_atomic_u32 never = {0};
    weft_scope scope;
    const weft_scope_options options = {.deadline = wf_clock_now() + 2000000};
    CHECK_EQ(weft_scope_open(&scope, &options), 0);
    CHECK_EQ(weft_scope_go(&scope, stand_by_or_leave, &never), 0);
    CHECK_EQ(weft_scope_close(&scope), -ETIMEDOUT); /* only the deadline ends the task */
    return 0;
}

static void scope_deadline_ends_a_waiting_close(void)
{
    run_under(EVERYWHERE, wait_for_scope_deadline);
}

/* ---- failures that the scope accounts for ---------------------------------------------------- */

/* Ends with an error of its own once it is cancelled. */
static intptr_t fail_when_cancelled(void *arg)
{
    raise_by_one(arg);
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield();
    }
    weft_fail(-EPROTO, "was cancelled with %d", rc);
}

static intptr_t fail_one_after_the_other(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(weft_scope_go(&scope, fail_when_cancelled, &started), 0);
    }
    CHECK_EQ(weft_scope_go(&scope, fail_after_all_began, &started), 0);
    CHECK_EQ(weft_scope_close(&scope), -EIO);

    wf_store_relaxed(&started, 0);
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(weft_scope_go(&scope, fail_when_cancelled, &started), 0);
    }
    wait_for(&started, MEMBERS);
    CHECK_EQ(weft_scope_cancel(&scope, -ENOSPC), 0);
    CHECK_EQ(weft_scope_close(&scope), -ENOSPC);
    return 0;
}

/* The hook of sched_helpers.h allows no report. */
static void scope_observes_the_later_failures_of_its_tasks(void)
{
    run_under(EVERYWHERE, fail_one_after_the_other);
}

/* One error of the deadline, one of the cancellation: which task has which is left to chance. */
static intptr_t time_out_below(void *arg)
{
    const int *depth = arg;
    const int next = *depth - 1;
    int below = next;
    wf_atomic_u32 never = {0};
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < 3; i++) {
        int rc = weft_scope_go(&scope, stand_by_or_leave, &never);
        CHECK(rc == 0 || rc == -ECANCELED); /* its time may be over already */
    }
    if (next > 0) {
        int rc = weft_scope_go(&scope, time_out_below, &below);
        CHECK(rc == 0 || rc == -ECANCELED);
    }
    const int rc = weft_scope_close(&scope);
    CHECK(rc == -ETIMEDOUT || rc == -ECANCELED);
    return rc;
}

static intptr_t time_out_nested_scopes(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        int depth = 3;
        weft_scope scope;
        const weft_scope_options options = {.deadline = wf_clock_now() + 1000000};
        CHECK_EQ(weft_scope_open(&scope, &options), 0);
        CHECK_EQ(weft_scope_go(&scope, time_out_below, &depth), 0);
        const int rc = weft_scope_close(&scope);
        CHECK(rc == -ETIMEDOUT || rc == -ECANCELED);
    }
    return 0;
}

static void nested_scopes_observe_their_timeouts(void)
{
    run_under(EVERYWHERE, time_out_nested_scopes);
}

/* ---- forced close --------------------------------------------------------------------------- */

struct copied_scope {
    weft_scope scope;
    wf_atomic_u32 *waiting; /* tasks that wait for ever */
};

static intptr_t wait_for_ever(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    raise_by_one(arg);
    while (weft_sleep(WEFT_SECOND) == 0) { /* ends with the forced close */
    }
    return 0;
}

/* The scope is in the copy of its owner's argument, which is freed with the owner. */
static intptr_t open_scope_in_argument(void *arg)
{
    struct copied_scope *copied = arg;
    CHECK_EQ(weft_scope_open(&copied->scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&copied->scope, wait_for_ever, copied->waiting), 0);
    CHECK_EQ(weft_shield_begin(), 0);
    raise_by_one(copied->waiting);
    return weft_scope_close(&copied->scope);
}

/* A task that is left must leave its scope before the owner of the scope is freed. */
static void scope_may_be_in_its_owners_argument_at_a_forced_close(void)
{
    const weft_task_options options = {.arg_copy = sizeof(struct copied_scope)};
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        wf_atomic_u32 waiting = {0};
        struct copied_scope copied = {.waiting = &waiting};
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, open_scope_in_argument, &copied, &options), 0);
        hold_for(&waiting, 2);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(scope_close_waits_for_all_tasks),
    TAP_TEST(scope_tasks_may_spawn_into_the_scope),
    TAP_TEST(scope_nests_within_a_task_and_its_children),
    TAP_TEST(scope_end_closes_by_attribute_and_scope_can_be_reused),
    TAP_TEST(scope_close_fails_with_eperm_for_non_owners),
    TAP_TEST(scope_close_fails_while_an_inner_scope_is_open),
    TAP_TEST(task_end_with_an_open_scope_aborts),
    TAP_TEST(scope_first_error_cancels_the_other_tasks),
    TAP_TEST(scope_error_does_not_reach_the_outer_scope),
    TAP_TEST(scope_cancel_rejects_new_tasks_and_sets_the_error),
    TAP_TEST(scope_cancel_works_from_a_thread),
    TAP_TEST(cancel_of_the_owner_cancels_the_tasks_of_its_scope),
    TAP_TEST(fail_of_the_owner_closes_its_scopes),
    TAP_TEST(scope_deadline_holds_for_owner_and_tasks),
    TAP_TEST(scope_deadlines_nest_to_the_earliest),
    TAP_TEST(scope_deadline_ends_a_waiting_close),
    TAP_TEST(scope_observes_the_later_failures_of_its_tasks),
    TAP_TEST(nested_scopes_observe_their_timeouts),
    TAP_TEST(scope_may_be_in_its_owners_argument_at_a_forced_close),
};
TAP_MAIN(tests)
