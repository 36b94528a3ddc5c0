#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the stacks of all threads, and the tasks of all runtimes, of a process that exceeded its
# limit and of its descendants.  Each line begins with "# ", for a TAP log.
#   tests/stacks.sh PID
#   tests/stacks.sh --kill PID     kills these processes instead
#
# gdb stops the process, prints the stacks, and makes a thread call weft_runtime_dump
# (tests/stacks.py says which thread, and why that works in a process that hangs).
# weft_runtime_dump writes the tasks to a memfd that the harness opens for this in each test process
# (tests/tap.c); for a process without it the script prints only the stacks.  Without gdb the
# script prints a notice and the state of the threads in /proc.
set -u
MEMORY=weft-stacks # the name of that memfd
GDB_S=60           # the time that gdb has for a process before the script interrupts it
here=$(dirname "$0")

# Prints the PIDs of the process and its descendants.
tree() {
    cat /proc/[0-9]*/status 2>/dev/null | awk -v root="$1" '
        /^Pid:/ { pid = $2 }
        /^PPid:/ { parent[pid] = $2 }
        END {
            for (pid in parent) {
                for (up = pid; up != root && up > 1; up = parent[up]) { }
                if (up == root) print pid
            }
        }' | sort -n
}

# Prints the descriptor number of the memfd in a process, or nothing if the process has none.
memory_of() {
    for link in "/proc/$1/fd"/*; do
        case $(readlink "$link") in
        "/memfd:$MEMORY"*) basename "$link"; return ;;
        esac
    done
}

of_kernel() {
    for thread in "/proc/$1/task"/*; do
        echo "thread $(basename "$thread"):" \
            "$(awk '/^(Name|State):/ { $1 = ""; printf "%s", $0 }' "$thread/status" 2>/dev/null)," \
            "waits in the kernel at $(cat "$thread/wchan" 2>/dev/null)"
    done
}

of_gdb() {
    fd=$(memory_of "$1")
    # Opened before gdb runs: the script can read the memfd even if the process ends.
    [ -z "$fd" ] || { : >"/proc/$1/fd/$fd"; exec 3<"/proc/$1/fd/$fd"; }
    # When interrupted, gdb unwinds a call that it has made and detaches from the process.
    report=$(timeout -s INT -k 10 $GDB_S gdb -nx -batch -p "$1" -ex "set \$tasks_fd = ${fd:--1}" \
        -x "$here/stacks.py" </dev/null 2>&1 |
        grep -v -e '^\[New LWP' -e '^\[Thread debugging' -e '^Using host' -e '^warning: ')
    printf '%s\n' "$report"
    case $report in
    *"Thread "*) ;;
    *) of_kernel "$1" ;; # gdb could not attach
    esac
    if [ -n "$fd" ]; then
        echo "tasks of process $1, by weft_runtime_dump:"
        cat <&3
        exec 3<&-
    fi
}

if [ "$1" = --kill ]; then
    kill -9 $(tree "$2") 2>/dev/null
    exit
fi
for pid in $(tree "$1"); do
    echo "process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
    if [ -n "${WEFT_TEST_WRAP-}" ]; then
        echo "runs under $WEFT_TEST_WRAP: gdb would show that program, not the test"
        of_kernel "$pid"
    elif ! command -v gdb >/dev/null; then
        echo "gdb is not installed (tools/setup.sh stacks): no stacks and no tasks"
        of_kernel "$pid"
    else
        of_gdb "$pid"
    fi
done 2>/dev/null | sed 's/^/# /'
