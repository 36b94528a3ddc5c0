/* SPDX-License-Identifier: MIT */
/*
 * sync_aids.h - what tests of locks and the like have in common: a wait that is cancelled, or runs
 * out of time, or belongs to a task that a forced close ends; and foreign threads that join in.
 */
#ifndef SYNC_AIDS_H
#define SYNC_AIDS_H

#include <pthread.h>

#include "sched/sched.h"
#include "sched_aids.h"

/* A call that waits, as things stand. */
struct sync_wait {
    int (*call)(void *object);
    void *object;
    enum weft_wait kind;
};

static inline intptr_t call_it(void *arg)
{
    const struct sync_wait *wait = arg;
    return wait->call(wait->object);
}

static inline intptr_t call_it_until_deadline(void *arg)
{
    const struct sync_wait *wait = arg;
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    int rc = wait->call(wait->object);
    CHECK(rc != -ETIMEDOUT || weft_now() >= weft_deadline(WEFT_NEVER));
    return rc;
}

static inline intptr_t call_it_after_deadline(void *arg)
{
    const struct sync_wait *wait = arg;
    (void)weft_deadline(weft_in(-1));
    return wait->call(wait->object);
}

/* [task]  Until the task waits there. */
static inline void wait_until_inside(const weft_task *task, const struct sync_wait *wait)
{
    wait_for_state(task, WEFT_BLOCKED);
    weft_info info = info_of(task);
    CHECK_EQ(info.wait, wait->kind);
    CHECK(info.wait_object == wait->object);
}

/* [task]  What a cancel and a deadline do to the wait. */
static inline void check_ends_of_wait(const struct sync_wait *wait)
{
    struct sync_wait copy = *wait;
    weft_task *task = go(call_it, &copy);
    wait_until_inside(task, wait);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_await(go(call_it_until_deadline, &copy)), -ETIMEDOUT);
    CHECK_EQ(weft_await(go(call_it_after_deadline, &copy)), -ETIMEDOUT);
}

/* ---- forced ends ----------------------------------------------------------------------------- */

static inline intptr_t call_it_shielded(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
    return call_it(arg); /* never returns: the runtime is closed by force */
}

/* A runtime with a task that waits and cannot be cancelled. */
struct doomed {
    weft_runtime *runtime;
    weft_task *task;
    wf_atomic_u32 is_busy;
};

static inline void doom(struct doomed *doomed, struct sync_wait *wait)
{
    static const struct setting one = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_options options = options_of(&one);
    CHECK_EQ(weft_runtime_open(&doomed->runtime, &options), 0);
    wf_atomic_init(&doomed->is_busy, 0);
    doomed->task = go_into(doomed->runtime, call_it_shielded, wait);
    wait_for_state(doomed->task, WEFT_BLOCKED);
}

static inline intptr_t keep_worker_until_the_end(void *arg)
{
    struct doomed *doomed = arg;
    raise_by_one(&doomed->is_busy);
    while (wf_load_acquire(&doomed->runtime->is_leaving) != WF_LEAVE_NOW) {
        (void)sched_yield();
    }
    return 0;
}

/* From now on nothing else runs there: what is granted to the task is noticed by nobody. */
static inline void keep_busy(struct doomed *doomed)
{
    CHECK_EQ(weft_runtime_spawn(doomed->runtime, NULL, keep_worker_until_the_end, doomed, NULL), 0);
    wait_for(&doomed->is_busy, 1);
}

static inline void close_by_force(struct doomed *doomed)
{
    CHECK_EQ(weft_runtime_close(doomed->runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(doomed->task), -ECANCELED);
}

/* ---- foreign threads ------------------------------------------------------------------------- */

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
