/* SPDX-License-Identifier: MIT */
/*
 * runtime/upcalls.c - the table through which lower layers call higher ones.
 *
 * This layer sees all layers whose functions are in the table, so the table is filled here.  There
 * is only this table, and it is constant.  A call through it costs one load more than a direct
 * call; that load is from a cache line that every switch uses.
 */
#include "runtime/runtime.h"

static void upcall_queue_shrunk(weft_runtime *runtime, size_t count)
{
    wf_limit_wake(runtime, WF_LIMIT_QUEUE, count);
}

static void upcall_job_begin(weft_runtime *runtime, struct wf_node *job)
{
    wf_blocking_begin(runtime->blocking, wf_container_of(job, struct wf_job, node));
}

static void upcall_job_end(weft_runtime *runtime, struct wf_node *job)
{
    wf_blocking_end(runtime->blocking, wf_container_of(job, struct wf_job, node));
}

static void upcall_job_abandon(weft_runtime *runtime, struct wf_node *job)
{
    wf_blocking_abandon(runtime->blocking, wf_container_of(job, struct wf_job, node));
}

const struct wf_upcalls wf_upcalls = {
    .task_finish = wf_task_finish,
    .task_abandon = wf_task_abandon,
    .queue_shrunk = upcall_queue_shrunk,
    .job_begin = upcall_job_begin,
    .job_end = upcall_job_end,
    .job_abandon = upcall_job_abandon,
    .no_forks = &wf_forks_outside,
    .forks_release = wf_forks_release,
    .forks_cut = wf_forks_cut,
    .forks_forget = wf_forks_forget,
    .fork_steal = wf_fork_steal,
    .fork_is_open = wf_fork_is_open,
    .forks_request_all = wf_forks_request_all,
    .poll_call = wf_poll_call,
    .poll_done = wf_poll_done,
    .quiescence_is_due = wf_quiescence_is_due,
    .quiescence_report = wf_quiescence_report,
    .quiescence_request = wf_quiescence_request,
    .misuse = wf_misuse,
};
