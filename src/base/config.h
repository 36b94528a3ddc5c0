/* SPDX-License-Identifier: MIT */
/*
 * base/config.h - every limit and tunable: value, unit, range, reason.
 *
 * The model build (WF_MODEL) shrinks capacities and index widths.  The checker then reaches full,
 * empty and wrap-around in a search that it can exhaust.
 */
#ifndef WF_BASE_CONFIG_H
#define WF_BASE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

/* Defined in builds with the address sanitizer.  For the thread sanitizer see base/atomic.h. */
#if defined(__SANITIZE_ADDRESS__)
#define WF_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WF_ASAN 1
#endif
#endif

/* Bytes of a cache line on both supported CPUs.  Cells that different threads write are this far
 * apart.  x86 prefetches lines in pairs, but a distance of 128 was no faster when measured, and
 * would double the size of struct wf_worker. */
#define WF_CACHE_LINE 64

/* ---- run queues and the global queue ------------------------------------------------------- */

/* Slots of a worker's ring, a power of two.  Go and Tokio use 256 too.  Half of the ring overflows
 * into the global queue at once. */
#ifdef WF_MODEL
#define WF_RING_CAPACITY 4u
typedef uint8_t wf_ring_pos;
typedef uint16_t wf_ring_pair;
#else
#define WF_RING_CAPACITY 256u
typedef uint32_t wf_ring_pos;
typedef uint64_t wf_ring_pair;
#endif
#define WF_RING_POS_BITS (8u * (unsigned)sizeof(wf_ring_pos))

/* Slots of a deque's buffer, powers of two.  The first buffer takes two cache lines.  The largest
 * bounds the memory of a runaway producer: 1 GiB of pointers. */
#ifdef WF_MODEL
#define WF_DEQUE_CAPACITY_MIN 1u
#define WF_DEQUE_CAPACITY_MAX 16u
typedef uint8_t wf_deque_pos;
typedef int8_t wf_deque_diff;
#else
#define WF_DEQUE_CAPACITY_MIN 16u
#define WF_DEQUE_CAPACITY_MAX (1u << 27)
typedef uint64_t wf_deque_pos;
typedef int64_t wf_deque_diff;
#endif

/* Tasks left in the global queue above which a worker prefetches the stacks of the tasks that it
 * has just fetched.  While a task waits in a queue this long, its stack leaves the CPU's caches. */
#define WF_PREFETCH_QUEUE_MIN 4096u
/* Cache lines prefetched of each such stack: about what a resumed task touches. */
#define WF_PREFETCH_LINES 6u
/* Cache lines of the next task's stack that a worker prefetches before an I/O system call.  More
 * than above: a task suspended in an I/O call is some frames deeper, and the start of the buffer
 * that it reads into, above these frames, is prefetched too. */
#define WF_PREFETCH_LINES_IO 12u

/* Tasks that a worker takes from the global queue at once: the length of the queue divided by the
 * number of workers, within these bounds.  With a larger share one worker would drain the queue;
 * with a smaller one workers would take the lock too often. */
#define WF_INJECT_BATCH_MIN 4u
#define WF_INJECT_BATCH_MAX 64u
/* Tasks that a worker in depth-first order keeps from one fetch, beside the task that it runs
 * at once. */
#define WF_INJECT_BATCH_DEPTH_FIRST 16u

/* Free slots of the ring below which a worker rotates it behind the global queue, if the global
 * queue has more tasks than there are free slots. */
#define WF_ROTATE_FREE_MIN (WF_RING_CAPACITY / 4)
/* Nanoseconds between two rotations of one ring, at least.  1000 tasks that yield take 46 to 80 ns
 * a slice if the ring is rotated whenever each of its tasks has run once, and 31 ns with this
 * limit, because the ring's tasks are still in cache. */
#define WF_ROTATE_NS INT64_C(100000)

/* ---- workers and ticks --------------------------------------------------------------------- */

/* Workers of one runtime, spares included.  The bitmap of sleepers has one word for 64 workers, and
 * a notify scans all words.  Machines with more CPUs exist; a program there should use several
 * runtimes. */
#ifdef WF_MODEL
#define WF_WORKERS_MAX 64u
#else
#define WF_WORKERS_MAX 1024u
#endif

