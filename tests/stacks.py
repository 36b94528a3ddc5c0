# SPDX-License-Identifier: MIT
"""
Runs in gdb, which tests/stacks.sh has attached to a process.  Prints all stacks.  Then makes the
process write the tasks of each runtime to its descriptor $tasks_fd (below 0: none).

The workers lead to the runtimes: weft_runtime_self reads a thread-local variable and takes no lock,
so the script calls it in each thread while the other threads are stopped.  weft_runtime_dump takes
two locks, the lock of malloc and the lock of the task memory.  The script calls it in a non-worker
thread, which mostly sleeps in weft_run and holds neither lock, while all other threads run: a
thread that holds one of the locks can release it.  If a thread never releases it, the call does not
return; stacks.sh then interrupts gdb, and the stacks, which are printed first, show that thread.

Rejected: a signal handler.  It would interrupt a thread anywhere, also in malloc.
Rejected: a thread for this in each test process.  Each test that counts threads would see it.
"""
import gdb

gdb.execute("set pagination off")
gdb.execute("set unwindonsignal on")
gdb.execute("thread apply all bt 40")


def call(text):
    """Evaluates a call in the selected thread; None if there is no such function."""
    try:
        return int(gdb.parse_and_eval(text))
    except gdb.error as error:
        print(f"{text}: {error}")
        return None


def find_runtimes():
    """The runtimes of all threads, and a non-worker thread (if there is none, the first thread)."""
    gdb.execute("set scheduler-locking on")
    threads = sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num)
    caller = None
    runtimes = set()
    for thread in threads:
        thread.switch()
        runtime = call("((unsigned long (*)(void))weft_runtime_self)()")
        if runtime:
            runtimes.add(runtime)
        elif runtime == 0 and caller is None:
            caller = thread
    gdb.execute("set scheduler-locking off")
    return sorted(runtimes), caller or threads[0]


def dump_tasks(tasks_fd):
    runtimes, caller = find_runtimes()
    caller.switch()
    for runtime in runtimes:
        count = call(f"((int (*)(unsigned long, int))weft_runtime_dump)({runtime:#x}, {tasks_fd})")
        print(f"runtime {runtime:#x}: {count} tasks")


if int(gdb.parse_and_eval("$tasks_fd")) >= 0 and gdb.lookup_global_symbol("weft_runtime_dump"):
    dump_tasks(int(gdb.parse_and_eval("$tasks_fd")))
