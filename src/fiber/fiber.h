/* SPDX-License-Identifier: MIT */
/*
 * fiber/fiber.h - stacks, and switching between them.
 *
 * Promises:      a switch keeps what the ABI makes a called function keep, and costs less than
 *                three nanoseconds.  A stack has a guard below it; whoever runs into it is reported
 *                and ends the process.  (A single frame can be larger than stack and guard: code
 *                has to be compiled with -fstack-clash-protection, as all of ours is.)  A million
 *                stacks fit into a process with the kernel's usual limits; one that was handed out
 *                has memory only where it was touched.  ASan, TSan and Valgrind know of every
 *                switch.
 * Must not know: tasks, workers, schedulers.  Who runs on which thread is the caller's business:
 *                there is no thread-local here, no list of fibers and no idea of a current one.
 *
 *   fiber     a stack with saved registers; a thread's own stack is one too, so that any fiber can
 *             switch to any other
 *   switch    the running fiber is suspended, the other goes on where it was; a word travels along
 *   stack     usable bytes [low, low + size) with a guard below
 *   slab      one mapping of up to 64 stacks of one size
 *   pool      all slabs of a runtime, with a lock;  cache: a worker's few stacks, without
 *
 * What the code of a fiber must bear in mind: after a switch it may run on another thread.
 * Compilers keep the address of a thread-local variable, and that of errno, in a register across
 * the call.  So code that may switch asks for anything that belongs to a thread through a function
 * marked WF_ASKS_THREAD, each time anew.
 *
 * Tags:  [owner] the thread that a structure belongs to at the moment;  [any] any thread;
 *        [signal] any thread, in a signal handler too.
 *        Fields: [const] set before publication; [owner]; [any: ...]; [lock] under the pool's lock.
 *
 * Who synchronises with whom (the letters are the labels in the code):
 *
 *   edge  from                            to                            carries
 *   F1    registry.c add: store first     find: load first, next        a slab's constant fields
 *   F2    registry.c find: fence          remove: fence                 one of both sees the other
 *   F3    registry.c find: readers - 1    remove: load readers          the slab read before freed
 *   L1    os/lock.c, the pool's lock      the same                      stacks and what they hold
 */
#ifndef WF_FIBER_FIBER_H
#define WF_FIBER_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

#if defined(WF_ASAN) || defined(WF_TSAN)
#define WF_SWITCH_NOTICED 1 /* every switch goes through sanitize.c */
#define WF_STACK_SCALE 4    /* frames are larger, and reports are written on the stack at hand */
#else
#define WF_STACK_SCALE 1
#endif

/*
 * For functions that give something of the calling thread (a thread-local variable, errno, the
 * current worker) to code that may switch: calls of such a function are never merged.  It must not
 * be inlined, and nobody may conclude from its body what it gives: clang replaces the result of a
 * function that is never inlined by the address of the thread-local variable all the same.  So one
 * that gives an address gives it through wf_of_thread.
 */
#if defined(__clang__)
#define WF_ASKS_THREAD __attribute__((noinline))
#else
#define WF_ASKS_THREAD __attribute__((noipa))
#endif

static inline void *wf_of_thread(void *address)
{
    __asm__ volatile("" : "+r"(address));
    return address;
}

/* ---- fibers -------------------------------------------------------------------------------- */

struct wf_fiber;
struct wf_stack;

/* Where a fiber goes when it ends. */
struct wf_fiber_exit {
    struct wf_fiber *to;
    void *message;
};

/* The function of a fiber: gets the argument of wf_fiber_init and the message of the first switch.
 * By returning it ends the fiber; the one named in the result goes on. */
typedef struct wf_fiber_exit (*wf_fiber_fn)(void *arg, void *message);

/* Rounding, exceptions, denormals: what the ABI calls control bits, kept by every function but for
 * those whose purpose is to change them. */
struct wf_fp_control {
#if defined(__x86_64__)
    uint32_t mxcsr;
    uint16_t x87;
#else
    uint64_t fpcr;
#endif
};

