/* SPDX-License-Identifier: MIT */
/*
 * fiber/fiber.h - stacks, and switches between them.
 *
 * Promises:      a switch preserves the registers that the ABI makes callee-saved, and takes less
 *                than three nanoseconds.  A stack has a guard below it; an access to the guard is
 *                reported and aborts the process.  (A single frame can be larger than stack and
 *                guard: code must be compiled with -fstack-clash-protection, as the library is.)  A
 *                million stacks fit into a process with the kernel's default limits; a stack uses
 *                memory only for touched pages.  ASan, TSan and Valgrind are informed of switches
 *                and stacks.
 * Must not know: tasks, workers, schedulers.  The caller decides which fiber runs on which thread:
 *                this layer has no thread-local data, no list of fibers and no current fiber.
 *
 *   fiber     a stack with saved registers.  A thread's own stack is a fiber too, so that every
 *             fiber can switch to every other.
 *   switch    suspends the running fiber, resumes another one, and passes it one word
 *   stack     usable bytes [low, low + size) with a guard below
 *   slab      one mapping of up to 64 stacks of one size
 *   pool      all slabs of a runtime, under a lock
 *   cache     the free stacks of one worker, without a lock
 *
 * Code that runs on a fiber may be on another thread after a switch.  A compiler may keep the
 * address of a thread-local variable, or of errno, in a register across the call that switches.  So
 * code that may switch must get everything that belongs to a thread from a function marked
 * WF_READS_TLS, and must call it again after each switch.
 *
 * Tags:  [owner] the thread that currently owns the structure;  [any] any thread;
 *        [signal] any thread, also in a signal handler.
 *        Fields: [const] set before publication; [owner]; [any: ...]; [lock] under the pool's lock.
 *
 * Edges:
 *
 *   edge      from                              to                        carries
 *   fiber.F1  registry.c add, remove: store     find: load first          the constant fields of
 *             first                                                       the slabs in the list
 *   fiber.F2  registry.c find: fence            remove: fence             one side sees the other's
 *                                                                         write of readers, links
 *   fiber.F3  registry.c find: readers - 1      remove: load readers      the slab is read before
 *                                                                         it is freed
 *   fiber.L1  stack.c pool_give: release lock   pool_take: acquire lock   the stacks
 *   fiber.O1  overflow.c install: store report  on_fault: load report     the data of the report,
 *                                                                         and `previous`
 *   fiber.O2  overflow.c on_fault: handlers -1  hook: load handlers       `previous` is read before
 *                                                                         it is replaced
 */
#ifndef WF_FIBER_FIBER_H
#define WF_FIBER_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

#if defined(WF_ASAN) || defined(WF_TSAN)
#define WF_SWITCH_SANITIZED 1 /* every switch goes through sanitize.c */
#define WF_STACK_SCALE 4      /* frames are larger, and reports are printed on the current stack */
#else
#define WF_STACK_SCALE 1
#endif

/*
 * Marks a function that returns something of the calling thread (a thread-local variable, errno,
 * the current worker) to code that may switch.  The compiler must neither inline it nor merge two
 * calls of it.  clang derives the result from the body even without inlining, and replaces the call
 * by the address of the thread-local variable.  So a function that returns an address passes it
 * through wf_tls, which hides its origin.
 */
#if defined(__clang__)
#define WF_READS_TLS __attribute__((noinline))
#else
#define WF_READS_TLS __attribute__((noipa))
#endif

static inline void *wf_tls(void *address)
{
    __asm__ volatile("" : "+r"(address));
    return address;
}

/* ---- fibers -------------------------------------------------------------------------------- */

struct wf_fiber;
struct wf_stack;

/* The last switch of a fiber. */
struct wf_fiber_exit {
    struct wf_fiber *to; /* the fiber that is resumed */
    void *message;       /* passed to it */
};

/* The function of a fiber.  `arg` is that of wf_fiber_init, `message` that of the first switch. The
 * fiber ends when it returns; the result names the fiber that is resumed then. */
typedef struct wf_fiber_exit (*wf_fiber_fn)(void *arg, void *message);

/* Rounding, exceptions, denormals: the control bits of the ABI, which every function preserves
 * except those whose purpose is to change them. */
