/* SPDX-License-Identifier: MIT */
/*
 * Goal:   no task of a scope outlives it; the first error cancels the others and is what close
 *         gives; a scope ends in order however its owner ends.
 * Method: scopes with tasks that work, fail, stand by and spawn; plain memory of the owner's frame
 *         is written by the tasks and read after the close.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "aids.h"
#include "sched_aids.h"

/* ---- opening, closing ------------------------------------------------------------------------ */

static intptr_t set_to_one(void *arg)
{
    int *cell = arg;
    (void)weft_yield();
    *cell = 1;
    return 5; /* only errors are looked at */
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

static void a_close_waits_for_all_tasks(void)
{
    run_under(EVERYWHERE, fill_a_scope);
}

struct spawner {
    weft_scope *scope;
    wf_atomic_u32 *count;
    int depth;
};

static intptr_t spawn_into_the_scope(void *arg)
{
    const struct spawner *spawner = arg;
    raise_by_one(spawner->count);
    if (spawner->depth > 0) {
        const struct spawner next = {spawner->scope, spawner->count, spawner->depth - 1};
        const weft_task_options options = {.arg_copy = sizeof(next), .name = "branch"};
        struct spawner copy = next;
        CHECK_EQ(weft_scope_spawn(spawner->scope, spawn_into_the_scope, &copy, &options), 0);
        CHECK_EQ(weft_scope_spawn(spawner->scope, spawn_into_the_scope, &copy, &options), 0);
    }
    return 0;
}

static intptr_t grow_a_tree(void *arg)
{
    (void)arg;
    wf_atomic_u32 count = {0};
    weft_scope scope;
    struct spawner root = {&scope, &count, 7};
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, spawn_into_the_scope, &root), 0);
    CHECK_EQ(weft_scope_close(&scope), 0);
    CHECK_EQ(wf_load_acquire(&count), 255);
    return 0;
}

static void tasks_of_a_scope_start_others_in_it(void)
{
    run_under(EVERYWHERE, grow_a_tree);
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

static intptr_t nest_to_some_depth(void *arg)
{
    (void)arg;
    int depth = 5;
    return nest_scopes(&depth);
}

static void scopes_nest_within_a_task_and_below_it(void)
{
    run_under(EVERYWHERE, nest_to_some_depth);
}

static void end_by_attribute(int *cell)
{
    weft_scope scope __attribute__((cleanup(weft_scope_end)));
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
    weft_scope_end(&scope); /* is closed: nothing */
    CHECK_EQ(weft_scope_go(&scope, set_to_one, &cell), -EINVAL);
    CHECK_EQ(weft_scope_open(&scope, NULL), 0); /* can be used again */
    CHECK_EQ(weft_scope_go(&scope, set_to_one, &cell), 0);
    CHECK_EQ(weft_scope_close(&scope), 0);
    return 0;
}

static void a_scope_ends_with_its_block(void)
{
    run_under(EVERYWHERE, end_scopes);
}

static intptr_t close_what_is_not_mine(void *arg)
{
    CHECK_EQ(weft_scope_close(arg), -EPERM);
    return 0;
}

static intptr_t let_another_close(void *arg)
{
    (void)arg;
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_await(go(close_what_is_not_mine, &scope)), 0);
    CHECK_EQ(weft_scope_go(&scope, close_what_is_not_mine, &scope), 0);
    CHECK_EQ(weft_scope_close(&scope), 0);
    return 0;
}

static void only_the_owner_closes(void)
{
    run_under(EVERYWHERE, let_another_close);
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), -EPERM); /* not inside a task */
}

static intptr_t close_the_outer_first(void *arg)
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

static void the_innermost_scope_is_closed_first(void)
{
    run_under(EVERYWHERE, close_the_outer_first);
}

static intptr_t forget_a_scope(void *arg)
{
    CHECK_EQ(weft_scope_open(arg, NULL), 0);
    return 0;
}

static void run_a_forgetful_task(void)
{
    static weft_scope scope; /* the check must not depend on a frame that is gone */
    (void)weft_run(forget_a_scope, &scope, NULL);
}

static void a_task_that_ends_with_an_open_scope_is_stopped(void)
{
    char text[4096];
    const int status = tap_run_child(run_a_forgetful_task, text, sizeof(text));
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK(strstr(text, "scope") != NULL);
}

