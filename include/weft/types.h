/* SPDX-License-Identifier: MIT */
/*
 * weft/types.h - the few types that every other header uses.
 *
 * Rules for all of Weft: a result >= 0 is success, a result < 0 is a negative errno; errno itself
 * is neither set nor read.  Structs of options begin with `size`, all zero bytes mean defaults, and
 * NULL stands for a struct of zeros.
 */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define WEFT_BEGIN extern "C" {
#define WEFT_END }
#else
#define WEFT_BEGIN
#define WEFT_END
#endif

/* What a task does.  A result < 0 is a negative errno: the task failed. */
typedef intptr_t (*weft_fn)(void *arg);

/* A point in time: nanoseconds on CLOCK_MONOTONIC. */
typedef int64_t weft_time;

/* The point in time that never comes. */
#define WEFT_NEVER INT64_MAX

typedef struct weft_task weft_task;
typedef struct weft_runtime weft_runtime;

#endif