struct wf_fp_control {
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87;
#else
    uint64_t fpcr;
#endif
};

struct wf_fiber {
    void *stack_pointer;     /* [owner]  while suspended; NULL while it runs and after its end */
    bool keeps_fp_control;   /* [owner]  see wf_fiber_keep_fp_control */
    struct wf_fp_control fp; /* [owner]  if keeps_fp_control: the words to set while suspended */
    struct wf_stack *stack;  /* [const]  NULL: the thread's own stack */
    wf_fiber_fn fn;          /* [const] */
    void *arg;               /* [const] */
#ifdef WF_ASAN
    void *fake_stack;            /* [owner]  ASan's fake stack: locals of this fiber */
    const void *asan_low;        /* [owner]  the bounds of the stack, for ASan */
    size_t asan_size;            /* [owner] */
    struct wf_fiber *resumed_by; /* [owner]  the fiber that switched to this one last */
#endif
#ifdef WF_TSAN
    void *tsan; /* [const]  TSan's handle of the fiber */
#endif
};

/* ---- stacks -------------------------------------------------------------------------------- */

/* The guard below a stack, best first. */
enum wf_guard {
    WF_GUARD_BEST,    /* only in options: the best kind that works */
    WF_GUARD_MARKER,  /* guard markers in the page table; no mapping.  Linux 6.13 */
    WF_GUARD_MAPPING, /* pages without access rights; two mappings a stack, so limited */
    WF_GUARD_CANARY,  /* a pattern, checked when the stack is returned */
    WF_GUARD_KINDS,
};

struct wf_slab;

struct wf_stack {
    char *low;             /* [const]  the first usable byte; the guard ends here */
    size_t size;           /* [const]  usable bytes */
    struct wf_slab *slab;  /* [const]  its slab */
    size_t color;          /* [const]  unused bytes at the high end: see WF_STACK_COLORS */
    struct wf_stack *next; /* [owner]  in the free list of its current owner */

    /* [owner: write] [signal: read]  The layer above's object that runs here, for the overflow
     * report; NULL: none. */
    WF_ATOMIC(void *) user;

    /* [owner]  For the user of the stack, which then need not store its fiber elsewhere. */
    struct wf_fiber fiber;

    enum wf_guard guard;  /* [const] */
    bool has_canary;      /* [owner]  the pattern is in place; only for WF_GUARD_CANARY */
    unsigned valgrind_id; /* [const]  see sanitize.c */
#ifdef WF_TSAN
    void *tsan;         /* [owner]  TSan's fiber, reused by the fibers of this stack; NULL: none */
    bool is_tsan_stale; /* [owner]  the last fiber did not end at its outermost call */
#endif
};

static inline char *wf_stack_high(const struct wf_stack *stack)
{
    return stack->low + stack->size;
}

/* [owner]  Sets *out to the deepest use of the stack by all its fibers, in bytes from the high end,
 * in whole pages, since its memory was last returned to the kernel.  Asks the kernel which pages
 * are resident; touches none.  -EAGAIN, -ENOMEM: the kernel could not say. */
int wf_stack_depth(const struct wf_stack *stack, size_t *out);

/* [any]  Bytes of the guard below each stack. */
size_t wf_guard_size(void);

struct wf_stack_options {
    enum wf_guard guard;       /* any kind except WF_GUARD_BEST: this kind, or an error */
    size_t mapped_bytes_max;   /* 0: no limit */
    size_t free_bytes_max;     /* per size, kept before trimming; 0: WF_STACK_FREE_BYTES_MAX */
    size_t guard_mappings_max; /* WF_GUARD_MAPPING, per process; 0: half of the kernel's limit */
};

/* The stacks of one size. */
struct wf_stack_class {
    struct wf_list partial; /* [lock]  slabs with free stacks; entirely free ones last */
    struct wf_list dirty;   /* [lock]  slabs with dirty free stacks; oldest first */
    size_t count;           /* [lock]  stacks, free or not */
    size_t free_count;      /* [lock]  free stacks */
    size_t dirty_count;     /* [lock]  dirty stacks: free ones that may have resident memory */
};

