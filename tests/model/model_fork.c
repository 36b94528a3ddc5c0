/* SPDX-License-Identifier: MIT */
/*
 * Goal:   an exposed fork is run exactly once, by its owner or by a thief; the runner sees the
 *         complete record, and an owner whose fork was stolen sees the thief's complete task; also
 *         when slots are reused and when the same record is exposed twice; in every order of steps
 *         under every memory model.
 * Method: src/fork/fork_shared.c with two slots between an owner and one or two thieves.  Each
 *         record has plain data that the owner writes and its runner changes; each task has plain
 *         data that the thief writes before it steals and the owner reads after its fork was
 *         stolen: two runners of one fork, or a partial view, are a race.  A record that was joined
 *         is gone: its owner checks that no thread writes to it.
 */
#include "fork/fork.h"
#include "model/model.h"

enum { RECORDS = 3, TASKS = 4 };

static struct weft_par_forks board;
static weft_par_fork records[RECORDS];
static int forked[RECORDS]; /* plain: 1 when it was forked, 2 when it has run */
static int runs[RECORDS];   /* of the owner; only the owner joins them */
static struct weft_task tasks[TASKS];
static int made[TASKS]; /* plain: 0, or 1 + the record that the task runs */
static int joined;      /* number of records that the owner has joined */

static void start(void)
{
    board = (struct weft_par_forks){0};
    joined = 0;
    for (int i = 0; i < RECORDS; i++) {
        records[i] = (weft_par_fork){0};
        forked[i] = 0;
        runs[i] = 0;
    }
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft_task){0};
        made[i] = 0;
    }
}

/* ---- the owner ----------------------------------------------------------------------------- */

static bool expose(int i)
{
    wf_plain_store(&forked[i], 1);
    return wf_fork_expose(&board, &records[i]);
}

/* [the runner of the fork] */
static void run(int i)
{
    MODEL_REQUIRE(wf_plain_load(&forked[i]) == 1);
    wf_plain_store(&forked[i], 2);
}

/* In the reverse order of exposure, as fork.c does. */
static void join(int i)
{
    weft_par_fork *fork = &records[i];
    if (fork->task == NULL) {
        fork->task = wf_fork_retract(&board, fork);
    }
    if (fork->task == NULL) {
        run(i);
    } else {
        const long taker = fork->task - tasks;
        MODEL_REQUIRE(taker >= 0 && taker < TASKS);
        MODEL_REQUIRE(wf_plain_load(&made[taker]) == 1);
        wf_plain_store(&made[taker], 2); /* the owner has its handle */
    }
    board.position = fork->place;
    runs[i]++;
    joined++;
    fork->task = NULL; /* the frame is left */
}

static void expose_one(void)
{
    MODEL_REQUIRE(expose(0));
    join(0);
}

static void expose_two(void)
{
    MODEL_REQUIRE(expose(0));
    MODEL_REQUIRE(expose(1));
    join(1);
    join(0);
}

/* A thief that saw the first exposure may steal the second, of the same address. */
static void expose_again(void)
{
    MODEL_REQUIRE(expose(0));
    struct weft_task *taker = wf_fork_retract(&board, &records[0]);
    if (taker == NULL) {
        board.position = records[0].place;
        MODEL_REQUIRE(expose(0));
        join(0);
    } else {
        records[0].task = taker;
        join(0);
    }
}

/* The third finds a slot only if one was stolen. */
static void expose_three(void)
{
    MODEL_REQUIRE(expose(0));
    MODEL_REQUIRE(expose(1));
    if (expose(2)) {
        join(2);
    }
    join(1);
    join(0);
}

/* The slot of a joined record does not hold it any more. */
static void expose_in_turn(void)
{
    MODEL_REQUIRE(expose(0));
    join(0);
    MODEL_REQUIRE(expose(1));
    join(1);
    MODEL_REQUIRE(records[0].task == NULL);
}

/* ---- thieves ------------------------------------------------------------------------------- */

static bool steal_with(int task)
{
    uint32_t place;
    const uintptr_t word = wf_fork_peek(&board, &place);
    if (word == 0) {
        return false;
    }
    wf_plain_store(&made[task], 1); /* all of the task, before the CAS */
    const weft_par_fork *fork = wf_fork_take(&board, place, word, &tasks[task]);
    if (fork == NULL) {
        wf_plain_store(&made[task], 0); /* no thread has seen it */
        return false;
    }
    run((int)(fork - records));
    return true;
}

static void steal(void)
{
    (void)steal_with((int)model_thread());
}

static void steal_twice(void)
{
    const int first = (int)model_thread();
    (void)steal_with(steal_with(first) ? first - 1 : first);
}

/* ---- check --------------------------------------------------------------------------------- */

static void check(void)
{
    uint32_t place;
    MODEL_REQUIRE(wf_fork_peek(&board, &place) == 0);
    int taken = 0;
    for (int i = 0; i < RECORDS; i++) {
        MODEL_REQUIRE(runs[i] <= 1);
        MODEL_REQUIRE(runs[i] == 0 || forked[i] == 2);
        MODEL_REQUIRE(records[i].task == NULL);
    }
    for (int i = 0; i < TASKS; i++) {
        MODEL_REQUIRE(made[i] != 1); /* no task without a handle */
        taken += made[i] == 2 ? 1 : 0;
    }
    MODEL_REQUIRE(taken <= joined);
}

static const struct model_test tests[] = {
    {.name = "expose and join, one thief",
     .setup = start,
     .threads = {expose_one, steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "expose two, two steals of one thief",
     .setup = start,
     .threads = {expose_two, steal_twice},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "expose two, two thieves",
     .setup = start,
     .threads = {expose_two, steal, steal},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
    {.name = "same record exposed twice, two thieves",
     .setup = start,
     .threads = {expose_again, steal, steal},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
    {.name = "expose and join in turn, two thieves",
     .setup = start,
     .threads = {expose_in_turn, steal, steal},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
    {.name = "more forks than slots, two thieves",
     .setup = start,
     .threads = {expose_three, steal, steal},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"fork", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/fork/fork_shared.c"};
    return model_main(argc, argv, &suite);
}
