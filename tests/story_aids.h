/* SPDX-License-Identifier: MIT */
/*
 * story_aids.h - traces of small programs, read back: what happened to a task, and in which step of
 * the reactor's loop.
 */
#ifndef STORY_AIDS_H
#define STORY_AIDS_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sched_aids.h"

/* ---- reading a trace ----------------------------------------------------------------------- */

enum { NAME_SIZE = 16, EVENTS = 4096, MANY_EVENTS = 1 << 16 };

struct event {
    char name[NAME_SIZE];
    char worker[NAME_SIZE]; /* "-": none */
    uint64_t task_id;
    uint64_t arg;
};

struct story {
    struct event *events;
    size_t count;
    size_t max;
};

static inline void story_add(struct story *story, const char *line)
{
    char time[NAME_SIZE];
    struct event event;
    CHECK_EQ(sscanf(line, "%15s %15s %15s %" SCNu64 " %" SCNu64, time, event.worker, event.name,
                    &event.task_id, &event.arg),
             5);
    if (story->count == story->max) {
        story->max = story->max != 0 ? 2 * story->max : 1024;
        story->events = realloc(story->events, story->max * sizeof(story->events[0]));
        CHECK(story->events != NULL);
    }
    story->events[story->count++] = event;
}

/* Stops the trace and reads it; the caller frees the events. */
static inline struct story story_of(weft_runtime *runtime)
{
    struct story story = {.count = 0};
    char line[128];
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(weft_trace_stop(runtime, fileno(file)), 0);
    CHECK_EQ(fseek(file, 0, SEEK_SET), 0);
    while (fgets(line, sizeof(line), file) != NULL) {
        story_add(&story, line);
    }
    CHECK_EQ(fclose(file), 0);
    return story;
}

static inline bool is_event(const struct event *event, const char *name, uint64_t task_id)
{
    return strcmp(event->name, name) == 0 && event->task_id == task_id;
}

/* The place of the next such event; it must be there. */
static inline size_t find_event(const struct story *story, size_t from, const char *name,
                                uint64_t task_id)
{
    for (size_t i = from; i < story->count; i++) {
        if (is_event(&story->events[i], name, task_id)) {
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
    weft_options options = options_of(&setting);
    options.trace_events = trace_events;
    tap_doing("%u workers", workers);
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    return runtime;
}

/* Between the push and the worker that finds it the inbox was drained, perhaps by a sixth step that
 * had begun already; then come the seventh and the eighth, in which it is handed out. */
static inline void check_way(const struct story *story, size_t from, uint64_t task_id)
{
    size_t at = find_event(story, from, "queue", task_id);
    const size_t found = find_event(story, at, "find", task_id);
    for (const uint64_t *step = (const uint64_t[]){7, 8, 0}; *step != 0; step++) {
        while (!(is_event(&story->events[at], "step", 0) && story->events[at].arg == *step)) {
            at++;
            CHECK(at < found);
        }
    }
}

/* The step in which the event was, of those that the control thread takes. */
static inline uint64_t step_of(const struct story *story, const char *name, uint64_t task_id)
{
    uint64_t step = 0;
    for (size_t i = find_event(story, 0, name, task_id) + 1; i > 0 && step == 0; i--) {
        step = is_event(&story->events[i - 1], "step", 0) ? story->events[i - 1].arg : 0;
    }
    return step;
}

#endif
