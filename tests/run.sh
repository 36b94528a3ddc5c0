#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the test programs that a build lists, two at a time, and adds up their TAP.
#   tests/run.sh [--all | --stress] BUILD_DIR [NAME...]
#     --all     also what needs to run in one build only: the tests of the tools, written in
#               Python, and the question whether every mark of the source was reached (marks.sh)
#     --stress  the long programs instead, one at a time, with their reports
#     NAME      only test programs whose file name contains it
# Environment: WEFT_TEST_WRAP   a command to run compiled tests under (an emulator, valgrind)
#              WEFT_TEST_AGAIN  how often a program whose checks failed, or that hung, has to pass
#                               alone to be called unsteady instead of failed; 0, unless set
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

# Each program writes its own log, with a verdict (judge.sh).
here=$(dirname "$0")
xargs -P $jobs -I PROGRAM sh -c '
    "$1/judge.sh" "$2" "$4" || exit
    name=$(basename "$4")
    log=$2/$name.tap
    ran=$(grep -c -e "^ok " -e "^not ok " "$log")
    echo "$name" >>"$2/judged"
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

# What was never judged has failed too: a shell above that was killed takes the rest with it.
while read -r program; do
    name=$(basename "$program")
    if ! grep -qx -- "$name" "$logs/judged" 2>/dev/null; then
        echo "not ok - $name was not run to its end" | tee -a "$logs/$name.tap"
    fi
done <"$list"

# What failed is tried again, alone, if that was asked for: the machine may have been the reason.
# It never is where a program died or a sanitizer spoke.  What passes each time is called unsteady,
# and its first log is kept; somebody has to look at it, but it is no failure of this run.
tries=${WEFT_TEST_AGAIN:-0}
while [ "$tries" -gt 0 ] && read -r program; do
    name=$(basename "$program")
    log=$logs/$name.tap
    if ! grep -q "^not ok [0-9]" "$log" ||
        grep -q -e "^not ok - " -e "^# ended by signal" -e "Sanitizer" -e "runtime error:" \
            -e "^==[0-9]*==" "$log"; then
        continue
    fi
    cp "$log" "$logs/$name.unsteady"
    try=1
    while [ $try -le "$tries" ] && "$here/judge.sh" "$logs" "$program" </dev/null &&
        ! grep -q "^not ok" "$log"; do
        try=$((try + 1))
    done
    if [ $try -gt "$tries" ]; then
        echo "unsteady: $name failed once, and then passed $tries times; see $logs/$name.unsteady"
    else
        cat "$logs/$name.unsteady" >"$log"
        rm "$logs/$name.unsteady"
    fi
done <"$list"

# Only a full run says which marks are reached; what it says outlives shorter runs.
if [ $is_all = yes ] && [ $# -eq 0 ]; then
    cp "$WEFT_TEST_MARKS" "$build/marks" || exit 2
    "$here/marks.sh" "$build" >"$logs/marks.tap" || cat "$logs/marks.tap"
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
