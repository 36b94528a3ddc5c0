#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one test program, or one test of it, and writes its log, LOGS/NAME.tap.
#   tests/run_one.sh LOGS PROGRAM [TEST]
# A program has failed if it ends without a plan line ("1..N"), if it runs a number of tests that
# differs from its plan, or if it exits with a status that no failed test explains.  The script adds
# a "not ok" line to the log for that.  If the program exceeds its limit, watch.sh logs its stacks,
# and kills it if it still does not end.
# Environment: WEFT_TEST_WRAP and WEFT_TEST_LIMIT as in run.sh; WEFT_TEST_TIME multiplies the limit.
set -u
here=$(dirname "$0")
name=$(basename "$2")
log=$1/$name.tap
limit=$(awk "BEGIN { print int(${WEFT_TEST_LIMIT:-300} * ${WEFT_TEST_TIME:-1} + 0.999) }")
: >"$log"

# watch.sh is orphaned at once.  As a child of the program it would be one more process in a test
# that counts its children, and its exit would send the program SIGCHLD.
watched() {
    sh -c '("$1/watch.sh" $$ "$2" "$3" &) </dev/null >/dev/null 2>&1; shift 3; exec "$@"' \
        sh "$here" "$limit" "$log" "$@"
}

case $name in
*.py)
    if command -v python3 >/dev/null; then
        watched python3 "$2"
    else
        echo "ok 1 - $name # SKIP python3 is not installed"
        echo "1..1"
    fi ;;
*) watched ${WEFT_TEST_WRAP-} "$2" ${3:+"=$3"} ;;
esac >>"$log" 2>&1
status=$?
planned=$(sed -n "s/^1\.\.\([0-9]*\).*/\1/p" "$log" | tail -n 1)
ran=$(grep -c -e "^ok " -e "^not ok " "$log")
if [ -z "$planned" ]; then
    echo "not ok - $name ended without a plan, status $status" >>"$log"
elif [ "$planned" -ne "$ran" ]; then
    echo "not ok - $name planned $planned tests and ran $ran" >>"$log"
elif [ "$status" -ne 0 ] && ! grep -q "^not ok" "$log"; then
    echo "not ok - $name ended with status $status" >>"$log"
fi
