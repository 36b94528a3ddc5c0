/* SPDX-License-Identifier: MIT */
/*
 * Goal:   each task has its own value for a key, which is destroyed when the task ends.
 * Method: tasks that store, read and destroy values of the same keys; all keys are used up.
 */
#include <stdlib.h>
#include <string.h>

#include "sched_helpers.h"

static weft_key key;
static weft_key plain_key;
static wf_atomic_u32 destroyed;

static void destroy(void *value)
{
    int *number = value;
    CHECK_EQ(*number, 7);
    free(value);
    raise_by_one(&destroyed);
}

static intptr_t keep_values(void *arg)
{
    CHECK(weft_key_slot(key) != NULL);
    CHECK(*weft_key_slot(key) == NULL);
    CHECK(*weft_key_slot(plain_key) == NULL);
    int *number = malloc(sizeof(*number));
    CHECK(number != NULL);
    *number = 7;
    *weft_key_slot(key) = number;
    *weft_key_slot(plain_key) = arg;
    for (int i = 0; i < 10; i++) {
        (void)weft_yield();
        CHECK(*weft_key_slot(key) == number);
        CHECK(*weft_key_slot(plain_key) == arg);
    }
    return 0;
}

static intptr_t leave_value_null(void *arg)
{
    (void)arg;
    CHECK(*weft_key_slot(key) == NULL); /* a NULL value is not destroyed */
    return 0;
}

static intptr_t spawn_keepers(void *arg)
{
    (void)arg;
    enum { KEEPERS = 20 };
    weft_task *tasks[KEEPERS + 1];
    wf_store_relaxed(&destroyed, 0);
    for (int i = 0; i < KEEPERS; i++) {
        tasks[i] = go(keep_values, &tasks[i]);
    }
    tasks[KEEPERS] = go(leave_value_null, NULL);
    CHECK_EQ(weft_await_all(tasks, KEEPERS + 1, NULL), 0);
    CHECK(*weft_key_slot(key) == NULL);
    CHECK_EQ(wf_load_acquire(&destroyed), KEEPERS); /* before the awaiters continue */
    return 0;
}

/* part of S2.9, S2.50 */
static void task_local_values_belong_to_their_task(void)
{
    CHECK_EQ(weft_key_create(&key, destroy), 0);
    CHECK_EQ(weft_key_create(&plain_key, NULL), 0);
    run_under(EVERYWHERE, spawn_keepers);
}

static intptr_t ask_for_unknown_keys(void *arg)
{
    const weft_key *last = arg;
    CHECK(weft_key_slot(*last) != NULL);
    CHECK(weft_key_slot(1000) == NULL);
    CHECK(weft_key_slot(UINT32_MAX) == NULL);
    return 0;
}

static void key_create_fails_after_64_keys(void)
{
    weft_key last = 0;
    for (int i = 0; i < 64; i++) {
        CHECK_EQ(weft_key_create(&last, NULL), 0);
    }
    weft_key none = 4711;
    CHECK_EQ(weft_key_create(&none, NULL), -EAGAIN);
    CHECK_EQ(none, 4711);
    CHECK(weft_key_slot(last) == NULL); /* not inside a task */
    CHECK_EQ(weft_run(ask_for_unknown_keys, &last, NULL), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(task_local_values_belong_to_their_task),
    TAP_TEST(key_create_fails_after_64_keys),
};
TAP_MAIN(tests)
