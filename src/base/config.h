/* SPDX-License-Identifier: MIT */
/*
 * base/config.h - every limit and tunable: value, unit, range, reason.
 *
 * The model build (WF_MODEL) shrinks capacities and index widths so that full, empty and
 * wrap-around all lie within a search that can be exhausted.
 */
#ifndef WF_BASE_CONFIG_H
#define WF_BASE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

/* The address sanitizer watches; for the thread sanitizer see atomic.h. */
#if defined(__SANITIZE_ADDRESS__)
#define WF_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WF_ASAN 1
#endif
#endif

/* Bytes.  Both supported CPUs have 64-byte lines; cells written by different threads stand this
 * far apart.  x86 fetches lines in pairs, yet 128 measured no better here and doubles a worker. */
#define WF_CACHE_LINE 64

/* Slots of a worker's ring, a power of two.  Go and Tokio chose the same number; the overflow
 * batch is half of it. */
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

/* Slots of a deque's buffer, powers of two.  The first buffer fits two cache lines of a page; the
 * last bounds what a runaway producer may take (1 GiB of pointers). */
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

/* When more than this many wait in the global queue, what is needed to go on with one is not in the
 * CPU's caches any more; of its stack that are about so many lines. */
#define WF_QUEUE_FAR 4096u
#define WF_FRAME_LINES 6u
/* The same of one that waits for a descriptor, with the beginning of its buffer: calls are deeper
 * there, and what they read into lies above them. */
#define WF_FRAME_LINES_IO 12u

/* Items a worker takes from the global queue at once: len / workers, within these.  A larger
 * share would let one worker drain the queue, a smaller would take the lock too often. */
#define WF_INJECT_BATCH_MIN 4u
#define WF_INJECT_BATCH_MAX 64u
/* The smaller batch of the depth-first order: one to run and up to this many to keep. */
#define WF_INJECT_BATCH_DEPTH_FIRST 16u
/* When a ring has room for less than so many, and not for all in the global queue, it gives way. */
#define WF_CROWD (WF_RING_CAPACITY / 4)
/* ... and not before they had so many nanoseconds of turns: 1000 tasks that yield take 46 to 80 ns
 * a turn if they give way after one each, and 31 as it is. */
#define WF_CROWD_NS INT64_C(100000)

/* Workers of one runtime.  The bitmap of sleepers grows with it, one word for 64; a notify reads
 * them in turn.  Larger machines exist, but one runtime across more would want several. */
#ifdef WF_MODEL
#define WF_WORKERS_MAX 64u
#else
#define WF_WORKERS_MAX 1024u
#endif

/* Tasks that a worker runs out of its slot one after the other before it looks at its ring: two
 * that wake each other would otherwise keep everybody else waiting. */
#define WF_LIFO_RUNS_MAX 3u

/* A worker looks at the global queue about this often, in nanoseconds: so many turns lie between
 * two looks as fit into it by the moving average of a turn, in which the newest counts a tenth; but
 * no more than a full ring takes to give everybody in it one. */
#define WF_GLOBAL_LATENCY_NS INT64_C(1000000)
#define WF_GLOBAL_INTERVAL_MAX (WF_RING_CAPACITY - 1)
#define WF_TURN_FIRST_NS INT64_C(50000)
#define WF_TURN_WEIGHT 10
/* While turns are longer than this, in nanoseconds, the clock is read at each of them; it costs
 * 16 ns.  That they have become so is seen after WF_CLOCK_INTERVAL_MAX turns at the latest. */
#define WF_TURN_LONG_NS INT64_C(1000)
/* ... and else at least every so many turns. */
#define WF_CLOCK_INTERVAL_MAX 32u

/* Nanoseconds after which a task that runs is asked to let others run: at its next weft_check. */
#define WF_TURN_MAX_NS INT64_C(10000000)

/* Nanoseconds between looks at the driver of workers that have enough to do. */
#define WF_DRIVER_LOOK_NS INT64_C(200000)

