/* SPDX-License-Identifier: MIT */
/*
 * step.h - lets one operation happen between any two instructions of another.
 *
 * Two threads that race meet in a given window by luck.  Here the CPU's single-step flag runs an
 * operation one instruction at a time, and at a chosen one a second operation runs to its end, as
 * if another thread had run while the first was preempted.  A loop over all instructions covers
 * every single preemption of the compiled code, each time, on any machine:
 *
 *     for (uint64_t at = 1;; at++) {
 *         ... build the scene ...
 *         bool is_interrupted = step_interrupt(at, pop, steal, &scene);
 *         ... what pop and steal took must add up ...
 *         if (!is_interrupted) {
 *             break;  // pop has fewer than `at` instructions: all were tried
 *         }
 *     }
 *
 * step_interleave() preempts both operations once.  Not covered: more preemptions, and what the
 * CPU reorders; the model checker and TSan find those.  An operation that waits for the other (a
 * lock) would hang.
 */
#ifndef STEP_H
#define STEP_H

#include <stdbool.h>
#include <stdint.h>

typedef void (*step_fn)(void *context);

/* Skips the running test where this build cannot be stepped: a CPU other than x86-64; code that
 * ThreadSanitizer has filled with calls that must not be interrupted; a hostile build, whose random
 * delays make every run different. */
void step_require(void);

/* Runs op(context); after its `at`-th instruction (from 1) meanwhile(context) runs once.  False if
 * op ended before that and `meanwhile` did not run. */
bool step_interrupt(uint64_t at, step_fn op, step_fn meanwhile, void *context);

/* Which operations were still running when the other began. */
struct step_meeting {
    bool is_inside_first;
    bool is_inside_second;
};

/* Runs `first` up to its at_first-th instruction, then `second`, on a thread of its own, up to its
 * at_second-th; then first to its end, and finally second to its end. */
struct step_meeting step_interleave(uint64_t at_first, step_fn first, uint64_t at_second,
                                    step_fn second, void *context);

/* Runs op(context) and returns the number of its instructions, plus a few of the frame. */
uint64_t step_count(step_fn op, void *context);

/* The distance between the instructions to try in step_interleave: 1 in an optimised build; more
 * where AddressSanitizer or the lack of optimisation makes operations so long that all pairs would
 * take minutes.  `steps` as returned by step_count. */
uint64_t step_stride(uint64_t steps);

#endif
