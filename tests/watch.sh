#!/bin/sh
# SPDX-License-Identifier: MIT
# Enforces the time limit of a test program that run_one.sh has started.  The harness enforces the
# limits of single tests; but test scripts have no harness, and the harness itself may hang.
#   tests/watch.sh PID LIMIT_S LOG
# After LIMIT_S the script writes a line "# SLOW: ..." and the program's stacks into the log.  After
# three times LIMIT_S it kills the program and all processes that the program started; the program
# has failed then.
set -u
here=$(dirname "$0")
name=$(basename "$3" .tap)
# `tail` ends within a second after the process.
timeout "$2" tail --pid="$1" -f /dev/null && exit
echo "# SLOW: $name has run for more than $2 s; its stacks and tasks:" >>"$3"
"$here/stacks.sh" "$1" >>"$3"
timeout $((2 * $2)) tail --pid="$1" -f /dev/null && exit
echo "# hung: $name still running after 3 times $2 s" >>"$3"
"$here/stacks.sh" --kill "$1"
