/* SPDX-License-Identifier: MIT */
/*
 * obs/report.c - lines on stderr: a stack overflow, a misuse of the API, and tasks that keep
 * weft_run from returning.
 *
 * A stack overflow is reported in a signal handler: no allocation, no stdio, and only loads of
 * memory that exists as long as the task runs.  The process ends after an overflow or a misuse.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "obs/obs.h"

struct text {
    char bytes[768];
    size_t used;
};

static void report_add(struct text *text, const char *more)
{
    for (; *more != '\0' && text->used < sizeof(text->bytes); more++) {
        text->bytes[text->used++] = *more;
    }
}

static void add_number(struct text *text, uint64_t number, unsigned base)
{
    char digits[24];
    size_t first = sizeof(digits) - 1;
    digits[first] = '\0';
    do {
        digits[--first] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    report_add(text, &digits[first]);
}

/* The bounds of the program's code, defined by the linker; weak, for linkers without them. */
extern const char __executable_start[] __attribute__((weak));
extern const char etext[] __attribute__((weak));

/* Adds an address.  One in the program is relative to the program's first byte, as addr2line takes
 * it; any other is added as it is. */
static void add_address(struct text *text, uintptr_t address)
{
    const uintptr_t begin = (uintptr_t)__executable_start;
    const bool is_ours = begin != 0 && address >= begin && address < (uintptr_t)etext;
    report_add(text, is_ours ? "program+0x" : "0x");
    add_number(text, is_ours ? address - begin : address, 16);
}

/* The task is alive. */
static void add_task(struct text *text, const struct weft_task *task)
{
    char name[WEFT_TASK_NAME_SIZE];
    wf_task_name(task, name);
    report_add(text, "task ");
    add_number(text, wf_load_relaxed(&task->id), 10); /* relaxed: constant while it is alive */
    report_add(text, " \"");
    report_add(text, name);
    report_add(text, "\", spawned at ");
    add_address(text, wf_load_relaxed(&task->origin.site));
    report_add(text, ", function ");
    add_address(text, (uintptr_t)wf_load_relaxed(&task->fn));
}

static void report_write(struct text *text)
{
    report_add(text, "\n");
    ssize_t written = write(STDERR_FILENO, text->bytes, text->used);
    (void)written; /* an error here cannot be reported */
}

void wf_misuse(const char *what)
{
    struct text text = {.used = 0};
    const struct weft_task *task = wf_task_self();
    report_add(&text, "weft: ");
    if (task != NULL) {
        add_task(&text, task);
        report_add(&text, ": ");
    }
    report_add(&text, what);
    report_write(&text);
    abort();
}

void wf_overflow_print(const struct wf_overflow *overflow)
{
    struct text text = {.used = 0};
    const struct weft_task *task = overflow->user;
    report_add(&text, overflow->is_stray ? "weft: invalid access to the stack guard of "
                                         : "weft: stack overflow in ");
    if (task == NULL) {
        report_add(&text, "a stack without a task");
    } else {
        add_task(&text, task);
    }
    report_add(&text, ", stack of ");
    add_number(&text, overflow->size >> 10, 10);
    report_add(&text, " KiB, address 0x");
    add_number(&text, (uint64_t)(uintptr_t)overflow->address, 16);
    const struct weft_task *self = overflow->is_stray ? wf_task_self() : NULL;
    if (self != NULL) {
        report_add(&text, ", by ");
        add_task(&text, self);
        report_add(&text,
                   " (a large frame can skip its own guard unless the program is compiled with "
                   "-fstack-clash-protection)");
    }
    report_write(&text);
}

void wf_unfinished_print(const struct weft_task *task)
{
    struct text text = {.used = 0};
    report_add(&text, "weft: weft_run still waits for ");
    add_task(&text, task);
    report_add(&text, ", which was cancelled but has not ended");
    report_write(&text);
}
