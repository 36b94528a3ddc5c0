/* SPDX-License-Identifier: MIT */
/*
 * base/base.h - the foundation of all layers: assertions, allocation, lists, random numbers.
 *
 * Promises:      nothing here blocks, starts a thread, or prints, except a panic.
 * Must not know: Linux, threads, queues, tasks.  libc only.
 *
 * Three levels of assertions:
 *   WEFT_CHECK(c)        always compiled in: cheap, guards memory or an exactly-once property
 *   WEFT_ASSERT(c)       all builds except release
 *   WEFT_ASSERT_SLOW(c)  builds with WF_SLOW_ASSERT: walks a data structure
 * Each has one condition, so that the report names what is wrong.
 *
 * Three test hooks, compiled away in release:
 *   WF_REACHED("layer.what")  reached mark: a rare branch that the test suite must take
 *   WF_JITTER()               race window: hostile builds delay the thread here, at random (the
 *                             numbers come from wf_jitter_seed)
 *   WF_FAULT("what")          fault point: true when the test makes this call fail
 */
#ifndef WF_BASE_BASE_H
#define WF_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/config.h"

/* ---- assertions ---------------------------------------------------------------------------- */

/* [any]  Runs before the process aborts.  `what` is the failed condition.  The process aborts when
 * the hook returns; the hook must not resume the failed code. */
typedef void (*wf_panic_fn)(const char *file, int line, const char *what);

/* [any]  Sets the panic hook and returns the previous one.  NULL: the default, which writes one
 * line to stderr. */
wf_panic_fn wf_panic_hook(wf_panic_fn hook);

/* [any]  Calls the hook, then aborts. */
_Noreturn void wf_panic(const char *file, int line, const char *what);

#ifdef WF_MODEL
#define WEFT_CHECK(c) ((c) ? (void)0 : model_fail("%s:%d: " #c, __FILE__, __LINE__))
#else
#define WEFT_CHECK(c) (__builtin_expect(!!(c), 1) ? (void)0 : wf_panic(__FILE__, __LINE__, #c))
#endif

#ifndef NDEBUG
#define WEFT_ASSERT(c) WEFT_CHECK(c)
#else
#define WEFT_ASSERT(c) ((void)sizeof(c))
#endif

#ifdef WF_SLOW_ASSERT
#define WEFT_ASSERT_SLOW(c) WEFT_CHECK(c)
#else
#define WEFT_ASSERT_SLOW(c) ((void)sizeof(c))
#endif

/* ---- test hooks ---------------------------------------------------------------------------- */

/* A reached mark.  One per WF_REACHED, in a linker section that the test harness reads. */
struct wf_mark {
    const char *name;
    WF_ATOMIC(uint32_t) is_reached;
};

#if defined(WF_TEST_HOOKS) && !defined(WF_MODEL)
#define WF_REACHED(mark_name)                                                                      \
    do {                                                                                           \
        static struct wf_mark wf_this_mark                                                         \
            __attribute__((section("wf_mark_set"), used, aligned(sizeof(void *)))) = {mark_name,   \
                                                                                      {0}};        \
        wf_store_relaxed(&wf_this_mark.is_reached, 1);                                             \
    } while (0)
#define WF_FAULT(what) wf_fault_now(what)
#else
#define WF_REACHED(mark_name) ((void)0)
#define WF_FAULT(what) false
#endif

#if defined(WF_HOSTILE) && !defined(WF_MODEL)
#define WF_JITTER() wf_jitter()
#else
#define WF_JITTER() ((void)0)
#endif

/* [any]  Sets *first to the marks linked into this program and returns their number. */
size_t wf_marks(const struct wf_mark **first);

/* [any]  Seeds the jitter of this process.  Each thread derives its own stream from the seed. */
void wf_jitter_seed(uint64_t seed);
/* [any]  Yields, spins, or does neither, at random: see WF_JITTER. */
void wf_jitter(void);
/* [any]  A random boolean from the thread's jitter stream. */
bool wf_jitter_coin(void);

/* [any]  Makes the nth execution of a fault point (counted from 1, in all threads) fail once; 0
 * disarms.  Every allocation is a fault point.  Process-wide. */
void wf_fault_arm(uint64_t nth);
/* [any]  Fault points of this name neither count nor fail (NULL: all do).  Without this, fault
 * points in threads that start and end at random times would make the count differ from run to
 * run. */
void wf_fault_ignore(const char *what);
/* [any]  The number of executed fault points since the last wf_fault_arm. */
uint64_t wf_fault_calls(void);
/* [any]  True when the armed fault point failed; *what is then its name, else NULL. */
bool wf_fault_hit(const char **what);
/* [any]  Executes the fault point `what`; true when it must fail. */
bool wf_fault_now(const char *what);

/* ---- allocation ---------------------------------------------------------------------------- */

/* The allocator that wf_alloc calls.  `alloc` gets an alignment that is a power of two and a size
 * above 0; it returns NULL when out of memory. */
struct wf_allocator {
    void *(*alloc)(size_t alignment, size_t size);
    void (*free)(void *memory);
};

struct wf_alloc_stats {
    uint64_t allocated; /* blocks allocated since the process started */
    uint64_t freed;     /* blocks freed since then */
    uint64_t refused;   /* allocations that failed */
};

/* [any]  Sets the allocator (NULL: libc's).  -EBUSY: a block is still allocated. */
int wf_allocator_set(const struct wf_allocator *allocator);

