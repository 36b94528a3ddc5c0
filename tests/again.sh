#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs certain tests again, without other tests beside them, when run.sh has run all programs.
#   tests/again.sh LOGS LIST
# The script repeats two kinds:
#   slow   A test or program that ended after its limit.  The script runs it once more.  It has
#          failed if it does not pass, or is slow again.  A test that hung has failed already.
#   late   A test in timing_checks.list that failed a check of elapsed time (CHECK_TIME).  The
#          script runs it up to three more times.  It has passed if two of these runs pass.  It has
#          failed if two runs are late, or if one run fails in any other way.
# The script prints a line "slow: ..." or "unsteady: ..." for each, also if it passes.  It keeps the
# first log in LOGS/NAME.first and the last log in LOGS/again.  It repeats no other failure: a hang,
# a crash, a sanitizer report and a failed check of another kind are final.
set -u
logs=$1
here=$(dirname "$0")
mkdir -p "$logs/again" || exit 2

# Prints "slow TEST", "late TEST" or "wrong TEST" (failed in another way) for such tests of a log.
verdicts() {
    awk '
        function report() {
            if (is_bad) print (is_late && !is_wrong ? "late" : "wrong"), name
            else if (is_slow) print "slow", name
        }
        /^(not )?ok [0-9]/ {
            report()
            is_bad = /^not/; is_slow = / # SLOW/; is_late = is_wrong = 0
            name = $0; sub(/^(not )?ok [0-9]+ - /, "", name); sub(/ # .*/, "", name)
        }
        /^# [^ ]+:[0-9]+: failed: late: / { is_late = 1 }
        /^# hung/ || /^# ended by signal/ || (/^# exit status/ && !/ 1$/) { is_wrong = 1 }
        END { report() }' "$1"
}

# Whether the log shows a failure after which no test of the program may run again.
is_final() {
    grep -q "^not ok - " "$1" ||
        grep -v "^#" "$1" | grep -q -e "Sanitizer" -e "runtime error:" -e "^==[0-9]*=="
}

# try PROGRAM [TEST]: runs it once more; prints "ok", "slow", "late" or "wrong".
try() {
    second=$logs/again/$(basename "$1").tap
    "$here/run_one.sh" "$logs/again" "$1" ${2:+"$2"} </dev/null
    if is_final "$second"; then
        echo wrong
    elif grep -q "^# SLOW: " "$second"; then
        echo slow
    else
        verdict=$(verdicts "$second" | head -n 1)
        echo "${verdict:-ok}" | cut -d ' ' -f 1
    fi
}

# rewrite LOG TEST RESULT REASON: replaces the result of the test in the log of its program.
rewrite() {
    sed "s/^\(not \)\{0,1\}ok \([0-9]* - $2\)\( # SLOW\)\{0,1\}\$/$3 \2 # $4/" "$1" >"$1.new" &&
        mv "$1.new" "$1"
}

again_slow() {
    result=$(try "$1" "$2")
    if [ "$result" = ok ]; then
        echo "slow: $name $2 exceeded its limit once, and not when it ran alone"
        rewrite "$log" "$2" ok "slow once"
    else
        echo "slow: $name $2 exceeded its limit; second run: $result"
        rewrite "$log" "$2" "not ok" "slow; second run: $result"
        sed 's/^/# last run: /' "$logs/again/$name.tap" >>"$log"
    fi
}

again_late() {
    passed=0
    missed=0
    while [ $passed -lt 2 ] && [ $missed -lt 2 ]; do
        result=$(try "$1" "$2")
        case $result in
        ok) passed=$((passed + 1)) ;;
        late) missed=$((missed + 1)) ;;
        *) missed=2 ;;
        esac
    done
    if [ $passed -eq 2 ]; then
        echo "unsteady: $name $2 was late once and passed 2 of $((passed + missed)) further runs"
        rewrite "$log" "$2" ok "unsteady"
    else
        echo "unsteady: $name $2 was late and passed $passed further runs; the last run: $result"
        sed 's/^/# last run: /' "$logs/again/$name.tap" >>"$log"
    fi
}

again_program() {
    result=$(try "$1" "")
    echo "slow: $name exceeded its limit; second run: $result"
    if [ "$result" != ok ]; then
        echo "not ok - $name was slow; second run: $result" >>"$log"
        sed 's/^/# last run: /' "$logs/again/$name.tap" >>"$log"
    fi
}

while read -r program; do
    name=$(basename "$program")
    log=$logs/$name.tap
    if is_final "$log" || { [ -z "$(verdicts "$log")" ] && ! grep -q "^# SLOW: " "$log"; }; then
        continue
    fi
    cp "$log" "$logs/$name.first"
    verdicts "$log" >"$logs/$name.verdicts"
    while read -r verdict test; do
        case $verdict in
        slow) again_slow "$program" "$test" ;;
        late)
            if grep -qx -- "${name%.uring} $test" "$here/timing_checks.list"; then
                again_late "$program" "$test"
            fi ;;
        esac
    done <"$logs/$name.verdicts"
    if grep -q "^# SLOW: " "$logs/$name.first"; then
        again_program "$program"
    fi
done <"$2"