/* Tasks that a worker runs from its LIFO slot in a row before it takes one from its ring.  Two
 * tasks that wake each other would otherwise starve the ring. */
#define WF_LIFO_RUNS_MAX 3u

/* Nanoseconds within which a worker checks the global queue.  The check is due after as many ticks
 * as fit into this time by the moving average of a slice. */
#define WF_GLOBAL_LATENCY_NS INT64_C(1000000)
/* Ticks between two checks of the global queue, at most: a full ring, in which each task runs
 * once. */
#define WF_GLOBAL_INTERVAL_MAX (WF_RING_CAPACITY - 1)
/* Nanoseconds: the moving average of a slice before the first measurement. */
#define WF_SLICE_FIRST_NS INT64_C(50000)
/* The newest slice has a weight of 1 / this in the moving average. */
#define WF_SLICE_WEIGHT 10
/* Nanoseconds of a slice above which the worker reads the clock at every tick.  A reading costs
 * 16 ns.  The worker notices that slices became long after WF_CLOCK_INTERVAL_MAX ticks at most. */
#define WF_SLICE_LONG_NS INT64_C(1000)
/* Ticks between two readings of the clock while slices are short, at most. */
#define WF_CLOCK_INTERVAL_MAX 32u

/* Nanoseconds of a slice after which the leader or the control thread sets the preempt request: the
 * task yields at its next weft_check.  Go's forcePreemptNS has the same value. */
#define WF_SLICE_MAX_NS INT64_C(10000000)

/* Nanoseconds between two polls of the driver by busy workers, and between two submissions of the
 * I/O requests that a busy worker has batched. */
#define WF_DRIVER_POLL_NS INT64_C(200000)

/* Events taken from the kernel by one poll: the maximum and the default of `io_events_max`. */
#define WF_IO_EVENTS_MAX 256u

/* Nanoseconds of a slice after which the task is a hog and a spare takes over for its worker: the
 * default of `hog_ns`. */
#define WF_HOG_NS INT64_C(10000000)
/* Spares of a runtime: the default of `spares_max`. */
#define WF_SPARES_DEFAULT 64u

/* Operations of a task that succeed at once before it must yield.  Tokio's budget is 128 too. */
#define WF_TASK_BUDGET 128u

/* Ticks.  At every WF_NORMAL_INTERVAL-th tick normal tasks go before those of high priority, and at
 * every WF_LOW_INTERVAL-th tick a task of low priority goes before normal ones.  Without this a
 * steady load of one priority would starve the others. */
#define WF_NORMAL_INTERVAL 8u
#define WF_LOW_INTERVAL 64u

/* ---- forks and loops ----------------------------------------------------------------------- */

/* Forks in the shared part of a task's split deque.  With the word that requests more they fill one
 * cache line, which is all that a thief reads. */
#ifdef WF_MODEL
#define WF_FORK_SHARED_MAX 2u
#else
#define WF_FORK_SHARED_MAX 7u
#endif

/* Nanoseconds of one chunk of a loop without an explicit grain: see par/grain.c. */
#define WF_CHUNK_NS INT64_C(5000)
/* Indices of a loop.  A range with fewer indices is split before any chunk was measured, because a
 * single index may take any time.  A range with this many or more is split only when the measured
 * chunks show that the rest is worth a fork. */
#define WF_CHUNK_FIRST ((size_t)64)

/* Items of one block of a prefix sum: two passes over 64 KiB of numbers stay in a core's cache. */
#define WF_SCAN_BLOCK ((size_t)8192)
/* Bytes of one item of a prefix sum, at most: the frame holds a copy. */
#define WF_SCAN_ITEM_MAX 256u

/* Items that one worker sorts or merges without forking: about 100 us. */
#define WF_SORT_SEQUENTIAL ((size_t)4096)
/* Items of the runs that are sorted by insertion before they are merged. */
#define WF_SORT_INSERTION ((size_t)8)

/* ---- searching and backoff ----------------------------------------------------------------- */

/* Scans of all queues before a worker parks, about 5 us.  There is no sched_yield in between: since
 * Linux 6.6 each yield moves the thread's deadline by a whole slice, and a thread that is then
 * woken on a busy CPU waits behind all others for that time: milliseconds. */
