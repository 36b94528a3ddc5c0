/* SPDX-License-Identifier: MIT */
/*
 * life/attachments.c - what a task has attached and releases when it ends: locals and owned locks.
 *
 * Locals.  Keys are per process and are never freed.  The values of a task are an array, allocated
 * at its first weft_key_slot: a task without values costs one pointer.
 *
 * Owned locks.  A task that ends releases the locks that it still owns (task/owned_lock.h).  What
 * such a lock protects may be inconsistent, so the release is reported, once for each task, like an
 * unobserved failure.
 */
#include <errno.h>

#include "life/life.h"

/* [creator of the key: write] [any: read]  0: the values of this key are not destroyed. */
static WF_ATOMIC(uintptr_t) destroyers[WF_KEYS_MAX];
static WF_ATOMIC(uint32_t) key_count;

int weft_key_create(weft_key *out, void (*destroy)(void *value))
{
    WF_NOT_NULL(out, "weft_key_create: out is NULL");
    uint32_t key = wf_load_relaxed(&key_count); /* relaxed: the CAS decides */
    do {                                        /* ends: each lost CAS is a new key */
        if (key >= WF_KEYS_MAX) {
            return -EAGAIN;
        }
    } while (!wf_cas_relaxed(&key_count, &key, key + 1));
    /* relaxed: a user of the key got it from the creator, and that orders this store. */
    wf_store_relaxed(&destroyers[key], (uintptr_t)destroy);
    *out = key;
    return 0;
}

void **weft_key_slot(weft_key key)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL || key >= wf_load_relaxed(&key_count)) { /* relaxed: the creator ordered it */
        return NULL;
    }
    self->is_bare = false;
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
    struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: the task's own */
    if (extra->locals == NULL) {
        return;
    }
    void **locals = extra->locals;
    for (uint32_t key = 0; key < WF_KEYS_MAX; key++) {
        void (*destroy)(void *) = (void (*)(void *))wf_load_relaxed(&destroyers[key]);
        void *value = locals[key];
        locals[key] = NULL; /* a value that a destroyer sets is not destroyed */
        if (value != NULL && destroy != NULL) {
            destroy(value);
        }
    }
    extra->locals = NULL;
    wf_free(locals);
}

void wf_owned_locks_release(struct weft_task *task)
{
    size_t count = 0;
    const void *newest = task->owned_locks;
    while (task->owned_locks != NULL) {
        struct wf_owned_lock *owned = task->owned_locks;
        wf_owned_lock_remove(task, owned);
        owned->release(owned, task);
        count++;
    }
    wf_failure_note_owned(task, newest, count);
}
