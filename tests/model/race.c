/* SPDX-License-Identifier: MIT */
/*
 * model/race.c - source sets (Abdulla, Aronis, Jonsson and Sagonas, 2014): instead of trying every
 * enabled action at every node, examine a finished run for races - two dependent events of
 * different processes with nothing ordered between them - and try only what leads to their other
 * order.  Together with sleep sets each class of equivalent orders is still run exactly once; the
 * number of complete runs is the same as without (the self-test compares), only the cut ones go.
 *
 * A process is a thread or its store buffer.  Events are ordered by their process, by dependence,
 * by the wake that ended a sleep, and by the issue of a store before it drains.
 */
#include <string.h>

#include "model/engine.h"

enum { PROCESSES = 2 * MODEL_THREADS_MAX };

struct event {
    struct effect effect;
    unsigned node;             /* of the path */
    uint16_t clock[PROCESSES]; /* one past the newest event of each process ordered before */
    uint8_t process;
};

static struct event events[STEPS_MAX + 1];
static unsigned event_count;
static unsigned first_new;

void race_begin(void)
{
    event_count = 0;
    first_new = UINT32_MAX;
}

void race_add(unsigned action, unsigned node, bool is_new)
{
    struct event *event = &events[event_count];
    unsigned thread = action % MODEL_THREADS_MAX;
    bool is_drain = action >= ACTION_DRAIN && action < ACTION_TIMEOUT;
    if (is_new) {
        event->effect = memory_effect(action);
        event->node = node;
        event->process = (uint8_t)(is_drain ? MODEL_THREADS_MAX + thread : thread);
        first_new = first_new < event_count ? first_new : event_count;
    }
    if (!is_drain) {
        engine.threads[thread].last_event = (uint16_t)event_count;
    }
    event_count++;
}

static void join_clock(struct event *into, const struct event *from)
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        into->clock[i] = into->clock[i] > from->clock[i] ? into->clock[i] : from->clock[i];
    }
}

static bool is_ordered(unsigned earlier, const struct event *later)
{
    return later->clock[events[earlier].process] > earlier;
}

/* The events before this one for reasons that no other order could change. */
static void begin_clock(unsigned index)
{
    struct event *event = &events[index];
    memset(event->clock, 0, sizeof(event->clock));
    if (event->effect.after_event != NO_EVENT) {
        join_clock(event, &events[event->effect.after_event]);
    }
    for (unsigned i = index; i > 0; i--) {
        const struct event *before = &events[i - 1];
        bool is_own_buffer = before->effect.thread == event->effect.thread &&
                             before->process != event->process &&
                             memory_are_dependent(&before->effect, &event->effect);
        if (before->process == event->process || is_own_buffer) {
            join_clock(event, before);
        }
        if (before->process == event->process) {
            break;
        }
    }
}

/* The processes that could act first to bring event `late` before event `early`: the processes
 * whose first event in between is ordered after nothing in between. */
static uint32_t initials(unsigned early, unsigned late)
{
    uint32_t met = 0;
    uint32_t first = 0;
    for (unsigned i = early + 1; i <= late; i++) {
        const struct event *event = &events[i];
        if (i != late && is_ordered(early, event)) {
            continue;
        }
        bool is_first = (met & (1u << event->process)) == 0;
        for (unsigned k = early + 1; k < i && is_first; k++) {
            bool is_in_between = !is_ordered(early, &events[k]);
            is_first = !(is_in_between && is_ordered(k, event));
        }
        met |= 1u << event->process;
        first |= is_first ? 1u << event->process : 0;
    }
    return first;
}

static uint32_t actions_of(uint32_t processes)
{
    const uint32_t threads = (1u << MODEL_THREADS_MAX) - 1;
    uint32_t running = processes & threads;
    return processes | running << ACTION_TIMEOUT | running << ACTION_SPURIOUS;
}

static void reverse(unsigned early, unsigned late, uint32_t *want, uint32_t enabled)
{
    uint32_t first = initials(early, late);
    uint32_t options = actions_of(first) & enabled;
    if (options == 0 || (*want & options) != 0) {
        return; /* cannot happen in the other order, or is already requested */
    }
    uint32_t favourite = actions_of(1u << events[late].process) & options;
    if (favourite == 0) {
        unsigned process = (unsigned)__builtin_ctz(options) % PROCESSES;
        favourite = actions_of(1u << process) & options;
    }
    *want |= favourite;
}

void race_reverse(uint32_t *(*want)(unsigned node), uint32_t (*enabled)(unsigned node))
{
    for (unsigned late = first_new; late < event_count; late++) {
        struct event *event = &events[late];
        begin_clock(late);
        for (unsigned early = late; early > 0; early--) {
            const struct event *other = &events[early - 1];
            if (other->process == event->process || is_ordered(early - 1, event) ||
                !memory_are_dependent(&other->effect, &event->effect)) {
                continue;
            }
            reverse(early - 1, late, want(other->node), enabled(other->node));
            join_clock(event, other);
        }
        event->clock[event->process] = (uint16_t)(late + 1);
    }
}
