/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the board of a task's forks gives each record to one, says who has it, and has room again
 *         for each that was taken.
 * Method: one thread that plays owner and thieves in turn; what happens when they meet is the
 *         model's (tests/model/model_fork.c).
 */
#include "sched/fork.h"
#include "tap.h"

enum { MANY = 3 * WF_FORK_PLACES };

static struct weft_forks board;
static weft_fork records[MANY];
static struct weft_task takers[MANY];

/* The taker of a record is the task of the same number. */
static int take_one(void)
{
    uint32_t place;
    const uintptr_t word = wf_board_look(&board, &place);
    if (word == 0) {
        return -1;
    }
    const int number = (int)((weft_fork *)word - records);
    CHECK(wf_board_take(&board, place, word, &takers[number]) == &records[number]);
    return number;
}

static void what_is_offered_is_taken_oldest_first(void)
{
    for (int i = 0; i < (int)WF_FORK_PLACES; i++) {
        CHECK(wf_board_offer(&board, &records[i]));
    }
    for (int i = 0; i < (int)WF_FORK_PLACES; i++) {
        CHECK_EQ(take_one(), i);
    }
    CHECK_EQ(take_one(), -1);
}

static void a_full_board_refuses(void)
{
    for (int i = 0; i < (int)WF_FORK_PLACES; i++) {
        CHECK(wf_board_offer(&board, &records[i]));
    }
    CHECK(!wf_board_offer(&board, &records[WF_FORK_PLACES]));
    CHECK_EQ(take_one(), 0);
    CHECK(wf_board_offer(&board, &records[WF_FORK_PLACES]));
}

static void a_record_that_nobody_took_is_withdrawn(void)
{
    CHECK(wf_board_offer(&board, &records[0]));
    CHECK(wf_board_withdraw(&board, &records[0]) == NULL);
    CHECK_EQ(take_one(), -1);
}

static void the_owner_learns_who_took_it(void)
{
    CHECK(wf_board_offer(&board, &records[0]));
    CHECK(wf_board_offer(&board, &records[1]));
    CHECK_EQ(take_one(), 0);
    CHECK(wf_board_withdraw(&board, &records[1]) == NULL);
    CHECK(wf_board_withdraw(&board, &records[0]) == &takers[0]);
    CHECK(wf_board_offer(&board, &records[2])); /* in a place that is free again */
}

/* When a place is needed again, its record is told. */
static void a_place_is_used_again_while_what_was_there_is_out(void)
{
    for (int i = 0; i < MANY; i++) {
        CHECK(wf_board_offer(&board, &records[i]));
        CHECK_EQ(take_one(), i);
    }
    for (int i = 0; i < MANY - (int)WF_FORK_PLACES; i++) {
        CHECK(records[i].task == &takers[i]);
    }
    for (int i = MANY; i-- > MANY - (int)WF_FORK_PLACES;) {
        CHECK(wf_board_withdraw(&board, &records[i]) == &takers[i]);
    }
}

static void who_comes_late_gets_nothing(void)
{
    uint32_t place;
    CHECK(wf_board_offer(&board, &records[0]));
    const uintptr_t word = wf_board_look(&board, &place);
    CHECK_EQ(take_one(), 0);
    CHECK(wf_board_take(&board, place, word, &takers[1]) == NULL);
    CHECK(wf_board_withdraw(&board, &records[0]) == &takers[0]);
}

static void asking_is_not_overheard(void)
{
    CHECK_EQ(wf_load_relaxed(&board.asked), WF_FORK_NOT_ASKED);
    wf_board_ask(&board);
    CHECK_EQ(wf_load_relaxed(&board.asked), WF_FORK_BY_OTHERS);
    wf_store_relaxed(&board.asked, WF_FORK_BY_ITSELF);
    wf_board_ask(&board);
    CHECK_EQ(wf_load_relaxed(&board.asked), WF_FORK_BY_ITSELF);
}

static const struct tap_test tests[] = {
    TAP_TEST(what_is_offered_is_taken_oldest_first),
    TAP_TEST(a_full_board_refuses),
    TAP_TEST(a_record_that_nobody_took_is_withdrawn),
    TAP_TEST(the_owner_learns_who_took_it),
    TAP_TEST(a_place_is_used_again_while_what_was_there_is_out),
    TAP_TEST(who_comes_late_gets_nothing),
    TAP_TEST(asking_is_not_overheard),
};
TAP_MAIN(tests)