/* The stacks of a runtime: one class for each size, a power of two. */
struct wf_stack_pool {
    struct wf_lock lock;
    struct wf_stack_options options; /* [const]  with defaults instead of zeros */
    size_t page_size;                /* [const] */
    WF_ATOMIC(uint32_t) guard;       /* [any: write]  enum wf_guard: the kind to try first */
    struct wf_stack_class classes[WF_STACK_CLASSES];

    size_t mapped_bytes;           /* [lock] */
    size_t slabs;                  /* [lock] */
    size_t stacks;                 /* [lock]  in all slabs */
    size_t guards[WF_GUARD_KINDS]; /* [lock]  stacks by kind of guard */
    uint64_t discarded;            /* [lock]  stacks whose memory was returned to the kernel */
    uint64_t unmapped;             /* [lock]  stacks whose slab was unmapped */
};

struct wf_stack_stats {
    size_t mapped_bytes; /* guards included */
    size_t slabs;
    size_t stacks;                 /* in all slabs */
    size_t free;                   /* stacks in the pool, not in a cache or used by a fiber */
    size_t dirty;                  /* free stacks that may have resident memory */
    size_t guards[WF_GUARD_KINDS]; /* stacks by kind of guard */
    uint64_t discarded;            /* stacks whose memory was returned, since the start */
    uint64_t unmapped;             /* stacks whose slab was unmapped, since the start */
};

/* [any]  Makes an empty pool.  NULL options: all zero.  -EINVAL: the guard does not exist, or the
 * kernel does not support it. */
int wf_stack_pool_init(struct wf_stack_pool *pool, const struct wf_stack_options *options);
/* [any]  Unmaps all slabs.  All stacks must be in the pool. */
void wf_stack_pool_done(struct wf_stack_pool *pool);
/* [any]  Unmaps entirely free slabs, and returns the memory of all other free stacks to the kernel;
 * true if there was any.  The pool does this itself when the kernel has no memory, and, down to
 * half of the limit, when the free stacks of a size exceed free_bytes_max. */
bool wf_stack_pool_trim(struct wf_stack_pool *pool);
/* [any]  Reads all numbers under the lock. */
void wf_stack_pool_stats(struct wf_stack_pool *pool, struct wf_stack_stats *out);

/* A worker's free stacks.  It gets and puts without a lock, and exchanges a batch with the pool
 * when it has none or too many.  LIFO: the stack returned last is in the CPU's caches.  Every field
 * is [owner], except `count`: [owner: write] [any: read]. */
struct wf_stack_cache {
    struct wf_stack_pool *pool;
    struct {
        struct wf_stack *first;
        WF_ATOMIC(uint32_t) count;
    } classes[WF_STACK_CLASSES];
};

/* [owner]  Makes an empty cache of the pool. */
void wf_stack_cache_init(struct wf_stack_cache *cache, struct wf_stack_pool *pool);
/* [owner]  Returns every stack to the pool. */
void wf_stack_cache_done(struct wf_stack_cache *cache);
/* [any]  The number of stacks in the cache: a hint. */
size_t wf_stack_cache_count(const struct wf_stack_cache *cache);

/* [owner of cache]  Gives a stack of at least `size` usable bytes, rounded up to a power of two (0:
 * WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE).  Its contents are undefined.  -EINVAL: below
 * WF_STACK_SIZE_MIN or above WF_STACK_SIZE_MAX; -ENOMEM: no memory, no mapping, or the pool's limit
 * is reached. */
int wf_stack_get(struct wf_stack_cache *cache, size_t size, struct wf_stack **out);

/* [owner of cache]  Puts a stack, on which no fiber runs any more, into the cache.  The stack may
 * come from another cache of the same pool.  A damaged canary is reported as an overflow and aborts
 * the process. */
void wf_stack_put(struct wf_stack_cache *cache, struct wf_stack *stack);

/* The stack at an address. */
struct wf_stack_place {
    char *low;     /* the first usable byte; the guard ends here */
    size_t size;   /* usable bytes */
    void *user;    /* see struct wf_stack */
    bool is_guard; /* the address is in the guard, not in the usable part */
};

/* [signal]  Finds the stack whose usable part or guard contains the address, in any pool.  False:
 * none; *out is untouched. */
bool wf_stack_find(const void *address, struct wf_stack_place *out);

/* ---- switching ------------------------------------------------------------------------------ */

