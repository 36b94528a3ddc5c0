/* SPDX-License-Identifier: MIT */
/*
 * sync_helpers.h - common code of tests of locks and other waits: a wait that is cancelled, exceeds
 * its deadline, or belongs to a task that a forced close ends; and non-worker threads.
 */
#ifndef SYNC_HELPERS_H
#define SYNC_HELPERS_H

#include <pthread.h>

#include "future/future.h"
#include "sched_helpers.h"

/* A call that waits in the current state of its object. */
struct sync_wait {
    int (*call)(void *object);
    void *object;
    enum weft_wait kind;
};

static inline intptr_t call_wait(void *arg)
{
    const struct sync_wait *wait = arg;
    return wait->call(wait->object);
}

static inline intptr_t call_wait_until_deadline(void *arg)
{
    const struct sync_wait *wait = arg;
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    int rc = wait->call(wait->object);
    CHECK(rc != -ETIMEDOUT || weft_now() >= weft_deadline_set(WEFT_NEVER));
    return rc;
}

static inline intptr_t call_wait_after_deadline(void *arg)
{
    const struct sync_wait *wait = arg;
    (void)weft_deadline_set(weft_time_after(-1));
    return wait->call(wait->object);
}

/* [task]  Returns when the task waits in that call. */
static inline void wait_until_blocked_in(const weft_task *task, const struct sync_wait *wait)
{
    wait_for_state(task, WEFT_TASK_BLOCKED);
    weft_task_info info = info_of(task);
    CHECK_EQ(info.wait, wait->kind);
    CHECK(info.wait_object == wait->object);
}

/* [task]  Checks that a cancel and a deadline end the wait. */
static inline void check_ends_of_wait(const struct sync_wait *wait)
{
    struct sync_wait copy = *wait;
    weft_task *task = go(call_wait, &copy);
    wait_until_blocked_in(task, wait);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_await(go(call_wait_until_deadline, &copy)), -ETIMEDOUT);
    CHECK_EQ(weft_await(go(call_wait_after_deadline, &copy)), -ETIMEDOUT);
}

/* ---- forced close ---------------------------------------------------------------------------- */

static inline intptr_t call_wait_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return call_wait(arg); /* never returns: the runtime is closed by force */
}

/* A runtime with a task that waits and cannot be cancelled. */
struct blocked {
    weft_runtime *runtime;
    weft_task *task;
    wf_atomic_u32 is_busy;
};

static inline void start_blocked(struct blocked *blocked, struct sync_wait *wait)
{
    static const struct setting one = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_runtime_options options = options_of(&one);
    CHECK_EQ(weft_runtime_open(&blocked->runtime, &options), 0);
    wf_atomic_init(&blocked->is_busy, 0);
    blocked->task = go_into(blocked->runtime, call_wait_shielded, wait);
    wait_for_state(blocked->task, WEFT_TASK_BLOCKED);
}

static inline intptr_t occupy_until_close(void *arg)
{
    struct blocked *blocked = arg;
    raise_by_one(&blocked->is_busy);
    while (wf_load_acquire(&blocked->runtime->shutdown.exit_mode) != WF_EXIT_NOW) {
        (void)sched_yield();
    }
    return 0;
}

/* After this no other task runs there: the task cannot take what it is granted. */
static inline void occupy_worker(struct blocked *blocked)
{
    CHECK_EQ(weft_runtime_spawn(blocked->runtime, NULL, occupy_until_close, blocked, NULL), 0);
    wait_for(&blocked->is_busy, 1);
}

static inline void close_by_force(struct blocked *blocked)
{
    CHECK_EQ(weft_runtime_close(blocked->runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(blocked->task), -ECANCELED);
}

/* ---- non-worker threads ---------------------------------------------------------------------- */

static inline pthread_t start_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

static inline void join_thread(pthread_t thread)
{
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

#endif
