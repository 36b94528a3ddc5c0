/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a watch shows its newest value complete, with its version; a waiter sees a new version; a
 *         borrowed value does not change; modifications are not lost; no writer waits for a reader.
 * Method: one thread with several borrows; then concurrent writers, readers and modifiers, with
 *         values in which every part must agree.
 */
#include "abandon_helpers.h"
#include "chan_helpers.h"
#include "fault_helpers.h"

/* All parts of a complete value hold the same number. */
struct value {
    uint64_t parts[5];
};

static struct value value_of(uint64_t number)
{
    return (struct value){{number, number, number, number, number}};
}

static uint64_t number_of(const struct value *value)
{
    for (int i = 1; i < 5; i++) {
        CHECK_EQ(value->parts[i], value->parts[0]);
    }
    return value->parts[0];
}

static weft_watch *watch_of(uint64_t number)
{
    weft_watch *watch = NULL;
    const struct value value = value_of(number);
    CHECK_EQ(weft_watch_new(&watch, sizeof(value), &value), 0);
    return watch;
}

static int set(weft_watch *watch, uint64_t number)
{
    const struct value value = value_of(number);
    return weft_watch_set(watch, &value);
}

static uint64_t get(weft_watch *watch, uint64_t *version)
{
    struct value value;
    CHECK_EQ(weft_watch_get(watch, &value, version), 0);
    return number_of(&value);
}

static bool add_one(void *arg, void *unused)
{
    struct value *value = arg;
    (void)unused;
    *value = value_of(number_of(value) + 1);
    return true;
}

static bool change_nothing(void *arg, void *unused)
{
    struct value *value = arg;
    (void)unused;
    *value = value_of(99);
    return false;
}

static void watch_refuses_bad_arguments(void)
{
    weft_watch *watch = NULL;
    struct value value = value_of(1);
    CHECK_EQ(weft_watch_new(&watch, 0, &value), -EINVAL);
    CHECK_EQ(weft_watch_new(&watch, WEFT_CHAN_ITEM_SIZE_MAX + 1, &value), -EINVAL);
    CHECK(watch == NULL);
    weft_watch_unref(NULL);
    watch = watch_of(1);
    weft_watch_unref(watch);
}

static void watch_numbers_every_version(void)
{
    weft_watch *watch = watch_of(10);
    uint64_t seen = 0;
    uint64_t version = 0;
    CHECK_EQ(weft_watch_version(watch), 1);
    CHECK_EQ(weft_watch_wait(watch, &seen), 0); /* the first version is new, too */
    CHECK_EQ(seen, 1);
    CHECK_EQ(set(watch, 11), 0);
    CHECK_EQ(set(watch, 12), 0);
    CHECK_EQ(weft_watch_wait(watch, &seen), 0);
    CHECK_EQ(seen, 3); /* one version was missed */
    CHECK_EQ(get(watch, &version), 12);
    CHECK_EQ(version, 3);
    CHECK_EQ(weft_watch_modify(watch, add_one, NULL), 1);
    CHECK_EQ(get(watch, &version), 13);
    CHECK_EQ(version, 4);
    CHECK_EQ(weft_watch_modify(watch, change_nothing, NULL), 0);
    CHECK_EQ(get(watch, &version), 13);
    CHECK_EQ(version, 4);
    CHECK_EQ(weft_watch_close(watch), 0);
    CHECK_EQ(weft_watch_close(watch), -EPIPE);
    CHECK_EQ(set(watch, 1), -EPIPE);
    CHECK_EQ(weft_watch_modify(watch, add_one, NULL), -EPIPE);
    CHECK_EQ(weft_watch_wait(watch, &seen), 0); /* the value before the close */
    CHECK_EQ(weft_watch_wait(watch, &seen), -EPIPE);
    CHECK_EQ(get(watch, NULL), 13);
    weft_watch *other = weft_watch_ref(watch);
    weft_watch_unref(watch);
    CHECK_EQ(get(other, NULL), 13);
    weft_watch_unref(other);
}

