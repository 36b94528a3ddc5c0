#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares the marks in the source, WF_REACHED("file.what"), with the marks that the last full test
# run reached: a rare branch that no test takes is untested.
#   tests/marks.sh BUILD_DIR    prints one TAP result, and for each mark the number of tests that
#                               reached it
set -u
cd "$(dirname "$0")/.." || exit 2
reached=$1/marks # written by tests/run.sh --all
if [ ! -f "$reached" ]; then
    echo "no full run yet: run \`make test\` first" >&2
    exit 2
fi

# The second grep drops marks in comments.
grep -rn 'WF_REACHED("' src | grep -v '^[^:]*:[0-9]*:[[:space:]]*[/*]' |
    sed 's/^\([^:]*:[0-9]*\):.*WF_REACHED("\([^"]*\)").*/\2 \1/' | sort |
    awk -v reached="$reached" '
        BEGIN { while ((getline name < reached) > 0) tests[name]++ }
        {
            marks++
            # Without io_uring in the kernel, or without the right to use it, no test can reach
            # the marks of src/io/uring.c.
            if (!tests[$1] && (tests["uring.opened"] || $1 !~ /^uring\./)) missing++
            text = text sprintf("# %5d  %s  %s\n", tests[$1], $1, $2)
        }
        END {
            printf "%s 1 - tests reach every mark of the source", missing ? "not ok" : "ok"
            print marks ? "" : " # SKIP the source has no marks"
            if (missing) printf "# %d of %d marks were not reached\n", missing, marks
            printf "%s1..1\n", text
            exit missing > 0
        }'
