/* SPDX-License-Identifier: MIT */
/*
 * obs/trace.c - recording the events of a runtime.
 *
 * The ring of a worker is made and freed while the world is stopped, so its owner uses it without
 * synchronisation.  Non-worker threads cannot be stopped: their shared ring is made at the first
 * start, is only switched on and off afterwards, and is freed with the runtime.
 */
#include <errno.h>

#include "obs/obs.h"

static void trace_rings_free(weft_runtime *runtime)
{
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        wf_trace_ring_free(runtime->workers[i].trace);
        runtime->workers[i].trace = NULL;
    }
}

/* [stopper] */
static int trace_start_locked(weft_runtime *runtime, uint32_t events)
{
    if (wf_load_relaxed(&runtime->trace.is_on) != 0) { /* relaxed: only stoppers write it */
        return -EALREADY;
    }
    int rc = runtime->trace.outside.ring == NULL
                 ? wf_trace_shared_init(&runtime->trace.outside, events)
                 : wf_trace_shared_renew(&runtime->trace.outside, events);
    for (unsigned i = 0; i < wf_worker_total(runtime) && rc == 0; i++) {
        rc = wf_trace_ring_new(&runtime->workers[i].trace, events, i);
    }
    if (rc != 0) {
        trace_rings_free(runtime);
        return rc;
    }
    wf_store_release(&runtime->trace.is_on, 1); /* (sched.V1) release: the shared ring */
    return 0;
}

int weft_runtime_trace_start(weft_runtime *runtime, uint32_t events)
{
    WF_NOT_NULL(runtime, "weft_runtime_trace_start: runtime is NULL");
    int rc = weft_world_stop(runtime);
    if (rc != 0) {
        return rc;
    }
    rc = trace_start_locked(runtime, events);
    (void)weft_world_start(runtime); /* cannot fail: the caller stopped it */
    return rc;
}

/* [stopper]  Ends the recording.  The caller must free *records. */
static int trace_stop_locked(weft_runtime *runtime, struct wf_trace_record **records, size_t *count)
{
    const size_t workers = wf_worker_total(runtime);
    if (wf_load_relaxed(&runtime->trace.is_on) == 0) { /* relaxed: only stoppers write it */
        return -EALREADY;
    }
    struct wf_trace_ring **rings = wf_alloc_zeroed(workers + 1, sizeof(rings[0]));
    if (rings == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < workers; i++) {
        rings[i] = runtime->workers[i].trace;
    }
    rings[workers] = runtime->trace.outside.ring;
    const int rc = wf_trace_collect(rings, workers + 1, records, count);
    if (rc == 0) {
        wf_store_relaxed(&runtime->trace.is_on, 0); /* relaxed: a late event is harmless */
        trace_rings_free(runtime);
    }
    wf_free(rings);
    return rc;
}

int weft_runtime_trace_stop(weft_runtime *runtime, int fd)
{
    WF_NOT_NULL(runtime, "weft_runtime_trace_stop: runtime is NULL");
    /* First, before anything is allocated: a forced close may abandon a task that waits here. */
    int rc = weft_world_stop(runtime);
    if (rc != 0) {
        return rc;
    }
    struct wf_trace_record *records = NULL;
    size_t count = 0;
    rc = trace_stop_locked(runtime, &records, &count);
    (void)weft_world_start(runtime); /* cannot fail: the caller stopped it */
    if (rc == 0) {
        rc = wf_trace_write(fd, records, count);
    }
    wf_free(records);
    return rc;
}

void wf_runtime_trace_done(weft_runtime *runtime)
{
    trace_rings_free(runtime);
    if (runtime->trace.outside.ring != NULL) {
        wf_trace_shared_done(&runtime->trace.outside);
    }
}
