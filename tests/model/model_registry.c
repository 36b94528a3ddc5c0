/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a fault handler that searches for a stack in src/fiber/registry.c never touches a freed
 *         slab, and finds one that stays, in every order of steps under every memory model.
 * Method: a reader walks the list while another thread adds, or removes and frees: a slab read
 *         after it was freed, or freed while it is read, fails the run.
 */
#include "fiber/fiber.h"
#include "model/model.h"

enum { SLABS = 4 };

static struct wf_slab *slabs[SLABS];
static char memory[SLABS][64];

static struct wf_slab *make(int index)
{
    struct wf_slab *slab = wf_alloc_zeroed(1, sizeof(*slab) + sizeof(slab->stacks[0]));
    wf_plain_store(&slab->memory, memory[index]);
    slab->bytes = sizeof(memory[index]);
    slab->stride = sizeof(memory[index]);
    slab->stacks[0].low = memory[index];
    slab->stacks[0].size = sizeof(memory[index]);
    return slab;
}

static void add(int index)
{
    slabs[index] = make(index);
    wf_slab_list_add(slabs[index]);
}

static void drop(int index)
{
    wf_slab_list_remove(slabs[index]);
    wf_free(slabs[index]);
    slabs[index] = NULL;
}

static void start_two(void)
{
    /* An abandoned run may have left it in any state. */
    wf_slab_registry = (struct wf_slab_registry){.lock = {.rank = WF_RANK_SLAB_LIST}};
    slabs[2] = slabs[3] = NULL;
    add(0);
    add(1); /* in front */
}

static void check(void)
{
    for (int i = 0; i < SLABS; i++) {
        if (slabs[i] != NULL) {
            drop(i);
        }
    }
    struct wf_stack_place place;
    MODEL_REQUIRE(!wf_stack_find(memory[0], &place));
}

static void find_last(void)
{
    struct wf_stack_place place;
    MODEL_REQUIRE(wf_stack_find(memory[0], &place));
    MODEL_REQUIRE(place.low == memory[0]);
}

/* A slab that is being removed may be found or not, but never partially. */
static void find_removed(void)
{
    struct wf_stack_place place = {.low = NULL};
    bool is_found = wf_stack_find(memory[1], &place);
    MODEL_REQUIRE(place.low == (is_found ? memory[1] : NULL));
}

static void find_nothing(void)
{
    struct wf_stack_place place;
    MODEL_REQUIRE(!wf_stack_find(slabs, &place)); /* walks the whole list */
}

static void remove_first(void)
{
    drop(1);
}

static void remove_last(void)
{
    drop(0);
}

static void add_one(void)
{
    add(2);
}

/* A new slab whose neighbour in front was added and removed: only the removal leads to it. */
static void add_two_remove_one(void)
{
    add(2);
    add(3);
    drop(3);
}

/* A middle slab is removed, and the first one stays. */
static void add_one_remove_middle(void)
{
    add(2);
    drop(1);
}

static const struct model_test tests[] = {
    {.name = "find races removal of the first slab",
     .setup = start_two,
     .threads = {find_last, remove_first},
     .names = {"handler", "remover"},
     .check = check},
    {.name = "find races removal of the last slab",
     .setup = start_two,
     .threads = {find_nothing, remove_last},
     .names = {"handler", "remover"},
     .check = check},
    {.name = "find races removal of the found slab",
     .setup = start_two,
     .threads = {find_removed, remove_first},
     .names = {"handler", "remover"},
     .check = check},
    {.name = "find races an add",
     .setup = start_two,
     .threads = {find_last, add_one},
     .names = {"handler", "adder"},
     .check = check},
    {.name = "find races two adds and a removal between",
     .setup = start_two,
     .threads = {find_nothing, add_two_remove_one},
     .names = {"handler", "adder"},
     .check = check},
    {.name = "find races an add and a removal behind it",
     .setup = start_two,
     .threads = {find_last, add_one_remove_middle},
     .names = {"handler", "adder"},
     .check = check},
    {.name = "two removals race",
     .setup = start_two,
     .threads = {remove_first, remove_last},
     .names = {"remover 1", "remover 2"},
     .check = check},
    {.name = "two finds race removal of the first slab",
     .setup = start_two,
     .threads = {find_last, find_nothing, remove_first},
     .names = {"handler 1", "handler 2", "remover"},
     .check = check,
     .is_slow = 1},
    {.name = "find races two removals",
     .setup = start_two,
     .threads = {remove_first, remove_last, find_nothing},
     .names = {"remover 1", "remover 2", "handler"},
     .check = check,
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"registry", tests, MODEL_COUNT(tests),
                                             NULL,       0,     "src/fiber/registry.c"};
    return model_main(argc, argv, &suite);
}
