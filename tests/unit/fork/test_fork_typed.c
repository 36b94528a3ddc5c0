/* SPDX-License-Identifier: MIT */
/*
 * Goal:   forks of typed functions behave like untyped forks: each runs once, in its forker or in a
 *         thief, with its arguments, and its join gives its result, whatever its type.
 * Method: functions of one to four arguments and several types, in trees, with waits in between,
 *         under every policy; results are compared with plain calls of the same recursion.
 */
#include <weft/par_fork_typed.h>

#include "sched_helpers.h"

/* ---- one argument ---------------------------------------------------------------------------- */

static long fib(weft_par_forks *forks, long n);
WEFT_PAR_FORK_1(long, fib, long)

static long fib(weft_par_forks *forks, long n)
{
    struct fib_fork first;
    if (n < 2) {
        return n;
    }
    fib_go(forks, &first, n - 1);
    const long second = fib(forks, n - 2);
    return fib_join(forks, &first) + second;
}

static intptr_t add_up(void *arg)
{
    (void)arg;
    CHECK_EQ(fib(weft_par_forks_self(), 22), 17711);
    return 0;
}

static void typed_fork_tree_computes_the_sum(void)
{
    run_under(EVERYWHERE, add_up);
}

static void typed_fork_outside_of_tasks_runs_at_once(void)
{
    CHECK_EQ(fib(weft_par_forks_self(), 15), 610);
}

/* ---- waits ----------------------------------------------------------------------------------- */

static long slow_fib(weft_par_forks *forks, long n);
WEFT_PAR_FORK_1(long, slow_fib, long)

static long slow_fib(weft_par_forks *forks, long n)
{
    struct slow_fib_fork first;
    CHECK(forks == weft_par_forks_self()); /* constant for the life of the task, on every worker */
    if (n < 2) {
        (void)weft_yield();
        return n;
    }
    slow_fib_go(forks, &first, n - 1);
    const long second = slow_fib(forks, n - 2);
    if (n % 4 == 0) {
        CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    }
    CHECK(forks == weft_par_forks_self());
    return slow_fib_join(forks, &first) + second;
}

static intptr_t add_up_slow(void *arg)
{
    (void)arg;
    CHECK_EQ(slow_fib(weft_par_forks_self(), 13), 233);
    return 0;
}

static void typed_fork_may_wait(void)
{
    run_under(EVERYWHERE, add_up_slow);
}

/* ---- several arguments ----------------------------------------------------------------------- */

struct pair {
    double sum;
    size_t count;
};

static struct pair add_2(weft_par_forks *forks, const double *from, const double *to);
WEFT_PAR_FORK_2(struct pair, add_2, const double *, const double *)

static struct pair add_2(weft_par_forks *forks, const double *from, const double *to)
{
    struct add_2_fork lower;
    if (to - from == 1) {
        return (struct pair){*from, 1};
    }
    const double *middle = from + (to - from) / 2;
    add_2_go(forks, &lower, from, middle);
    const struct pair upper = add_2(forks, middle, to);
    const struct pair below = add_2_join(forks, &lower);
    return (struct pair){below.sum + upper.sum, below.count + upper.count};
}

static uint8_t mix_3(weft_par_forks *forks, uint8_t a, int64_t b, char c);
WEFT_PAR_FORK_3(uint8_t, mix_3, uint8_t, int64_t, char)

static uint8_t mix_3(weft_par_forks *forks, uint8_t a, int64_t b, char c)
{
    struct mix_3_fork fork;
    if (b == 0) {
        return (uint8_t)(a + c);
    }
    mix_3_go(forks, &fork, (uint8_t)(a + 1), b - 1, c);
    const uint8_t other = mix_3(forks, a, b - 1, (char)(c ^ 1));
    return (uint8_t)(mix_3_join(forks, &fork) * 3 + other);
}

static int plain_mix_3(uint8_t a, int64_t b, char c)
{
    if (b == 0) {
        return (uint8_t)(a + c);
    }
    return (uint8_t)(plain_mix_3((uint8_t)(a + 1), b - 1, c) * 3 +
                     plain_mix_3(a, b - 1, (char)(c ^ 1)));
}

/* Moves discs between two pegs: each move counts in the cell of its disc. */
static long hanoi_4(weft_par_forks *forks, int discs, int from, int to, long *moves);
WEFT_PAR_FORK_4(long, hanoi_4, int, int, int, long *)

static long hanoi_4(weft_par_forks *forks, int discs, int from, int to, long *moves)
{
    struct hanoi_4_fork before;
    if (discs == 0) {
        return 0;
    }
    long after_moves[16] = {0};
    const int other = 3 - from - to;
    hanoi_4_go(forks, &before, discs - 1, from, other, moves);
    const long after = hanoi_4(forks, discs - 1, other, to, after_moves);
    const long sum = hanoi_4_join(forks, &before) + 1 + after;
    for (int i = 0; i < discs; i++) {
        moves[i] += after_moves[i];
    }
    moves[discs - 1]++;
    return sum;
}

static intptr_t fork_with_arguments(void *arg)
{
    (void)arg;
    static double numbers[1000];
    for (int i = 0; i < 1000; i++) {
        numbers[i] = i;
    }
    const struct pair pair = add_2(weft_par_forks_self(), numbers, numbers + 1000);
    CHECK_EQ(pair.count, 1000);
    CHECK(pair.sum == 499500.0);
    CHECK_EQ(mix_3(weft_par_forks_self(), 3, 10, 'x'), plain_mix_3(3, 10, 'x'));
    long moves[16] = {0};
    CHECK_EQ(hanoi_4(weft_par_forks_self(), 10, 0, 2, moves), 1023);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(moves[i], 1 << (9 - i));
    }
    return 0;
}

static void typed_fork_passes_one_to_four_arguments(void)
{
    run_under(EVERYWHERE, fork_with_arguments);
}

static const struct tap_test tests[] = {
    TAP_TEST(typed_fork_tree_computes_the_sum),
    TAP_TEST(typed_fork_outside_of_tasks_runs_at_once),
    TAP_TEST(typed_fork_may_wait),
    TAP_TEST(typed_fork_passes_one_to_four_arguments),
};
TAP_MAIN(tests)
