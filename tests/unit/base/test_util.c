/* SPDX-License-Identifier: MIT */
/*
 * Goal:   random numbers repeat from a seed and are spread evenly; numbers in text are parsed
 *         strictly; chains and lists lose no item.
 * Method: known answers worked out by hand, rough chi-square bounds with fixed seeds (so that the
 *         verdict never depends on luck), a table of texts, and lists checked in both directions.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/base.h"
#include "helpers.h"

/* ---- random numbers ------------------------------------------------------------------------ */

/* S4.7: each worker chooses its victims by a generator of the xorshift+ family.
 * tests/unit/sched/test_search.c shows that each worker has its own generator. */
static void random_is_xorshift128_plus(void)
{
    static const uint64_t expected[] = {
        0x3, 0x800025, 0x2040083, 0x4000020c2460, 0xc00002108d21, 0x100120190f76b,
    };
    struct wf_random random = {{1, 2}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        CHECK_EQ(wf_random_next(&random), expected[i]);
    }
}

static void random_repeats_from_the_same_seed(void)
{
    const uint64_t seeds[] = {0, 1, 42, UINT64_MAX, tap_seed()};
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        struct wf_random a;
        struct wf_random b;
        wf_random_init(&a, seeds[i]);
        wf_random_init(&b, seeds[i]);
        for (int n = 0; n < 1000; n++) {
            CHECK(wf_random_next(&a) == wf_random_next(&b));
        }
    }
}

/* Pearson's statistic against an even spread, within six standard deviations of the expected
 * value. */
static void check_even(const unsigned *counts, unsigned cells, unsigned draws)
{
    const double expected = (double)draws / cells;
    double statistic = 0;
    for (unsigned i = 0; i < cells; i++) {
        const double off = counts[i] - expected;
        statistic += off * off / expected;
    }
    const double freedom = cells - 1;
    const double excess = statistic - freedom;
    if (excess > 0 && excess * excess > 6 * 6 * 2 * freedom) {
        tap_fail(__FILE__, __LINE__, "%u cells: chi-square %.1f", cells, statistic);
    }
}

enum { CELLS_MAX = 128, DRAWS_PER_CELL = 1000 };

static void random_below_is_spread_evenly(void)
{
    static const uint32_t bounds[] = {2, 3, 5, 7, 10, 16, 63, 64, 100, CELLS_MAX};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct wf_random random;
            unsigned counts[CELLS_MAX] = {0};
            wf_random_init(&random, seed);
            for (unsigned n = 0; n < bounds[i] * DRAWS_PER_CELL; n++) {
                uint32_t number = wf_random_below(&random, bounds[i]);
                CHECK(number < bounds[i]);
                counts[number]++;
            }
            check_even(counts, bounds[i], bounds[i] * DRAWS_PER_CELL);
        }
    }
}

/* Workers are seeded by their index: their first choices must not agree. */
static void random_neighbouring_seeds_are_unrelated(void)
{
    enum { CELLS = 16, SEEDS = CELLS * DRAWS_PER_CELL };
    unsigned firsts[CELLS] = {0};
    unsigned differences[CELLS] = {0};
    uint32_t last = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct wf_random random;
        wf_random_init(&random, seed);
        uint32_t first = wf_random_below(&random, CELLS);
        firsts[first]++;
        differences[(first - last) % CELLS]++;
        last = first;
    }
    check_even(firsts, CELLS, SEEDS);
    check_even(differences, CELLS, SEEDS);
}

static void random_sets_every_bit_half_of_the_time(void)
{
    enum { DRAWS = 10000, BITS = 64 };
    struct wf_random random;
    unsigned ones[BITS] = {0};
    wf_random_init(&random, 7);
    for (int n = 0; n < DRAWS; n++) {
        uint64_t number = wf_random_next(&random);
        for (unsigned bit = 0; bit < BITS; bit++) {
            ones[bit] += (unsigned)(number >> bit & 1);
        }
    }
    for (unsigned bit = 0; bit < BITS; bit++) {
        const unsigned counts[] = {DRAWS - ones[bit], ones[bit]};
        check_even(counts, 2, DRAWS);
    }
}