/* Events that are taken from the kernel at once: at most, and if nobody says otherwise. */
#define WF_IO_EVENTS_MAX 256u

/* Nanoseconds of a turn after which a spare stands in for the worker, if nothing is said; and how
 * many spares there may be. */
#define WF_HOG_NS INT64_C(10000000)
#define WF_SPARES_DEFAULT 64u

/* Operations of a task on the runtime that succeed at once, before it has to let others run. */
#define WF_TASK_BUDGET 128u

/* Every so many turns of a worker's loop, the order of priorities is left aside: normal tasks go
 * before high ones, and a low one before normal ones. */
#define WF_TURN_OF_NORMAL 8u
#define WF_TURN_OF_LOW 64u

/* Forks of one task that lie open for others to take, at a time: with the word that asks for more
 * they fill a cache line, which is all that a thief reads. */
#ifdef WF_MODEL
#define WF_FORK_PLACES 2u
#else
#define WF_FORK_PLACES 7u
#endif

/* Nanoseconds of a piece of a loop whose grain was left to us: see par/pace.c. */
#define WF_PIECE_NS INT64_C(5000)
/* Indices of a range that is split before anything is known of it. */
#define WF_PIECES_FEW ((size_t)64)

/* Items of a block of a prefix sum: two passes over 64 KiB of numbers stay in a core's cache. */
#define WF_SCAN_BLOCK ((size_t)8192)
/* Bytes of an item of one, since a copy lies in the frame. */
#define WF_SCAN_ITEM_MAX 256u

/* Items that one worker sorts, or merges, without forking: 100 us or so.  And those that are
 * sorted by insertion. */
#define WF_SORT_ALONE ((size_t)4096)
#define WF_SORT_FEW ((size_t)8)

/* Looks at everything before a worker sleeps, 5 us or so.  Without a sched_yield in between: since
 * Linux 6.6 a thread that yields has its deadline moved by a whole slice each time, and when it is
 * woken on a busy CPU it waits behind all others for that: milliseconds. */
#define WF_SEARCH_SPIN 64u

/* Nanoseconds that a task which a worker took from another must keep it busy, on average, to be
 * worth it: so much do the two lose by the lines of the cache that go from one to the other.  When
 * it was not, it takes no more than a few the next time; and after WF_SHY times in a row it looks
 * away for a while each time, twice as long as the time before until WF_SHYNESS_MAX: 1.6 ms, which
 * is as long as others may then wait for it. */
#define WF_VISIT_WORTH_NS INT64_C(500)
#define WF_SHY_BATCH 4u
#define WF_SHY 3u
#define WF_SHYNESS_MAX 7u
#define WF_VISIT_PAUSE_NS INT64_C(100000)

/* Nanoseconds that failures which nobody saw wait for a moment at which nothing runs, in which they
 * are told of: a runtime that is always busy has none. */
#define WF_FAILURE_WAIT_NS INT64_C(1000000000)

/* Nanoseconds without a visitor after which a worker uses its queues as if it were alone.  To tell
 * it that it is not costs the next visitor a microsecond or two, and the worker an interrupt. */
#define WF_ALONE_AFTER_NS INT64_C(50000)

/* Tasks of one slab, and those that move at once between a worker and the pool; a worker keeps less
 * than two times as many.  In hostile builds every task goes through the pool. */
#define WF_TASK_SLAB_COUNT 64u
#ifdef WF_HOSTILE
#define WF_TASK_BATCH 1u
#else
#define WF_TASK_BATCH 128u
#endif

/* Ids that a worker takes at once. */
#define WF_TASK_ID_BLOCK 1024u

/* Nanoseconds that tasks have, once a deadlock was found, to end by themselves. */
#define WF_DEADLOCK_GRACE_NS INT64_C(1000000000)

/* Nanoseconds after which weft_run says for whom it waits at its end, and of how many tasks. */
#define WF_LEFT_TELL_NS INT64_C(2000000000)
#define WF_LEFT_TELL_MAX 4u

