/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - a fuzz target: a function that takes any bytes, and aborts the process where a
 * requirement is broken.  `make fuzz` lets libFuzzer search for such bytes; the unit test of the
 * target calls the same function with its corpus and with random bytes.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* The name that libFuzzer expects.  Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
