#!/bin/sh
# SPDX-License-Identifier: MIT
# Counts the system calls of the server per operation of a row of bench_io, with strace.
#   bench/syscalls.sh [ROW [VARIANT...]]    default: ROW echo-50, VARIANT weft and epoll
# Environment: BUILD    the folder of bench_io (build/release)
#              OPS      operations (20000); the warm-up adds a tenth, which the divisor includes
#              WORKERS  workers of the runtime (1)
# strace slows the server down, so that it sleeps less often than without strace: the figures are
# those of a busy server.
set -u
row=${1:-echo-50}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- weft epoll
build=${BUILD:-$(dirname "$0")/../build/release}
ops=${OPS:-20000}
if ! command -v strace >/dev/null; then
    echo "skipped: system calls (no strace: apt-get install strace)"
    exit 0
fi
counts=$(mktemp) || exit 2
trap 'rm -f "$counts"' EXIT

echo "| row | variant | system call | for each operation |"
echo "|---|---|---|--:|"
for variant in "$@"; do
    # The load generator is a separate program; strace detaches from it at its execve.
    strace -f -b execve -c -o "$counts" "$build/bench_io" "$row" "$variant" "$ops" \
        "${WORKERS:-1}" >/dev/null || exit 1
    awk -v row="$row" -v variant="$variant" -v ops="$((ops + ops / 10))" '
        $NF == "total" || $4 !~ /^[0-9]+$/ { next }
        { all += $4 }
        $4 >= ops / 100 { printf "| %s | %s | %s | %.2f |\n", row, variant, $NF, $4 / ops }
        END { printf "| %s | %s | all | %.2f |\n", row, variant, all / ops }' "$counts"
done