struct wf_fiber {
    void *stack_pointer;     /* [owner]  of the suspended fiber; NULL while it runs or is over */
    bool keeps_fp_control;   /* [owner]  see wf_fiber_keep_fp_control */
    struct wf_fp_control fp; /* [owner]  if so: what is in force while it is suspended */
    struct wf_stack *stack;  /* [const]  NULL: a thread's own */
    wf_fiber_fn fn;          /* [const] */
    void *arg;               /* [const] */
#ifdef WF_ASAN
    void *fake_stack;            /* [owner]  where ASan keeps locals of this fiber */
    const void *asan_low;        /* [owner]  the stack as ASan has to know it */
    size_t asan_size;            /* [owner] */
    struct wf_fiber *resumed_by; /* [owner] */
#endif
#ifdef WF_TSAN
    void *tsan; /* [const] */
#endif
};

/* ---- stacks -------------------------------------------------------------------------------- */

/* What is below a stack, best first. */
enum wf_guard {
    WF_GUARD_BEST,    /* in options: the best that works */
    WF_GUARD_NOTE,    /* a note in the page table; costs no mapping.  Linux 6.13 */
    WF_GUARD_MAPPING, /* pages without access rights; two mappings a stack, so limited */
    WF_GUARD_CANARY,  /* a pattern, looked at when the stack comes back */
    WF_GUARD_KINDS,
};

struct wf_slab;

struct wf_stack {
    char *low;             /* [const]  the first usable byte; the guard ends here */
    size_t size;           /* [const]  usable bytes */
    struct wf_slab *slab;  /* [const]  where it belongs */
    size_t color;          /* [const]  bytes at the high end that a fiber leaves unused: slab.c */
    struct wf_stack *next; /* [owner]  in the list of whoever has it at the moment */

    /* [owner: write] [signal: read]  Tells the overflow report what ran here; NULL: nothing. */
    WF_ATOMIC(void *) user;

    /* [owner]  For whoever runs here, who then need not keep it elsewhere. */
    struct wf_fiber fiber;

    enum wf_guard guard;  /* [const] */
    bool has_canary;      /* [owner]  the pattern is in place; only for WF_GUARD_CANARY */
    unsigned valgrind_id; /* [const]  see sanitize.c */
#ifdef WF_TSAN
    void *tsan;        /* [owner]  TSan's idea of the fibers that ran here, NULL: none yet */
    bool is_tsan_worn; /* [owner]  it was left in the middle of a call */
#endif
};

static inline char *wf_stack_high(const struct wf_stack *stack)
{
    return stack->low + stack->size;
}

/* [owner]  How deep the stack was ever used, in bytes from its high end, whole pages: since its
 * memory was last given back to the kernel, whoever used it.  Asks the kernel; touches nothing.
 * -EAGAIN, -ENOMEM: it could not tell. */
int wf_stack_depth(const struct wf_stack *stack, size_t *out);

/* [any]  Bytes of the guard below each stack. */
size_t wf_guard_size(void);

struct wf_stack_options {
    enum wf_guard guard;       /* anything but WF_GUARD_BEST: this or an error */
    size_t mapped_bytes_max;   /* 0: no limit */
    size_t free_bytes_max;     /* per size, before memory goes back; 0: WF_STACK_FREE_BYTES_MAX */
    size_t guard_mappings_max; /* of the process, for WF_GUARD_MAPPING; 0: half of the kernel's */
};

/* Slabs of one size of stack. */
struct wf_stack_class {
    struct wf_list partial; /* [lock]  slabs with free stacks; wholly free ones last */
    struct wf_list dirty;   /* [lock]  slabs with free stacks that hold memory; oldest first */
    size_t count;           /* [lock]  stacks, free or not */
    size_t free_count;      /* [lock]  free stacks */
    size_t dirty_count;     /* [lock]  of them, those that hold memory */
};

/* The stacks of a runtime, of every size: one class each, 2^n pages. */
struct wf_stack_pool {
    struct wf_lock lock;
    struct wf_stack_options options; /* [const]  without zeros */
    size_t page_size;                /* [const] */
    WF_ATOMIC(uint32_t) guard;       /* [any: write]  the kind that is tried first now */
    struct wf_stack_class classes[WF_STACK_CLASSES];

