/* SPDX-License-Identifier: MIT */
/*
 * runtime/options.c - the options of a runtime: from the caller, else the environment, else
 * defaults.
 *
 * A variable of the environment has an effect only if the caller left the option 0.  A variable
 * that cannot be parsed is an error even if the caller set the option: ignoring it would hide a
 * typo.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* Where the text about the first error goes. */
struct error_text {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static int option_error(const struct error_text *error,
                                                              const char *format, ...)
{
    if (error->size > 0) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(error->text, error->size, format, arguments); /* it may be cut */
        va_end(arguments);
    }
    return -EINVAL;
}

static int check_range(const struct error_text *error, const char *name, uint64_t value,
                       uint64_t min, uint64_t max)
{
    if (value >= min && value <= max) {
        return 0;
    }
    return option_error(error, "option %s is %llu, must be %llu to %llu", name,
                        (unsigned long long)value, (unsigned long long)min,
                        (unsigned long long)max);
}

/* ---- reading the environment --------------------------------------------------------------- */

/* Called while a runtime is opened.  A program that changes its environment in another thread at
 * that moment has a race, as with any getenv. */
static const char *environment_get(const char *variable)
{
    const char *text = getenv(variable); /* NOLINT(concurrency-mt-unsafe) */
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* 1: *out is set; 0: the variable is not set, or empty; -EINVAL. */
static int option_read_number(const struct error_text *error, const char *variable, uint64_t min,
                              uint64_t max, uint64_t *out)
{
    const char *text = environment_get(variable);
    if (text == NULL) {
        return 0;
    }
    int rc = wf_parse_u64(text, min, max, out);
    if (rc == 0) {
        return 1;
    }
    return option_error(error, "%s=%s is %s, must be %llu to %llu", variable, text,
                        rc == -ERANGE ? "out of range" : "not a number", (unsigned long long)min,
                        (unsigned long long)max);
}

/* A suffix of a number, and what it multiplies by. */
struct unit {
    const char *suffix;
    uint64_t factor;
};

struct measure {
    const char *name;
    const char *base; /* the unit of the limits */
    const char *hint;
    struct unit units[6]; /* ends with one whose factor is 0 */
};

static const struct measure size_measure = {
    .name = "size",
    .base = "bytes",
    .hint = "suffixes K and M are allowed",
    .units = {{"", 1}, {"k", 1 << 10}, {"K", 1 << 10}, {"m", 1 << 20}, {"M", 1 << 20}},
};

/* A time must have a unit: a bare number would be ambiguous. */
static const struct measure time_measure = {
    .name = "time",
    .base = "ns",
    .hint = "for example 500us, 10ms, 2s",
    .units = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}},
};

/* Reads a number with one of the units.  1: *out is set; 0: the variable is not set, or empty;
 * -EINVAL. */
static int read_amount(const struct error_text *error, const char *variable,
                       const struct measure *measure, uint64_t min, uint64_t max, uint64_t *out)
{
    const char *text = environment_get(variable);
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
        return option_error(error, "%s=%s is not a %s from %llu to %llu %s (%s)", variable, text,
                            measure->name, (unsigned long long)min, (unsigned long long)max,
                            measure->base, measure->hint);
    }
    *out = number * unit->factor;
    return 1;
}

/* 1: *out is the position of the word in `words`, counted from 1; 0: the variable is not set, or
 * empty; -EINVAL. */
static int read_word(const struct error_text *error, const char *variable, const char *const *words,
                     unsigned count, unsigned *out)
{
    const char *text = environment_get(variable);
    if (text == NULL) {
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i + 1;
            return 1;
        }
    }
    return count == 2
               ? option_error(error, "%s=%s is unknown, must be %s or %s", variable, text, words[0],
                              words[1])
               : option_error(error, "%s=%s is unknown, must be %s, %s or %s", variable, text,
                              words[0], words[1], words[2]); /* no variable has more than 3 */
}

/* ---- filling in the options ---------------------------------------------------------------- */

