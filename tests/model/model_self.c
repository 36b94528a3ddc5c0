/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the checker finds what its users rely on: races on all kinds of memory, use after free,
 *         uninitialised and leaked memory, and what a spin hint does and does not show.
 * Method: small programs, most with one error; each must fail where it is wrong, and its correct
 *         counterpart must hold.
 */
#include "model/model.h"

struct box {
    int plain;
    WF_ATOMIC(int) narrow;
    WF_ATOMIC(struct box *) wide;
};

static WF_ATOMIC(int) x;
static WF_ATOMIC(int) y;
static WF_ATOMIC(struct box *) shared;
static struct box *box;
static union {
    uint64_t whole;
    uint32_t half[2];
    WF_ATOMIC(uint32_t) atomic_half;
} mixed;
static int r1;

static void clear(void)
{
    wf_store_relaxed(&x, 0);
    wf_store_relaxed(&y, 0);
    wf_store_relaxed(&shared, NULL);
    box = NULL;
    mixed.whole = 0;
    r1 = -1;
}

static void clear_with_box(void)
{
    clear();
    box = wf_alloc_zeroed(1, sizeof(*box));
}

static void free_shared(void)
{
    wf_free(wf_load_relaxed(&shared));
}

/* ---- memory -------------------------------------------------------------------------------- */

static void read_box_then_set(void)
{
    r1 = wf_plain_load(&box->plain);
    wf_store_relaxed(&y, 1);
}

static void read_box_then_release(void)
{
    r1 = wf_plain_load(&box->plain);
    wf_store_release(&y, 1);
}

static void free_box_when_set(void)
{
    while (wf_load_acquire(&y) == 0) {
        wf_spin_hint();
    }
    wf_free(box);
}

static void read_box(void)
{
    r1 = wf_plain_load(&box->plain);
}

static void free_box(void)
{
    wf_free(box);
}

static void publish_zeroed_relaxed(void)
{
    wf_store_relaxed(&shared, wf_alloc_zeroed(1, sizeof(struct box)));
}

static void publish_zeroed_release(void)
{
    wf_store_release(&shared, wf_alloc_zeroed(1, sizeof(struct box)));
}

static void publish_garbage(void)
{
    wf_store_release(&shared, wf_alloc(sizeof(struct box)));
}

static void read_narrow(void)
{
    struct box *got = wf_load_acquire(&shared);
    if (got != NULL) {
        r1 = wf_load_relaxed(&got->narrow);
    }
}

static void leak(void)
{
    (void)wf_alloc(1);
}

/* ---- races of every width ------------------------------------------------------------------ */

static void write_whole(void)
{
    wf_plain_store(&mixed.whole, 1);
}

static void write_second_half(void)
{
    wf_plain_store(&mixed.half[1], 1);
}

static void write_first_half(void)
{
    wf_plain_store(&mixed.half[0], 1);
}

static void write_atomic_half(void)
{
    wf_store_relaxed(&mixed.atomic_half, 1);
}

/* ---- initialisation ------------------------------------------------------------------------ */

static void load_then_set(void)
{
    r1 = wf_load_relaxed(&x);
    wf_store_relaxed(&y, 1);
}

static void init_when_set(void)
{
    if (wf_load_acquire(&y) == 1) {
        wf_atomic_init(&x, 7);
    }
}

static void init_again(void)
{
    wf_atomic_init(&x, 1);
    wf_store_relaxed(&x, 2);
    wf_atomic_init(&x, 7);
    r1 = wf_load_relaxed(&x);
    MODEL_REQUIRE(r1 == 7);
}

static void nothing(void)
{
    wf_store_relaxed(&y, 1);
}

/* ---- spinning ------------------------------------------------------------------------------ */

static void store_both(void)
{
    wf_store_relaxed(&x, 1);
    wf_store_relaxed(&y, 1);
}

/* The flag becomes visible; data behind a relaxed flag need not. */
static void spin_for_flag(void)
{
    while (wf_load_relaxed(&y) == 0) {
        wf_spin_hint();
    }
    MODEL_REQUIRE(wf_load_relaxed(&x) == 1);
}

static void spin_for_ever(void)
{
    while (wf_load_relaxed(&x) == 0) {
        wf_spin_hint();
    }
}

#define ALWAYS                                                                                     \
    {                                                                                              \
        MODEL_FAILS, MODEL_FAILS, MODEL_FAILS                                                      \
    }
#define WEAKLY                                                                                     \
    {                                                                                              \
        MODEL_HOLDS, MODEL_HOLDS, MODEL_FAILS                                                      \
    }

static const struct model_test tests[] = {
    {.name = "free after a relaxed flag",
     .setup = clear_with_box,
     .threads = {read_box_then_set, free_box_when_set},
     .expect = WEAKLY},
    {.name = "free after a release",
     .setup = clear_with_box,
     .threads = {read_box_then_release, free_box_when_set}},
    {.name = "free concurrent with a read",
     .setup = clear_with_box,
     .threads = {read_box, free_box},
     .expect = ALWAYS},
    {.name = "zeroed memory, relaxed",
     .setup = clear,
     .threads = {publish_zeroed_relaxed, read_narrow},
     .check = free_shared,
     .expect = WEAKLY},
    {.name = "zeroed memory, released",
     .setup = clear,
     .threads = {publish_zeroed_release, read_narrow},
     .check = free_shared},
    {.name = "uninitialised memory",
     .setup = clear,
     .threads = {publish_garbage, read_narrow},
     .check = free_shared,
     .expect = ALWAYS},
    {.name = "leak of a block", .setup = clear, .threads = {leak}, .expect = ALWAYS},
    {.name = "wide and narrow write of the same bytes",
     .setup = clear,
     .threads = {write_whole, write_second_half},
     .expect = ALWAYS},
    {.name = "writes of two halves",
     .setup = clear,
     .threads = {write_first_half, write_second_half}},
    {.name = "plain and atomic access",
     .setup = clear,
     .threads = {write_whole, write_atomic_half},
     .expect = ALWAYS},
    {.name = "initialisation after a use",
     .setup = clear,
     .threads = {load_then_set, init_when_set},
     .expect = WEAKLY},
    {.name = "initialisation twice", .setup = clear, .threads = {init_again, nothing}},
    {.name = "spin until a flag is set",
     .setup = clear,
     .threads = {store_both, spin_for_flag},
     .expect = WEAKLY},
    {.name = "spin without a store",
     .setup = clear,
     .threads = {spin_for_ever, nothing},
     .expect = ALWAYS},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"self", tests, MODEL_COUNT(tests), NULL, 0, NULL};
    return model_main(argc, argv, &suite);
}
