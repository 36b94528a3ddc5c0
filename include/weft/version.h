/* SPDX-License-Identifier: MIT */
/*
 * weft/version.h - the version of these headers, and of the library that the program runs with.
 *
 *     #if WEFT_VERSION >= WEFT_VERSION_OF(0, 2, 0)
 */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include <weft/types.h>

WEFT_BEGIN

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

/* A version as one number: a later version has a larger number. */
#define WEFT_VERSION_OF(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))

/* The version of these headers. */
#define WEFT_VERSION WEFT_VERSION_OF(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH)

/* Returns the WEFT_VERSION of the library.  With a shared library it may differ from that of the
 * headers. */
WEFT_API int weft_version(void);

/* Returns whether the library has the interface of these headers.  Before 1.0 that is the same
 * minor version; from 1.0 on the same major version, and not an older minor version. */
static inline bool weft_version_is_compatible(void)
{
    const int library = weft_version();
    const int step = WEFT_VERSION_MAJOR == 0 ? 100 : 10000;
    return library / step == WEFT_VERSION / step && library / 100 >= WEFT_VERSION / 100;
}

WEFT_END

#endif
