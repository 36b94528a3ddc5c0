#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the test programs that a build lists, two at a time, and adds up their TAP.
#   tests/run.sh [--all | --stress] BUILD_DIR [NAME...]
#     --all     also what needs to run in one build only: the tests of the tools, written in
#               Python, and the question whether every mark of the source was reached (marks.sh)
#     --stress  the long programs instead, one at a time, with their reports
#     NAME      only test programs whose file name contains it
# Environment: WEFT_TEST_WRAP  a command to run compiled tests under (an emulator, valgrind)
# The last line is "N passed, N failed" (", N skipped" where any).  Exit status 0: none failed;
# 1: some failed, or none passed; 2: nothing was run.
set -u
usage() {
    echo "usage: tests/run.sh [--all | --stress] BUILD_DIR [NAME...]" >&2
    exit 2
}
is_all=no
list_name=tests.list
jobs=2
shown='^not ok' # a log with such a line is shown
case ${1-} in
--all)
    is_all=yes
    shift ;;
--stress)
    list_name=stress.list
    jobs=1
    shown=.
    shift ;;
esac
case ${1-} in
'' | -*) usage ;;
esac
build=$(cd "$1" && pwd) || exit 2
shift
logs=$build/logs
rm -rf "$logs" && mkdir -p "$logs" || exit 2
export WEFT_TEST_MARKS="$logs/marks"
export WEFT_TEST_BUILD="$build" # for scripts that try what was built
: >"$WEFT_TEST_MARKS"

list=$logs/list
if [ $is_all = yes ]; then
    cp "$build/$list_name" "$list"
else
    grep -v '\.py$' "$build/$list_name" >"$list"
fi
if [ $# -gt 0 ]; then
    for name in "$@"; do grep -- "/[^/]*$name[^/]*\$" "$list"; done | sort -u >"$list.named"
    list=$list.named
fi
if [ ! -s "$list" ]; then
    echo "tests/run.sh: no test program of $build/$list_name matches${*:+ $*}" >&2
    exit 2
fi

# Each program writes its own log.  One that ends without a plan line ("1..N"), ran another number
# of tests than it planned, or exits with a status that no failed test explains, has failed.
xargs -P $jobs -I PROGRAM sh -c '
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
    *) $WEFT_TEST_WRAP "$2" ;;
    esac >"$log" 2>&1
    status=$?
    planned=$(sed -n "s/^1\.\.\([0-9]*\).*/\1/p" "$log" | tail -n 1)
    ran=$(grep -c -e "^ok " -e "^not ok " "$log")
    skipped=$(grep -c "^ok .*# SKIP" "$log")
    if [ -z "$planned" ]; then
        echo "not ok - $name ended without a plan, status $status" >>"$log"
    elif [ "$planned" -ne "$ran" ]; then
        echo "not ok - $name planned $planned tests and ran $ran" >>"$log"
    elif [ "$status" -ne 0 ] && ! grep -q "^not ok" "$log"; then
        echo "not ok - $name ended with status $status" >>"$log"
    fi
    echo "$name" >>"$1/judged"
    if [ "$3" = . ]; then
        cat "$log"
    elif grep -q "$3" "$log"; then
        grep -v "^ok " "$log"
    elif [ "$skipped" -eq "$ran" ]; then
        echo "skipped: $name"
    else
        echo "ok: $name, $ran tests"
    fi
' sh "$logs" PROGRAM "$shown" <"$list"

# What was never judged has failed too: a shell above that was killed takes the rest with it.
while read -r program; do
    name=$(basename "$program")
    if ! grep -qx -- "$name" "$logs/judged" 2>/dev/null; then
        echo "not ok - $name was not run to its end" | tee -a "$logs/$name.tap"
    fi
done <"$list"

# Only a full run says which marks are reached; what it says outlives shorter runs.
if [ $is_all = yes ] && [ $# -eq 0 ]; then
    cp "$WEFT_TEST_MARKS" "$build/marks" || exit 2
    "$(dirname "$0")/marks.sh" "$build" >"$logs/marks.tap" || cat "$logs/marks.tap"
fi

# The totals, last and alone on their line.
cat "$logs"/*.tap | awk '
    /^not ok/ { failed++ }
    /^ok .*# SKIP/ { skipped++; sub(/^ok [0-9]+ - /, ""); print "skipped: " $0; next }
    /^ok / { passed++ }
    END {
        printf "%d passed, %d failed", passed, failed
        if (skipped) printf ", %d skipped", skipped
        printf "\n"
        exit failed > 0 || passed == 0
    }'
