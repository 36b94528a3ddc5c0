#!/bin/sh
# SPDX-License-Identifier: MIT
# What `make run` shows: the queues at work, and the checker that keeps them honest.
#   examples/run.sh RELEASE_BUILD MODEL_BUILD
set -eu
"$1/queues"
echo
echo "And what keeps this honest: the same sources in a model checker, every order of steps."
echo
"$2/model_ring" --test "two thieves" --memory sc
"$2/model_deque" --test "growth" --memory view
echo
echo "A worker that goes to sleep without looking at the queue once more loses a wake-up:"
echo
# Narrow enough for any terminal: places in the code and plain accesses are left out.
"$2/model_sleep" --test "second look" --memory tso --trace |
    sed -e '/(plain)/d' -e 's/   \[.*\]$//' -e '/ runs + /s/   */  /g'
