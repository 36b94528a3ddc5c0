/* SPDX-License-Identifier: MIT */
/*
 * future/combine.c - futures that wait for other futures.
 *
 * A task that is woken polls all branches that are not done: a wake-up does not say which branch it
 * is for.  Each pass begins behind the branch that was ready last, so that no ready branch starves.
 */
#include <errno.h>

#include "future/future.h"

static weft_join_future *join_of(weft_future *future)
{
    return wf_container_of(future, weft_join_future, future);
}

/* Drops all branches that are not done. */
static void join_drop_rest(weft_join_future *join)
{
    for (size_t i = 0; i < join->count; i++) {
        if (!join->branches[i].is_done) {
            weft_future_drop(join->branches[i].future);
        }
    }
}

/* Ends the join: it has no branches after this. */
static weft_poll_result join_end(weft_join_future *join, intptr_t value, intptr_t *result)
{
    if (join->kind != WEFT_JOIN_SELECT) {
        join_drop_rest(join);
    }
    join->count = 0;
    *result = value;
    return WEFT_POLL_READY;
}

static void join_drop(weft_future *future)
{
    intptr_t ignored;
    (void)join_end(join_of(future), 0, &ignored);
}

/* All branches are done.  Returns the first error in array order, or 0. */
static intptr_t join_first_error(const weft_join_future *join)
{
    for (size_t i = 0; i < join->count; i++) {
        if (join->branches[i].result < 0) {
            return join->branches[i].result;
        }
    }
    return 0;
}

/* The branch is done.  True: the join is done too, whatever the other branches do. */
static bool join_is_decided(const weft_join_future *join, const weft_branch *branch)
{
    return join->kind == WEFT_JOIN_RACE || join->kind == WEFT_JOIN_SELECT ||
           (join->kind == WEFT_JOIN_TRY_ALL && branch->result < 0);
}

static weft_poll_result join_poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    weft_join_future *join = join_of(future);
    const bool is_for_one = join->kind == WEFT_JOIN_RACE || join->kind == WEFT_JOIN_SELECT;
    const size_t first = join->turn;
    size_t waiting = 0;
    for (size_t i = 0; i < join->count; i++) {
        const size_t index = (first + i) % join->count;
        weft_branch *branch = &join->branches[index];
        if (branch->is_done) {
            continue;
        }
        if (weft_future_poll(branch->future, cx, &branch->result) == WEFT_POLL_PENDING) {
            waiting++;
            continue;
        }
        branch->is_done = true;
        join->turn = index + 1;
        if (join_is_decided(join, branch)) {
            return join_end(join, is_for_one ? (intptr_t)index : branch->result, result);
        }
    }
    if (waiting > 0) {
        return WEFT_POLL_PENDING;
    }
    return join_end(
        join, is_for_one ? (join->count > 0 ? -ENOENT : -EINVAL) : join_first_error(join), result);
}

void weft_join_future_init(weft_join_future *future, enum weft_join_kind kind,
                           weft_branch *branches, size_t count)
{
    WF_NOT_NULL(future, "weft_join_future_init: future is NULL");
    WF_RULE_CHECKED(count == 0 || branches != NULL, "weft_join_future_init: branches is NULL");
    *future = (weft_join_future){
        .future = {.poll = join_poll, .drop = join_drop},
        .branches = branches,
        .count = count,
        .kind = kind,
    };
}

/* ---- timeouts ----------------------------------------------------------------------------- */

static weft_timeout_future *timeout_of(weft_future *future)
{
    return wf_container_of(future, weft_timeout_future, future);
}

static void timeout_drop(weft_future *future)
{
    weft_timeout_future *timeout = timeout_of(future);
    weft_future_drop(&timeout->clock.future);
    weft_future_drop(timeout->inner);
    timeout->inner = NULL;
}

static weft_poll_result timeout_poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    weft_timeout_future *timeout = timeout_of(future);
    if (timeout->inner == NULL) {
        *result = -EINVAL;
        return WEFT_POLL_READY;
    }
    if (weft_future_poll(timeout->inner, cx, result) == WEFT_POLL_READY) {
        timeout->inner = NULL;
        weft_future_drop(&timeout->clock.future);
        return WEFT_POLL_READY;
    }
    intptr_t rc = 0;
    if (weft_future_poll(&timeout->clock.future, cx, &rc) == WEFT_POLL_PENDING) {
        return WEFT_POLL_PENDING;
    }
    timeout_drop(future);
    *result = rc != 0 ? rc : -ETIMEDOUT;
    return WEFT_POLL_READY;
}

void weft_timeout_future_init(weft_timeout_future *future, weft_future *inner, weft_time at)
{
    WF_NOT_NULL(future, "weft_timeout_future_init: future is NULL");
    WF_NOT_NULL(inner, "weft_timeout_future_init: inner is NULL");
    *future = (weft_timeout_future){.future = {.poll = timeout_poll, .drop = timeout_drop},
                                    .inner = inner};
    weft_sleep_future_init(&future->clock, at);
}
