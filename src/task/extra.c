/* SPDX-License-Identifier: MIT */
/*
 * task/extra.c - what few tasks have: extras, with a name, and options that differ from the
 * defaults.
 *
 * Memory for the extras is allocated when a task first needs it, and stays with the memory of the
 * task.  A task that had options is reset before its memory is used again, so that a spawn without
 * options writes none of these fields.
 */
#include <string.h>

#include "task/pool.h"

struct wf_task_extra *wf_task_extra(struct weft_task *task)
{
    struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: the caller writes it */
    if (extra == NULL) {
        extra = wf_alloc_zeroed(1, sizeof(*extra));
        wf_store_release(&task->extra, extra); /* release: a dump reads the name */
    }
    return extra;
}

void wf_task_name_put(struct wf_task_extra *extra, const char *name)
{
    uint64_t words[WEFT_TASK_NAME_SIZE / sizeof(uint64_t)] = {0};
    if (name != NULL) {
        memcpy(words, name, strnlen(name, WEFT_TASK_NAME_SIZE - 1));
    }
    for (size_t i = 0; i < WEFT_TASK_NAME_SIZE / sizeof(uint64_t); i++) {
        wf_store_relaxed(&extra->name[i], words[i]); /* relaxed: a dump may see half a name */
    }
}

void wf_task_name(const struct weft_task *task, char name[WEFT_TASK_NAME_SIZE])
{
    /* acquire: pairs with the release in wf_task_extra */
    const struct wf_task_extra *extra = wf_load_acquire(&task->extra);
    memset(name, 0, WEFT_TASK_NAME_SIZE);
    for (size_t i = 0; extra != NULL && i < WEFT_TASK_NAME_SIZE / sizeof(uint64_t); i++) {
        uint64_t word = wf_load_relaxed(&extra->name[i]); /* relaxed: half a name is harmless */
        memcpy(name + i * sizeof(word), &word, sizeof(word));
    }
    name[WEFT_TASK_NAME_SIZE - 1] = '\0';
}

void wf_task_reset(struct weft_task *task)
{
    struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: the caller owns it */
    if (extra != NULL) {
        wf_free(extra->arg_copy);
        wf_free(extra->message);
        extra->arg_copy = NULL;
        extra->message = NULL;
        wf_task_name_put(extra, NULL);
        wf_store_relaxed(&extra->forks, NULL); /* relaxed: the task has no forks any more */
    }
    task->is_bare = true;
    task->needs_slow_queue = false;
    task->body = WF_BODY_GREEN;
    task->scope = NULL;
    wf_store_relaxed(&task->pins, 0); /* all relaxed: the id of the next task publishes them */
    wf_store_relaxed(&task->priority, WEFT_PRIORITY_NORMAL);
    wf_store_relaxed(&task->stack_size, 0);
    wf_store_relaxed(&task->deadline, WEFT_NEVER);
}
