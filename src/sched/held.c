/* SPDX-License-Identifier: MIT */
/*
 * sched/held.c - what a task holds when it ends.
 *
 * A lock whose owner is gone would keep everybody else waiting for ever.  So a task knows what it
 * holds, by a list that goes through the locks and is touched by nobody else, and when it ends,
 * however it does, it lets go of what is left.  Nobody knows whether what a lock protects is whole
 * then: it is reported, once for each task, in the same way as a failure that nobody saw.
 *
 * The head of the list lies where the result will be: a task that has one does not hold anything
 * any more.
 */
#include "sched/fast.h"
#include "sched/sched.h"

void wf_held_release(struct weft_task *task)
{
    size_t count = 0;
    const void *newest = task->held;
    while (task->held != NULL) {
        struct wf_held *held = task->held;
        wf_held_remove(task, held);
        held->release(held, task);
        count++;
    }
    wf_failure_note_held(task, newest, count);
}
