/* SPDX-License-Identifier: MIT */
/*
 * weft/par_fork_typed.h - forks of typed functions, fully inline: for the hottest code.
 *
 *     static long fib(weft_par_forks *forks, long n);
 *     WEFT_PAR_FORK_1(long, fib, long)                 defines struct fib_fork, fib_go, fib_join
 *
 *     static long fib(weft_par_forks *forks, long n)
 *     {
 *         struct fib_fork first;
 *         if (n < 2) {
 *             return n;
 *         }
 *         fib_go(forks, &first, n - 1);
 *         const long second = fib(forks, n - 2);
 *         return fib_join(forks, &first) + second;
 *     }
 *
 *     fib(weft_par_forks_self(), 35)                   the first call
 *
 * All rules of weft/par_fork.h hold here too.  The first argument stands for the calling task: it
 * is passed down with the calls, is the same for the life of the task, and must not be used in
 * another task.  Not included by weft/weft.h; the plain functions are the usual way.
 */
#ifndef WEFT_PAR_FORK_TYPED_H
#define WEFT_PAR_FORK_TYPED_H

#include <weft/par_fork.h>
#include <weft/types.h>

WEFT_BEGIN

/* Returns the weft_par_forks of the calling task.  Where forks run at once (see Outside in
 * weft/par_fork.h), returns a weft_par_forks that stands for that.  Borrowed. */
WEFT_API weft_par_forks *weft_par_forks_self(void);

/* ---- private from here on -------------------------------------------------------------------- */

/* The slow path of weft_par_fork_go: a thief has requested forks. */
WEFT_API void weft_par_fork_go_slow(weft_par_forks *forks, weft_par_fork *fork);

/* The constant value of `requested` where forks run at once. */
#define WEFT_PAR_FORKS_AT_ONCE 3u

static inline bool weft_par_forks_run_at_once(weft_par_forks *forks)
{
    return __atomic_load_n(&weft_par_forks_front_of(forks)->requested, __ATOMIC_RELAXED) ==
           WEFT_PAR_FORKS_AT_ONCE;
}

static inline void weft_par_fork_push(weft_par_forks *forks, weft_par_fork *fork, weft_fn fn)
{
    struct weft_par_forks_front *front = weft_par_forks_front_of(forks);
    fork->fn = fn;
    fork->arg = fork;
    if (weft_par_forks_is_requested(forks)) {
        weft_par_fork_go_slow(forks, fork);
        return;
    }
    fork->older = front->newest;
    front->newest = fork;
}

/* Joins the newest fork.  True: no thief took it, and the caller must call the function.  False:
 * the function has run and has stored its result in the record that contains `fork`. */
static inline bool weft_par_fork_pop(weft_par_forks *forks, weft_par_fork *fork)
{
    struct weft_par_forks_front *front = weft_par_forks_front_of(forks);
    if (weft_par_forks_is_requested(forks) || __builtin_expect(front->marked == fork, 0)) {
        (void)weft_par_fork_join_slow(forks, fork);
        return false;
    }
    front->newest = fork->older;
    return true;
}

WEFT_END

/* ---- the macros ------------------------------------------------------------------------------ */

/* Formatted by hand: clang-format takes the pieces for statements. */
/* clang-format off */
#define WEFT_PAR_FORK_DEFINE(result_type, name, fields, parameters, stores, arguments)             \
    struct name##_fork {                                                                           \
        weft_par_fork fork; /* first: its address is the argument of name##_run */                 \
        result_type result;                                                                        \
        fields                                                                                     \
    };                                                                                             \
    static inline intptr_t name##_run(void *record)                                                \
    {                                                                                              \
        struct name##_fork *f = (struct name##_fork *)record;                                      \
        weft_par_forks *forks = weft_par_forks_self();                                             \
        f->result = name arguments;                                                                \
        return 0;                                                                                  \
    }                                                                                              \
    static inline void name##_go parameters                                                        \
    {                                                                                              \
        stores                                                                                     \
        weft_par_fork_push(forks, &f->fork, name##_run);                                           \
    }                                                                                              \
    static inline result_type name##_join(weft_par_forks *forks, struct name##_fork *f)            \
    {                                                                                              \
        const bool is_ours = weft_par_fork_pop(forks, &f->fork);                                   \
        return __builtin_expect(is_ours, 1) ? name arguments : f->result;                          \
    }

/* For a function `result_type name(weft_par_forks *forks, type1 a)`.  The macros below are for
 * functions with two, three and four arguments after `forks`. */
#define WEFT_PAR_FORK_1(result_type, name, type1)                                                  \
    WEFT_PAR_FORK_DEFINE(result_type, name,                                                        \
        type1 a;,                                                                                  \
        (weft_par_forks *forks, struct name##_fork *f, type1 a),                                   \
        f->a = a;,                                                                                 \
        (forks, f->a))
#define WEFT_PAR_FORK_2(result_type, name, type1, type2)                                           \
    WEFT_PAR_FORK_DEFINE(result_type, name,                                                        \
        type1 a; type2 b;,                                                                         \
        (weft_par_forks *forks, struct name##_fork *f, type1 a, type2 b),                          \
        f->a = a; f->b = b;,                                                                       \
        (forks, f->a, f->b))
#define WEFT_PAR_FORK_3(result_type, name, type1, type2, type3)                                    \
    WEFT_PAR_FORK_DEFINE(result_type, name,                                                        \
        type1 a; type2 b; type3 c;,                                                                \
        (weft_par_forks *forks, struct name##_fork *f, type1 a, type2 b, type3 c),                 \
        f->a = a; f->b = b; f->c = c;,                                                             \
        (forks, f->a, f->b, f->c))
#define WEFT_PAR_FORK_4(result_type, name, type1, type2, type3, type4)                             \
    WEFT_PAR_FORK_DEFINE(result_type, name,                                                        \
        type1 a; type2 b; type3 c; type4 d;,                                                       \
        (weft_par_forks *forks, struct name##_fork *f, type1 a, type2 b, type3 c, type4 d),        \
        f->a = a; f->b = b; f->c = c; f->d = d;,                                                   \
        (forks, f->a, f->b, f->c, f->d))
/* clang-format on */

#endif
