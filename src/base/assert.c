/* SPDX-License-Identifier: MIT */
/*
 * base/assert.c - panics, and the aids that make rare paths testable: marks, jitter, faults.
 *
 * A panic means that the runtime found its own state broken, or was called in a way that its
 * contract forbids.  Going on would corrupt the user's data, so it reports one line and aborts;
 * a program that wants more (a dump, its own log) sets the hook.
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

/* Without stdio: the heap or a stream's lock may be what broke. */
static void report_panic(const char *file, int line, const char *what)
{
    char text[256];
    int length = snprintf(text, sizeof(text), "weft: %s:%d: broken: %s\n", file, line, what);
    if (length > 0) {
        size_t size = (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
        text[size - 1] = '\n';                   /* also of a text that was cut */
        (void)!write(STDERR_FILENO, text, size); /* nothing to be done if it fails */
    }
}

wf_panic_fn wf_panic_hook(wf_panic_fn hook)
{
    /* acq_rel: a hook's own data, written before it was set, is seen by who calls it. */
    wf_panic_fn old = wf_exchange_acq_rel(&panic_hook, hook);
    return old;
}

_Noreturn void wf_panic(const char *file, int line, const char *what)
{
    wf_panic_fn hook = wf_load_acquire(&panic_hook); /* pairs with wf_panic_hook */
    (hook != NULL ? hook : report_panic)(file, line, what);
    abort();
}

/* ---- marks --------------------------------------------------------------------------------- */

/* The linker gives the ends of the section; weak, for programs that have no mark at all. */
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
    wf_store_relaxed(&jitter_seed, seed); /* relaxed: set before the threads of a test start */
    is_jitter_seeded = false;
}

static struct wf_random *random_of_thread(void)
{
    if (!is_jitter_seeded) {
        /* relaxed: each thread only needs a number of its own. */
        wf_random_init(&jitter_random, wf_fetch_add_relaxed(&jitter_seed, 1));
        is_jitter_seeded = true;
    }
    return &jitter_random;
}

void wf_jitter(void)
{
    enum { IN_YIELD = 16, IN_SPIN = 4, SPIN_MAX = 200 };
    struct wf_random *random = random_of_thread();
    uint32_t draw = wf_random_below(random, IN_YIELD);
    if (draw == 0) {
        (void)sched_yield();
    } else if (draw <= IN_SPIN) {
        for (uint32_t left = wf_random_below(random, SPIN_MAX); left > 0; left--) {
            wf_spin_hint();
        }
    }
}

bool wf_jitter_coin(void)
{
    return wf_random_below(random_of_thread(), 2) != 0;
}

/* ---- faults -------------------------------------------------------------------------------- */

static WF_ATOMIC(uint64_t) fault_calls;
static WF_ATOMIC(uint64_t) fault_at; /* 0: none */
static WF_ATOMIC(const char *) fault_what;
static WF_ATOMIC(const char *) fault_ignored; /* NULL: nothing is */

void wf_fault_arm(uint64_t nth)
{
    /* seq_cst throughout: a test aid, where plainness is worth more than speed. */
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
