#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one test program and writes its log, LOGS/NAME.tap.
#   tests/judge.sh LOGS PROGRAM
# One that ends without a plan line ("1..N"), ran another number of tests than it planned, or exits
# with a status that no failed test explains, has failed; the log says so in a line of its own.
# Environment: WEFT_TEST_WRAP as for run.sh.
set -u
name=$(basename "$2")
log=$1/$name.tap
case $name in
*.py)
    if command -v python3 >/dev/null; then
        python3 "$2"
    else
        echo "ok 1 - $name # SKIP python3 is not installed"
        echo "1..1"
    fi ;;
*) ${WEFT_TEST_WRAP-} "$2" ;;
esac >"$log" 2>&1
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
