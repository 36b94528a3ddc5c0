/* SPDX-License-Identifier: MIT */
/*
 * sched/trace.c - recording what the workers of a runtime do.
 *
 * A worker's ring comes and goes while the world stands still, so that its owner can use it without
 * any care.  Foreign threads cannot be stopped: theirs is made at the first start, only switched on
 * and off afterwards, and goes with the runtime.
 */
#include <errno.h>

#include "sched/sched.h"

void wf_trace_foreign(weft_runtime *runtime, enum wf_trace_event event, uint64_t id, uint64_t arg)
{
    wf_trace_shared(&runtime->outside, event, id, arg);
}

static void free_rings(weft_runtime *runtime)
{
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        wf_trace_ring_free(runtime->workers[i].trace);
        runtime->workers[i].trace = NULL;
    }
}

/* [stopper] */
static int start_locked(weft_runtime *runtime, uint32_t events)
{
    if (wf_load_relaxed(&runtime->is_traced) != 0) { /* relaxed: only changed by stoppers */
        return -EALREADY;
    }
    int rc = runtime->outside.ring == NULL ? wf_trace_shared_init(&runtime->outside, events)
                                           : wf_trace_shared_renew(&runtime->outside, events);
    for (unsigned i = 0; i < wf_seats(runtime) && rc == 0; i++) {
        rc = wf_trace_ring_new(&runtime->workers[i].trace, events, i);
    }
    if (rc != 0) {
        free_rings(runtime);
        return rc;
    }
    wf_store_release(&runtime->is_traced, 1); /* (V1) release: the ring of foreign threads */
    return 0;
}

int weft_trace_start(weft_runtime *runtime, uint32_t events)
{
    if (runtime == NULL) {
        return -EINVAL;
    }
    int rc = weft_stop_the_world(runtime);
    if (rc != 0) {
        return rc;
    }
    rc = start_locked(runtime, events);
    (void)weft_start_the_world(runtime); /* it is ours */
    return rc;
}

int weft_trace_stop(weft_runtime *runtime, int fd)
{
    if (runtime == NULL) {
        return -EINVAL;
    }
    struct wf_trace_ring **rings =
        wf_alloc_zeroed((size_t)runtime->seats_max + 1, sizeof(rings[0]));
    if (rings == NULL) {
        return -ENOMEM;
    }
    struct wf_trace_record *records = NULL;
    size_t count = 0;
    (void)weft_stop_the_world(runtime); /* there is a runtime: cannot fail */
    int rc = wf_load_relaxed(&runtime->is_traced) != 0 ? 0 : -EALREADY; /* relaxed: as above */
    if (rc == 0) {
        for (unsigned i = 0; i < wf_seats(runtime); i++) {
            rings[i] = runtime->workers[i].trace;
        }
        rings[wf_seats(runtime)] = runtime->outside.ring;
        rc = wf_trace_collect(rings, (size_t)wf_seats(runtime) + 1, &records, &count);
        if (rc == 0) {
            wf_store_relaxed(&runtime->is_traced, 0); /* relaxed: one event more does no harm */
            free_rings(runtime);
        }
    }
    (void)weft_start_the_world(runtime); /* it is ours */
    if (rc == 0) {
        rc = wf_trace_write(fd, records, count);
    }
    wf_free(records);
    wf_free(rings);
    return rc;
}

void wf_runtime_trace_done(weft_runtime *runtime)
{
    free_rings(runtime);
    if (runtime->outside.ring != NULL) {
        wf_trace_shared_done(&runtime->outside);
    }
}
