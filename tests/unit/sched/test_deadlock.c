/* SPDX-License-Identifier: MIT */
/*
 * Goal:   tasks that all wait for each other are reported within a moment, with the circle they
 *         stand in; weft_run ends; nothing is reported while something could still happen.
 * Method: circles of tasks that exchange their handles through shared memory; hooks that write down
 *         what they were told.
 */
#include <stdlib.h>
#include <string.h>

#include "aids.h"
#include "marks.h"
#include "sched_aids.h"

enum { CIRCLE_MAX = 5 };

struct report {
    wf_atomic_u32 count;
    size_t waiting;
    size_t length;
    uint64_t ids[CIRCLE_MAX];
    char text[2048];
};

static void take_report(void *context, const weft_deadlock *deadlock)
{
    struct report *report = context;
    report->waiting = deadlock->count;
    report->length = deadlock->cycle_count;
    for (size_t i = 0; i < deadlock->cycle_count && i < CIRCLE_MAX; i++) {
        report->ids[i] = weft_task_id(deadlock->cycle[i]);
    }
    (void)snprintf(report->text, sizeof(report->text), "%s", deadlock->text);
    raise_by_one(&report->count);
}

struct circle {
    struct member {
        struct circle *circle;
        weft_task *task;
        size_t index;
        int heard;
    } members[CIRCLE_MAX];
    size_t size;
    bool is_shielded;
    wf_atomic_u32 is_complete;
};

static intptr_t await_the_next(void *arg)
{
    struct member *member = arg;
    struct circle *circle = member->circle;
    wait_for(&circle->is_complete, 1);
    if (circle->is_shielded) {
        CHECK_EQ(weft_shield(1), 0);
    }
    member->heard = weft_join(circle->members[(member->index + 1) % circle->size].task, NULL);
    return member->heard;
}

static const char *const names[CIRCLE_MAX] = {"anna", "bert", "cleo", "dora", "emil"};

static void circle_begin(struct circle *circle, weft_runtime *runtime)
{
    for (size_t i = 0; i < circle->size; i++) {
        const weft_task_options options = {.name = names[i]};
        circle->members[i] = (struct member){.circle = circle, .index = i};
        CHECK_EQ(weft_runtime_spawn(runtime, &circle->members[i].task, await_the_next,
                                    &circle->members[i], &options),
                 0);
    }
    raise_by_one(&circle->is_complete);
}

static void circle_drop(struct circle *circle)
{
    for (size_t i = 0; i < circle->size; i++) {
        weft_drop(circle->members[i].task);
    }
}

/* The ids of the report are those of the circle, each followed by the one it waits for. */
static void check_report(const struct report *report, const struct circle *circle)
{
    CHECK_EQ(report->length, circle->size);
    size_t begin = 0;
    while (begin < circle->size && weft_task_id(circle->members[begin].task) != report->ids[0]) {
        begin++;
    }
    CHECK(begin < circle->size);
    for (size_t i = 0; i < circle->size; i++) {
        const struct member *member = &circle->members[(begin + i) % circle->size];
        CHECK_EQ(report->ids[i], weft_task_id(member->task));
        CHECK(strstr(report->text, names[member->index]) != NULL);
    }
}

static void open_with_report(struct tour *tour, weft_runtime **runtime, struct report *report)
{
    tour->options.on_deadlock = take_report;
    tour->options.hook_context = report;
    CHECK_EQ(weft_runtime_open(runtime, &tour->options), 0);
}

/* part of S2.9: deadlock detection */
static void a_circle_is_reported_and_a_close_breaks_it(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        for (size_t size = 2; size <= CIRCLE_MAX; size += 3) {
            struct report report = {.length = 0};
            struct circle circle = {.size = size};
            weft_runtime *runtime = NULL;
            open_with_report(&tour, &runtime, &report);
            circle_begin(&circle, runtime);
            wait_for(&report.count, 1);
            CHECK_EQ(report.waiting, size);
            check_report(&report, &circle);
            CHECK_EQ(state_of(circle.members[0].task), WEFT_BLOCKED); /* as it was */
            CHECK_EQ(weft_runtime_close(runtime, -1), 0);
            for (size_t i = 0; i < size; i++) {
                CHECK_EQ(weft_try_join(circle.members[i].task, NULL), 0);
            }
            CHECK_EQ(wf_load_acquire(&report.count), 1);
            circle_drop(&circle);
        }
    }
}

static struct circle root_circle;

