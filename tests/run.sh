#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the test programs that a build lists, two at a time, and adds up their TAP.
#   tests/run.sh BUILD_DIR [NAME...]    NAME: only test programs whose file name contains it
# The last line is "N passed, N failed" (", N skipped" where any).  Exit status 0: none failed.
set -u
build=$1
shift
logs=$build/logs
rm -rf "$logs" && mkdir -p "$logs" || exit 2

list=$build/tests.list
if [ $# -gt 0 ]; then
    for name in "$@"; do grep -- "/[^/]*$name[^/]*\$" "$list"; done | sort -u >"$logs/list"
    list=$logs/list
fi

# Each program writes its own log; what ends without a plan line ("1..N") has crashed.
xargs -P 2 -I PROGRAM sh -c '
    log=$1/$(basename "$2").tap
    $WEFT_TEST_WRAP "$2" >"$log" 2>&1
    grep -q "^1\.\." "$log" || echo "not ok - $2 ended without a plan" >>"$log"
    if grep -q "^not ok" "$log"; then cat "$log"; else
        echo "ok: $(basename "$2"), $(grep -c "^ok" "$log") tests"; fi
' sh "$logs" PROGRAM <"$list"

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