/* [owner]  Makes the calling thread's own stack a fiber, from which it can switch to others.  The
 * fiber owns nothing that must be freed. */
void wf_fiber_init_thread(struct wf_fiber *fiber);

/* [owner]  Makes a suspended fiber that will call `fn` on `stack`.  It borrows the stack until it
 * has ended or will never be resumed.  Touches only the highest bytes of the stack. */
void wf_fiber_init(struct wf_fiber *fiber, struct wf_stack *stack, wf_fiber_fn fn, void *arg);

/*
 * [owner]  Gives the fiber its own floating point control words.  This call saves the current
 * words.  Each suspension of the fiber restores the saved words, and each resumption sets the
 * fiber's own words again.  For a fiber that changes the rounding mode and suspends before it
 * changes the mode back.  This costs 12 ns for each suspension, so it is off by default: then all
 * fibers share the words, and a fiber must suspend with the words that it began with.
 */
void wf_fiber_keep_fp_control(struct wf_fiber *fiber);

/*
 * [owner of both]  Suspends `from`, which must be the running fiber, and resumes `to`, to which it
 * passes `message`.  Returns when a fiber switches back to `from`, perhaps on another thread: the
 * message of that switch.  No thread may switch to `from` before `to` runs.
 */
static inline void *wf_fiber_switch(struct wf_fiber *from, struct wf_fiber *to, void *message);

/* [owner of both]  The last switch of `from`, from any depth of calls, none of which returns.  The
 * stack of `from` may be reused as soon as `to` runs.  A return from the fiber's function has the
 * same effect, and is much cheaper under TSan. */
_Noreturn void wf_fiber_switch_final(struct wf_fiber *from, struct wf_fiber *to, void *message);

/* ---- overflow ------------------------------------------------------------------------------ */

/* An access to the guard of a stack, or a damaged canary. */
struct wf_overflow {
    const void *address; /* of the access; NULL: a damaged canary */
    const char *low;     /* the stack: its first usable byte ... */
    size_t size;         /* ... and its usable bytes */
    void *user;          /* see struct wf_stack */
    bool is_stray;       /* the thread was not running on that stack: a wild pointer, no overflow */
};

/* [signal]  Reports the overflow.  Runs on the signal stack and must be async-signal-safe. */
typedef void (*wf_overflow_report_fn)(const struct wf_overflow *overflow);

/*
 * [any]  Installs the handlers of SIGSEGV and SIGBUS: a fault in a guard calls `report` and aborts
 * the process.  Any other fault goes to the previous handler, or has the default action.  Counted:
 * the handlers stay until an equal number of wf_overflow_remove.  -EBUSY: another report is
 * installed.
 */
int wf_overflow_install(wf_overflow_report_fn report);
/* [any]  Undoes one wf_overflow_install. */
void wf_overflow_remove(void);

/* A thread's alternate signal stack.  Without it an overflow kills the process by SIGSEGV, without
 * a report.  Every field is [owner]. */
struct wf_signal_stack {
    void *memory;    /* NULL: the thread already had one that is large enough */
    size_t bytes;    /* of memory, with its guard page */
    void *old_low;   /* the alternate stack that the thread had before: ss_sp ... */
    size_t old_size; /* ... ss_size ... */
    int old_flags;   /* ... and ss_flags */
};

/* [owner]  Gives the calling thread an alternate signal stack.  -ENOMEM. */
int wf_signal_stack_init(struct wf_signal_stack *stack);
/* [owner]  Restores the previous one.  In the thread that called wf_signal_stack_init. */
void wf_signal_stack_done(struct wf_signal_stack *stack);

/* ---- internal to the layer ----------------------------------------------------------------- */

/* One mapping: `count` pairs of a guard and a stack.  In each bitmap bit i stands for stacks[i];
 * stacks[0] has the lowest address. */
struct wf_slab {
    struct wf_stack_pool *pool; /* [const] */
    char *memory;               /* [const] */
    size_t bytes;               /* [const] */
    size_t stride;              /* [const]  from one stack to the next */
    unsigned class_index;       /* [const] */
    unsigned count;             /* [const] */