#define WF_SEARCH_SPIN 64u

/* Steal backoff, see sched/steal_backoff.c.  A steal pays if the stolen tasks keep the thief busy
 * for WF_STEAL_WORTH_NS each, on average: that is what the two workers lose to cache lines that
 * move between them.  Each steal that does not pay raises the thief's level. */
#define WF_STEAL_WORTH_NS INT64_C(500) /* nanoseconds a task */
#define WF_STEAL_BACKOFF_BATCH 4u      /* tasks that a thief takes at once at level 1 and above */
#define WF_STEAL_LEVEL_PAUSE 3u        /* the level from which the thief pauses after each steal */
#define WF_STEAL_LEVEL_MAX 7u          /* the pause is 1.6 ms there: the added latency, at most */
#define WF_STEAL_PAUSE_NS INT64_C(100000) /* the first pause; it doubles with each level */

/* Nanoseconds after which the monitor reports unobserved failures.  A runtime reports them earlier
 * if it becomes quiescent, but a busy runtime may never be. */
#define WF_FAILURE_WAIT_NS INT64_C(1000000000)

/* Unobserved failures that a runtime without a failure hook prints in one second, a line each.  The
 * others are counted, and one line gives their number.  16 show a pattern; a task that fails in a
 * loop must not fill the disk. */
#define WF_FAILURE_LINES 16u

/* Nanoseconds without a remote access after which a worker biases its run queue again.  The next
 * remote accessor must revoke the bias: that costs the accessor one or two microseconds, and the
 * worker an interrupt. */
#define WF_BIAS_AFTER_NS INT64_C(50000)

/* ---- tasks --------------------------------------------------------------------------------- */

/* Task headers of one slab. */
#define WF_TASK_SLAB_COUNT 64u
/* Task headers that move between a worker's cache and the pool at once; the cache holds at most two
 * batches.  In hostile builds every task goes through the pool. */
#ifdef WF_HOSTILE
#define WF_TASK_BATCH 1u
#else
#define WF_TASK_BATCH 128u
#endif

/* Task ids that a worker reserves at once. */
#define WF_TASK_ID_BLOCK 1024u

/* Nanoseconds that weft_run gives the tasks to end after it has found a deadlock; the close is
 * forced then. */
#define WF_DEADLOCK_GRACE_NS INT64_C(1000000000)

/* Nanoseconds that weft_run waits for unfinished tasks at its end before it reports them. */
#define WF_UNFINISHED_REPORT_NS INT64_C(2000000000)
/* Unfinished tasks in that report, at most. */
#define WF_UNFINISHED_REPORT_MAX 4u

/* Nanoseconds of a tick of the timer wheel.  A timer fires late by up to one tick, and by the time
 * until a worker checks the wheel.  A quarter of a millisecond: with a tick of 1 ms a sleep of 1 ms
 * could take twice as long. */
#define WF_WHEEL_TICK_NS INT64_C(250000)
/* Levels of the wheel, 6 bits each: enough for every tick of a 63-bit clock in nanoseconds. */
#define WF_WHEEL_LEVELS 8u

/* Threads of a runtime's blocking pool: the default and the maximum of `blocking_max`.  An idle
 * thread costs its stack.  The maximum is about the number of threads that one program can
 * start on a usual machine. */
#define WF_BLOCKING_DEFAULT 512u
#define WF_BLOCKING_MAX 16384u
/* Nanoseconds after which an idle thread of the blocking pool ends: the default. */
#define WF_BLOCKING_IDLE_NS INT64_C(10000000000)

/* Task-local keys of the process. */
#define WF_KEYS_MAX 64u

/* Locks for the lists of joiners.  The address of a task selects its lock. */
#define WF_JOIN_LOCKS 64u

/* ---- sync ---------------------------------------------------------------------------------- */

/* Times that a woken waiter may lose the mutex to a faster task before the mutex is handed to it
 * directly; 0: always handed over.  Measured: docs/adr/0014-*.md. */
#define WF_MUTEX_LOSSES_MAX 1u
/* Spin hints, of about 16 ns each, of the first and of the last backoff on a contended lock.  After
 * the last one, 1.5 us in all, the waiter queues if the lock has a queue.  Measured:
 * docs/adr/0019-*.md. */