/* [any]  The caller owns the block and frees it by wf_free.  NULL when out of memory.  A size of 0
 * gives a block of one byte. */
void *wf_alloc(size_t size);
void *wf_alloc_zeroed(size_t count, size_t size); /* NULL also when count * size overflows */
void *wf_alloc_aligned(size_t alignment, size_t size);
/* [any]  NULL is allowed. */
void wf_free(void *memory);
/* [any]  The counters are exact only while no other thread allocates. */
void wf_alloc_stats(struct wf_alloc_stats *out);

/* ---- numbers ------------------------------------------------------------------------------- */

static inline bool wf_is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* xorshift128+: two words of state, a few instructions a number; not cryptographic. */
struct wf_random {
    uint64_t state[2];
};

/* [owner]  Any seed is valid, 0 too. */
void wf_random_init(struct wf_random *random, uint64_t seed);
/* [owner]  The next 64 random bits. */
uint64_t wf_random_next(struct wf_random *random);
/* [owner]  A number below `bound`, which is at least 1.  No division; the bias is negligible. */
uint32_t wf_random_below(struct wf_random *random, uint32_t bound);

/* [any]  Parses `text`, which may be NULL, as an unsigned decimal number within [min, max].
 * -EINVAL: empty, or not only digits; -ERANGE: outside of [min, max].  *out is untouched on
 * error. */
int wf_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* ---- intrusive lists ----------------------------------------------------------------------- */

#define wf_container_of(pointer, type, member)                                                     \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* A link embedded in an item.  Queues hold pointers to these and nothing else. */
struct wf_node {
    struct wf_node *next;
};

/* A singly linked list with both ends and its length: a batch that moves between queues.  All zero
 * bytes is empty. */
struct wf_chain {
    struct wf_node *first;
    struct wf_node *last;
    size_t count;
};

/* [owner]  Appends `node`. */
void wf_chain_push(struct wf_chain *chain, struct wf_node *node);
/* [owner]  Removes the first node and returns it; NULL when empty. */
struct wf_node *wf_chain_pop(struct wf_chain *chain);
/* [owner]  Moves the first `count` nodes to the end of `to`; `from` has at least `count`. */
void wf_chain_move(struct wf_chain *to, struct wf_chain *from, size_t count);
/* [owner]  Moves all nodes to the end of `to`; `from` is empty afterwards. */
void wf_chain_append(struct wf_chain *to, struct wf_chain *from);

/* A circular doubly linked list with a head.  A link can be removed without the head. */
struct wf_list {
    struct wf_list *next;
    struct wf_list *prev;
};

static inline void wf_list_init(struct wf_list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool wf_list_is_empty(const struct wf_list *head)
{
    return head->next == head;
}

static inline void wf_list_push_back(struct wf_list *head, struct wf_list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void wf_list_push_front(struct wf_list *head, struct wf_list *link)
{
    wf_list_push_back(head->next, link);
}

/* [owner]  The link points to itself afterwards, so removing it again is harmless. */
static inline void wf_list_remove(struct wf_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    wf_list_init(link);
}

/* [owner]  Removes the first link and returns it; NULL when empty. */
static inline struct wf_list *wf_list_pop_front(struct wf_list *head)
{
    struct wf_list *first = head->next;
    if (first == head) {
        return NULL;
    }
    wf_list_remove(first);
    return first;
}

/* ---- lock ranks ---------------------------------------------------------------------------- */

/*
 * The lock order: a thread that holds a lock of rank r may take locks of ranks above r only.
 * os/lock.c checks this in builds with assertions.  A rank is below 64.
 *
 * Rank 0 is the exception: a thread may hold several locks of rank 0 and must order them by other
 * means, such as by address.
 */
enum wf_lock_rank {
    WF_RANK_SYNC = 0,        /* wf_waitq: a wait queue of the sync layer */
    WF_RANK_GATE = 1,        /* a runtime: spawns from non-worker threads against close */
    WF_RANK_URING = 2,       /* a wf_uring: submission; a refused request wakes its task */
    WF_RANK_WORLD = 3,       /* a runtime: the owner and the waiters of stop the world */
    WF_RANK_SCOPE = 4,       /* a scope: its list of tasks */
    WF_RANK_JOIN = 5,        /* wf_join_locks: the joiners of a task */
    WF_RANK_LIMIT = 6,       /* a runtime: spawns that wait for admission */
    WF_RANK_TIMERS = 7,      /* a worker: its timer wheel */
    WF_RANK_TASK_POOL = 8,   /* wf_task_pool: free task headers, unobserved failures */
    WF_RANK_BLOCKING = 9,    /* the blocking pool: its jobs and threads */
    WF_RANK_INJECT = 10,     /* wf_inject: the global queue and the priority queues */
    WF_RANK_MONITOR = 11,    /* a runtime: active workers and parked spares */
    WF_RANK_CHILD = 12,      /* weft_child: its pipes and exit status */
    WF_RANK_OVERFLOW = 49,   /* the process: installation of the signal handlers */
    WF_RANK_STACK_POOL = 50, /* wf_stack_pool: free stacks */
    WF_RANK_SLAB_LIST = 51,  /* the process: the registry of slabs */
    WF_RANK_TRACE = 63,      /* the trace ring of non-worker threads: taken under any lock */
};

#endif
