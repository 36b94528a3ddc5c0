/* SPDX-License-Identifier: MIT */
/*
 * sched/options.c - what a runtime is opened with: options, environment, defaults, in this order.
 *
 * A variable of the environment is read only where the options leave the choice; one that cannot be
 * understood is an error all the same, because whoever set it meant something by it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

/* Where the sentence about the first fault goes. */
struct complaint {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int complain(const struct complaint *complaint,
                                                          const char *format, ...)
{
    if (complaint->size > 0) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(complaint->text, complaint->size, format, arguments); /* cut is fine */
        va_end(arguments);
    }
    return -EINVAL;
}

static int check_range(const struct complaint *complaint, const char *name, uint64_t value,
                       uint64_t min, uint64_t max)
{
    if (value >= min && value <= max) {
        return 0;
    }
    return complain(complaint, "option %s is %llu, not within %llu .. %llu", name,
                    (unsigned long long)value, (unsigned long long)min, (unsigned long long)max);
}

/* ---- numbers and words of the environment -------------------------------------------------- */

/* The environment is only read, when a runtime is opened: who changes it in another thread
 * meanwhile breaks every program. */
static const char *environment(const char *variable)
{
    const char *text = getenv(variable); /* NOLINT(concurrency-mt-unsafe) */
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* 1: found and read; 0: not set, or empty. */
static int read_number(const struct complaint *complaint, const char *variable, uint64_t min,
                       uint64_t max, uint64_t *out)
{
    const char *text = environment(variable);
    if (text == NULL) {
        return 0;
    }
    int rc = wf_parse_u64(text, min, max, out);
    if (rc == 0) {
        return 1;
    }
    return complain(complaint, "%s=%s is %s %llu .. %llu", variable, text,
                    rc == -ERANGE ? "not within" : "no number within", (unsigned long long)min,
                    (unsigned long long)max);
}

/* What a number counts, by what stands behind it. */
struct unit {
    const char *suffix;
    uint64_t factor;
};

struct measure {
    const char *name;
    const char *base; /* what the limits count */
    const char *hint;
    struct unit units[6]; /* up to one without a factor */
};

static const struct measure size_measure = {
    .name = "size",
    .base = "bytes",
    .hint = "K, M are allowed",
    .units = {{"", 1}, {"k", 1 << 10}, {"K", 1 << 10}, {"m", 1 << 20}, {"M", 1 << 20}},
};

/* A time has to have a unit: people would not agree on that of a bare number. */
static const struct measure time_measure = {
    .name = "time",
    .base = "ns",
    .hint = "as 500us, 10ms, 2s",
    .units = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}},
};

/* A number with one of the units behind it.  1: found and read; 0: not set, or empty. */
static int read_amount(const struct complaint *complaint, const char *variable,
                       const struct measure *measure, uint64_t min, uint64_t max, uint64_t *out)
{
    const char *text = environment(variable);
    if (text == NULL) {
        return 0;
    }
    char digits[24];
    const size_t length = strspn(text, "0123456789");
    const struct unit *unit = measure->units;
    while (unit->factor != 0 && strcmp(text + length, unit->suffix) != 0) {
        unit++;
    }
    uint64_t number = 0;
    if (length < sizeof(digits)) {
        memcpy(digits, text, length);
        digits[length] = '\0';
    }
    if (unit->factor == 0 || length >= sizeof(digits) ||
        wf_parse_u64(digits, 0, max / unit->factor, &number) != 0 || number * unit->factor < min) {
        return complain(complaint, "%s=%s is no %s within %llu .. %llu %s (%s)", variable, text,
                        measure->name, (unsigned long long)min, (unsigned long long)max,
                        measure->base, measure->hint);
    }
    *out = number * unit->factor;
    return 1;
}

/* 1: found, *out is the place in `words`, from 1. */
static int read_word(const struct complaint *complaint, const char *variable,
                     const char *const *words, unsigned count, unsigned *out)
{
    const char *text = environment(variable);
    if (text == NULL) {
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i + 1;
            return 1;
        }
    }
    return count == 2 ? complain(complaint, "%s=%s is neither %s nor %s", variable, text, words[0],
                                 words[1])
                      : complain(complaint, "%s=%s is none of %s, %s, %s", variable, text, words[0],
                                 words[1], words[2]); /* no variable has more */
}