    size_t mapped_bytes;           /* [lock] */
    size_t slabs;                  /* [lock] */
    size_t stacks;                 /* [lock]  in all slabs */
    size_t guards[WF_GUARD_KINDS]; /* [lock]  stacks by what is below them */
    uint64_t discarded;            /* [lock]  stacks whose memory was given back */
    uint64_t unmapped;             /* [lock]  stacks whose slab was given back */
};

struct wf_stack_stats {
    size_t mapped_bytes; /* guards included */
    size_t slabs;
    size_t stacks;                 /* in all slabs */
    size_t free;                   /* of them, those in the pool, not with a cache or a fiber */
    size_t dirty;                  /* of the free, those that hold memory */
    size_t guards[WF_GUARD_KINDS]; /* stacks by what is below them */
    uint64_t discarded;            /* stacks whose memory was given back, since the start */
    uint64_t unmapped;             /* stacks whose slab was given back */
};

/* [any]  NULL options: all zero.  -EINVAL: no such guard, or one that the kernel has not. */
int wf_stack_pool_init(struct wf_stack_pool *pool, const struct wf_stack_options *options);
/* [any]  All stacks are back. */
void wf_stack_pool_done(struct wf_stack_pool *pool);
/* [any]  Gives all memory of free stacks back to the kernel, and unmaps wholly free slabs; true
 * when there was any.  Happens by itself, down to half of it, when a size has more than
 * free_bytes_max, and when the kernel has no more to give. */
bool wf_stack_pool_trim(struct wf_stack_pool *pool);
/* [any] */
void wf_stack_pool_stats(struct wf_stack_pool *pool, struct wf_stack_stats *out);

/* A worker's own few stacks: takes and gives without a lock, and exchanges several at once with the
 * pool when it has none or too many.  The stack that came last goes first: it is in the CPU's
 * caches.  Every field [owner], but for `count` [any: read]. */
struct wf_stack_cache {
    struct wf_stack_pool *pool;
    struct {
        struct wf_stack *first;
        WF_ATOMIC(uint32_t) count;
    } classes[WF_STACK_CLASSES];
};

void wf_stack_cache_init(struct wf_stack_cache *cache, struct wf_stack_pool *pool);
/* [owner]  Gives every stack back to the pool. */
void wf_stack_cache_done(struct wf_stack_cache *cache);
/* [any]  Stacks in the cache. */
size_t wf_stack_cache_count(const struct wf_stack_cache *cache);

/* [owner of cache]  Gives a stack of at least `size` usable bytes (0: WF_STACK_SIZE_DEFAULT,
 * times WF_STACK_SCALE), a power of two, whose contents are anything.  -EINVAL: below
 * WF_STACK_SIZE_MIN or above WF_STACK_SIZE_MAX; -ENOMEM: no memory, no mapping, or the pool's
 * limit. */
int wf_stack_get(struct wf_stack_cache *cache, size_t size, struct wf_stack **out);

/* [owner of cache]  Takes a stack on which nothing runs any more; of the same pool, but from any of
 * its caches.  A damaged canary is reported as an overflow, and the process ends. */
void wf_stack_put(struct wf_stack_cache *cache, struct wf_stack *stack);

/* What is at an address. */
struct wf_stack_place {
    char *low;     /* of the stack; its guard ends here */
    size_t size;   /* usable bytes */
    void *user;    /* see struct wf_stack */
    bool is_guard; /* the address is in the guard, not in the usable part */
};

/* [signal]  True when the address is in a stack of any pool, or in the guard of one. */
bool wf_stack_find(const void *address, struct wf_stack_place *out);

/* ---- switching ------------------------------------------------------------------------------ */

/* [owner]  Makes the calling thread's own stack a fiber: from here others can be switched to.  It
 * is over when the thread has no use for it; there is nothing to be freed. */
void wf_fiber_init_thread(struct wf_fiber *fiber);

/* [owner]  A suspended fiber that will call `fn` on `stack`.  The stack is borrowed until the fiber
 * has ended or is never resumed again.  Touches only the highest bytes of it. */
void wf_fiber_init(struct wf_fiber *fiber, struct wf_stack *stack, wf_fiber_fn fn, void *arg);

