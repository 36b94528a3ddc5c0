/* SPDX-License-Identifier: MIT */
/*
 * sched/local.c - task-local storage.
 *
 * Keys are numbers of the process, never given back.  A task's values are an array that is
 * allocated when the first is asked for: tasks that have none pay one pointer.
 */
#include <errno.h>

#include "sched/sched.h"

/* [creator of the key: write] [any: read]  0: nothing is to be done. */
static WF_ATOMIC(uintptr_t) destroyers[WF_KEYS_MAX];
static WF_ATOMIC(uint32_t) key_count;

int weft_key_new(weft_key *out, void (*destroy)(void *value))
{
    if (out == NULL) {
        return -EINVAL;
    }
    uint32_t key = wf_load_relaxed(&key_count); /* relaxed: the CAS decides */
    do {                                        /* Each lost CAS is a key of another's. */
        if (key >= WF_KEYS_MAX) {
            return -EAGAIN;
        }
    } while (!wf_cas_relaxed(&key_count, &key, key + 1));
    /* relaxed: who uses the key has got it from us, by whatever means. */
    wf_store_relaxed(&destroyers[key], (uintptr_t)destroy);
    *out = key;
    return 0;
}

void **weft_local(weft_key key)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL || key >= wf_load_relaxed(&key_count)) { /* relaxed: as above */
        return NULL;
    }
    self->is_plain = false;
    struct wf_task_extra *extra = wf_task_extra(self);
    if (extra == NULL) {
        return NULL;
    }
    if (extra->locals == NULL) {
        extra->locals = wf_alloc_zeroed(WF_KEYS_MAX, sizeof(void *));
    }
    return extra->locals != NULL ? &extra->locals[key] : NULL;
}

void wf_locals_done(struct weft_task *task)
{
    struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: our own */
    if (extra->locals == NULL) {
        return;
    }
    void **locals = extra->locals;
    for (uint32_t key = 0; key < WF_KEYS_MAX; key++) {
        void (*destroy)(void *) = (void (*)(void *))wf_load_relaxed(&destroyers[key]);
        void *value = locals[key];
        locals[key] = NULL; /* what a destroyer sets anew is not looked at again */
        if (value != NULL && destroy != NULL) {
            destroy(value);
        }
    }
    extra->locals = NULL;
    wf_free(locals);
}