/* ---- errors ---------------------------------------------------------------------------------- */

struct member {
    wf_atomic_u32 *started;
    int heard; /* plain: what it heard before its end */
};

static intptr_t work_until_told(void *arg)
{
    struct member *member = arg;
    raise_by_one(member->started);
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield();
    }
    member->heard = rc;
    return rc;
}

enum { MEMBERS = 10 };

static intptr_t fail_after_the_others_began(void *arg)
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
        CHECK_EQ(weft_scope_go(&scope, work_until_told, &members[i]), 0);
    }
    CHECK_EQ(weft_scope_go(&scope, fail_after_the_others_began, &started), 0);
    CHECK_EQ(weft_scope_close(&scope), -EIO); /* not the -ECANCELED of the others */
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(members[i].heard, -ECANCELED);
    }
    CHECK_EQ(weft_check(), 0); /* the owner is not cancelled */
    return 0;
}

static void the_first_error_cancels_the_rest(void)
{
    run_under(EVERYWHERE, fail_one_of_many);
}

static intptr_t fail_by_name(void *arg)
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
    CHECK_EQ(weft_scope_go(&inner, fail_by_name, NULL), 0);
    CHECK_EQ(weft_scope_close(&inner), -EPROTO); /* the outer one goes on */
    CHECK_EQ(weft_scope_go(&outer, echo, NULL), 0);
    CHECK_EQ(weft_scope_cancel(&outer, -ENOENT), 0);
    CHECK_EQ(weft_scope_close(&outer), -ENOENT);
    return 0;
}

static void an_error_stays_within_its_scope(void)
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
        CHECK_EQ(weft_scope_go(&scope, work_until_told, &members[i]), 0);
    }
    wait_for(&started, MEMBERS);
    CHECK_EQ(weft_scope_cancel(&scope, -ENOSPC), 0);
    CHECK_EQ(weft_scope_cancel(&scope, -EIO), 0); /* was cancelled before */
    CHECK_EQ(weft_scope_go(&scope, echo, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_close(&scope), -ENOSPC);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(members[i].heard, -ECANCELED);
    }
    return 0;
}

static void a_cancelled_scope_gives_its_error_and_takes_no_more(void)
{
    run_under(EVERYWHERE, cancel_a_scope);
}

struct outsider {
    weft_scope *scope;
    wf_atomic_u32 is_open;
};

static intptr_t own_a_scope(void *arg)
{
    struct outsider *outsider = arg;
    wf_atomic_u32 never = {0};
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, stand_by_or_leave, &never), 0);
    outsider->scope = &scope;
    raise_by_one(&outsider->is_open);
    return weft_scope_close(&scope);
}

static void cancel_from_outside(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct outsider outsider = {.scope = NULL};
    weft_task *owner = go_into(runtime, own_a_scope, &outsider);
    wait_for(&outsider.is_open, 1);
    wait_for_state(owner, WEFT_BLOCKED);
    CHECK_EQ(info_of(owner).wait, WEFT_WAIT_SCOPE);
    CHECK_EQ(weft_scope_cancel(outsider.scope, -ENOLINK), 0);
    CHECK_EQ(weft_await(owner), -ENOLINK);
}

static void a_thread_can_cancel_a_scope(void)
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
        CHECK_EQ(weft_scope_go(&scope, work_until_told, &owned->members[i]), 0);
    }
    int rc = weft_scope_close(&scope);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(owned->members[i].heard, -ECANCELED); /* all were waited for */
    }
    owned->has_closed = 1;
    return rc;
}

static intptr_t cancel_the_owner(void *arg)
{
    (void)arg;
    struct owned owned = {.has_closed = 0};
    weft_task *owner = go(own_members, &owned);
    wait_for(&owned.started, MEMBERS);
    CHECK_EQ(weft_cancel(owner), 0); /* in the close, or before it */
    CHECK_EQ(weft_await(owner), -ECANCELED);
    CHECK_EQ(owned.has_closed, 1);
    return 0;
}

static void who_cancels_the_owner_cancels_the_tasks(void)
{
    run_under(EVERYWHERE, cancel_the_owner);
}

/* ---- failing owners -------------------------------------------------------------------------- */

static void note_the_cleanup(void *arg)
{
    struct owned *owned = arg;
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(owned->members[i].heard, 0); /* newest first: it came after the scope */
    }
    owned->has_closed = 1;
}

