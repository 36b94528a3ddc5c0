#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the test programs that a build lists, two at a time, and adds up their TAP.
#   tests/run.sh [--all | --stress] BUILD_DIR [NAME...]
#     --all     also runs the checks that one build suffices for: the tests of the tools, written
#               in Python, and the check that the tests reached every mark of the source (marks.sh)
#     --stress  runs the long programs instead, one at a time, and prints their logs
#     NAME      runs only the test programs whose file name contains a NAME
# Environment: WEFT_TEST_WRAP   a command under which compiled tests run (an emulator, valgrind)
#              WEFT_TEST_LIMIT  seconds after which a program is slow; default 300, and 1800 with
#                               --stress (for the limit of a single test see tap.h)
# A slow test or program, and a test in timing_checks.list that failed a check of elapsed time, runs
# again (again.sh); the script prints a line for each.
# The last line is "N passed, N failed", with ", N skipped" if N is not 0.  Exit status 0: no test
# failed; 1: a test failed, or none passed; 2: no test ran.
set -u
usage() {
    echo "usage: tests/run.sh [--all | --stress] BUILD_DIR [NAME...]" >&2
    exit 2
}
is_all=no
list_name=tests.list
jobs=2
shown='^not ok' # the script prints a log that contains this pattern
case ${1-} in
--all)
    is_all=yes
    shift ;;
--stress)
    list_name=stress.list
    jobs=1
    shown=.
    export WEFT_TEST_LIMIT="${WEFT_TEST_LIMIT:-1800}"
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
export WEFT_TEST_BUILD="$build" # for test scripts that run what was built
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

# run_one.sh writes a log for each program.
here=$(dirname "$0")
xargs -P $jobs -I PROGRAM sh -c '
    "$1/run_one.sh" "$2" "$4" || exit
    name=$(basename "$4")
    log=$2/$name.tap
    ran=$(grep -c -e "^ok " -e "^not ok " "$log")
    echo "$name" >>"$2/finished"
    if [ "$3" = . ]; then
        cat "$log"
    elif grep -q "$3" "$log"; then
        grep -v "^ok " "$log"
    elif [ "$(grep -c "^ok .*# SKIP" "$log")" -eq "$ran" ]; then
        echo "skipped: $name"
    else
        echo "ok: $name, $ran tests"
    fi
' sh "$here" "$logs" "$shown" PROGRAM <"$list"

# A program that did not finish has failed: when a shell above is killed, xargs starts no further
# program.
while read -r program; do
    name=$(basename "$program")
    if ! grep -qx -- "$name" "$logs/finished" 2>/dev/null; then
        echo "not ok - $name was not run to its end" | tee -a "$logs/$name.tap"
    fi
done <"$list"

# again.sh repeats slow tests and failed checks of elapsed time, and no other failure.
"$here/again.sh" "$logs" "$list"

# Only a full run shows which marks the tests reach, so shorter runs leave its result in place.
if [ $is_all = yes ] && [ $# -eq 0 ]; then
    cp "$WEFT_TEST_MARKS" "$build/marks" || exit 2
    "$here/marks.sh" "$build" >"$logs/marks.tap" || cat "$logs/marks.tap"
fi

# Prints the totals as the last line.
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
