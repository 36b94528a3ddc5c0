/* SPDX-License-Identifier: MIT */
/*
 * bench_peers.c - the figures of other runtimes: a suite without rows of its own takes all rows of
 * the peers that are given to it.
 */
#include "bench.h"

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {.title = "Peers", .base = "go"};
    return bench_main(argc, argv, &suite);
}
