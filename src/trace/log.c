/* SPDX-License-Identifier: MIT */
/*
 * trace/log.c - the events of several rings as one story, and the story as text.
 *
 * Each ring is in the order of its times already, so halves of the rings are merged, and halves of
 * these, down to one: every event moves as often as the rings can be halved.  Equal times are told
 * apart by nothing but the place of their ring: two workers whose clock has not moved on have no
 * order that anybody could know.
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

/* ---- in order ------------------------------------------------------------------------------ */

/* Merges two neighbours in place.  `scratch` has room for the first. */
static void merge(struct wf_trace_record *records, size_t left, size_t right,
                  struct wf_trace_record *scratch)
{
    memcpy(scratch, records, left * sizeof(records[0]));
    const struct wf_trace_record *a = scratch;
    const struct wf_trace_record *a_end = scratch + left;
    const struct wf_trace_record *b = records + left;
    const struct wf_trace_record *b_end = b + right;
    while (a < a_end) { /* what is left of b then is in its place */
        const bool is_b_next = b < b_end && b->time_ns < a->time_ns;
        *records++ = is_b_next ? *b++ : *a++;
    }
}

/* Calls itself for half of the rings, so at most eleven deep for all workers there can be. */
static size_t gather(struct wf_trace_ring *const *rings, size_t count,
                     struct wf_trace_record *records, struct wf_trace_record *scratch)
{
    if (count == 1) {
        return rings[0] == NULL ? 0 : wf_trace_read(rings[0], records, rings[0]->events);
    }
    const size_t half = count / 2;
    size_t left = gather(rings, half, records, scratch);
    size_t right = gather(rings + half, count - half, records + left, scratch);
    merge(records, left, right, scratch);
    return left + right;
}

int wf_trace_collect(struct wf_trace_ring *const *rings, size_t count, struct wf_trace_record **out,
                     size_t *out_count)
{
    size_t room = 0;
    for (size_t i = 0; i < count; i++) {
        room += rings[i] == NULL ? 0 : rings[i]->events;
    }
    struct wf_trace_record *records = wf_alloc_zeroed(room, sizeof(records[0]));
    struct wf_trace_record *scratch = wf_alloc_zeroed(room, sizeof(scratch[0]));
    if (records == NULL || scratch == NULL) {
        wf_free(records);
        wf_free(scratch);
        return -ENOMEM;
    }
    *out_count = count == 0 ? 0 : gather(rings, count, records, scratch);
    *out = records;
    wf_free(scratch);
    return 0;
}

/* ---- as text ------------------------------------------------------------------------------- */

enum {
    LINE_SIZE = 96,   /* more than the longest: three numbers of 20 digits, a worker, a name */
    TEXT_SIZE = 2048, /* small enough for any stack, large enough for few calls */
};

static size_t print(char *text, const struct wf_trace_record *record, int64_t start_ns)
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
        size += print(text + size, &records[i], records[0].time_ns);
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
