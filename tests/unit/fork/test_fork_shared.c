/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the shared part of a split deque gives each fork to one thief, names the taker to the
 *         owner, and reuses the slot of each taken fork.
 * Method: one thread that acts as owner and thieves in turn; tests/model/model_fork.c checks
 *         concurrent accesses.
 */
#include "fork/fork.h"
#include "tap.h"

enum { MANY = 3 * WF_FORK_SHARED_MAX };

static struct weft_par_forks forks;
static weft_par_fork records[MANY];
static struct weft_task takers[MANY];

/* The taker of a record is the task with the same number. */
static int take_one(void)
{
    uint32_t slot;
    const uintptr_t word = wf_fork_peek(&forks, &slot);
    if (word == 0) {
        return -1;
    }
    const int number = (int)((weft_par_fork *)word - records);
    CHECK(wf_fork_take(&forks, slot, word, &takers[number]) == &records[number]);
    return number;
}

static void fork_take_returns_the_oldest_exposed_fork(void)
{
    for (int i = 0; i < (int)WF_FORK_SHARED_MAX; i++) {
        CHECK(wf_fork_expose(&forks, &records[i]));
    }
    for (int i = 0; i < (int)WF_FORK_SHARED_MAX; i++) {
        CHECK_EQ(take_one(), i);
    }
    CHECK_EQ(take_one(), -1);
}

static void fork_expose_fails_when_the_shared_part_is_full(void)
{
    for (int i = 0; i < (int)WF_FORK_SHARED_MAX; i++) {
        CHECK(wf_fork_expose(&forks, &records[i]));
    }
    CHECK(!wf_fork_expose(&forks, &records[WF_FORK_SHARED_MAX]));
    CHECK_EQ(take_one(), 0);
    CHECK(wf_fork_expose(&forks, &records[WF_FORK_SHARED_MAX]));
}

static void fork_retract_takes_back_an_untaken_fork(void)
{
    CHECK(wf_fork_expose(&forks, &records[0]));
    CHECK(wf_fork_retract(&forks, &records[0]) == NULL);
    CHECK_EQ(take_one(), -1);
}

static void fork_retract_returns_the_taker(void)
{
    CHECK(wf_fork_expose(&forks, &records[0]));
    CHECK(wf_fork_expose(&forks, &records[1]));
    CHECK_EQ(take_one(), 0);
    CHECK(wf_fork_retract(&forks, &records[1]) == NULL);
    CHECK(wf_fork_retract(&forks, &records[0]) == &takers[0]);
    CHECK(wf_fork_expose(&forks, &records[2])); /* in a slot that is free again */
}

/* When the owner reuses a slot, it stores the taker in the old record. */
static void fork_expose_reuses_a_slot_while_its_taken_fork_runs(void)
{
    for (int i = 0; i < MANY; i++) {
        CHECK(wf_fork_expose(&forks, &records[i]));
        CHECK_EQ(take_one(), i);
    }
    for (int i = 0; i < MANY - (int)WF_FORK_SHARED_MAX; i++) {
        CHECK(records[i].task == &takers[i]);
    }
    for (int i = MANY; i-- > MANY - (int)WF_FORK_SHARED_MAX;) {
        CHECK(wf_fork_retract(&forks, &records[i]) == &takers[i]);
    }
}

static void fork_take_fails_for_a_stale_peek(void)
{
    uint32_t slot;
    CHECK(wf_fork_expose(&forks, &records[0]));
    const uintptr_t word = wf_fork_peek(&forks, &slot);
    CHECK_EQ(take_one(), 0);
    CHECK(wf_fork_take(&forks, slot, word, &takers[1]) == NULL);
    CHECK(wf_fork_retract(&forks, &records[0]) == &takers[0]);
}

static void fork_request_does_not_overwrite_the_owners_request(void)
{
    CHECK_EQ(wf_load_relaxed(&forks.requested), WF_FORK_NOT_REQUESTED);
    wf_fork_request(&forks);
    CHECK_EQ(wf_load_relaxed(&forks.requested), WF_FORK_BY_THIEF);
    wf_store_relaxed(&forks.requested, WF_FORK_BY_OWNER);
    wf_fork_request(&forks);
    CHECK_EQ(wf_load_relaxed(&forks.requested), WF_FORK_BY_OWNER);
}

static const struct tap_test tests[] = {
    TAP_TEST(fork_take_returns_the_oldest_exposed_fork),
    TAP_TEST(fork_expose_fails_when_the_shared_part_is_full),
    TAP_TEST(fork_retract_takes_back_an_untaken_fork),
    TAP_TEST(fork_retract_returns_the_taker),
    TAP_TEST(fork_expose_reuses_a_slot_while_its_taken_fork_runs),
    TAP_TEST(fork_take_fails_for_a_stale_peek),
    TAP_TEST(fork_request_does_not_overwrite_the_owners_request),
};
TAP_MAIN(tests)