static intptr_t wait_for_a_circle(void *arg)
{
    struct circle *circle = arg;
    circle_begin(circle, weft_runtime_self());
    intptr_t rc = weft_join(circle->members[0].task, NULL);
    (void)weft_shield(0);
    return rc;
}

static intptr_t race_for_a_circle(void *arg)
{
    struct circle *circle = arg;
    circle_begin(circle, weft_runtime_self());
    weft_task *tasks[2] = {weft_task_ref(circle->members[0].task),
                           weft_task_ref(circle->members[1].task)};
    return weft_race(tasks, 2, NULL);
}

/* Whoever waits for several does not hide it. */
static void a_circle_is_found_behind_a_race(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct report report = {.length = 0};
        root_circle = (struct circle){.size = 2};
        tour.options.on_deadlock = take_report;
        tour.options.hook_context = &report;
        CHECK_EQ(weft_run(race_for_a_circle, &root_circle, &tour.options), -EDEADLK);
        CHECK_EQ(report.waiting, 3);
        check_report(&report, &root_circle);
        circle_drop(&root_circle);
    }
}

static void check_run(bool is_shielded)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        if (is_shielded && tour.setting->workers != 2) {
            continue; /* each takes the second that they are given to end by themselves */
        }
        struct report report = {.length = 0};
        root_circle = (struct circle){.size = 3, .is_shielded = is_shielded};
        tour.options.on_deadlock = take_report;
        tour.options.hook_context = &report;
        CHECK_EQ(weft_run(wait_for_a_circle, &root_circle, &tour.options), -EDEADLK);
        CHECK_EQ(wf_load_acquire(&report.count), 1);
        CHECK_EQ(report.waiting, 4); /* the first task stands outside of the circle */
        check_report(&report, &root_circle);
        circle_drop(&root_circle);
    }
}

static void a_run_ends_when_all_its_tasks_wait_for_each_other(void)
{
    check_run(false);
}

/* They cannot be cancelled: their stacks are taken. */
static void a_run_ends_also_when_the_circle_is_shielded(void)
{
    check_run(true);
}

static intptr_t close_in_a_circle(void *arg)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    struct member *self = arg;
    CHECK_EQ(weft_scope_go(&scope, await_the_next, self), 0);
    return weft_scope_close(&scope);
}

static void a_circle_may_go_through_a_scope(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct report report = {.length = 0};
        /* The task of the scope waits for the "next" of a circle of one: the scope's owner. */
        struct circle circle = {.size = 1};
        weft_runtime *runtime = NULL;
        open_with_report(&tour, &runtime, &report);
        circle.members[0] = (struct member){.circle = &circle};
        circle.members[0].task = go_into(runtime, close_in_a_circle, &circle.members[0]);
        raise_by_one(&circle.is_complete);
        wait_for(&report.count, 1);
        CHECK_EQ(report.waiting, 2);
        CHECK_EQ(report.length, 2);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        circle_drop(&circle);
    }
}

/* ---- a deadlock that ends while it is told ----------------------------------------------------
 */

enum { LINKS = 40, BREAKS = 6 };

/* Each has a scope with a task that waits for the next one. */
struct chain {
    struct link {
        struct chain *chain;
        weft_task *task;
        size_t index;
    } links[LINKS];
    wf_atomic_u32 is_complete;
    wf_atomic_u32 reports;
};

/* Memory for the report of so many tasks is asked for: it is about to be made. */
static wf_atomic_u32 reports_begun;
/* Reports that may be made; the next one waits here, with its worker. */
static wf_atomic_u32 reports_allowed;

static void *alloc_and_tell(size_t alignment, size_t size)
{
    if (size == 2 * LINKS * 2 * sizeof(weft_task *)) {
        raise_by_one(&reports_begun);
        hold_for(&reports_allowed, wf_load_acquire(&reports_begun));
    }
    void *memory = NULL;
    alignment = alignment > sizeof(void *) ? alignment : sizeof(void *);
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

static const struct wf_allocator telling_allocator = {alloc_and_tell, free};

static intptr_t join_the_next_link(void *arg)
{
    const struct link *link = arg;
    wait_for(&link->chain->is_complete, 1);
    return weft_join(link->chain->links[(link->index + 1) % LINKS].task, NULL);
}

static intptr_t be_a_link(void *arg)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, join_the_next_link, arg), 0);
    return weft_scope_close(&scope);
}

static void count_report(void *context, const weft_deadlock *deadlock)
{
    struct chain *chain = context;
    CHECK_EQ(deadlock->count, 2 * LINKS);
    CHECK(deadlock->cycle_count == 2 * LINKS || deadlock->cycle_count == 0);
    raise_by_one(&chain->reports);
}

