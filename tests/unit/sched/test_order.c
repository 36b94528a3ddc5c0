/* SPDX-License-Identifier: MIT */
/*
 * Goal:   tasks run in the order that the runtime was opened with: fair or depth first; local, then
 *         global, then stolen; by priority; and what yields stands behind the others.
 * Method: on one worker tasks write their names into plain memory as they run; on two one worker is
 *         held, so that the other must take what it may.
 */
#include <string.h>

#include "sched_aids.h"

/* What ran, in order.  One worker: nobody else writes. */
struct diary {
    char text[256];
    size_t length;
};

static struct diary diary;

static void write_down(char letter)
{
    CHECK(diary.length < sizeof(diary.text) - 1);
    diary.text[diary.length++] = letter;
    diary.text[diary.length] = '\0';
}

static void diary_clear(void)
{
    diary = (struct diary){.length = 0};
}

static intptr_t note(void *arg)
{
    write_down(*(const char *)arg);
    return 0;
}

static void expect(const char *text)
{
    CHECK_EQ(diary.length, strlen(text));
    if (HAS_ORDER) {
        CHECK_STR(diary.text, text);
    }
}

static char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

static weft_options options_for(enum weft_policy policy, enum weft_order order, unsigned workers)
{
    const struct setting setting = {policy, order, workers};
    return options_of(&setting);
}

/* ---- one worker ------------------------------------------------------------------------------ */

static intptr_t spawn_four(void *arg)
{
    (void)arg;
    weft_task *tasks[4];
    diary_clear();
    for (int i = 0; i < 4; i++) {
        tasks[i] = go(note, &letters[i]);
    }
    CHECK_STR(diary.text, ""); /* a spawn lets nobody run */
    return weft_await_all(tasks, 4, NULL);
}

/* S0.13, part of S2.16 */
static void depth_first_the_newest_runs_first(void)
{
    const weft_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 1);
    CHECK_EQ(weft_run(spawn_four, NULL, &options), 0);
    expect("DCBA");
}

/* S4.15: the newest stands in a place of its own; whom it drives out goes to the end of the queue.
 */
static void fair_the_oldest_runs_first_but_for_the_newest(void)
{
    const weft_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1);
    CHECK_EQ(weft_run(spawn_four, NULL, &options), 0);
    expect("DABC");
}

static void the_reactor_runs_them_in_order(void)
{
    const weft_options options = options_for(WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 1);
    CHECK_EQ(weft_run(spawn_four, NULL, &options), 0);
    expect("ABCD");
}

static weft_runtime *own_runtime;

static void *inject_two(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_runtime_spawn(own_runtime, NULL, note, &letters[24], NULL), 0);
    CHECK_EQ(weft_runtime_spawn(own_runtime, NULL, note, &letters[25], NULL), 0);
    return NULL;
}

static intptr_t spawn_beside_the_global_queue(void *arg)
{
    (void)arg;
    weft_task *tasks[4];
    pthread_t thread;
    diary_clear();
    own_runtime = weft_runtime_self();
    /* The thread is joined without giving way: its two are in the global queue when ours come. */
    CHECK_EQ(wf_thread_start(&thread, inject_two, NULL, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    for (int i = 0; i < 4; i++) {
        tasks[i] = go(note, &letters[i]);
    }
    CHECK_EQ(weft_await_all(tasks, 4, NULL), 0);
    while (diary.length < 6) {
        (void)weft_yield();
    }
    return 0;
}

/* Did the own four run newest first, and never two global ones before them?  One may come before
 * any of them: the global queue has a turn where a millisecond has passed, as it may always have
 * on a slow machine, but never twice in a row. */
static bool the_own_came_first(void)
{
    char own[sizeof(diary.text)];
    size_t length = 0;
    unsigned in_a_row = 0;
    for (size_t i = 0; i < diary.length; i++) {
        const bool is_global = diary.text[i] >= 'Y';
        in_a_row = is_global ? in_a_row + 1 : 0;
        if (in_a_row == 2 && length < 4) {
            return false;
        }
        if (!is_global) {
            own[length++] = diary.text[i];
        }
    }
    own[length] = '\0';
    return strcmp(own, "DCBA") == 0;
}

/* S0.14; S2.40, with tests/unit/queue/test_deque.c and test_ledger.c: the fallback */
static void depth_first_the_own_queue_comes_before_the_global_one(void)
{
    const weft_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 1);
    CHECK_EQ(weft_run(spawn_beside_the_global_queue, NULL, &options), 0);
    CHECK_EQ(diary.length, 6);
    CHECK(!HAS_ORDER || the_own_came_first());
}

/* ---- the parent and its children ------------------------------------------------------------- */

static weft_task *first_child;

static intptr_t child_of_the_plan(void *arg)
{
    write_down(*(const char *)arg);
    return 0;
}

static intptr_t await_in_turn(void *arg)
{
    (void)arg;
    diary_clear();
    write_down('p');
    first_child = go(child_of_the_plan, &letters[0]);
    weft_task *second = go(child_of_the_plan, &letters[1]);
    write_down('p');
    CHECK_EQ(weft_await(first_child), 0);
    write_down('p');
    CHECK(!HAS_ORDER || weft_try_join(second, NULL) == 0);
    CHECK_EQ(weft_await(second), 0);
    write_down('p');
    return 0;
}

/* S0.18, S2.16: spawns go to the own deque, an await suspends and takes the next from it, an end
 * resumes who waited. */
static void an_await_suspends_and_the_next_task_runs(void)
{
    const weft_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 1);
    CHECK_EQ(weft_run(await_in_turn, NULL, &options), 0);
    expect("ppBApp");
}