static void watch_borrowed_value_does_not_change(void)
{
    weft_watch *watch = watch_of(1);
    const void *borrowed[6];
    uint64_t version = 0;
    for (uint64_t n = 1; n <= 6; n++) {
        borrowed[n - 1] = weft_watch_borrow(watch, &version);
        CHECK_EQ(version, n);
        CHECK_EQ(n % 2 == 0 ? set(watch, n + 1) : weft_watch_modify(watch, add_one, NULL), n % 2);
    }
    for (uint64_t n = 1; n <= 6; n++) {
        CHECK_EQ(number_of(borrowed[n - 1]), n);
    }
    const void *first = weft_watch_borrow(watch, NULL);
    const void *second = weft_watch_borrow(watch, NULL);
    CHECK(first == second); /* not copied */
    CHECK_EQ(weft_watch_close(watch), 0);
    CHECK_EQ(set(watch, 50), -EPIPE); /* with a block of its own, which the failed set frees */
    weft_watch_return(watch, first);
    CHECK_EQ(number_of(second), 7);
    weft_watch_return(watch, second);
    for (int i = 5; i >= 0; i--) {
        weft_watch_return(watch, borrowed[i]);
    }
    weft_watch_unref(watch);
}

static void watch_without_memory_changes_nothing(void)
{
    struct faults faults = {0};
    while (faults_next(&faults)) {
        weft_watch *watch = NULL;
        const struct value value = value_of(1);
        faults_begin(&faults);
        const int rc = weft_watch_new(&watch, sizeof(value), &value);
        const void *borrowed = watch != NULL ? weft_watch_borrow(watch, NULL) : NULL;
        const int rc_set = watch != NULL ? set(watch, 2) : rc;
        const int rc_modify = watch != NULL ? weft_watch_modify(watch, add_one, NULL) : rc;
        faults_end(&faults);
        CHECK((rc == 0) == (watch != NULL));
        CHECK(rc_set == 0 || rc_set == -ENOMEM);
        CHECK(rc_modify == 1 || rc_modify == -ENOMEM);
        if (watch != NULL) {
            CHECK_EQ(number_of(borrowed), 1);
            CHECK_EQ(get(watch, NULL), 1u + (rc_set == 0) + (rc_modify == 1));
            weft_watch_return(watch, borrowed);
        }
        faults.refused += rc != 0 || rc_set != 0 || rc_modify != 1 ? 1 : 0;
        weft_watch_unref(watch);
    }
    CHECK(faults.refused >= 6);
}

/* ---- waiting --------------------------------------------------------------------------------- */

struct watcher {
    weft_watch *watch;
    uint64_t last; /* the number that it saw last */
};

/* Reads until the close: numbers and versions only grow, and the last one is seen. */
static intptr_t watch_it(void *arg)
{
    struct watcher *watcher = arg;
    uint64_t seen = 0;
    int rc;
    while ((rc = weft_watch_wait(watcher->watch, &seen)) == 0) {
        uint64_t version = 0;
        const void *value = weft_watch_borrow(watcher->watch, &version);
        CHECK(version >= seen);
        CHECK_EQ(number_of(value), version);
        CHECK(version > watcher->last);
        watcher->last = version;
        seen = version;
        weft_watch_return(watcher->watch, value);
    }
    CHECK_EQ(rc, -EPIPE);
    return 0;
}

static void *watch_in_thread(void *arg)
{
    (void)watch_it(arg);
    return NULL;
}

static intptr_t modify_often(void *arg)
{
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_watch_modify(arg, add_one, NULL), 1);
    }
    return 0;
}

