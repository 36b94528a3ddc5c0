/* SPDX-License-Identifier: MIT */
/*
 * weft/types.h - the few types that every other header uses.
 *
 * Results: a result >= 0 is success, a result < 0 is a negative errno.  Weft neither sets nor reads
 *          errno itself.
 * Options: a struct of options begins with `size`.  All zero bytes mean the defaults, and a NULL
 *          pointer means a struct of zeros.
 */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exported by the shared library, and hidden in the archive. */
#ifdef WF_HIDDEN_API
#define WEFT_API __attribute__((visibility("hidden")))
#else
#define WEFT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define WEFT_BEGIN extern "C" {
#define WEFT_END }
#else
#define WEFT_BEGIN
#define WEFT_END
#endif

/* The function of a task.  A result < 0 is a negative errno: the task failed. */
typedef intptr_t (*weft_fn)(void *arg);

/* A point in time: nanoseconds on CLOCK_MONOTONIC. */
typedef int64_t weft_time;

/* A point in time that never comes: no deadline. */
#define WEFT_NEVER INT64_MAX

typedef struct weft_task weft_task;
typedef struct weft_runtime weft_runtime;

#endif
