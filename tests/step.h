/* SPDX-License-Identifier: MIT */
/*
 * step.h - lets one operation happen between any two instructions of another.
 *
 * Two threads that race meet in a given window by luck.  Here the CPU's single-step flag runs an
 * operation one instruction at a time, and at a chosen one a second operation happens, whole, as
 * if another thread had run while the first was preempted.  A loop over all instructions covers
 * every single preemption of the compiled code, each time, on any machine:
 *
 *     for (uint64_t at = 1;; at++) {
 *         ... build the scene ...
 *         bool is_inside = step_interrupt(at, pop, steal, &scene);
 *         ... what pop and steal took must add up ...
 *         if (!is_inside) {
 *             break;  // pop has fewer than `at` instructions: all places were tried
 *         }
 *     }
 *
 * step_interleave() preempts both operations once.  Not covered: more preemptions, and what the
 * CPU reorders; the model and TSan look for those.  An operation that waits for the other (a lock)
 * would hang.
 */
#ifndef STEP_H
#define STEP_H

#include <stdbool.h>
#include <stdint.h>

typedef void (*step_fn)(void *context);

/* Skips the running test where this build cannot be stepped: another CPU than x86-64; code that
 * ThreadSanitizer has filled with calls which must not be interrupted; a hostile build, whose
 * random dawdling makes every run another one. */
void step_require(void);

/* Runs op(context); after its `at`-th instruction (from 1) meanwhile(context) runs once.  False
 * when op ended before that and `meanwhile` did not run. */
bool step_interrupt(uint64_t at, step_fn op, step_fn meanwhile, void *context);

/* Which operations were still running when the other was let in. */
struct step_meeting {
    bool is_inside_first;
    bool is_inside_second;
};

/* Runs `first` as far as its at_first-th instruction, then `second`, on a thread of its own, as far
 * as its at_second-th; then first to its end, and at last second to its end. */
struct step_meeting step_interleave(uint64_t at_first, step_fn first, uint64_t at_second,
                                    step_fn second, void *context);

/* Runs op(context) and gives the number of its instructions, within a few of the frame. */
uint64_t step_count(step_fn op, void *context);

/* How far apart the places for step_interleave are to lie: every instruction in an optimised
 * build; fewer where AddressSanitizer or the lack of optimisation makes operations so long that
 * all pairs would take minutes.  `steps` as step_count gives it. */
uint64_t step_stride(uint64_t steps);

#endif