/* ---- filling in ---------------------------------------------------------------------------- */

static int fill_workers(const struct complaint *complaint, weft_options *options)
{
    uint64_t count = 0;
    int is_set = read_number(complaint, "WEFT_WORKERS", 1, WF_WORKERS_MAX, &count);
    if (is_set == 0) {
        is_set = read_number(complaint, "RAYA_NUM_THREADS", 1, WF_WORKERS_MAX, &count);
    }
    if (is_set < 0) {
        return is_set;
    }
    if (options->workers == 0) {
        unsigned cpus = wf_cpu_count();
        cpus = cpus < WF_WORKERS_MAX ? cpus : WF_WORKERS_MAX;
        options->workers = is_set > 0 ? (uint32_t)count : cpus;
    }
    return check_range(complaint, "workers", options->workers, 1, WF_WORKERS_MAX);
}

static int fill_policy(const struct complaint *complaint, weft_options *options)
{
    static const char *const policies[] = {"steal", "reactor"};
    static const char *const orders[] = {"fair", "depth-first"};
    unsigned policy = WEFT_POLICY_STEAL;
    unsigned order = WEFT_ORDER_FAIR;
    int rc = read_word(complaint, "WEFT_POLICY", policies, 2, &policy);
    if (rc >= 0) {
        rc = read_word(complaint, "WEFT_ORDER", orders, 2, &order);
    }
    if (rc >= 0) {
        rc = check_range(complaint, "policy", options->policy, 0, WEFT_POLICY_REACTOR);
    }
    if (rc >= 0) {
        rc = check_range(complaint, "order", options->order, 0, WEFT_ORDER_DEPTH_FIRST);
    }
    if (rc < 0) {
        return rc;
    }
    if (options->policy == WEFT_POLICY_DEFAULT) {
        options->policy = (enum weft_policy)policy;
    }
    if (options->order == WEFT_ORDER_DEFAULT) {
        options->order = (enum weft_order)order;
    }
    return 0;
}

static int fill_stack(const struct complaint *complaint, weft_options *options)
{
    uint64_t bytes = WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE;
    int rc = read_amount(complaint, "WEFT_STACK", &size_measure, WF_STACK_SIZE_MIN,
                         WF_STACK_SIZE_MAX, &bytes);
    if (rc < 0) {
        return rc;
    }
    if (options->stack_size == 0) {
        options->stack_size = (size_t)bytes;
        return 0;
    }
    return check_range(complaint, "stack_size", options->stack_size, WF_STACK_SIZE_MIN,
                       WF_STACK_SIZE_MAX);
}

static int fill_blocking(const struct complaint *complaint, weft_options *options)
{
    uint64_t count = WF_BLOCKING_DEFAULT;
    int rc = read_number(complaint, "WEFT_BLOCKING_MAX", 1, WF_BLOCKING_MAX, &count);
    if (rc < 0) {
        return rc;
    }
    options->blocking_max = options->blocking_max != 0 ? options->blocking_max : (uint32_t)count;
    return check_range(complaint, "blocking_max", options->blocking_max, 1, WF_BLOCKING_MAX);
}

/* Whether the library was built with io_uring, or does not need it. */
static bool is_built(enum weft_io io)
{
#ifdef WF_URING
    (void)io;
    return true;
#else
    return io != WEFT_IO_URING;
#endif
}

static int fill_io(const struct complaint *complaint, weft_options *options)
{
    static const char *const words[] = {"auto", "epoll", "uring"};
    unsigned word = WEFT_IO_AUTO + 1;
    int rc = read_word(complaint, "WEFT_IO", words, 3, &word);
    const enum weft_io io = (enum weft_io)(word - 1);
    if (rc >= 0 && !is_built(io)) {
        rc = complain(complaint, "WEFT_IO=uring, and the library was built without io_uring");
    }
    if (rc >= 0) {
        rc = check_range(complaint, "io", options->io, 0, WEFT_IO_URING);
    }
    if (rc < 0) {
        return rc;
    }
    if (!is_built(options->io)) {
        return complain(complaint, "option io is WEFT_IO_URING, and the library was built without "
                                   "io_uring");
    }
    options->io = options->io != WEFT_IO_AUTO ? options->io : io;
    return 0;
}