static __attribute__((noinline)) void fail_deep_inside(struct owned *owned)
{
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, note_the_cleanup, owned);
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
        CHECK_EQ(weft_scope_go(i % 2 == 0 ? &outer : &inner, work_until_told, &owned->members[i]),
                 0);
    }
    wait_for(&owned->started, MEMBERS);
    fail_deep_inside(owned);
    return 0;
}

static intptr_t watch_an_owner_fail(void *arg)
{
    (void)arg;
    struct owned owned = {.has_closed = 0};
    weft_task *owner = go(fail_with_open_scopes, &owned);
    CHECK_EQ(weft_await(owner), -EBADMSG);
    CHECK_EQ(owned.has_closed, 1);
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(owned.members[i].heard, -ECANCELED); /* ended before the owner */
    }
    return 0;
}

static void a_failing_owner_closes_its_scopes(void)
{
    run_under(EVERYWHERE, watch_an_owner_fail);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static intptr_t be_late_in_a_scope(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    struct member member = {&started, 0};
    weft_scope scope;
    const weft_scope_options options = {.deadline = 1}; /* long ago */
    CHECK_EQ(weft_scope_open(&scope, &options), 0);
    CHECK_EQ(weft_check(), -ETIMEDOUT); /* the owner's too */
    CHECK_EQ(weft_scope_go(&scope, work_until_told, &member), 0);
    CHECK_EQ(weft_scope_close(&scope), -ETIMEDOUT);
    /* By its own look at the clock, or by the owner, who cancels when its close is out of time. */
    CHECK(member.heard == -ETIMEDOUT || member.heard == -ECANCELED);
    CHECK_EQ(weft_check(), 0); /* until close */
    CHECK_EQ(weft_deadline(WEFT_NEVER), WEFT_NEVER);
    return 0;
}

static void the_deadline_of_a_scope_holds_for_owner_and_tasks(void)
{
    run_under(EVERYWHERE, be_late_in_a_scope);
}

static intptr_t give_left_time(void *arg)
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
        CHECK_EQ(weft_scope_go(&inner, give_left_time, &seen), 0);
        CHECK_EQ(weft_scope_close(&inner), 0);
        CHECK_EQ(seen, rows[i].effective);
        CHECK_EQ(weft_scope_close(&outer), 0);
        CHECK_EQ(info_of(weft_self()).deadline, WEFT_NEVER);
    }
    return 0;
}

static void of_two_deadlines_the_tighter_wins(void)
{
    run_under(EVERYWHERE, nest_deadlines);
}

static intptr_t let_a_scope_run_out_of_time(void *arg)
{
    (void)arg;
    wf_atomic_u32 never = {0};
    weft_scope scope;
    const weft_scope_options options = {.deadline = wf_clock_now() + 2000000};
    CHECK_EQ(weft_scope_open(&scope, &options), 0);
    CHECK_EQ(weft_scope_go(&scope, stand_by_or_leave, &never), 0);
    CHECK_EQ(weft_scope_close(&scope), -ETIMEDOUT); /* nothing else ends its task */
    return 0;
}

static void a_scope_ends_when_its_time_is_over(void)
{
    run_under(EVERYWHERE, let_a_scope_run_out_of_time);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_close_waits_for_all_tasks),
    TAP_TEST(tasks_of_a_scope_start_others_in_it),
    TAP_TEST(scopes_nest_within_a_task_and_below_it),
    TAP_TEST(a_scope_ends_with_its_block),
    TAP_TEST(only_the_owner_closes),
    TAP_TEST(the_innermost_scope_is_closed_first),
    TAP_TEST(a_task_that_ends_with_an_open_scope_is_stopped),
    TAP_TEST(the_first_error_cancels_the_rest),
    TAP_TEST(an_error_stays_within_its_scope),
    TAP_TEST(a_cancelled_scope_gives_its_error_and_takes_no_more),
    TAP_TEST(a_thread_can_cancel_a_scope),
    TAP_TEST(who_cancels_the_owner_cancels_the_tasks),
    TAP_TEST(a_failing_owner_closes_its_scopes),
    TAP_TEST(the_deadline_of_a_scope_holds_for_owner_and_tasks),
    TAP_TEST(of_two_deadlines_the_tighter_wins),
    TAP_TEST(a_scope_ends_when_its_time_is_over),
};
TAP_MAIN(tests)