#ifdef WF_MODEL
#define WF_BACKOFF_FIRST 1u
#define WF_BACKOFF_MAX 0u
#else
#define WF_BACKOFF_FIRST 32u
#define WF_BACKOFF_MAX 64u
#endif

/* Granted tasks that one call collects and wakes after it has released the lock of the wait queue:
 * it takes the lock once for all of them, and they do not contend for it.  A call that grants more
 * tasks than this wakes each full batch before it collects the next; wf_wakes_add does that with
 * the lock held. */
#define WF_WAKES_MAX 16u

/* Build option for tests.  A parked worker wakes up after this time and checks for work for which
 * no thread has woken it.  WF_PARK_RECHECKS checks in a row that find some, one second in all,
 * count as a lost wake-up: a submitter may lose its CPU between the push and the wake, but not for
 * that long. */
#ifdef WEFT_PARK_TIMEOUT_MS
#define WF_PARK_TIMEOUT_NS (WEFT_PARK_TIMEOUT_MS * INT64_C(1000000))
#define WF_PARK_RECHECKS (1000u / WEFT_PARK_TIMEOUT_MS)
#endif

/* ---- trace and operating system ------------------------------------------------------------ */

/* Events of a trace ring, powers of two.  Fewer than the minimum do not show the life of one task;
 * the maximum takes 32 MiB a worker. */
#ifdef WF_MODEL
#define WF_TRACE_EVENTS_MIN 1u
#else
#define WF_TRACE_EVENTS_MIN 16u
#endif
#define WF_TRACE_EVENTS_MAX (1u << 20)

/* Characters of a thread's name without the terminating zero: the kernel's limit. */
#define WF_THREAD_NAME_MAX 15

/* CPUs of an affinity mask: the kernel's limit, and a multiple of the 1024 of cpu_set_t. */
#define WF_CPU_MAX 8192

/* Bytes of /proc/self/cgroup, at most.  It has one line for each controller, fewer than 20, with
 * paths of some hundred bytes where containers are nested. */
#define WF_CGROUP_FILE_SIZE_MAX 16384

/* Attempts on a held wf_lock before the thread sleeps.  A pause precedes each, of 15 to 140 ns
 * depending on the CPU model; all pauses together cost no more than a sleep and a wake-up.  On two
 * idle cores 40 was as good as 1000 and up to twice as good as 0; on busy cores no number made a
 * difference. */
#ifdef WF_MODEL
#define WF_LOCK_SPIN 0u
#else
#define WF_LOCK_SPIN 40u
#endif

/* ---- stacks -------------------------------------------------------------------------------- */

/* Usable bytes of a stack, powers of two.  The minimum suffices to deliver a signal with the
 * AVX-512 registers and to print a formatted line.  The maximum is more than any thread has by
 * default.  64 KiB suffice for most C functions; only touched pages cost memory. */
#define WF_STACK_SIZE_MIN ((size_t)16 << 10)
#define WF_STACK_SIZE_DEFAULT ((size_t)64 << 10)
/* Size classes: one for each power of two from the minimum to the maximum. */
#define WF_STACK_CLASSES 13u
#define WF_STACK_SIZE_MAX (WF_STACK_SIZE_MIN << (WF_STACK_CLASSES - 1))

/* Cache colours: neighbouring stacks place their first frame at one of this many offsets within a
 * page, a cache line apart.  With equal offsets all first frames would compete for the same few
 * cache sets.  A switch among 503 fibers takes 3.8 ns instead of 7.3 (bench_fiber.c), and 10
 * instead of 33 ns beside other load on the machine.  The price is up to 960 bytes of a stack. */
#define WF_STACK_COLORS 16u

/* Stacks of one slab, at most: their states are bits of one word. */
#define WF_SLAB_STACKS_MAX 64u
/* Bytes of one slab, about.  A million stacks are then about 16,000 mappings in the worst case: a
 * quarter of the kernel's limit. */
#define WF_SLAB_BYTES ((size_t)4 << 20)