/* Nanoseconds of a tick: timers fire at most so much, and the time until somebody looks, after
 * their deadline.  A quarter of a millisecond, so that sleeps of one are not twice as long. */
#define WF_TICK_NS INT64_C(250000)
/* Levels of a wheel, with 6 bits each: all ticks of the clock's 63 bits of nanoseconds. */
#define WF_WHEEL_LEVELS 8u

/* Threads of a runtime for work that blocks: what is allowed if nothing is said, and at most; and
 * the nanoseconds after which one that has nothing to do ends.  A thread without a job costs its
 * stack; so many are what a machine has of them for one program. */
#define WF_BLOCKING_DEFAULT 512u
#define WF_BLOCKING_MAX 16384u
#define WF_BLOCKING_IDLE_NS INT64_C(10000000000)

/* Task-local keys of the process. */
#define WF_KEYS_MAX 64u

/* Locks for the lists of those who wait for a task, chosen by its address. */
#define WF_JOIN_LOCKS 64u

/* How often one who waits for a mutex may be woken and find that another was faster, before the
 * mutex is handed over to it; 0: always.  Measured: docs/adr/0014-a-mutex-may-be-overtaken.md. */
#define WF_MUTEX_LOSSES_MAX 1u
/* Hints to the CPU, of some 16 ns, that who finds a lock taken waits the first time, and the last
 * time before it queues, if it can: 1.5 us in all.  Measured:
 * docs/adr/0019-who-waits-stays-away.md.
 */
#ifdef WF_MODEL
#define WF_BACKOFF_FIRST 1u
#define WF_BACKOFF_MAX 0u
#else
#define WF_BACKOFF_FIRST 32u
#define WF_BACKOFF_MAX 64u
#endif

/* Tasks that are granted something by one call before it wakes them: it then takes the lock of what
 * they wait in once, and they do not run into it.  Of more, some are woken under the lock. */
#define WF_WAKES_MAX 16u

/* A build option for tests: a worker that sleeps looks again and again, after this time, whether
 * there is work that nobody calls it for.  It is a fault if there was some each time for so many
 * looks in a row: whoever brings work may be kept from its CPU between that and the call, but not
 * for a second. */
#ifdef WEFT_PARK_TIMEOUT_MS
#define WF_PARK_TIMEOUT_NS (WEFT_PARK_TIMEOUT_MS * INT64_C(1000000))
#define WF_PARK_LOOKS (1000u / WEFT_PARK_TIMEOUT_MS)
#endif

/* Events kept of each worker, powers of two.  Fewer than the least do not show a task's life; the
 * most take 32 MiB a worker. */
#ifdef WF_MODEL
#define WF_TRACE_EVENTS_MIN 1u
#else
#define WF_TRACE_EVENTS_MIN 16u
#endif
#define WF_TRACE_EVENTS_MAX (1u << 20)

/* Characters of a thread's name without the end; the kernel keeps 15. */
#define WF_THREAD_NAME_MAX 15

/* CPUs that an affinity mask is read for, a multiple of the 1024 of cpu_set_t; the kernel's own
 * limit is 8192. */
#define WF_CPU_MAX 8192

/* Bytes of /proc/self/cgroup: a line for each controller, of which there are less than 20, with
 * paths of at most some hundred bytes where containers are nested. */
#define WF_CGROUP_FILE_SIZE_MAX 16384

/* Looks at a held lock before sleeping, with a pause of 15 to 140 ns, by the CPU, before each: in
 * all not more than a sleep and a wake-up cost.  On two idle cores 40 was as good as 1000 and up to
 * twice as good as 0; on busy ones no number made a difference. */
#ifdef WF_MODEL
#define WF_LOCK_SPIN 0u
#else
#define WF_LOCK_SPIN 40u
#endif

/* Usable bytes of a stack: powers of two, from the least on which a signal can be delivered with
 * the registers of AVX-512 and a formatted line printed, to more than any thread has by default.
 * 64 KiB are what most C functions are content with; only touched pages cost memory. */
