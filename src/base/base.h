/* SPDX-License-Identifier: MIT */
/*
 * base/base.h - what every layer stands on: assertions, allocation, lists, random numbers.
 *
 * Promises:     nothing here waits, prints (but for a panic) or keeps a thread.
 * Must not know: Linux, threads, queues, tasks.  libc only.
 *
 * Three levels of assertions:
 *   WEFT_CHECK(c)        always compiled in: cheap, guards memory or exactly-once promises
 *   WEFT_ASSERT(c)       all builds but release
 *   WEFT_ASSERT_SLOW(c)  builds with WF_SLOW_ASSERT: walks a structure
 * One condition each, so that the report names what was wrong.
 *
 * Three aids for tests, compiled away in release:
 *   WF_REACHED("layer.what")  a rare branch that the test suite must reach at least once
 *   WF_JITTER()               a race window: hostile builds dawdle here, from the seed
 *   WF_FAULT("what")          a call that can fail: true when the test wants it to fail now
 */
#ifndef WF_BASE_BASE_H
#define WF_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/config.h"

/* ---- assertions ---------------------------------------------------------------------------- */

/* [any]  Called with the reason before the process aborts; must not return to the failed code. */
typedef void (*wf_panic_fn)(const char *file, int line, const char *what);

/* [any]  Sets the hook (NULL: the default, which writes one line to stderr); gives the old one. */
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

/* ---- aids for tests ------------------------------------------------------------------------ */

/* A branch that some test must take.  One per place, in a section that the test harness reads. */
struct wf_mark {
    const char *name;
    WF_ATOMIC(uint32_t) is_reached;
};

#if defined(WF_TEST_AIDS) && !defined(WF_MODEL)
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

/* [any]  Every mark linked into this program; gives their number. */
size_t wf_marks(const struct wf_mark **first);

/* [any]  Seeds the jitter of this process; threads derive their own streams from it. */
void wf_jitter_seed(uint64_t seed);
void wf_jitter(void);
/* [any]  Heads or tails, from the same numbers. */
bool wf_jitter_coin(void);

/* [any]  Makes the n-th call (from 1) through WF_FAULT from now on fail, once, in whichever thread
 * it happens; 0 disarms.  Allocation is such a call.  Process-wide. */
void wf_fault_arm(uint64_t nth);
/* [any]  Calls of this name neither count nor fail from now on (NULL: all do): those of threads
 * that come and go as they like would make every count another one. */
void wf_fault_ignore(const char *what);
/* [any]  Faultable calls since the last wf_fault_arm. */
uint64_t wf_fault_calls(void);
/* [any]  True when the armed call was reached and failed; `what` is then its name. */
bool wf_fault_hit(const char **what);
/* [any]  One faultable call; true when it shall fail. */
bool wf_fault_now(const char *what);

/* ---- allocation ---------------------------------------------------------------------------- */

/* The allocator below ours.  `alloc` gets a power of two as alignment and a size above 0. */
struct wf_allocator {
    void *(*alloc)(size_t alignment, size_t size);
    void (*free)(void *memory);
};

struct wf_alloc_stats {
    uint64_t allocated; /* blocks given out since the start */
    uint64_t freed;     /* blocks taken back */
    uint64_t refused;   /* calls that gave NULL */
};

/* [any]  Sets the allocator (NULL: libc's).  Only while no block is out. -EBUSY otherwise. */
int wf_allocator_set(const struct wf_allocator *allocator);

/* [any]  `size` 0 gives a block of one byte.  NULL when out of memory. */
void *wf_alloc(size_t size);
void *wf_alloc_zeroed(size_t count, size_t size); /* NULL too when count * size overflows */
void *wf_alloc_aligned(size_t alignment, size_t size);
void wf_free(void *memory); /* NULL is allowed */
void wf_alloc_stats(struct wf_alloc_stats *out);

/* ---- numbers ------------------------------------------------------------------------------- */

static inline bool wf_is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* xorshift128+: two words of state, a few instructions a number; not for secrets. */
struct wf_random {
    uint64_t state[2];
};

/* [owner]  Any seed is good, 0 too. */
void wf_random_init(struct wf_random *random, uint64_t seed);
/* [owner] */
uint64_t wf_random_next(struct wf_random *random);
/* [owner]  A number below `bound` (at least 1), without division or noticeable bias. */
uint32_t wf_random_below(struct wf_random *random, uint32_t bound);

/* Reads a whole decimal number within [min, max].  -EINVAL: no number, or something after it;
 * -ERANGE: outside.  *out untouched on error. */
int wf_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* ---- intrusive lists ----------------------------------------------------------------------- */

#define wf_container_of(pointer, type, member)                                                     \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* A link that its owner embeds.  Queues carry addresses of these and nothing else. */
struct wf_node {
    struct wf_node *next;
};

/* A chain of nodes with both ends known; what moves between queues in a batch. */
struct wf_chain {
    struct wf_node *first;
    struct wf_node *last;
    size_t count;
};

/* [owner]  `chain` all zero is empty. */
void wf_chain_push(struct wf_chain *chain, struct wf_node *node);
struct wf_node *wf_chain_pop(struct wf_chain *chain); /* NULL when empty */
/* Moves the first `count` to the end of `to`; there are as many. */
void wf_chain_move(struct wf_chain *to, struct wf_chain *from, size_t count);
/* [owner]  Moves all of `from` behind `to`; `from` is empty afterwards. */
void wf_chain_append(struct wf_chain *to, struct wf_chain *from);

/* Doubly linked ring with a head; a member can leave from the middle without knowing its list. */
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

/* The link may be removed again: it is left pointing to itself. */
static inline void wf_list_remove(struct wf_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    wf_list_init(link);
}

/* NULL when empty. */
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

/* A thread takes locks in rising rank only; os/lock.c checks it in builds with assertions. */
enum wf_lock_rank {
    WF_RANK_SYNC = 0,        /* what users wait in: several together by address */
    WF_RANK_GATE = 1,        /* spawns from outside */
    WF_RANK_URING = 1,       /* requests to the kernel: those that it refuses wake tasks */
    WF_RANK_WORLD = 2,       /* whose turn it is to stop the world */
    WF_RANK_MONITOR = 11,    /* who is in play */
    WF_RANK_SCOPE = 3,       /* the tasks of a scope */
    WF_RANK_JOIN = 4,        /* those who wait for a task */
    WF_RANK_ROOM = 5,        /* those who wait for room */
    WF_RANK_FAILURE = 6,     /* failures nobody saw */
    WF_RANK_TIMERS = 7,      /* the timers of a worker */
    WF_RANK_TASK_POOL = 8,   /* memory of tasks */
    WF_RANK_BLOCKING = 9,    /* jobs and threads of blocking work */
    WF_RANK_INJECT = 10,     /* the global queue */
    WF_RANK_CHILD = 11,      /* what is known of a child process */
    WF_RANK_OVERFLOW = 49,   /* the signal handlers of the process */
    WF_RANK_STACK_POOL = 50, /* free stacks */
    WF_RANK_SLAB_LIST = 51,  /* all slabs of the process */
    WF_RANK_TRACE = 63,      /* events of threads that are no worker: under any other lock */
};

#endif
