/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - what a fuzz target is: a function that takes any bytes, and stops the process where a
 * promise is broken.  `make fuzz` lets libFuzzer look for such bytes; the unit test beside it calls
 * the same function with the corpus of the target and with random bytes.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* The name that libFuzzer knows.  0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