/* Stacks of one size in a worker's cache, at most.  Half of them move between the cache and the
 * pool at once, so a worker takes the pool's lock once for 16 stacks.  Hostile builds keep none, so
 * that every stack goes through the pool. */
#ifdef WF_HOSTILE
#define WF_STACK_CACHE_MAX 0u
#else
#define WF_STACK_CACHE_MAX 32u
#endif
/* Bytes that the stacks of one size may have in a worker's cache.  For large stacks this allows
 * fewer than WF_STACK_CACHE_MAX.  The cache keeps one stack of a size that is larger than this. */
#define WF_STACK_CACHE_BYTES ((size_t)2 << 20)

/* Bytes of free stacks of one size, counted as fully touched, that a pool keeps before it returns
 * memory to the kernel: 1024 stacks of the default size.  With less, a program that runs a thousand
 * tasks at a time would fault in the same memory again and again. */
#define WF_STACK_FREE_BYTES_MAX ((size_t)64 << 20)

/* Bytes of the guard below a stack, at least; a larger page size takes precedence.  Code compiled
 * with -fstack-clash-protection touches a large frame in steps of this size and cannot jump over
 * the guard: a page on x86-64, 64 KiB on AArch64, where a page may be that large. */
#if defined(__aarch64__)
#define WF_GUARD_BYTES_MIN ((size_t)64 << 10)
#else
#define WF_GUARD_BYTES_MIN ((size_t)4 << 10)
#endif

/* Bytes of the canary pattern below a stack without guard pages: the smallest page size. */
#define WF_CANARY_BYTES 4096u

/* Usable bytes of the alternate signal stack, on which a stack overflow is handled: enough for the
 * report and for a fault handler of the program.  Only touched pages cost memory. */
#define WF_SIGNAL_STACK_SIZE ((size_t)64 << 10)

_Static_assert((WF_RING_CAPACITY & (WF_RING_CAPACITY - 1)) == 0, "ring index is masked");
_Static_assert(WF_RING_CAPACITY >= 2, "half of the ring overflows");
_Static_assert(WF_RING_CAPACITY <= ((wf_ring_pos)-1) / 2u, "full and empty must differ");
_Static_assert(sizeof(wf_ring_pair) == 2 * sizeof(wf_ring_pos), "two positions in one cell");
_Static_assert((WF_DEQUE_CAPACITY_MIN & (WF_DEQUE_CAPACITY_MIN - 1)) == 0, "deque index is masked");
_Static_assert((WF_DEQUE_CAPACITY_MAX & (WF_DEQUE_CAPACITY_MAX - 1)) == 0, "deque index is masked");
_Static_assert(sizeof(wf_deque_pos) == sizeof(wf_deque_diff), "a difference of two positions");
_Static_assert((WF_TRACE_EVENTS_MIN & (WF_TRACE_EVENTS_MIN - 1)) == 0, "a power of two");
_Static_assert((WF_TRACE_EVENTS_MAX & (WF_TRACE_EVENTS_MAX - 1)) == 0, "a power of two");
_Static_assert(WF_WORKERS_MAX < UINT16_MAX, "a worker index and one invalid value fit 16 bits");
_Static_assert(WF_CPU_MAX % 1024 == 0, "a whole number of cpu_set_t");
_Static_assert((WF_STACK_SIZE_DEFAULT & (WF_STACK_SIZE_DEFAULT - 1)) == 0, "sizes are powers of 2");
_Static_assert(WF_STACK_SIZE_DEFAULT >= WF_STACK_SIZE_MIN, "the default is in range");
_Static_assert(WF_STACK_SIZE_DEFAULT <= WF_STACK_SIZE_MAX / 4,
               "sanitizers need four times as much");
_Static_assert(WF_CANARY_BYTES <= WF_GUARD_BYTES_MIN, "the canary is inside the guard");
_Static_assert(WF_SLAB_STACKS_MAX <= 64, "one bit for each stack in 64");
_Static_assert((UINT64_MAX >> 1) / WF_WHEEL_TICK_NS >> 6 * WF_WHEEL_LEVELS == 0,
               "every tick has a level");
_Static_assert(WF_INJECT_BATCH_MIN >= 1 && WF_INJECT_BATCH_MIN <= WF_INJECT_BATCH_MAX, "a range");

#endif
