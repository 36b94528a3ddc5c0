#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares the marks in the source, WF_REACHED("file.what"), with those that the last full run of
# the tests reached: a rare branch that no test takes is a branch nobody knows to work.
#   tests/marks.sh BUILD_DIR    prints one TAP result, and each mark with how many tests reached it
set -u
cd "$(dirname "$0")/.." || exit 2
reached=$1/marks # tests/run.sh --all keeps it
if [ ! -f "$reached" ]; then
    echo "no full run yet: \`make test\` makes one" >&2
    exit 2
fi

# The second grep drops comments, which speak of marks without being one.
grep -rn 'WF_REACHED("' src | grep -v '^[^:]*:[0-9]*:[[:space:]]*[/*]' |
    sed 's/^\([^:]*:[0-9]*\):.*WF_REACHED("\([^"]*\)").*/\2 \1/' | sort |
    awk -v reached="$reached" '
        BEGIN { while ((getline name < reached) > 0) tests[name]++ }
        {
            marks++
            # A kernel that has no io_uring, or does not allow it, shows nothing of src/io/uring.c.
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
