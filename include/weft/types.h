/* SPDX-License-Identifier: MIT */
/*
 * weft/types.h - the few types that every other header uses.
 *
 * Results: a result >= 0 is success, a result < 0 is a negative errno.  Weft neither sets nor reads
 *          errno itself.
 * Options: a struct of options begins with `size`.  All zero bytes mean the defaults, and a NULL
 *          pointer means a struct of zeros.
 * NULL:    a pointer parameter must not be NULL unless its contract allows that.  This holds for
 *          objects, for results and for functions; a pointer to an array may be NULL if the array
 *          is empty.  A NULL breaks the contract and returns no error.  The compiler warns where it
 *          sees one.  A library that was built with assertions ends the process, in most calls with
 *          a message that names the call.  In a release build the behaviour is undefined; usually
 *          the process ends with SIGSEGV.  A member of a struct that must not be NULL is a value:
 *          if it is NULL, the call returns -EINVAL.
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

/* The numbers of the parameters, from 1, that must not be NULL. */
#define WEFT_NONNULL(...) __attribute__((nonnull(__VA_ARGS__)))

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