static void random_below_keeps_extreme_bounds(void)
{
    struct wf_random random;
    wf_random_init(&random, 1);
    bool is_upper_half_seen = false;
    for (int n = 0; n < 1000; n++) {
        CHECK_EQ(wf_random_below(&random, 1), 0);
        uint32_t number = wf_random_below(&random, UINT32_MAX);
        CHECK(number < UINT32_MAX);
        is_upper_half_seen = is_upper_half_seen || number > UINT32_MAX / 2;
    }
    CHECK(is_upper_half_seen);
}

static void draw_below_zero(void)
{
    struct wf_random random;
    wf_random_init(&random, 1);
    CHECK_EQ(wf_random_below(&random, 0), 0);
}

static void random_below_asserts_nonzero_bound(void)
{
    char text[1024];
    int status = tap_run_child(draw_below_zero, text, sizeof(text));
    if (HAS_ASSERTS) {
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CHECK(strstr(text, "bound > 0") != NULL);
    } else {
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* ---- powers of two ------------------------------------------------------------------------- */

static void is_power_of_two_accepts_only_powers_of_two(void)
{
    CHECK(!wf_is_power_of_two(0));
    for (size_t shift = 0; shift < 8 * sizeof(size_t); shift++) {
        const size_t power = (size_t)1 << shift;
        CHECK(wf_is_power_of_two(power));
        CHECK_EQ(wf_is_power_of_two(power + 1), power == 1);
        CHECK_EQ(wf_is_power_of_two(power - 1), power == 2);
    }
}

/* ---- numbers from text --------------------------------------------------------------------- */

static void parse_number_accepts_only_whole_texts_in_range(void)
{
    static const struct {
        const char *text;
        uint64_t min;
        uint64_t max;
        int rc;
        uint64_t number;
    } rows[] = {
        {"0", 0, UINT64_MAX, 0, 0},
        {"7", 0, UINT64_MAX, 0, 7},
        {"0010", 0, UINT64_MAX, 0, 10},
        {"1234567890", 0, UINT64_MAX, 0, 1234567890},
        {"18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX},
        {"00000000000000000000000000000000001", 0, UINT64_MAX, 0, 1},
        {"1", 1, 1, 0, 1},
        {"5", 1, 8, 0, 5},
        {"1", 1, 8, 0, 1},
        {"8", 1, 8, 0, 8},

        {"0", 1, 8, -ERANGE, 0},
        {"9", 1, 8, -ERANGE, 0},
        {"18446744073709551615", 0, UINT64_MAX - 1, -ERANGE, 0},
        {"18446744073709551616", 0, UINT64_MAX, -ERANGE, 0},
        {"18446744073709551620", 0, UINT64_MAX, -ERANGE, 0},
        {"99999999999999999999", 0, UINT64_MAX, -ERANGE, 0},
        {"36893488147419103233", 0, UINT64_MAX, -ERANGE, 0},   /* 2^65 + 1: wraps to 1 */
        {"1844674407370955161607", 0, UINT64_MAX, -ERANGE, 0}, /* wraps before the last digits */
        {"100000000000000000000000000000000000000000", 0, UINT64_MAX, -ERANGE, 0},

        {NULL, 0, UINT64_MAX, -EINVAL, 0},
        {"", 0, UINT64_MAX, -EINVAL, 0},
        {"-1", 0, UINT64_MAX, -EINVAL, 0},
        {"+1", 0, UINT64_MAX, -EINVAL, 0},
        {" 1", 0, UINT64_MAX, -EINVAL, 0},
        {"1 ", 0, UINT64_MAX, -EINVAL, 0},
        {"1\n", 0, UINT64_MAX, -EINVAL, 0},
        {"0x10", 0, UINT64_MAX, -EINVAL, 0},
        {"1e3", 0, UINT64_MAX, -EINVAL, 0},
        {"1.5", 0, UINT64_MAX, -EINVAL, 0},
        {"1,000", 0, UINT64_MAX, -EINVAL, 0},
        {"four", 0, UINT64_MAX, -EINVAL, 0},
        {"/", 0, UINT64_MAX, -EINVAL, 0}, /* the characters before and after the digits */
        {":", 0, UINT64_MAX, -EINVAL, 0},
        {"\xb2", 0, UINT64_MAX, -EINVAL, 0},
        {"99999999999999999999x", 0, UINT64_MAX, -EINVAL, 0}, /* not a number, whatever its size */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint64_t untouched = 0x5a5a;
        uint64_t number = untouched;
        int rc = wf_parse_u64(rows[i].text, rows[i].min, rows[i].max, &number);
        if (rc != rows[i].rc || number != (rc == 0 ? rows[i].number : untouched)) {
            tap_fail(__FILE__, __LINE__, "row %zu (%s): %d, %ju", i,
                     rows[i].text != NULL ? rows[i].text : "NULL", rc, (uintmax_t)number);
        }
    }
}

/* ---- chains -------------------------------------------------------------------------------- */

struct item {
    int number;
    struct wf_node node;
    struct wf_list link;
};

enum { ITEMS = 8 };

static void fill_chain(struct wf_chain *chain, struct item *items, int count)
{
    for (int i = 0; i < count; i++) {
        items[i] = (struct item){.number = i, .node = {&items[0].node}}; /* a stale link */
        wf_chain_push(chain, &items[i].node);
        CHECK_EQ(chain->count, i + 1);
    }
}

static void check_empty(const struct wf_chain *chain)
{
    CHECK_EQ(chain->count, 0);
    CHECK(chain->first == NULL);
    CHECK(chain->last == NULL);
}

static int pop_number(struct wf_chain *chain)
{
    struct wf_node *node = wf_chain_pop(chain);
    CHECK(node != NULL);
    CHECK(node->next == NULL);
    return wf_container_of(node, struct item, node)->number;
}

static void chain_is_fifo(void)
{
    struct wf_chain chain = {0};
    struct item items[ITEMS];
    CHECK(wf_chain_pop(&chain) == NULL);
    for (int count = 0; count <= ITEMS; count++) {
        fill_chain(&chain, items, count);
        for (int i = 0; i < count; i++) {
            CHECK_EQ(pop_number(&chain), i);
        }
        CHECK(wf_chain_pop(&chain) == NULL);
        check_empty(&chain);
    }
}

static void chain_allows_alternating_push_and_pop(void)
{
    struct wf_chain chain = {0};
    struct item items[ITEMS];
    fill_chain(&chain, items, 2);
    for (int i = 2; i < ITEMS; i++) {
        CHECK_EQ(pop_number(&chain), i - 2);
        items[i].number = i;
        wf_chain_push(&chain, &items[i].node);
        CHECK_EQ(chain.count, 2);
        CHECK(chain.last == &items[i].node);
    }
}

static void chain_append_moves_items_behind_and_empties_source(void)
{
    for (int front = 0; front <= 3; front++) {
        for (int back = 0; back <= 3; back++) {
            struct wf_chain to = {0};
            struct wf_chain from = {0};
            struct item fronts[3];
            struct item backs[3];
            fill_chain(&to, fronts, front);
            fill_chain(&from, backs, back);
            struct item behind = {.number = 9};
            wf_chain_append(&to, &from);
            check_empty(&from);
            wf_chain_push(&to, &behind.node);
            CHECK_EQ(to.count, front + back + 1);
            for (int i = 0; i < front; i++) {
                CHECK_EQ(pop_number(&to), i);
            }
            for (int i = 0; i < back; i++) {
                CHECK_EQ(pop_number(&to), i);
            }
            CHECK_EQ(pop_number(&to), 9);
            check_empty(&to);
        }
    }
}

/* ---- lists --------------------------------------------------------------------------------- */

/* `expected` lists the items in order, as digits. */
static void check_list(struct wf_list *head, const char *expected)
{
    struct wf_list *link = head;
    for (const char *digit = expected; *digit != '\0'; digit++) {
        CHECK(link->next->prev == link);
        link = link->next;
        CHECK(link != head);
        CHECK_EQ(wf_container_of(link, struct item, link)->number, *digit - '0');
    }
    CHECK(link->next == head);
    CHECK(head->prev == link);
    CHECK_EQ(wf_list_is_empty(head), *expected == '\0');
}

static void fill_list(struct wf_list *head, struct item *items, int count)
{
    wf_list_init(head);
    for (int i = 0; i < count; i++) {
        items[i].number = i;
        wf_list_push_back(head, &items[i].link);
    }
}

static void list_pushes_at_both_ends(void)
{
    struct wf_list head;
    struct item items[ITEMS];
    fill_list(&head, items, 0);
    check_list(&head, "");
    CHECK(wf_list_pop_front(&head) == NULL);
    fill_list(&head, items, 3);
    check_list(&head, "012");
    items[3].number = 3;
    wf_list_push_front(&head, &items[3].link);
    check_list(&head, "3012");
    CHECK(wf_list_pop_front(&head) == &items[3].link);
    CHECK(wf_list_pop_front(&head) == &items[0].link);
    check_list(&head, "12");
    wf_list_push_front(&head, &items[0].link);
    wf_list_push_back(&head, &items[3].link);
    check_list(&head, "0123");
    for (int i = 0; i < 4; i++) {
        CHECK(wf_list_pop_front(&head) == &items[i].link);
    }
    check_list(&head, "");
}

static void list_removes_a_member_from_any_position(void)
{
    static const char *const rests[] = {"1234", "0234", "0134", "0124", "0123"};
    for (int gone = 0; gone < 5; gone++) {
        struct wf_list head;
        struct item items[ITEMS];
        fill_list(&head, items, 5);
        wf_list_remove(&items[gone].link);
        check_list(&head, rests[gone]);
        CHECK(wf_list_is_empty(&items[gone].link)); /* not linked */
    }
}

static void list_second_removal_has_no_effect(void)
{
    struct wf_list head;
    struct item items[ITEMS];
    fill_list(&head, items, 3);
    wf_list_remove(&items[1].link);
    wf_list_remove(&items[1].link);
    check_list(&head, "02");
    struct wf_list *popped = wf_list_pop_front(&head);
    wf_list_remove(popped);
    check_list(&head, "2");
    wf_list_push_back(&head, &items[1].link); /* it can be linked again */
    check_list(&head, "21");
}

static const struct tap_test tests[] = {
    TAP_TEST(random_is_xorshift128_plus),
    TAP_TEST(random_repeats_from_the_same_seed),
    TAP_TEST(random_below_is_spread_evenly),
    TAP_TEST(random_neighbouring_seeds_are_unrelated),
    TAP_TEST(random_sets_every_bit_half_of_the_time),
    TAP_TEST(random_below_keeps_extreme_bounds),
    TAP_TEST(random_below_asserts_nonzero_bound),
    TAP_TEST(is_power_of_two_accepts_only_powers_of_two),
    TAP_TEST(parse_number_accepts_only_whole_texts_in_range),
    TAP_TEST(chain_is_fifo),
    TAP_TEST(chain_allows_alternating_push_and_pop),
    TAP_TEST(chain_append_moves_items_behind_and_empties_source),
    TAP_TEST(list_pushes_at_both_ends),
    TAP_TEST(list_removes_a_member_from_any_position),
    TAP_TEST(list_second_removal_has_no_effect),
};
TAP_MAIN(tests)
