/* SPDX-License-Identifier: MIT */
/*
 * abandon_helpers.h - a forced close that abandons a task while it yields.
 *
 * A call that has used up the budget of its task yields, and waits for nothing: no hook of a wait
 * is registered then.  The runtime has one worker.  When the task yields, its worker runs the
 * holder, which keeps the thread until the close has told the worker to leave.  The holder also
 * leaves a ready task of high priority behind: with that the worker takes no task directly, but
 * returns to its loop, and there it leaves.  So the task stays suspended in its yield.
 */
#ifndef ABANDON_HELPERS_H
#define ABANDON_HELPERS_H

#include "future/future.h"
#include "sched_helpers.h"

struct yielding {
    weft_fn call; /* made until the budget is used up, so it must spend some */
    void *arg;
    weft_runtime *runtime;
    wf_atomic_u32 is_held;
};

static inline intptr_t hold_until_the_worker_leaves(void *arg)
{
    static const weft_task_options high = {.priority = WEFT_PRIORITY_HIGH};
    struct yielding *yielding = arg;
    CHECK_EQ(weft_spawn(NULL, echo, NULL, &high), 0);
    raise_by_one(&yielding->is_held);
    while (wf_load_acquire(&yielding->runtime->shutdown.exit_mode) ==
           WF_EXIT_NOT) { /* from the closer */
        (void)sched_yield();
    }
    return 0;
}

static inline intptr_t call_until_abandoned(void *arg)
{
    struct yielding *yielding = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    CHECK_EQ(weft_spawn(NULL, hold_until_the_worker_leaves, yielding, NULL), 0);
    for (;;) { /* ends: the task is abandoned */
        const intptr_t rc = yielding->call(yielding->arg);
        CHECK(rc >= 0);
    }
    return 0;
}

/* [non-worker thread]  Makes the call in a task again and again, and closes the runtime by force
 * when the call has yielded. */
static inline void abandon_in_yield(weft_fn call, void *arg)
{
    static const struct setting one = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    struct yielding yielding = {.call = call, .arg = arg};
    weft_runtime_options options = options_of(&one);
    options.no_monitor = true; /* it would start a spare worker for the held one */
    CHECK_EQ(weft_runtime_open(&yielding.runtime, &options), 0);
    weft_task *task = go_into(yielding.runtime, call_until_abandoned, &yielding);
    wait_for(&yielding.is_held, 1);
    CHECK_EQ(weft_runtime_close(yielding.runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
}

#endif