    uint64_t free;             /* [lock]  bitmap: stacks in the pool */
    uint64_t dirty;            /* [lock]  bitmap: free stacks that may have resident memory */
    struct wf_list link;       /* [lock]  in class->partial, while a stack is free */
    struct wf_list dirty_link; /* [lock]  in class->dirty, while a stack is dirty */

    /* The list of all slabs of the process: registry.c. */
    WF_ATOMIC(struct wf_slab *) next; /* [registry lock: write] [signal: read] */
    struct wf_slab *previous;         /* [registry lock] */

    struct wf_stack stacks[];
};

/* All slabs of the process, of all pools: a fault can happen on any stack.  See registry.c. */
struct wf_slab_registry {
    struct wf_lock lock;               /* taken by writers only */
    WF_ATOMIC(struct wf_slab *) first; /* [lock: write] [signal: read] */
    WF_ATOMIC(uint32_t) readers;       /* [any: add]  threads inside wf_stack_find */
};
extern struct wf_slab_registry wf_slab_registry;

/* The usable bytes of a stack of the class. */
static inline size_t wf_stack_class_size(unsigned class_index)
{
    return WF_STACK_SIZE_MIN << class_index;
}

/* The bitmap of all stacks of the slab. */
static inline uint64_t wf_slab_all(const struct wf_slab *slab)
{
    return slab->count == 64 ? UINT64_MAX : (UINT64_C(1) << slab->count) - 1;
}

/* slab.c  [any]  Maps a slab of stacks of the class and sets their guards; all stacks are free and
 * clean.  On error nothing is left behind.  -ENOMEM, or the error of the required guard's system
 * call. */
int wf_slab_new(struct wf_stack_pool *pool, unsigned class_index, struct wf_slab **out);
/* slab.c  [any]  Unmaps the slab.  No fiber may use its stacks.  NULL is allowed. */
void wf_slab_free(struct wf_slab *slab);
/* slab.c  [any]  The bytes that wf_slab_new maps. */
size_t wf_slab_bytes(unsigned class_index);
/* slab.c  [owner of the stacks]  Returns the memory of these stacks, a bitmap, to the kernel.  The
 * caller has taken them from the pool. */
void wf_slab_discard(struct wf_slab *slab, uint64_t stacks);
/* slab.c  [owner]  For WF_GUARD_CANARY: writes the pattern unless it is in place. */
void wf_canary_put(struct wf_stack *stack);
/* slab.c  [owner]  For WF_GUARD_CANARY: true if the pattern is unchanged. */
bool wf_canary_is_intact(const struct wf_stack *stack);

/* overflow.c  [owner]  Reports a stack whose canary is damaged, and aborts the process. */
_Noreturn void wf_overflow_found(const struct wf_stack *stack);

/* registry.c  [any]  Adds the slab to the registry.  wf_stack_find may read it until
 * wf_slab_list_remove has returned. */
void wf_slab_list_add(struct wf_slab *slab);
/* registry.c  [any]  Removes the slab, and waits for the readers that may still see it. */
void wf_slab_list_remove(struct wf_slab *slab);

/* switch_*.S  [owner]  Saves the registers on the current stack and the stack pointer to *save;
 * restores the context at the stack pointer `resume`, which a wf_context_switch saved or
 * wf_fiber_init built.  The resumed call returns `message`. */
void *wf_context_switch(void **save, void *resume, void *message);
/* switch_*.S  The first instruction of a fiber: calls wf_fiber_main. */
void wf_fiber_trampoline(void);
/* fiber.c  Runs the function of the fiber, then does its last switch. */
_Noreturn void wf_fiber_main(struct wf_fiber *fiber, void *message);
/* fiber.c  wf_fiber_switch for a fiber with keeps_fp_control. */
void *wf_fiber_switch_keeping(struct wf_fiber *from, struct wf_fiber *to, void *message);

/* fiber.c  The last switch of `from`.  is_outermost: the caller is wf_fiber_main, and the function
 * of the fiber has returned; false: the caller is inside that function. */
_Noreturn void wf_fiber_leave(struct wf_fiber *from, struct wf_fiber *to, void *message,
                              bool is_outermost);

/* For functions that switch: the compiler adds no sanitizer code to them. */
#if defined(__clang__)
#define WF_UNINSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define WF_UNINSTRUMENTED __attribute__((no_sanitize_address, no_sanitize_thread))
#endif