/* ---- chains of the newest -------------------------------------------------------------------- */

static intptr_t spawn_the_next(void *arg)
{
    const char *letter = arg;
    write_down(*letter);
    if (*letter < 'T') {
        weft_drop(go(spawn_the_next, (char *)arg + 1));
    }
    return 0;
}

static intptr_t start_a_chain(void *arg)
{
    (void)arg;
    static char old = 'z';
    diary_clear();
    weft_task *task = go(note, &old); /* is driven out by the first of the chain */
    weft_drop(go(spawn_the_next, letters));
    CHECK_EQ(weft_await(task), 0);
    while (diary.length < 21) {
        (void)weft_yield();
    }
    return 0;
}

/* S4.16, behaviour 20: three of the newest in a row, then it is the others' turn. */
static void after_three_of_the_newest_the_queue_has_its_turn(void)
{
    const weft_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1);
    CHECK_EQ(weft_run(start_a_chain, NULL, &options), 0);
    const char *old = strchr(diary.text, 'z');
    CHECK(old != NULL);
    CHECK(!HAS_ORDER || old - diary.text == 3);
}

/* ---- yields ---------------------------------------------------------------------------------- */

enum { ROUNDS = 10, YIELDERS = 4 };

static intptr_t yield_and_note(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        write_down(*(const char *)arg);
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static intptr_t let_four_yield(void *arg)
{
    weft_task *tasks[YIELDERS];
    diary_clear();
    for (int i = 0; i < YIELDERS; i++) {
        tasks[i] = go(yield_and_note, &letters[i]);
    }
    CHECK_EQ(weft_await_all(tasks, YIELDERS, NULL), 0);
    CHECK_EQ(diary.length, YIELDERS * ROUNDS);
    const bool is_strict = ((const struct setting *)arg)->order == WEFT_ORDER_FAIR;
    int counts[YIELDERS] = {0};
    for (size_t i = 0; i < diary.length && HAS_ORDER; i++) {
        counts[diary.text[i] - 'A']++;
        for (int j = 0; j < YIELDERS && is_strict; j++) {
            const int rounds = (int)i / YIELDERS; /* complete ones */
            CHECK(counts[j] >= rounds && counts[j] <= rounds + 1);
        }
        /* Depth first it goes to the global queue, which has every other turn where turns take
         * long, and from which several come at once: nobody is left behind for all the rounds. */
        for (int j = 0; j < YIELDERS; j++) {
            CHECK(counts[diary.text[i] - 'A'] <= counts[j] + (is_strict ? 1 : ROUNDS - 2));
        }
    }
    return 0;
}

/* X6 */
static void a_task_that_yields_stands_behind_all_others(void)
{
    run_under(ON_ONE_WORKER, let_four_yield);
}

/* ---- priorities ------------------------------------------------------------------------------ */

static intptr_t spawn_by_priority(void *arg)
{
    (void)arg;
    static const enum weft_priority order[] = {WEFT_PRIORITY_LOW, WEFT_PRIORITY_NORMAL,
                                               WEFT_PRIORITY_HIGH};
    weft_task *tasks[3];
    diary_clear();
    for (int i = 0; i < 3; i++) {
        const weft_task_options options = {.priority = order[i]};
        CHECK_EQ(weft_spawn(&tasks[i], note, &letters[i], &options), 0);
    }
    CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
    expect("CBA");
    return 0;
}

/* part of S2.9: high before normal before low */
static void the_more_important_task_runs_first(void)
{
    run_under(ON_ONE_WORKER, spawn_by_priority);
}

/* ---- thieves --------------------------------------------------------------------------------- */

struct theft {
    wf_atomic_u32 begun; /* by tasks of the victim */
    wf_atomic_u32 go_on;
    int first; /* plain: the number of the first that was taken */
    struct loot {
        struct theft *theft;
        int number;
    } loot[2];
};

static intptr_t be_taken(void *arg)
{
    struct loot *loot = arg;
    struct theft *theft = loot->theft;
    if (wf_fetch_add_acq_rel(&theft->begun, 1) == 0) {
        theft->first = loot->number;
        hold_for(&theft->go_on, 1);
    }
    return 0;
}

static intptr_t be_robbed(void *arg)
{
    (void)arg;
    struct theft theft = {.first = -1};
    weft_task *tasks[2];
    for (int i = 0; i < 2; i++) {
        theft.loot[i] = (struct loot){&theft, i};
        tasks[i] = go(be_taken, &theft.loot[i]);
    }
    hold_for(&theft.begun, 1); /* we keep our worker: the other one has taken it */
    raise_by_one(&theft.go_on);
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    CHECK(!HAS_ORDER || theft.first == 0); /* half of two is the older one */
    CHECK(!HAS_ORDER || stats_of(weft_runtime_self()).total.stolen >= 1);
    return 0;
}

/* S0.15, S2.13: thieves take the oldest; whose, see test_search.c. */
static void a_thief_takes_the_oldest(void)
{
    const weft_options deep = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 2);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_run(be_robbed, NULL, &deep), 0);
    }
}

