/* SPDX-License-Identifier: MIT */
/*
 * trace/log.c - merges the events of several rings by time, and prints them.
 *
 * The events of each ring are sorted by time already, so a merge sort over the rings suffices: an
 * event moves log2(rings) times.  Events of equal time are ordered by their rings only: their true
 * order is unknown.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/trace.h"

/* ---- names --------------------------------------------------------------------------------- */

const char *wf_trace_event_name(enum wf_trace_event event)
{
    static const char *const names[] = {
#define NAME(event, name) [event] = (name),
        WF_TRACE_TABLE(NAME)
#undef NAME
    };
    return (unsigned)event < WF_TRACE_EVENT_COUNT ? names[event] : "?";
}

/* ---- merging ------------------------------------------------------------------------------- */

/* Merges two adjacent sorted runs in place.  `scratch` has space for the left one. */
static void merge_runs(struct wf_trace_record *records, size_t left, size_t right,
                       struct wf_trace_record *scratch)
{
    memcpy(scratch, records, left * sizeof(records[0]));
    const struct wf_trace_record *a = scratch;
    const struct wf_trace_record *a_end = scratch + left;
    const struct wf_trace_record *b = records + left;
    const struct wf_trace_record *b_end = b + right;
    while (a < a_end) { /* the rest of b is in place already */
        const bool is_b_next = b < b_end && b->time_ns < a->time_ns;
        *records++ = is_b_next ? *b++ : *a++;
    }
}

/* Copies and merges the events of `count` rings.  Recurses over halves of the rings: at most 12
 * calls deep for the rings of WF_WORKERS_MAX workers and the ring of non-worker threads. */
static size_t collect_rings(struct wf_trace_ring *const *rings, size_t count,
                            struct wf_trace_record *records, struct wf_trace_record *scratch)
{
    if (count == 1) {
        return rings[0] == NULL ? 0 : wf_trace_read(rings[0], records, rings[0]->events);
    }
    const size_t half = count / 2;
    size_t left = collect_rings(rings, half, records, scratch);
    size_t right = collect_rings(rings + half, count - half, records + left, scratch);
    merge_runs(records, left, right, scratch);
    return left + right;
}

int wf_trace_collect(struct wf_trace_ring *const *rings, size_t count, struct wf_trace_record **out,
                     size_t *out_count)
{
    size_t capacity = 0;
    for (size_t i = 0; i < count; i++) {
        capacity += rings[i] == NULL ? 0 : rings[i]->events;
    }
    struct wf_trace_record *records = wf_alloc_zeroed(capacity, sizeof(records[0]));
    struct wf_trace_record *scratch = wf_alloc_zeroed(capacity, sizeof(scratch[0]));
    if (records == NULL || scratch == NULL) {
        wf_free(records);
        wf_free(scratch);
        return -ENOMEM;
    }
    *out_count = count == 0 ? 0 : collect_rings(rings, count, records, scratch);
    *out = records;
    wf_free(scratch);
    return 0;
}

/* ---- printing ------------------------------------------------------------------------------ */

enum {
    LINE_SIZE = 96,   /* bytes; the longest line: three numbers of 20 digits, a worker, a name */
    TEXT_SIZE = 2048, /* bytes; fits any stack, and needs few system calls */
};

static size_t print_event(char *text, const struct wf_trace_record *record, int64_t start_ns)
{
    char worker[8] = "-";
    if (record->worker != WF_TRACE_FOREIGN) {
        (void)snprintf(worker, sizeof(worker), "w%u", record->worker);
    }
    int length = snprintf(text, LINE_SIZE, "%12" PRId64 " %-5s %-7s %6" PRIu64 " %" PRIu64 "\n",
                          record->time_ns - start_ns, worker,
                          wf_trace_event_name((enum wf_trace_event)record->kind), record->task_id,
                          record->arg);
    WEFT_CHECK(length > 0);
    WEFT_CHECK(length < LINE_SIZE);
    return (size_t)length;
}

int wf_trace_write(int fd, const struct wf_trace_record *records, size_t count)
{
    char text[TEXT_SIZE];
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += print_event(text + size, &records[i], records[0].time_ns);
        if (size > TEXT_SIZE - LINE_SIZE || i + 1 == count) {
            int rc = wf_file_write(fd, text, size);
            if (rc != 0) {
                return rc;
            }
            size = 0;
        }
    }
    return 0;
}