/* sanitize.c  The stack was mapped. */
void wf_sanitizer_stack_new(struct wf_stack *stack);
/* sanitize.c  The stack is returned: no fiber runs on it any more. */
void wf_sanitizer_stack_back(struct wf_stack *stack);
/* sanitize.c  The stack is about to be unmapped. */
void wf_sanitizer_stack_gone(struct wf_stack *stack);
/* sanitize.c  At the end of wf_fiber_init_thread. */
void wf_sanitizer_thread(struct wf_fiber *fiber);
/* sanitize.c  At the end of wf_fiber_init. */
void wf_sanitizer_fiber(struct wf_fiber *fiber);
/* sanitize.c  The first call of a new fiber. */
void wf_sanitizer_switch_begin(struct wf_fiber *fiber);
/* sanitize.c  The last call before the last switch of a fiber. */
void wf_sanitizer_switch_end(struct wf_fiber *from, struct wf_fiber *to, bool is_outermost);
/* sanitize.c  wf_fiber_switch that informs ASan or TSan. */
void *wf_fiber_switch_sanitized(struct wf_fiber *from, struct wf_fiber *to, void *message);

/*
 * wf_context_switch without a call.  A call that is left by a jump leaves one entry too many on the
 * CPU's return stack predictor: all later returns are mispredicted, 7 ns each, until it is empty.
 * Inline code makes no call, and two fibers that are suspended at the same place even have their
 * returns predicted correctly.  The saved context is that of the function into which this code is
 * inlined.  The code first steps over the ABI's red zone: the 128 bytes below the stack pointer,
 * which the compiler may use.
 */
#if defined(__x86_64__)
#ifdef __AVX512F__ /* else the compiler does not know these registers */
#define WF_AVX512_CLOBBERED                                                                        \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",    \
        "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6",  \
        "k7"
#else
#define WF_AVX512_CLOBBERED
#endif
static inline __attribute__((always_inline)) void *wf_context_switch_here(void **save, void *resume,
                                                                          void *message)
{
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
                     "leaq 1f(%%rip), %%rcx\n\t"
                     "pushq %%rcx\n\t"
                     "pushq %%rbp\n\t"
                     "pushq %%rbx\n\t"
                     "pushq %%r12\n\t"
                     "pushq %%r13\n\t"
                     "pushq %%r14\n\t"
                     "pushq %%r15\n\t"
                     "movq %%rsp, (%%rdi)\n\t"
                     "movq %%rsi, %%rsp\n\t"
                     "popq %%r15\n\t"
                     "popq %%r14\n\t"
                     "popq %%r13\n\t"
                     "popq %%r12\n\t"
                     "popq %%rbx\n\t"
                     "popq %%rbp\n\t"
                     "popq %%rcx\n\t"
                     "jmp *%%rcx\n"
                     "1:\n\t"
                     "subq $-128, %%rsp"
                     : "+a"(message), "+D"(save), "+S"(resume)
                     :
                     : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1",
                       "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)",
                       "st(4)", "st(5)", "st(6)", "st(7)" WF_AVX512_CLOBBERED);
    return message;
}
#else
#define wf_context_switch_here wf_context_switch
#endif

/* wf_fiber_switch for a fiber without keeps_fp_control. */
static inline __attribute__((always_inline)) void *
wf_fiber_switch_plain(struct wf_fiber *from, struct wf_fiber *to, void *message)
{
#ifdef WF_SWITCH_SANITIZED
    return wf_fiber_switch_sanitized(from, to, message);
#else
    void *resume = to->stack_pointer;
    to->stack_pointer = NULL;
    return wf_context_switch_here(&from->stack_pointer, resume, message);
#endif
}

static inline __attribute__((always_inline)) void *
wf_fiber_switch(struct wf_fiber *from, struct wf_fiber *to, void *message)
{
    WEFT_ASSERT(from != to);
    WEFT_ASSERT(from->stack_pointer == NULL);
    WEFT_ASSERT(to->stack_pointer != NULL);
    if (__builtin_expect(from->keeps_fp_control, false)) {
        return wf_fiber_switch_keeping(from, to, message);
    }
    return wf_fiber_switch_plain(from, to, message);
}

#endif