/* Until all have ended, one after the other. */
static void break_chain(struct chain *chain)
{
    CHECK_EQ(weft_cancel(chain->links[0].task), 0);
    for (size_t i = 0; i < LINKS; i++) {
        CHECK_EQ(weft_join(chain->links[i].task, NULL), 0);
    }
}

static weft_runtime *chain_begin(struct chain *chain, const struct setting *setting)
{
    weft_options options = options_of(setting);
    options.on_deadlock = count_report;
    options.hook_context = chain;
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (size_t i = 0; i < LINKS; i++) {
        chain->links[i] = (struct link){.chain = chain, .index = i};
        chain->links[i].task = go_into(runtime, be_a_link, &chain->links[i]);
    }
    return runtime;
}

static void chain_end(struct chain *chain, weft_runtime *runtime)
{
    for (size_t i = 0; i < LINKS; i++) {
        CHECK_EQ(weft_await(chain->links[i].task), i == 0 ? -ECANCELED : 0);
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* Scopes lie in frames of tasks: the report must not look at one whose task has gone on. */
static void a_cancel_may_come_while_a_deadlock_is_told(void)
{
    const struct setting *const places[] = {&settings[1], &settings[2], &settings[5], &settings[9]};
    CHECK_EQ(wf_allocator_set(&telling_allocator), 0);
    wf_store_relaxed(&reports_allowed, UINT32_MAX); /* relaxed: nobody is there */
    for (unsigned round = 0; round < 4 * BREAKS; round++) {
        static struct chain chain;
        chain = (struct chain){.is_complete = {0}};
        const uint32_t before = wf_load_acquire(&reports_begun); /* perhaps two a round */
        weft_runtime *runtime = chain_begin(&chain, places[round % 4]);
        raise_by_one(&chain.is_complete);
        wait_for(&reports_begun, before + 1);
        for (unsigned i = 0; i < 50 * (round / 4); i++) {
            wf_spin_hint(); /* at one time or another during the report */
        }
        break_chain(&chain);
        chain_end(&chain, runtime);
        CHECK(wf_load_acquire(&chain.reports) <= 1);
    }
}

/* All of it was so at one moment, or it is not told. */
static void a_circle_that_ends_before_it_is_told_is_not_told(void)
{
    const struct setting *const places[] = {&settings[1], &settings[2], &settings[5]};
    CHECK_EQ(wf_allocator_set(&telling_allocator), 0);
    for (unsigned round = 0; round < 3; round++) {
        static struct chain chain;
        chain = (struct chain){.is_complete = {0}};
        weft_runtime *runtime = chain_begin(&chain, places[round]);
        raise_by_one(&chain.is_complete);
        wait_for(&reports_begun, round + 1);
        break_chain(&chain); /* by other workers than the one that is about to tell */
        raise_by_one(&reports_allowed);
        chain_end(&chain, runtime);
        CHECK_EQ(wf_load_acquire(&chain.reports), 0);
    }
}

static wf_atomic_u32 late_begun;
static wf_atomic_u32 late_may_end;

static intptr_t keep_a_worker(void *arg)
{
    (void)arg;
    raise_by_one(&late_begun);
    hold_for(&late_may_end, 1);
    return 0;
}

/* A look at the wrong moment finds nothing, and another follows. */
static void a_deadlock_is_told_when_all_stand_still(void)
{
    static struct chain chain;
    CHECK_EQ(wf_allocator_set(&telling_allocator), 0);
    weft_runtime *runtime = chain_begin(&chain, &settings[1]);
    raise_by_one(&chain.is_complete);
    wait_for(&reports_begun, 1);
    CHECK_EQ(weft_runtime_spawn(runtime, NULL, keep_a_worker, NULL, NULL), 0);
    wait_for(&late_begun, 1);
    raise_by_one(&reports_allowed);
#ifdef WF_TEST_AIDS
    while (!is_reached("quiet.not_quiet_any_more")) {
        (void)sched_yield();
    }
#endif
    CHECK_EQ(wf_load_acquire(&chain.reports), 0);
    raise_by_one(&reports_allowed);
    raise_by_one(&late_may_end);
    wait_for(&chain.reports, 1);
    break_chain(&chain);
    chain_end(&chain, runtime);
    CHECK_EQ(wf_load_acquire(&chain.reports), 1);
}

/* ---- no deadlocks ---------------------------------------------------------------------------- */

/* A circle of another runtime that is reported: by then a wrong report would have come too. */
static void let_a_deadlock_pass(void)
{
    struct report report = {.length = 0};
    weft_runtime *runtime = NULL;
    for (int i = 0; i < 2; i++) {
        report.count = (wf_atomic_u32){0};
        struct circle circle = {.size = 2};
        const weft_options options = {
            .workers = 1, .on_deadlock = take_report, .hook_context = &report};
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        circle_begin(&circle, runtime);
        wait_for(&report.count, 1);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        circle_drop(&circle);
    }
}

static intptr_t join_it(void *arg)
{
    return weft_join(arg, NULL);
}

/* What waits for a task of another runtime waits for something that can happen. */
static void a_wait_for_another_runtime_is_no_deadlock(void)
{
    const struct setting *const places[] = {&settings[1], &settings[5], &settings[9]};
    for (size_t i = 0; i < 3; i++) {
        const weft_options options = options_of(places[i]); /* refuses deadlocks */
        weft_runtime *here = NULL;
        weft_runtime *there = NULL;
        wf_atomic_u32 open = {0};
        CHECK_EQ(weft_runtime_open(&here, &options), 0);
        CHECK_EQ(weft_runtime_open(&there, &options), 0);
        weft_task *awaited = go_into(there, stand_by, &open);
        weft_task *task = go_into(here, join_it, awaited);
        wait_for_state(task, WEFT_BLOCKED);
        let_a_deadlock_pass();
        raise_by_one(&open);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(weft_await(awaited), 0);
        CHECK_EQ(weft_runtime_close(here, -1), 0);
        CHECK_EQ(weft_runtime_close(there, -1), 0);
    }
}

/* A circle beside a task that runs is none of the report's business: that task may break it. */
static void a_circle_beside_a_running_task_is_not_reported(void)
{
    const struct setting *const places[] = {&settings[1], &settings[5], &settings[9]};
    for (size_t i = 0; i < 3; i++) {
        const weft_options options = options_of(places[i]); /* refuses deadlocks */
        weft_runtime *runtime = NULL;
        wf_atomic_u32 open = {0};
        struct circle circle = {.size = 3};
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        weft_task *busy = go_into(runtime, stand_by, &open);
        circle_begin(&circle, runtime);
        for (size_t j = 0; j < circle.size; j++) {
            wait_for_state(circle.members[j].task, WEFT_BLOCKED);
        }
        let_a_deadlock_pass();
        CHECK_EQ(weft_cancel(circle.members[1].task), 0); /* breaks it */
        CHECK_EQ(weft_join(circle.members[2].task, NULL), 0);
        CHECK_EQ(circle.members[1].heard, -ECANCELED);
        raise_by_one(&open);
        CHECK_EQ(weft_await(busy), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        circle_drop(&circle);
    }
}

/* Nothing waits where nothing is. */
static void an_idle_runtime_is_no_deadlock(void)
{
    const weft_options options = options_of(&settings[1]);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    CHECK_EQ(weft_await(go_into(runtime, echo, NULL)), 0);
    let_a_deadlock_pass();
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static void run_without_a_hook(void)
{
    root_circle = (struct circle){.size = 2};
    CHECK_EQ(weft_run(wait_for_a_circle, &root_circle, &(weft_options){.workers = 2}), -EDEADLK);
    circle_drop(&root_circle);
}

static void without_a_hook_the_report_goes_to_stderr(void)
{
    char text[4096];
    CHECK_EQ(tap_run_child(run_without_a_hook, text, sizeof(text)), 0);
    CHECK(strstr(text, "anna") != NULL);
    CHECK(strstr(text, "bert") != NULL);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_circle_is_reported_and_a_close_breaks_it),
    TAP_TEST(a_run_ends_when_all_its_tasks_wait_for_each_other),
    TAP_TEST(a_run_ends_also_when_the_circle_is_shielded),
    TAP_TEST(a_circle_is_found_behind_a_race),
    TAP_TEST(a_circle_may_go_through_a_scope),
    TAP_TEST(a_cancel_may_come_while_a_deadlock_is_told),
    TAP_TEST(a_circle_that_ends_before_it_is_told_is_not_told),
    TAP_TEST(a_deadlock_is_told_when_all_stand_still),
    TAP_TEST(a_wait_for_another_runtime_is_no_deadlock),
    TAP_TEST(a_circle_beside_a_running_task_is_not_reported),
    TAP_TEST(an_idle_runtime_is_no_deadlock),
    TAP_TEST(without_a_hook_the_report_goes_to_stderr),
};
TAP_MAIN(tests)
