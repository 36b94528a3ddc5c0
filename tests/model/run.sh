#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves the lock-free code in the model checker, and the checker by what it must find.
#   tests/model/run.sh BUILD_DIR
# 1 every kernel test, exhaustively, in sc, tso and view
# 2 every mutant: one memory order weakened, or one fence dropped
# 3 the faults written by hand
# 4 the checker itself: the reduction loses no run, and a seed is a run
set -u
build=$1
wrong=0
begin=$(date +%s)

while read -r program; do "$program" || wrong=1; done <"$build/model.list" >"$build/model.out"
cat "$build/model.out"

echo "---- mutants"
while read -r program; do "$program" --mutants || wrong=1; done <"$build/model.list" \
    >"$build/mutants.out"
cat "$build/mutants.out"

echo "---- faults"
tests/model/faults.py "$build" || wrong=1

echo "---- the checker itself"
"$build/model_litmus" --compare >"$build/compare.out" || wrong=1
"$build/model_lock" --compare >>"$build/compare.out" || wrong=1
"$build/model_deque" --compare --memory tso >>"$build/compare.out" || wrong=1
"$build/model_mpsc" --compare --test "one take" >>"$build/compare.out" || wrong=1
grep WRONG "$build/compare.out"
echo "reduced and plain search finish the same runs in $(grep -c runs "$build/compare.out") tests"
for search in pct:2 random; do
    # The failure that a seed leads to is found again from that seed alone.
    seed=$("$build/model_sleep" --search $search --test second --memory tso --trace |
        sed -n 's/.*seed \([0-9]*\),.*/\1/p')
    again=$("$build/model_sleep" --search $search --test second --memory tso --runs 1 --trace \
        --seed "${seed:-0}" | grep -c deadlock)
    [ "$again" = 1 ] || { echo "WRONG: $search does not repeat from seed ${seed:-none}"; wrong=1; }
    echo "$search: the lost wake-up of seed ${seed:-none} repeats"
done

awk -v seconds=$(($(date +%s) - begin)) '
    / runs \+ / { tests++; for (i = 1; i <= NF; i++) if ($i == "runs") { runs += $(i - 1) }
                  if (/exhausted/) exhausted++; if (/as it must/) expected++
                  for (i = 1; i <= NF; i++) if ($i == "s") time += $(i - 1) }
    / mutants, / { mutants += $2; killed += $4 }
    END { printf "%d searches: %d exhausted, %d fail as they must; %d runs, %.0f a second; ",
                 tests, exhausted, expected, runs, (time > 0 ? runs / time : 0)
          printf "%d of %d mutants killed, %d equivalent; %d s\n",
                 killed, mutants, mutants - killed, seconds }
' "$build/model.out" "$build/mutants.out"
exit $wrong