static void watch_while_it_changes(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    weft_watch *watch = watch_of(1); /* the number equals the version */
    struct watcher watchers[4];
    weft_task *tasks[3];
    weft_task *writers[2];
    pthread_t thread;
    for (int i = 0; i < 4; i++) {
        watchers[i] = (struct watcher){.watch = watch};
    }
    for (int i = 0; i < 3; i++) {
        tasks[i] = go_into(runtime, watch_it, &watchers[i]);
    }
    CHECK_EQ(wf_thread_start(&thread, watch_in_thread, &watchers[3], NULL), 0);
    for (int i = 0; i < 2; i++) {
        writers[i] = go_into(runtime, modify_often, watch);
    }
    CHECK_EQ(weft_await_all(writers, 2, NULL), 0);
    CHECK_EQ(get(watch, NULL), 401); /* no modification is lost */
    CHECK_EQ(weft_watch_close(watch), 0);
    CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(watchers[i].last, 401);
    }
    weft_watch_unref(watch);
}

static void watch_waiters_see_complete_values_and_the_last(void)
{
    open_under(EVERYWHERE, watch_while_it_changes);
}

static intptr_t wait_for_version(void *arg)
{
    uint64_t seen = 1;
    return weft_watch_wait(arg, &seen);
}

static intptr_t end_the_waits(void *arg)
{
    (void)arg;
    enum { MANY_TASKS = 50 }; /* more than one wake-up batch */
    weft_watch *watch = watch_of(1);
    weft_task *tasks[MANY_TASKS];
    weft_task *task = go(wait_for_version, watch);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_RECEIVE);
    CHECK(info_of(task).wait_object == watch);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(wait_for_version(watch), -ETIMEDOUT);
    CHECK_EQ(wait_for_version(watch), -ETIMEDOUT);
    weft_deadline_set(WEFT_NEVER);
    for (int i = 0; i < MANY_TASKS; i++) {
        tasks[i] = go(wait_for_version, watch);
    }
    for (int i = 0; i < MANY_TASKS; i++) {
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
    }
    CHECK_EQ(set(watch, 5), 0);
    CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
    weft_watch_unref(watch);
    return 0;
}

static void watch_wait_ends_by_set_cancel_and_deadline(void)
{
    run_under(EVERYWHERE, end_the_waits);
}

static intptr_t wait_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    (void)wait_for_version(arg);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

static void watch_forced_close_removes_the_waiter(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_watch *watch = watch_of(1);
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, wait_shielded, watch);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(set(watch, 2), 0); /* no task waits */
        weft_watch_unref(watch);
    }
}

static bool add_one_and_yield(void *value, void *arg)
{
    CHECK_EQ(weft_yield(), 0);
    return add_one(value, arg);
}

static bool fail_to_add(void *value, void *arg)
{
    (void)value;
    (void)arg;
    weft_fail(-EIO, "no more of this");
}

static intptr_t modify_and_yield(void *arg)
{
    return weft_watch_modify(arg, add_one_and_yield, NULL);
}

static intptr_t modify_and_fail(void *arg)
{
    return weft_watch_modify(arg, fail_to_add, NULL);
}

static intptr_t await_failed_modify(void *arg)
{
    CHECK_EQ(weft_await(go(modify_and_fail, arg)), -EIO);
    return 0;
}

static void watch_modify_whose_function_never_returns_frees_its_copy(void)
{
    const uint64_t at_first = blocks_out();
    weft_watch *watch = watch_of(1);
    CHECK_EQ(weft_run(await_failed_modify, watch, NULL), 0);
    abandon_in_yield(modify_and_yield, watch);
    CHECK_EQ(weft_watch_modify(watch, add_one, NULL), 1);
    weft_watch_unref(watch);
    CHECK_EQ(blocks_out(), at_first);
}

static const struct tap_test tests[] = {
    TAP_TEST(watch_refuses_bad_arguments),
    TAP_TEST(watch_numbers_every_version),
    TAP_TEST(watch_borrowed_value_does_not_change),
    TAP_TEST(watch_without_memory_changes_nothing),
    TAP_TEST(watch_waiters_see_complete_values_and_the_last),
    TAP_TEST(watch_wait_ends_by_set_cancel_and_deadline),
    TAP_TEST(watch_forced_close_removes_the_waiter),
    TAP_TEST(watch_modify_whose_function_never_returns_frees_its_copy),
};
TAP_MAIN(tests)
