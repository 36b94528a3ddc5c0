/* SPDX-License-Identifier: MIT */
/*
 * trace_helpers.h - reads traces of small programs back: the events of a task, and the step of the
 * reactor's loop in which they happened.
 */
#ifndef TRACE_HELPERS_H
#define TRACE_HELPERS_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sched_helpers.h"

/* ---- reading a trace ----------------------------------------------------------------------- */

enum { NAME_SIZE = 16, EVENTS = 4096, MANY_EVENTS = 1 << 16 };

struct event {
    char name[NAME_SIZE];
    char worker[NAME_SIZE]; /* "-": none */
    uint64_t task_id;
    uint64_t arg;
};

struct trace_log {
    struct event *events;
    size_t count;
    size_t max;
};

static inline void trace_log_add(struct trace_log *trace_log, const char *line)
{
    char time[NAME_SIZE];
    struct event event;
    CHECK_EQ(sscanf(line, "%15s %15s %15s %" SCNu64 " %" SCNu64, time, event.worker, event.name,
                    &event.task_id, &event.arg),
             5);
    if (trace_log->count == trace_log->max) {
        trace_log->max = trace_log->max != 0 ? 2 * trace_log->max : 1024;
        trace_log->events =
            realloc(trace_log->events, trace_log->max * sizeof(trace_log->events[0]));
        CHECK(trace_log->events != NULL);
    }
    trace_log->events[trace_log->count++] = event;
}

/* Stops the trace and reads it; the caller frees the events. */
static inline struct trace_log trace_log_read(weft_runtime *runtime)
{
    struct trace_log trace_log = {.count = 0};
    char line[128];
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(weft_runtime_trace_stop(runtime, fileno(file)), 0);
    CHECK_EQ(fseek(file, 0, SEEK_SET), 0);
    while (fgets(line, sizeof(line), file) != NULL) {
        trace_log_add(&trace_log, line);
    }
    CHECK_EQ(fclose(file), 0);
    return trace_log;
}

static inline bool is_event(const struct event *event, const char *name, uint64_t task_id)
{
    return strcmp(event->name, name) == 0 && event->task_id == task_id;
}

/* Returns the index of the next such event; it must exist. */
static inline size_t find_event(const struct trace_log *trace_log, size_t from, const char *name,
                                uint64_t task_id)
{
    for (size_t i = from; i < trace_log->count; i++) {
        if (is_event(&trace_log->events[i], name, task_id)) {
            return i;
        }
    }
    tap_fail(__FILE__, __LINE__, "no %s of task %ju in the trace", name, (uintmax_t)task_id);
}

static inline void wait_until_done(weft_runtime *runtime)
{
    while (stats_of(runtime).live > 0) {
        (void)sched_yield();
    }
}

/* ---- the reactor --------------------------------------------------------------------------- */

static inline weft_runtime *open_reactor(unsigned workers, uint32_t trace_events)
{
    weft_runtime *runtime = NULL;
    const struct setting setting = {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, workers};
    weft_runtime_options options = options_of(&setting);
    options.trace_events = trace_events;
    tap_doing("%u workers", workers);
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    return runtime;
}

/* Between the queue event and the find event the control thread drained the inbox, perhaps in a
 * sixth step that had begun already. Then come the seventh and the eighth step, which hands the
 * task out. */
static inline void check_handout(const struct trace_log *trace_log, size_t from, uint64_t task_id)
{
    size_t at = find_event(trace_log, from, "queue", task_id);
    const size_t found = find_event(trace_log, at, "find", task_id);
    for (const uint64_t *step = (const uint64_t[]){7, 8, 0}; *step != 0; step++) {
        while (
            !(is_event(&trace_log->events[at], "step", 0) && trace_log->events[at].arg == *step)) {
            at++;
            CHECK(at < found);
        }
    }
}

/* Returns the step of the control thread in which the event happened. */
static inline uint64_t step_of(const struct trace_log *trace_log, const char *name,
                               uint64_t task_id)
{
    uint64_t step = 0;
    for (size_t i = find_event(trace_log, 0, name, task_id) + 1; i > 0 && step == 0; i--) {
        step = is_event(&trace_log->events[i - 1], "step", 0) ? trace_log->events[i - 1].arg : 0;
    }
    return step;
}

#endif