/*
 * [owner]  Gives the fiber floating point control words of its own: while it is suspended, those
 * that the caller has now are in force again.  For code that changes the rounding mode and waits
 * before it changes it back.  Costs 12 ns each time it is suspended, so it is off by default: then
 * a fiber shares the words with all others, and must be suspended only with those it began with.
 */
void wf_fiber_keep_fp_control(struct wf_fiber *fiber);

/*
 * [owner of both]  Suspends `from`, which must be the running one, and goes on with `to`.  Gives
 * the message of whoever switches back, perhaps on another thread.  Nobody may switch to `from`
 * before this thread has arrived in `to`.
 */
static inline void *wf_fiber_switch(struct wf_fiber *from, struct wf_fiber *to, void *message);

/* [owner of both]  The last switch of `from`, from any depth of calls, which do not return.  As
 * soon as `to` goes on the stack of `from` may be reused.  To return from the fiber's function does
 * the same; under TSan it is much cheaper. */
_Noreturn void wf_fiber_switch_final(struct wf_fiber *from, struct wf_fiber *to, void *message);

/* ---- overflow ------------------------------------------------------------------------------ */

/* An access to the guard of a stack, or a canary that was found damaged. */
struct wf_overflow {
    const void *address; /* of the access; NULL: only traces of it were found */
    const char *low;     /* of the stack whose guard it was */
    size_t size;
    void *user;    /* see struct wf_stack */
    bool is_stray; /* the thread was not running on that stack: no overflow, but a wild pointer */
};

/* Tells the world, on the small stack of a signal handler, by async-signal-safe means. */
typedef void (*wf_overflow_report_fn)(const struct wf_overflow *overflow);

/*
 * [any]  From now on a fault in a guard calls `report` and then aborts; every other fault is passed
 * to the handler that was there before, or does what it would have done without.  Counted: the
 * handlers stay until as many wf_overflow_remove.  -EBUSY: somebody else's report is installed.
 */
int wf_overflow_install(wf_overflow_report_fn report);
void wf_overflow_remove(void);

/* A thread's own stack for handlers; without one an overflow ends the process by SIGSEGV without a
 * report.  Every field [owner]. */
struct wf_signal_stack {
    void *memory; /* NULL: the thread had one that is large enough */
    size_t bytes;
    void *old_low; /* the one it had */
    size_t old_size;
    int old_flags;
};

/* [owner]  For the calling thread; done in the same thread.  -ENOMEM. */
int wf_signal_stack_init(struct wf_signal_stack *stack);
void wf_signal_stack_done(struct wf_signal_stack *stack);

/* ---- inside the layer ---------------------------------------------------------------------- */

/* One mapping: count times a guard and a stack.  A bit for each stack, the lowest first. */
struct wf_slab {
    struct wf_stack_pool *pool; /* [const] */
    char *memory;               /* [const] */
    size_t bytes;               /* [const] */
    size_t stride;              /* [const]  from one stack to the next */
    unsigned class_index;       /* [const] */
    unsigned count;             /* [const] */

    uint64_t free;             /* [lock]  stacks in the pool */
    uint64_t dirty;            /* [lock]  of them, those that hold memory */
    struct wf_list link;       /* [lock]  in the class, while any is free */
    struct wf_list dirty_link; /* [lock]  in the class, while any is dirty */

    /* The list of all slabs of the process: registry.c. */
    WF_ATOMIC(struct wf_slab *) next; /* [list lock: write] [signal: read] */
    struct wf_slab *previous;         /* [list lock] */

    struct wf_stack stacks[];
};

/* All slabs of the process, of whatever pool: a fault can happen on any stack.  See registry.c. */
struct wf_slab_registry {
    struct wf_lock lock;               /* writers only */
    WF_ATOMIC(struct wf_slab *) first; /* [lock: write] [signal: read] */
    WF_ATOMIC(uint32_t) readers;       /* [any: add] */
};
extern struct wf_slab_registry wf_slab_registry;

/* Usable bytes of the stacks of a class. */
static inline size_t wf_stack_class_size(unsigned class_index)
{
    return WF_STACK_SIZE_MIN << class_index;
}

/* The bits of all its stacks. */
static inline uint64_t wf_slab_all(const struct wf_slab *slab)
{
    return slab->count == 64 ? UINT64_MAX : (UINT64_C(1) << slab->count) - 1;
}

