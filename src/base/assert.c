/* SPDX-License-Identifier: MIT */
/*
 * base/assert.c - panics, and the test hooks for rare paths: reached marks, jitter, fault points.
 *
 * A panic means that the runtime's state is corrupt, or that a caller has violated a contract.  To
 * continue would corrupt the user's data, so wf_panic reports one line and aborts.  A program that
 * wants more, such as a dump or its own log, sets the hook.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

#ifdef WF_TSAN
wf_atomic_u32 wf_tsan_fence_cell; /* see wf_fence_seq_cst */
#endif

static WF_ATOMIC(wf_panic_fn) panic_hook; /* [any: exchange]  NULL: report_panic */

/* Without stdio streams: the heap or a stream's lock may be corrupt. */
static void report_panic(const char *file, int line, const char *what)
{
    char text[256];
    int length = snprintf(text, sizeof(text), "weft: %s:%d: broken: %s\n", file, line, what);
    if (length > 0) {
        size_t size = (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
        text[size - 1] = '\n';                   /* a truncated text ends with one too */
        (void)!write(STDERR_FILENO, text, size); /* an error cannot be reported anywhere */
    }
}

wf_panic_fn wf_panic_hook(wf_panic_fn hook)
{
    /* acq_rel: pairs with the load in wf_panic and with the next wf_panic_hook.  The thread that
     * calls the hook sees what was written before the hook was set. */
    wf_panic_fn old = wf_exchange_acq_rel(&panic_hook, hook);
    return old;
}

_Noreturn void wf_panic(const char *file, int line, const char *what)
{
    wf_panic_fn hook = wf_load_acquire(&panic_hook); /* acquire: pairs with wf_panic_hook */
    (hook != NULL ? hook : report_panic)(file, line, what);
    abort();
}

/* ---- reached marks ------------------------------------------------------------------------- */

/* The linker defines both ends of the section.  Weak: a program may have no mark. */
extern const struct wf_mark __start_wf_mark_set[] __attribute__((weak));
extern const struct wf_mark __stop_wf_mark_set[] __attribute__((weak));

size_t wf_marks(const struct wf_mark **first)
{
    *first = __start_wf_mark_set;
    return __start_wf_mark_set == NULL ? 0 : (size_t)(__stop_wf_mark_set - __start_wf_mark_set);
}

/* ---- jitter -------------------------------------------------------------------------------- */

static WF_ATOMIC(uint64_t) jitter_seed;
static _Thread_local struct wf_random jitter_random;
static _Thread_local bool is_jitter_seeded;

void wf_jitter_seed(uint64_t seed)
{
    wf_store_relaxed(&jitter_seed, seed); /* relaxed: set before the test starts its threads */
    is_jitter_seeded = false;
}

static struct wf_random *jitter_stream(void)
{
    if (!is_jitter_seeded) {
        /* relaxed: each thread only needs a unique number. */
        wf_random_init(&jitter_random, wf_fetch_add_relaxed(&jitter_seed, 1));
        is_jitter_seeded = true;
    }
    return &jitter_random;
}

void wf_jitter(void)
{
    /* Of 16 calls one yields and 4 spin, on average. */
    enum { OUTCOMES = 16, SPINS = 4, SPIN_MAX = 200 };
    struct wf_random *random = jitter_stream();
    uint32_t draw = wf_random_below(random, OUTCOMES);
    if (draw == 0) {
        (void)sched_yield();
    } else if (draw <= SPINS) {
        for (uint32_t left = wf_random_below(random, SPIN_MAX); left > 0; left--) {
            wf_spin_hint();
        }
    }
}

bool wf_jitter_coin(void)
{
    return wf_random_below(jitter_stream(), 2) != 0;
}

/* ---- fault points -------------------------------------------------------------------------- */

static WF_ATOMIC(uint64_t) fault_calls;       /* fault points executed since the last arm */
static WF_ATOMIC(uint64_t) fault_at;          /* the number of the call that fails; 0: none */
static WF_ATOMIC(const char *) fault_what;    /* the name of the point that failed; NULL: none */
static WF_ATOMIC(const char *) fault_ignored; /* the name that does not count; NULL: none */

void wf_fault_arm(uint64_t nth)
{
    /* seq_cst throughout: in a test hook simplicity counts more than speed. */
    wf_store_seq_cst(&fault_at, 0);
    wf_store_seq_cst(&fault_calls, 0);
    wf_store_seq_cst(&fault_what, NULL);
    wf_store_seq_cst(&fault_at, nth);
}

void wf_fault_ignore(const char *what)
{
    wf_store_seq_cst(&fault_ignored, what);
}

uint64_t wf_fault_calls(void)
{
    return wf_load_seq_cst(&fault_calls);
}

bool wf_fault_hit(const char **what)
{
    const char *hit = wf_load_seq_cst(&fault_what);
    if (what != NULL) {
        *what = hit;
    }
    return hit != NULL;
}

bool wf_fault_now(const char *what)
{
    const char *ignored = wf_load_seq_cst(&fault_ignored);
    if (ignored != NULL && strcmp(ignored, what) == 0) {
        return false;
    }
    uint64_t number = wf_fetch_add_seq_cst(&fault_calls, 1) + 1;
    if (number != wf_load_seq_cst(&fault_at)) {
        return false;
    }
    wf_store_seq_cst(&fault_what, what);
    return true;
}