struct example {
    bool is_first_slow;    /* the one that was stolen ends after the other; or before it */
    wf_atomic_u32 spawned; /* both handles are there */
    wf_atomic_u32 first_begun;
    wf_atomic_u32 second_ended;
    weft_task *children[2];
    int parent_thread;
    int threads[2];
};

static intptr_t first_of_two(void *arg)
{
    struct example *example = arg;
    example->threads[0] = wf_thread_id();
    raise_by_one(&example->first_begun);
    hold_for(&example->spawned, 1);
    if (example->is_first_slow) {
        hold_for(&example->second_ended, 1); /* step 7 happens meanwhile */
        while (state_of(example->children[1]) != WEFT_COMPLETED) {
            (void)sched_yield();
        }
    }
    return 10;
}

static intptr_t second_of_two(void *arg)
{
    struct example *example = arg;
    example->threads[1] = wf_thread_id();
    raise_by_one(&example->second_ended);
    return 20;
}

static intptr_t parent_of_two(void *arg)
{
    struct example *example = arg;
    example->parent_thread = wf_thread_id();
    example->children[0] = go(first_of_two, example);
    example->children[1] = go(second_of_two, example);
    raise_by_one(&example->spawned);
    hold_for(&example->first_begun, 1); /* stolen: we keep our own worker */
    while (!example->is_first_slow && state_of(example->children[0]) != WEFT_COMPLETED) {
        (void)sched_yield();
    }
    const intptr_t first = weft_await(example->children[0]);
    CHECK(!example->is_first_slow || weft_try_join(example->children[1], NULL) == 0); /* by now */
    const intptr_t second = weft_await(example->children[1]);
    CHECK(!HAS_ORDER || example->threads[0] != example->parent_thread);
    CHECK(!HAS_ORDER || !example->is_first_slow || example->threads[1] == example->parent_thread);
    CHECK_EQ(first + second, 30);
    return 0;
}

/* S2.38, whichever child ends first.  On which worker the parent goes on is not promised. */
static void the_worked_example_of_the_plan_takes_its_course(void)
{
    const weft_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 2);
    for (int i = 0; i < 50; i++) {
        struct example example = {.is_first_slow = i % 2 == 0};
        CHECK_EQ(weft_run(parent_of_two, &example, &options), 0);
    }
}

/* ---- no stealing, stealing first ------------------------------------------------------------- */

static intptr_t stay_here(void *arg)
{
    return !HAS_ORDER || *(const int *)arg == wf_thread_id() ? 0 : -EXDEV;
}

static intptr_t spawn_where_nobody_steals(void *arg)
{
    (void)arg;
    enum { COUNT = 100 };
    weft_task *tasks[COUNT];
    int thread = wf_thread_id();
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(stay_here, &thread);
    }
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).total.stolen, 0);
    return 0;
}

