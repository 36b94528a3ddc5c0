/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a fork that lies open is run exactly once, by its owner or by a thief; whoever has it has
 *         the record whole, and an owner that lost it has the task of who took it whole; also when
 *         places are used again and when the same record is laid open twice; in every order of
 *         steps under every memory model.
 * Method: src/sched/board.c with two places between an owner and one or two thieves.  Behind a
 *         record is plain data that the owner writes and whoever has it changes, behind a task
 *         plain data that the thief writes before it takes and the owner reads after it lost: two
 *         who have the same, or one who has half of it, race.  A record that was joined is gone:
 *         its owner looks whether anything still writes to it.
 */
#include "model/model.h"
#include "sched/fork.h"

enum { RECORDS = 3, TASKS = 4 };

static struct weft_forks board;
static weft_fork records[RECORDS];
static int forked[RECORDS]; /* plain: 1 when it was forked, 2 when it has run */
static int runs[RECORDS];   /* of the owner; each is joined by it alone */
static struct weft_task tasks[TASKS];
static int made[TASKS]; /* plain: 0, or 1 + the record that the task runs */
static int joined;      /* records that the owner has joined */

static void start(void)
{
    board = (struct weft_forks){0};
    joined = 0;
    for (int i = 0; i < RECORDS; i++) {
        records[i] = (weft_fork){0};
        forked[i] = 0;
        runs[i] = 0;
    }
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft_task){0};
        made[i] = 0;
    }
}

/* ---- the owner ----------------------------------------------------------------------------- */

static bool offer(int i)
{
    wf_plain_store(&forked[i], 1);
    return wf_board_offer(&board, &records[i]);
}

/* [whoever has it] */
static void run(int i)
{
    MODEL_REQUIRE(wf_plain_load(&forked[i]) == 1);
    wf_plain_store(&forked[i], 2);
}

/* In the reverse order of offers, as fork.c does it. */
static void join(int i)
{
    weft_fork *fork = &records[i];
    if (fork->task == NULL) {
        fork->task = wf_board_withdraw(&board, fork);
    }
    if (fork->task == NULL) {
        run(i);
    } else {
        const long taker = fork->task - tasks;
        MODEL_REQUIRE(taker >= 0 && taker < TASKS);
        MODEL_REQUIRE(wf_plain_load(&made[taker]) == 1);
        wf_plain_store(&made[taker], 2); /* its handle is ours */
    }
    board.position = fork->place;
    runs[i]++;
    joined++;
    fork->task = NULL; /* the frame is left */
}

static void offer_one(void)
{
    MODEL_REQUIRE(offer(0));
    join(0);
}

static void offer_two(void)
{
    MODEL_REQUIRE(offer(0));
    MODEL_REQUIRE(offer(1));
    join(1);
    join(0);
}

/* A thief that looked at the first offer may take the second, of the same address. */
static void offer_again(void)
{
    MODEL_REQUIRE(offer(0));
    struct weft_task *taker = wf_board_withdraw(&board, &records[0]);
    if (taker == NULL) {
        board.position = records[0].place;
        MODEL_REQUIRE(offer(0));
        join(0);
    } else {
        records[0].task = taker;
        join(0);
    }
}

/* The third finds a place only if one was taken. */
static void offer_three(void)
{
    MODEL_REQUIRE(offer(0));
    MODEL_REQUIRE(offer(1));
    if (offer(2)) {
        join(2);
    }
    join(1);
    join(0);
}

/* The place of one that was joined holds nothing of it any more. */
static void offer_in_turn(void)
{
    MODEL_REQUIRE(offer(0));
    join(0);
    MODEL_REQUIRE(offer(1));
    join(1);
    MODEL_REQUIRE(records[0].task == NULL);
}

/* ---- thieves ------------------------------------------------------------------------------- */

static bool take_with(int task)
{
    uint32_t place;
    const uintptr_t word = wf_board_look(&board, &place);
    if (word == 0) {
        return false;
    }
    wf_plain_store(&made[task], 1); /* everything of it, before the CAS */
    const weft_fork *fork = wf_board_take(&board, place, word, &tasks[task]);
    if (fork == NULL) {
        wf_plain_store(&made[task], 0); /* nobody has seen it */
        return false;
    }
    run((int)(fork - records));
    return true;
}

static void take(void)
{
    (void)take_with((int)model_thread());
}

static void take_twice(void)
{
    const int first = (int)model_thread();
    (void)take_with(take_with(first) ? first - 1 : first);
}

/* ---- after --------------------------------------------------------------------------------- */

static void check(void)
{
    uint32_t place;
    MODEL_REQUIRE(wf_board_look(&board, &place) == 0);
    int taken = 0;
    for (int i = 0; i < RECORDS; i++) {
        MODEL_REQUIRE(runs[i] <= 1);
        MODEL_REQUIRE(runs[i] == 0 || forked[i] == 2);
        MODEL_REQUIRE(records[i].task == NULL);
    }
    for (int i = 0; i < TASKS; i++) {
        MODEL_REQUIRE(made[i] != 1); /* a task whose handle nobody has */
        taken += made[i] == 2 ? 1 : 0;
    }
    MODEL_REQUIRE(taken <= joined);
}

static const struct model_test tests[] = {
    {.name = "offer and join, a thief",
     .setup = start,
     .threads = {offer_one, take},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "offer two, a thief twice",
     .setup = start,
     .threads = {offer_two, take_twice},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "offer two, two thieves",
     .setup = start,
     .threads = {offer_two, take, take},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
    {.name = "the same record twice, two thieves",
     .setup = start,
     .threads = {offer_again, take, take},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
    {.name = "one after the other, two thieves",
     .setup = start,
     .threads = {offer_in_turn, take, take},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
    {.name = "more than there are places, two thieves",
     .setup = start,
     .threads = {offer_three, take, take},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"fork", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sched/board.c"};
    return model_main(argc, argv, &suite);
}