static int fill_workers(const struct error_text *error, weft_runtime_options *options)
{
    uint64_t count = 0;
    int is_set = option_read_number(error, "WEFT_WORKERS", 1, WF_WORKERS_MAX, &count);
    if (is_set == 0) {
        is_set = option_read_number(error, "RAYA_NUM_THREADS", 1, WF_WORKERS_MAX, &count);
    }
    if (is_set < 0) {
        return is_set;
    }
    if (options->workers == 0) {
        unsigned cpus = wf_cpu_count();
        cpus = cpus < WF_WORKERS_MAX ? cpus : WF_WORKERS_MAX;
        options->workers = is_set > 0 ? (uint32_t)count : cpus;
    }
    return check_range(error, "workers", options->workers, 1, WF_WORKERS_MAX);
}

static int fill_policy(const struct error_text *error, weft_runtime_options *options)
{
    static const char *const policies[] = {"steal", "reactor"};
    static const char *const orders[] = {"fair", "depth-first"};
    unsigned policy = WEFT_POLICY_STEAL;
    unsigned order = WEFT_ORDER_FAIR;
    int rc = read_word(error, "WEFT_POLICY", policies, 2, &policy);
    if (rc >= 0) {
        rc = read_word(error, "WEFT_ORDER", orders, 2, &order);
    }
    if (rc >= 0) {
        rc = check_range(error, "policy", options->policy, 0, WEFT_POLICY_REACTOR);
    }
    if (rc >= 0) {
        rc = check_range(error, "order", options->order, 0, WEFT_ORDER_DEPTH_FIRST);
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

static int fill_stack(const struct error_text *error, weft_runtime_options *options)
{
    uint64_t bytes = WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE;
    int rc = read_amount(error, "WEFT_STACK", &size_measure, WF_STACK_SIZE_MIN, WF_STACK_SIZE_MAX,
                         &bytes);
    if (rc < 0) {
        return rc;
    }
    if (options->stack_size == 0) {
        options->stack_size = (size_t)bytes;
        return 0;
    }
    return check_range(error, "stack_size", options->stack_size, WF_STACK_SIZE_MIN,
                       WF_STACK_SIZE_MAX);
}

static int fill_blocking(const struct error_text *error, weft_runtime_options *options)
{
    uint64_t count = WF_BLOCKING_DEFAULT;
    int rc = option_read_number(error, "WEFT_BLOCKING_MAX", 1, WF_BLOCKING_MAX, &count);
    if (rc < 0) {
        return rc;
    }
    options->blocking_max = options->blocking_max != 0 ? options->blocking_max : (uint32_t)count;
    return check_range(error, "blocking_max", options->blocking_max, 1, WF_BLOCKING_MAX);
}

/* False: the option needs io_uring and the library was built without it. */
static bool is_io_supported(enum weft_io io)
{
#ifdef WF_URING
    (void)io;
    return true;
#else
    return io != WEFT_IO_URING;
#endif
}

static int fill_io(const struct error_text *error, weft_runtime_options *options)
{
    static const char *const words[] = {"auto", "epoll", "uring"};
    unsigned word = WEFT_IO_AUTO + 1;
    int rc = read_word(error, "WEFT_IO", words, 3, &word);
    const enum weft_io io = (enum weft_io)(word - 1);
    if (rc >= 0 && !is_io_supported(io)) {
        rc = option_error(error, "WEFT_IO=uring: the library was built without io_uring");
    }
    if (rc >= 0) {
        rc = check_range(error, "io", options->io, 0, WEFT_IO_URING);
    }
    if (rc < 0) {
        return rc;
    }
    if (!is_io_supported(options->io)) {
        return option_error(error, "option io is WEFT_IO_URING, but the library was built without "
                                   "io_uring");
    }
    options->io = options->io != WEFT_IO_AUTO ? options->io : io;
    return 0;
}

/* The options of the monitor. */
static int fill_monitor(const struct error_text *error, weft_runtime_options *options)
{
    static const char *const answers[] = {"0", "1"};
    uint64_t hog_ns = WF_HOG_NS;
    uint64_t spares = WF_SPARES_DEFAULT;
    unsigned answer = 2;
    int rc = read_amount(error, "WEFT_HOG", &time_measure, 1, INT64_MAX, &hog_ns);
    if (rc >= 0) {
        rc = option_read_number(error, "WEFT_SPARES", 1, WF_WORKERS_MAX, &spares);
    }
    if (rc >= 0) {
        rc = read_word(error, "WEFT_MONITOR", answers, 2, &answer);
    }
    if (rc < 0) {
        return rc;
    }
    options->hog_ns = options->hog_ns != 0 ? options->hog_ns : (int64_t)hog_ns;
    options->spares_max = options->spares_max != 0 ? options->spares_max : (uint32_t)spares;
    options->no_monitor = options->no_monitor || answer == 1;
    if (options->hog_ns < 0) {
        return option_error(error, "option hog_ns is %lld, must not be negative",
                            (long long)options->hog_ns);
    }
    return 0;
}

static int fill_rest(const struct error_text *error, weft_runtime_options *options)
{
    options->io_events_max =
        options->io_events_max != 0 ? options->io_events_max : WF_IO_EVENTS_MAX;
    options->global_batch =
        options->global_batch != 0 ? options->global_batch : (uint32_t)WF_INJECT_BATCH_MAX;
    options->blocking_idle_ns =
        options->blocking_idle_ns != 0 ? options->blocking_idle_ns : WF_BLOCKING_IDLE_NS;
    options->seed = options->seed != 0 ? options->seed : (uint64_t)wf_clock_now();
    int rc = check_range(error, "io_events_max", options->io_events_max, 1, WF_IO_EVENTS_MAX);
    if (rc == 0) {
        rc = check_range(error, "global_batch", options->global_batch, 1, WF_INJECT_BATCH_MAX);
    }
    if (rc == 0 && options->blocking_idle_ns < 0) {
        rc = option_error(error, "option blocking_idle_ns is %lld, must not be negative",
                          (long long)options->blocking_idle_ns);
    }
    if (rc == 0 && options->trace_events != 0 &&
        (!wf_is_power_of_two(options->trace_events) ||
         options->trace_events < WF_TRACE_EVENTS_MIN ||
         options->trace_events > WF_TRACE_EVENTS_MAX)) {
        rc = option_error(error, "option trace_events is %u, must be a power of two from %u to %u",
                          options->trace_events, WF_TRACE_EVENTS_MIN, WF_TRACE_EVENTS_MAX);
    }
    return rc;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): option_error writes to `text` */
int wf_options_fill(weft_runtime_options *out, const weft_runtime_options *options, char *text,
                    size_t text_size)
{
    const struct error_text error = {.text = text, .size = text != NULL ? text_size : 0};
    weft_runtime_options all = {0};
    if (options != NULL) {
        /* A program built with older headers has a smaller struct: the rest gets defaults. */
        size_t size = options->size != 0 ? options->size : sizeof(all);
        if (size < offsetof(weft_runtime_options, policy) || size > sizeof(all)) {
            return option_error(&error, "option size is %u, but the struct has %zu bytes",
                                options->size, sizeof(all));
        }
        memcpy(&all, options, size);
    }
    int rc = fill_workers(&error, &all);
    if (rc == 0) {
        rc = fill_policy(&error, &all);
    }
    if (rc == 0) {
        rc = fill_stack(&error, &all);
    }
    if (rc == 0) {
        rc = fill_blocking(&error, &all);
    }
    if (rc == 0) {
        rc = fill_io(&error, &all);
    }
    if (rc == 0) {
        rc = fill_monitor(&error, &all);
    }
    if (rc == 0) {
        rc = fill_rest(&error, &all);
    }
    if (rc == 0) {
        *out = all;
    }
    return rc;
}

int weft_runtime_options_check(const weft_runtime_options *options, char *text, size_t text_size)
{
    weft_runtime_options filled;
    if (text != NULL && text_size > 0) {
        text[0] = '\0';
    }
    return wf_options_fill(&filled, options, text, text_size);
}