/* What the monitor does, and whether there is one. */
static int fill_monitor(const struct complaint *complaint, weft_options *options)
{
    static const char *const answers[] = {"0", "1"};
    uint64_t hog_ns = WF_HOG_NS;
    uint64_t spares = WF_SPARES_DEFAULT;
    unsigned answer = 2;
    int rc = read_amount(complaint, "WEFT_HOG", &time_measure, 1, INT64_MAX, &hog_ns);
    if (rc >= 0) {
        rc = read_number(complaint, "WEFT_SPARES", 1, WF_WORKERS_MAX, &spares);
    }
    if (rc >= 0) {
        rc = read_word(complaint, "WEFT_MONITOR", answers, 2, &answer);
    }
    if (rc < 0) {
        return rc;
    }
    options->hog_ns = options->hog_ns != 0 ? options->hog_ns : (int64_t)hog_ns;
    options->spares_max = options->spares_max != 0 ? options->spares_max : (uint32_t)spares;
    options->no_monitor = options->no_monitor || answer == 1;
    if (options->hog_ns < 0) {
        return complain(complaint, "option hog_ns is %lld, less than nothing",
                        (long long)options->hog_ns);
    }
    return 0;
}

static int fill_rest(const struct complaint *complaint, weft_options *options)
{
    options->io_events_max =
        options->io_events_max != 0 ? options->io_events_max : WF_IO_EVENTS_MAX;
    options->global_batch =
        options->global_batch != 0 ? options->global_batch : (uint32_t)WF_INJECT_BATCH_MAX;
    options->blocking_idle_ns =
        options->blocking_idle_ns != 0 ? options->blocking_idle_ns : WF_BLOCKING_IDLE_NS;
    options->seed = options->seed != 0 ? options->seed : (uint64_t)wf_clock_now();
    int rc = check_range(complaint, "io_events_max", options->io_events_max, 1, WF_IO_EVENTS_MAX);
    if (rc == 0) {
        rc = check_range(complaint, "global_batch", options->global_batch, 1, WF_INJECT_BATCH_MAX);
    }
    if (rc == 0 && options->blocking_idle_ns < 0) {
        rc = complain(complaint, "option blocking_idle_ns is %lld, less than nothing",
                      (long long)options->blocking_idle_ns);
    }
    if (rc == 0 && options->trace_events != 0 &&
        (!wf_is_power_of_two(options->trace_events) ||
         options->trace_events < WF_TRACE_EVENTS_MIN ||
         options->trace_events > WF_TRACE_EVENTS_MAX)) {
        rc = complain(complaint, "option trace_events is %u, no power of two within %u .. %u",
                      options->trace_events, WF_TRACE_EVENTS_MIN, WF_TRACE_EVENTS_MAX);
    }
    return rc;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): complain writes there */
int wf_options_fill(weft_options *out, const weft_options *options, char *text, size_t text_size)
{
    const struct complaint complaint = {.text = text, .size = text != NULL ? text_size : 0};
    weft_options all = {0};
    if (options != NULL) {
        /* A program built against older headers has a smaller struct: the rest is default. */
        size_t size = options->size != 0 ? options->size : sizeof(all);
        if (size < offsetof(weft_options, policy) || size > sizeof(all)) {
            return complain(&complaint, "option size is %u, and the struct has %zu bytes",
                            options->size, sizeof(all));
        }
        memcpy(&all, options, size);
    }
    int rc = fill_workers(&complaint, &all);
    if (rc == 0) {
        rc = fill_policy(&complaint, &all);
    }
    if (rc == 0) {
        rc = fill_stack(&complaint, &all);
    }
    if (rc == 0) {
        rc = fill_blocking(&complaint, &all);
    }
    if (rc == 0) {
        rc = fill_io(&complaint, &all);
    }
    if (rc == 0) {
        rc = fill_monitor(&complaint, &all);
    }
    if (rc == 0) {
        rc = fill_rest(&complaint, &all);
    }
    if (rc == 0) {
        *out = all;
    }
    return rc;
}

int weft_options_check(const weft_options *options, char *text, size_t text_size)
{
    weft_options filled;
    if (text != NULL && text_size > 0) {
        text[0] = '\0';
    }
    return wf_options_fill(&filled, options, text, text_size);
}