#define WF_STACK_SIZE_MIN ((size_t)16 << 10)
#define WF_STACK_SIZE_DEFAULT ((size_t)64 << 10)
#define WF_STACK_CLASSES 13u
#define WF_STACK_SIZE_MAX (WF_STACK_SIZE_MIN << (WF_STACK_CLASSES - 1))

/* Cache lines by which the first frames of neighbours differ in their place within a page.  If all
 * began at the same place they would compete for the same few lines of the CPU's caches: 503 fibers
 * in turn take 3.8 ns a switch instead of 7.3 (bench_fiber.c), and with neighbours on the machine
 * 10 instead of 33.  It costs up to 960 bytes of a stack. */
#define WF_STACK_COLORS 16u

/* A slab has at most this many stacks, since their states are bits of one word, and about this many
 * bytes.  A million stacks are then some 16,000 mappings in the worst case, a quarter of what the
 * kernel allows. */
#define WF_SLAB_STACKS_MAX 64u
#define WF_SLAB_BYTES ((size_t)4 << 20)

/* Stacks that a worker keeps of one size: at most this many, and of the large ones at most this
 * many bytes, but one.  Half of them move at once between worker and pool, so that the pool's lock
 * is taken once for 16 stacks.  Hostile builds keep none: every stack changes hands. */
#ifdef WF_HOSTILE
#define WF_STACK_CACHE_MAX 0u
#else
#define WF_STACK_CACHE_MAX 32u
#endif
#define WF_STACK_CACHE_BYTES ((size_t)2 << 20)

/* Bytes of free stacks of one size, as if they were fully used, that a pool keeps before memory
 * goes back to the kernel: 1024 of the default size.  Less would make a program that runs a
 * thousand tasks at a time ask the kernel for the same memory again and again. */
#define WF_STACK_FREE_BYTES_MAX ((size_t)64 << 20)

/* Bytes of guard below a stack, at least; a page if that is more.  Code compiled with
 * -fstack-clash-protection touches a large frame in steps of this size, so that it cannot jump over
 * the guard: a page on x86-64, but 64 KiB on AArch64, where pages may be as large. */
#if defined(__aarch64__)
#define WF_GUARD_BYTES_MIN ((size_t)64 << 10)
#else
#define WF_GUARD_BYTES_MIN ((size_t)4 << 10)
#endif

/* Bytes of pattern below a stack that has no better guard: as much as the smallest page. */
#define WF_CANARY_BYTES 4096u

/* Usable bytes of the stack on which a fault is handled: enough for a report, and for a handler of
 * the program's that does not know that it runs here.  Only touched pages cost memory. */
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
_Static_assert(WF_WORKERS_MAX < UINT16_MAX, "a worker's number in 16 bits, and one that is none");
_Static_assert(WF_CPU_MAX % 1024 == 0, "whole sets");
_Static_assert((WF_STACK_SIZE_DEFAULT & (WF_STACK_SIZE_DEFAULT - 1)) == 0, "sizes are powers of 2");
_Static_assert(WF_STACK_SIZE_DEFAULT >= WF_STACK_SIZE_MIN, "the default is in range");
_Static_assert(WF_STACK_SIZE_DEFAULT <= WF_STACK_SIZE_MAX / 4,
               "sanitizers need four times as much");
_Static_assert(WF_CANARY_BYTES <= WF_GUARD_BYTES_MIN, "the canary is inside the guard");
_Static_assert(WF_SLAB_STACKS_MAX <= 64, "a bit each in 64");
_Static_assert((UINT64_MAX >> 1) / WF_TICK_NS >> 6 * WF_WHEEL_LEVELS == 0,
               "every tick has a level");
_Static_assert(WF_INJECT_BATCH_MIN >= 1 && WF_INJECT_BATCH_MIN <= WF_INJECT_BATCH_MAX, "a range");

#endif