static void workers_that_do_not_steal_leave_others_their_tasks(void)
{
    for (struct tour tour = {.which = ON_SEVERAL_THAT_STEAL}; tour_next(&tour);) {
        tour.options.no_steal = true;
        CHECK_EQ(weft_run(spawn_where_nobody_steals, NULL, &tour.options), 0);
    }
}

/* S2.23, X4: with steal_first a worker looks at the others before the global queue. */
struct choice {
    wf_atomic_u32 chosen;
    wf_atomic_u32 go_on;
    wf_atomic_u32 busy;
    wf_atomic_u32 free_the_other;
    weft_runtime *runtime;
    wf_atomic_u32 first; /* 0: none yet */
};

static struct choice choice;

static intptr_t be_chosen(void *arg)
{
    uint32_t none = 0;
    const bool is_first = wf_cas_relaxed(&choice.first, &none, *(const unsigned char *)arg);
    raise_by_one(&choice.chosen);
    if (is_first) {
        hold_for(&choice.go_on, 1);
    }
    return 0;
}

static intptr_t keep_a_worker(void *arg)
{
    (void)arg;
    raise_by_one(&choice.busy);
    hold_for(&choice.free_the_other, 1);
    return 0;
}

static void *inject_one(void *arg)
{
    CHECK_EQ(weft_runtime_spawn(choice.runtime, NULL, be_chosen, arg, NULL), 0);
    return NULL;
}

/* The global queue has its turn before all others where a millisecond has passed, as it may always
 * have on a slow machine, but never twice in a row.  So this one stands there first, and the one
 * that matters follows when it has run. */
static intptr_t inject_the_global_one(void *arg)
{
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, inject_one, arg, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    return 0;
}

static void *inject_the_first(void *arg)
{
    CHECK_EQ(weft_runtime_spawn(choice.runtime, NULL, inject_the_global_one, arg, NULL), 0);
    return NULL;
}

/* Both workers are busy while one task is queued in each place; then the other one is set free. */
static intptr_t offer_a_choice(void *arg)
{
    (void)arg;
    static char local = 'l';
    static char global = 'g';
    pthread_t thread;
    choice = (struct choice){.runtime = weft_runtime_self()};
    weft_task *keeper = go(keep_a_worker, NULL);
    hold_for(&choice.busy, 1); /* taken by the other worker */
    CHECK_EQ(wf_thread_start(&thread, inject_the_first, &global, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    weft_task *task = go(be_chosen, &local);
    raise_by_one(&choice.free_the_other);
    hold_for(&choice.chosen, 1);
    raise_by_one(&choice.go_on);
    wait_for(&choice.chosen, 2);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_await(keeper), 0);
    return wf_load_relaxed(&choice.first);
}

/* A run that was held up in between proves nothing: another one. */
static void check_choice(const weft_options *options, char expected)
{
    intptr_t first = 0;
    for (int round = 0; round < 50 && first != expected && (HAS_ORDER || round == 0); round++) {
        first = weft_run(offer_a_choice, NULL, options);
    }
    CHECK_EQ(HAS_ORDER ? first : expected, expected);
}

static void a_worker_without_work_looks_where_it_is_told_first(void)
{
    const enum weft_order orders[] = {WEFT_ORDER_FAIR, WEFT_ORDER_DEPTH_FIRST};
    for (int i = 0; i < 2; i++) {
        tap_doing("order %d", i);
        weft_options options = options_for(WEFT_POLICY_STEAL, orders[i], 2);
        check_choice(&options, 'g');
        options.steal_first = true;
        check_choice(&options, 'l');
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(depth_first_the_newest_runs_first),
    TAP_TEST(fair_the_oldest_runs_first_but_for_the_newest),
    TAP_TEST(the_reactor_runs_them_in_order),
    TAP_TEST(depth_first_the_own_queue_comes_before_the_global_one),
    TAP_TEST(an_await_suspends_and_the_next_task_runs),
    TAP_TEST(after_three_of_the_newest_the_queue_has_its_turn),
    TAP_TEST(a_task_that_yields_stands_behind_all_others),
    TAP_TEST(the_more_important_task_runs_first),
    TAP_TEST(a_thief_takes_the_oldest),
    TAP_TEST(the_worked_example_of_the_plan_takes_its_course),
    TAP_TEST(workers_that_do_not_steal_leave_others_their_tasks),
    TAP_TEST(a_worker_without_work_looks_where_it_is_told_first),
};
TAP_MAIN(tests)
