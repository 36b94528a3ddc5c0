#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks the lock-free code in the model checker, and that the checker finds known defects.
#   tests/model/run.sh BUILD_DIR
# 1 runs every model test, exhaustively, in the memory models sc, tso and view
# 2 runs every mutant: a source with one memory order weakened, or one fence dropped
# 3 runs the faults: sources with a hand-written defect
# 4 checks the checker: the reduction loses no run, a seed repeats its run, and each kind of mutant
#   gets its own verdict
# Every failure prints a line with the word WRONG.  The last line is "model: ok, ..." or
# "model: FAILED, ..."; in the latter case the script prints the WRONG lines again before it.  The
# files BUILD_DIR/*.out keep all output: the rows of the litmus tests, and the test that killed each
# mutant.
set -u
build=$1
begin=$(date +%s)
rm -f "$build"/*.out

# log NAME COMMAND...: writes the command's output into NAME.out; a status other than 0 is WRONG.
log() {
    out=$build/$1.out
    shift
    "$@" >>"$out" 2>&1 || echo "  WRONG: status $? of $*" >>"$out"
}

# show NAME COMMAND...: writes the output into NAME.out, and prints it.
show() {
    out=$build/$1.out
    shift
    { "$@" 2>&1 || echo "  WRONG: status $? of $*"; } | tee -a "$out"
}

# each NAME ARGUMENT...: runs every program of the list on stdin, one per processor at a time, and
# prints the output of a program when it ends.  The lines of killed mutants are only in the file.
each() {
    kind=$1
    shift
    xargs -P "$(nproc)" -I '{}' sh -c '
        program=$1
        out=$2/$3.$(basename "$program").out
        shift 3
        "$program" "$@" >"$out" 2>&1 || echo "  WRONG: status $? of $program $*" >>"$out"
        grep -v -e "^  killed: " -e "^  crashed: " "$out"
        true' sh '{}' "$build" "$kind" "$@"
}

is_right() { ! grep -q WRONG "$build/$1.out"; }

log litmus "$build/model_litmus"
if is_right litmus; then
    echo "litmus: $(grep -c ' runs + ' "$build/litmus.out") verdicts as in x86 and C11"
else
    cat "$build/litmus.out"
fi
grep -v '/model_litmus$' "$build/model.list" | each model

echo "---- mutants"
each mutants --mutants --verbose <"$build/model.list"

echo "---- faults"
show faults tests/model/faults.py "$build"

echo "---- the checker itself"
log compare "$build/model_litmus" --compare
log compare "$build/model_lock" --compare
log compare "$build/model_deque" --compare --memory tso
log compare "$build/model_mpsc" --compare --test "one take"
if is_right compare; then
    compared=$(grep -c runs "$build/compare.out")
    echo "reduced and plain search finish the same runs in $compared tests"
else
    grep WRONG "$build/compare.out"
fi

# repeat SEARCH: checks that a run with only the seed of a found failure fails again.
repeat() {
    seed=$("$build/model_sleep" --search "$1" --test second --memory tso --trace |
        sed -n 's/.*seed \([0-9]*\),.*/\1/p')
    again=$("$build/model_sleep" --search "$1" --test second --memory tso --runs 1 --trace \
        --seed "${seed:-0}" | grep -c deadlock)
    if [ -n "$seed" ] && [ "$again" = 1 ]; then
        echo "$1: the lost wake-up of seed $seed repeats"
    else
        echo "  WRONG: $1 does not repeat from seed ${seed:-none}"
    fi
}
show seeds repeat pct:2
show seeds repeat random

"$build/model_verdicts" --mutants --verbose --limit 1 2>&1 | sed 's/:[0-9]*]$/]/' |
    LC_ALL=C sort >"$build/verdicts"
if diff "$build/verdicts" tests/model/verdicts.txt >"$build/verdicts.diff"; then
    echo "mutants killed, crashed, equivalent, surviving and endless are distinguished"
else
    cat "$build/verdicts.diff"
    echo "  WRONG: verdicts on mutants are not those of tests/model/verdicts.txt" |
        tee "$build/verdicts.out"
fi

summary=$(awk -v seconds=$(($(date +%s) - begin)) '
    / runs \+ / { tests++; for (i = 1; i <= NF; i++) if ($i == "runs") { runs += $(i - 1) }
                  if (/exhausted/) exhausted++; if (/as it must/) expected++
                  for (i = 1; i <= NF; i++) if ($i == "s") time += $(i - 1) }
    / mutants, / { mutants += $2; killed += $4; crashed += $6; equivalent += $8 }
    /^faults: / { faults = $2 " of " $4 }
    END { printf "%d searches: %d exhausted, %d fail as they must; %d runs, %.0f a second; ",
                 tests, exhausted, expected, runs, (time > 0 ? runs / time : 0)
          printf "%d mutants: %d killed, %d crashed, %d equivalent; %s faults found; %d s",
                 mutants, killed, crashed, equivalent, faults, seconds }
' "$build"/*.out)
wrong=$(cat "$build"/*.out | grep -c WRONG)
if [ "$wrong" -eq 0 ]; then
    echo "model: ok, $summary"
else
    echo "---- wrong"
    cat "$build"/*.out | grep WRONG
    echo "model: FAILED, $wrong wrong; $summary"
    exit 1
fi