/* slab.c  Maps a slab of stacks of the class and sets their guards; all are free and clean.  On
 * error nothing is left.  -ENOMEM, or what the wanted guard's system call said. */
int wf_slab_new(struct wf_stack_pool *pool, unsigned class_index, struct wf_slab **out);
/* slab.c  Nothing runs on any of its stacks.  NULL is allowed. */
void wf_slab_free(struct wf_slab *slab);
/* slab.c  The bytes that wf_slab_new will map. */
size_t wf_slab_bytes(unsigned class_index);
/* slab.c  Gives the memory of these stacks back to the kernel; the caller has taken them. */
void wf_slab_discard(struct wf_slab *slab, uint64_t stacks);
/* slab.c  For WF_GUARD_CANARY: writes the pattern if it is not there; looks whether it still is. */
void wf_canary_put(struct wf_stack *stack);
bool wf_canary_is_intact(const struct wf_stack *stack);

/* overflow.c  Reports a stack whose canary is damaged, and ends the process. */
_Noreturn void wf_overflow_found(const struct wf_stack *stack);

/* registry.c  [any]  From add until remove has returned, wf_stack_find may look at the slab. */
void wf_slab_list_add(struct wf_slab *slab);
void wf_slab_list_remove(struct wf_slab *slab);

/* switch_*.S  Saves the registers on the stack and its pointer to *save; restores from `resume`
 * what such a call saved, or what wf_fiber_init made up.  Gives the message on the other side. */
void *wf_context_switch(void **save, void *resume, void *message);
/* switch_*.S  Where a fiber begins. */
void wf_fiber_trampoline(void);
/* fiber.c  Called by it. */
_Noreturn void wf_fiber_main(struct wf_fiber *fiber, void *message);
/* fiber.c  wf_fiber_switch for a fiber that keeps its floating point control words. */
void *wf_fiber_switch_keeping(struct wf_fiber *from, struct wf_fiber *to, void *message);

/* fiber.c  The last switch; outermost: no call is left unfinished. */
_Noreturn void wf_fiber_leave(struct wf_fiber *from, struct wf_fiber *to, void *message,
                              bool is_outermost);

/* For functions that switch: no code of a sanitizer is added to them. */
#if defined(__clang__)
#define WF_UNINSTRUMENTED __attribute__((disable_sanitizer_instrumentation))
#else
#define WF_UNINSTRUMENTED __attribute__((no_sanitize_address, no_sanitize_thread))
#endif

/* sanitize.c  A stack was mapped; nothing runs on it any more; it will be unmapped. */
void wf_notice_stack_new(struct wf_stack *stack);
void wf_notice_stack_back(struct wf_stack *stack);
void wf_notice_stack_gone(struct wf_stack *stack);
/* sanitize.c  At the end of the two inits. */
void wf_notice_thread(struct wf_fiber *fiber);
void wf_notice_fiber(struct wf_fiber *fiber);
/* sanitize.c  The first thing a fiber does; the last before it switches for the last time. */
void wf_notice_begin(struct wf_fiber *fiber);
void wf_notice_end(struct wf_fiber *from, struct wf_fiber *to, bool is_outermost);
/* sanitize.c  wf_fiber_switch where somebody has to be told. */
void *wf_fiber_switch_noticed(struct wf_fiber *from, struct wf_fiber *to, void *message);

/*
 * wf_context_switch without a call.  A call that is left by a jump leaves the CPU's memory of
 * return addresses one too deep: all returns after it are predicted wrongly, 7 ns each, until it is
 * empty.  Inline there is no call, and two fibers that were suspended at the same place even find
 * each other's returns predicted right.  The context looks like that of the function; below the
 * stack pointer there may be 128 bytes that the compiler uses (the ABI's red zone).
 */
#if defined(__x86_64__)
#ifdef __AVX512F__ /* registers there are only if the compiler was told so */
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

/* wf_fiber_switch without control words. */
static inline __attribute__((always_inline)) void *
wf_fiber_switch_plain(struct wf_fiber *from, struct wf_fiber *to, void *message)
{
#ifdef WF_SWITCH_NOTICED
    return wf_fiber_switch_noticed(from, to, message);
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
