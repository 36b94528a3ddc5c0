/* SPDX-License-Identifier: MIT */
/*
 * sched/prefetch.c - bringing into the CPU's cache what the next tasks need.
 *
 * With more tasks than the cache holds, a switch waits for memory: the task, its fiber, its frames.
 * Fetching several at once costs little more than fetching one.  bench/README.md has the figures
 * (yield-1000, echo-1000).  wf_prefetch_next and the prefetching of events (io/prefetch.h) together
 * reduced the CPU time of one request of echo-1000 from 7.3 to 5.9 us, when they were introduced
 * (lower quartiles of 41 interleaved runs).  Their separate effects were not measured.
 */
#include "sched/ready.h"

void wf_prefetch_chain(const struct wf_chain *chain)
{
    for (struct wf_node *node = chain->first; node != NULL; node = node->next) {
        __builtin_prefetch(wf_task_of(node)->fiber);
    }
    for (struct wf_node *node = chain->first; node != NULL; node = node->next) {
        const struct wf_fiber *fiber = wf_task_of(node)->fiber;
        if (fiber != NULL) {
            for (size_t i = 0; i < WF_PREFETCH_LINES; i++) {
                __builtin_prefetch((const char *)fiber->stack_pointer + i * WF_CACHE_LINE);
            }
        }
    }
}

void wf_prefetch_next(struct wf_worker *worker)
{
    struct wf_runq *runq = &worker->runq;
    if (runq->mode != WF_RUNQ_FAIR || !wf_bias_enter(&runq->bias)) {
        return; /* a thief may take the task and resume it meanwhile */
    }
    const struct weft_task *next = wf_task_of(wf_runq_peek(runq, 0));
    const struct weft_task *second = wf_task_of(wf_runq_peek(runq, 1));
    if (next != NULL && next->fiber != NULL) {
        const char *frame = next->fiber->stack_pointer;
        /* Every second line: the CPU fetches its neighbour too. */
        for (size_t i = 0; i < WF_PREFETCH_LINES_IO; i += 2) {
            __builtin_prefetch(frame + i * WF_CACHE_LINE, 1);
        }
        __builtin_prefetch(&next->wait_record.object, 1);
    }
    if (second != NULL) {
        __builtin_prefetch(second->fiber, 1); /* its frames are fetched the next time */
    }
    wf_bias_exit(&runq->bias);
}
