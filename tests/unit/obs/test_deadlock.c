/* SPDX-License-Identifier: MIT */
/*
 * Goal:   when all tasks wait for each other, the runtime reports the deadlock with its cycle, and
 *         weft_run ends. The runtime reports nothing while a task could still be woken.
 * Method: cycles of tasks that exchange their handles through shared memory; hooks that record the
 *         reports.
 */
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "marks.h"
#include "sched_helpers.h"

enum { CYCLE_MAX = 5 };

struct report {
    wf_atomic_u32 count;
    size_t waiting;
    size_t length;
    uint64_t ids[CYCLE_MAX];
    char text[2048];
};

static void record_report(void *context, const weft_deadlock *deadlock)
{
    struct report *report = context;
    report->waiting = deadlock->count;
    report->length = deadlock->cycle_count;
    for (size_t i = 0; i < deadlock->cycle_count && i < CYCLE_MAX; i++) {
        report->ids[i] = weft_task_id(deadlock->cycle[i]);
    }
    (void)snprintf(report->text, sizeof(report->text), "%s", deadlock->text);
    raise_by_one(&report->count);
}

struct cycle {
    struct member {
        struct cycle *cycle;
        weft_task *task;
        size_t index;
        int rc;
    } members[CYCLE_MAX];
    size_t size;
    bool is_shielded;
    wf_atomic_u32 is_complete;
};

static intptr_t join_next(void *arg)
{
    struct member *member = arg;
    struct cycle *cycle = member->cycle;
    wait_for(&cycle->is_complete, 1);
    if (cycle->is_shielded) {
        CHECK_EQ(weft_shield_begin(), 0);
    }
    member->rc = weft_join(cycle->members[(member->index + 1) % cycle->size].task, NULL);
    return member->rc;
}

static const char *const names[CYCLE_MAX] = {"anna", "bert", "cleo", "dora", "emil"};

static void cycle_begin(struct cycle *cycle, weft_runtime *runtime)
{
    for (size_t i = 0; i < cycle->size; i++) {
        const weft_task_options options = {.name = names[i]};
        cycle->members[i] = (struct member){.cycle = cycle, .index = i};
        CHECK_EQ(weft_runtime_spawn(runtime, &cycle->members[i].task, join_next, &cycle->members[i],
                                    &options),
                 0);
    }
    raise_by_one(&cycle->is_complete);
}

static void cycle_drop(struct cycle *cycle)
{
    for (size_t i = 0; i < cycle->size; i++) {
        weft_task_unref(cycle->members[i].task);
    }
}

/* The report lists the ids of the cycle, each task before the task for which it waits. */
static void check_report(const struct report *report, const struct cycle *cycle)
{
    CHECK_EQ(report->length, cycle->size);
    size_t begin = 0;
    while (begin < cycle->size && weft_task_id(cycle->members[begin].task) != report->ids[0]) {
        begin++;
    }
    CHECK(begin < cycle->size);
    for (size_t i = 0; i < cycle->size; i++) {
        const struct member *member = &cycle->members[(begin + i) % cycle->size];
        CHECK_EQ(report->ids[i], weft_task_id(member->task));
        CHECK(strstr(report->text, names[member->index]) != NULL);
    }
}

static void open_with_report(struct tour *tour, weft_runtime **runtime, struct report *report)
{
    tour->options.on_deadlock = record_report;
    tour->options.hook_context = report;
    CHECK_EQ(weft_runtime_open(runtime, &tour->options), 0);
}

/* part of S2.9: deadlock detection */
static void deadlock_report_names_cycle_and_close_breaks_it(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        for (size_t size = 2; size <= CYCLE_MAX; size += 3) {
            struct report report = {.length = 0};
            struct cycle cycle = {.size = size};
            weft_runtime *runtime = NULL;
            open_with_report(&tour, &runtime, &report);
            cycle_begin(&cycle, runtime);
            wait_for(&report.count, 1);
            CHECK_EQ(report.waiting, size);
            check_report(&report, &cycle);
            CHECK_EQ(state_of(cycle.members[0].task), WEFT_TASK_BLOCKED); /* still suspended */
            CHECK_EQ(weft_runtime_close(runtime, -1), 0);
            for (size_t i = 0; i < size; i++) {
                CHECK_EQ(weft_try_join(cycle.members[i].task, NULL), 0);
            }
            CHECK_EQ(wf_load_acquire(&report.count), 1);
            cycle_drop(&cycle);
        }
    }
}

static struct cycle root_cycle;

static intptr_t join_cycle(void *arg)
{
    struct cycle *cycle = arg;
    cycle_begin(cycle, weft_runtime_self());
    intptr_t rc = weft_join(cycle->members[0].task, NULL);
    (void)weft_shield_end();
    return rc;
}

static intptr_t race_cycle(void *arg)
{
    struct cycle *cycle = arg;
    cycle_begin(cycle, weft_runtime_self());
    weft_task *tasks[2] = {weft_task_ref(cycle->members[0].task),
                           weft_task_ref(cycle->members[1].task)};
    return weft_await_first(tasks, 2, NULL);
}

/* A wait for several tasks does not hide the cycle. */
static void deadlock_report_finds_cycle_behind_a_race(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct report report = {.length = 0};
        root_cycle = (struct cycle){.size = 2};
        tour.options.on_deadlock = record_report;
        tour.options.hook_context = &report;
        CHECK_EQ(weft_run(race_cycle, &root_cycle, &tour.options), -EDEADLK);
        CHECK_EQ(report.waiting, 3);
        check_report(&report, &root_cycle);
        cycle_drop(&root_cycle);
    }
}

static void check_run(bool is_shielded)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        if (is_shielded && tour.setting->workers != 2) {
            continue; /* each run takes the second of grace that the tasks get */
        }
        struct report report = {.length = 0};
        root_cycle = (struct cycle){.size = 3, .is_shielded = is_shielded};
        tour.options.on_deadlock = record_report;
        tour.options.hook_context = &report;
        CHECK_EQ(weft_run(join_cycle, &root_cycle, &tour.options), -EDEADLK);
        CHECK_EQ(wf_load_acquire(&report.count), 1);
        CHECK_EQ(report.waiting, 4); /* the first task is outside the cycle */
        check_report(&report, &root_cycle);
        cycle_drop(&root_cycle);
    }
}

static void run_fails_with_edeadlk_when_all_tasks_wait_in_a_cycle(void)
{
    check_run(false);
}

/* Shielded tasks cannot be cancelled: the close frees their stacks. */
static void run_fails_with_edeadlk_when_the_cycle_is_shielded(void)
{
    check_run(true);
}

static intptr_t close_scope_in_cycle(void *arg)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    struct member *self = arg;
    CHECK_EQ(weft_scope_go(&scope, join_next, self), 0);
    return weft_scope_close(&scope);
}

static void deadlock_report_follows_a_scope(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct report report = {.length = 0};
        /* A cycle of one member: the task in the scope joins the scope's owner. */
        struct cycle cycle = {.size = 1};
        weft_runtime *runtime = NULL;
        open_with_report(&tour, &runtime, &report);
        cycle.members[0] = (struct member){.cycle = &cycle};
        cycle.members[0].task = go_into(runtime, close_scope_in_cycle, &cycle.members[0]);
        raise_by_one(&cycle.is_complete);
        wait_for(&report.count, 1);
        CHECK_EQ(report.waiting, 2);
        CHECK_EQ(report.length, 2);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        cycle_drop(&cycle);
    }
}

/* ---- a deadlock that ends during the report -------------------------------------------------- */

enum { LINKS = 40, BREAKS = 6 };

/* Each link has a scope with a task that joins the next link. */
struct chain {
    struct link {
        struct chain *chain;
        weft_task *task;
        size_t index;
    } links[LINKS];
    wf_atomic_u32 is_complete;
    wf_atomic_u32 reports;
};

/* Reports for which the runtime has allocated memory: the report is about to be made. */
static wf_atomic_u32 reports_begun;
/* Reports that may be made; the next one waits in the allocator and keeps its worker. */
static wf_atomic_u32 reports_allowed;

static void *alloc_and_signal(size_t alignment, size_t size)
{
    if (size == 2 * LINKS * 2 * sizeof(weft_task *)) {
        raise_by_one(&reports_begun);
        hold_for(&reports_allowed, wf_load_acquire(&reports_begun));
    }
    void *memory = NULL;
    alignment = alignment > sizeof(void *) ? alignment : sizeof(void *);
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

static const struct wf_allocator signalling_allocator = {alloc_and_signal, free};

static intptr_t join_next_link(void *arg)
{
    const struct link *link = arg;
    wait_for(&link->chain->is_complete, 1);
    return weft_join(link->chain->links[(link->index + 1) % LINKS].task, NULL);
}

static intptr_t run_link(void *arg)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, join_next_link, arg), 0);
    return weft_scope_close(&scope);
}

static void count_report(void *context, const weft_deadlock *deadlock)
{
    struct chain *chain = context;
    CHECK_EQ(deadlock->count, 2 * LINKS);
    CHECK(deadlock->cycle_count == 2 * LINKS || deadlock->cycle_count == 0);
    raise_by_one(&chain->reports);
}

/* Returns when all links have ended, one after the other. */
static void break_chain(struct chain *chain)
{
    CHECK_EQ(weft_cancel(chain->links[0].task), 0);
    for (size_t i = 0; i < LINKS; i++) {
        CHECK_EQ(weft_join(chain->links[i].task, NULL), 0);
    }
}

static weft_runtime *chain_begin(struct chain *chain, const struct setting *setting)
{
    weft_runtime_options options = options_of(setting);
    options.on_deadlock = count_report;
    options.hook_context = chain;
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (size_t i = 0; i < LINKS; i++) {
        chain->links[i] = (struct link){.chain = chain, .index = i};
        chain->links[i].task = go_into(runtime, run_link, &chain->links[i]);
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

/* Scopes are in frames of tasks: the report must not access a scope whose task has continued. */
static void deadlock_report_tolerates_concurrent_cancel(void)
{
    const struct setting *const chosen[] = {&settings[1], &settings[2], &settings[5], &settings[9]};
    CHECK_EQ(wf_allocator_set(&signalling_allocator), 0);
    wf_store_relaxed(&reports_allowed, UINT32_MAX); /* relaxed: no runtime is open yet */
    for (unsigned round = 0; round < 4 * BREAKS; round++) {
        static struct chain chain;
        chain = (struct chain){.is_complete = {0}};
        const uint32_t before = wf_load_acquire(&reports_begun); /* a round may begin two reports */
        weft_runtime *runtime = chain_begin(&chain, chosen[round % 4]);
        raise_by_one(&chain.is_complete);
        wait_for(&reports_begun, before + 1);
        for (unsigned i = 0; i < 50 * (round / 4); i++) {
            wf_spin_hint(); /* a different moment of the report in each round */
        }
        break_chain(&chain);
        chain_end(&chain, runtime);
        CHECK(wf_load_acquire(&chain.reports) <= 1);
    }
}

/* The report describes one moment, or is not made. */
static void deadlock_report_is_dropped_if_the_cycle_ends_first(void)
{
    const struct setting *const chosen[] = {&settings[1], &settings[2], &settings[5]};
    CHECK_EQ(wf_allocator_set(&signalling_allocator), 0);
    for (unsigned round = 0; round < 3; round++) {
        static struct chain chain;
        chain = (struct chain){.is_complete = {0}};
        weft_runtime *runtime = chain_begin(&chain, chosen[round]);
        raise_by_one(&chain.is_complete);
        wait_for(&reports_begun, round + 1);
        break_chain(&chain); /* workers other than the reporting one run the links */
        raise_by_one(&reports_allowed);
        chain_end(&chain, runtime);
        CHECK_EQ(wf_load_acquire(&chain.reports), 0);
    }
}

static wf_atomic_u32 occupier_begun;
static wf_atomic_u32 occupier_may_end;

static intptr_t occupy_worker(void *arg)
{
    (void)arg;
    raise_by_one(&occupier_begun);
    hold_for(&occupier_may_end, 1);
    return 0;
}

/* A check at the wrong moment finds no deadlock, and another check follows. */
static void deadlock_report_is_retried_when_runtime_is_quiescent_again(void)
{
    static struct chain chain;
    CHECK_EQ(wf_allocator_set(&signalling_allocator), 0);
    weft_runtime *runtime = chain_begin(&chain, &settings[1]);
    raise_by_one(&chain.is_complete);
    wait_for(&reports_begun, 1);
    CHECK_EQ(weft_runtime_spawn(runtime, NULL, occupy_worker, NULL, NULL), 0);
    wait_for(&occupier_begun, 1);
    raise_by_one(&reports_allowed);
#ifdef WF_TEST_HOOKS
    while (!is_reached("quiescence.no_longer_quiescent")) {
        (void)sched_yield();
    }
#endif
    CHECK_EQ(wf_load_acquire(&chain.reports), 0);
    raise_by_one(&reports_allowed);
    raise_by_one(&occupier_may_end);
    wait_for(&chain.reports, 1);
    break_chain(&chain);
    chain_end(&chain, runtime);
    CHECK_EQ(wf_load_acquire(&chain.reports), 1);
}

/* ---- waits that are no deadlock -------------------------------------------------------------- */

/* Waits until a deadlock of another runtime is reported: a wrong report would have come by then. */
static void wait_for_other_deadlock(void)
{
    struct report report = {.length = 0};
    weft_runtime *runtime = NULL;
    for (int i = 0; i < 2; i++) {
        report.count = (wf_atomic_u32){0};
        struct cycle cycle = {.size = 2};
        const weft_runtime_options options = {
            .workers = 1, .on_deadlock = record_report, .hook_context = &report};
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        cycle_begin(&cycle, runtime);
        wait_for(&report.count, 1);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        cycle_drop(&cycle);
    }
}

static intptr_t join_task(void *arg)
{
    return weft_join(arg, NULL);
}

/* A wait for a task of another runtime can end. */
static void deadlock_report_ignores_wait_for_another_runtime(void)
{
    const struct setting *const chosen[] = {&settings[1], &settings[5], &settings[9]};
    for (size_t i = 0; i < 3; i++) {
        const weft_runtime_options options =
            options_of(chosen[i]); /* a deadlock report fails the test */
        weft_runtime *here = NULL;
        weft_runtime *there = NULL;
        wf_atomic_u32 open = {0};
        CHECK_EQ(weft_runtime_open(&here, &options), 0);
        CHECK_EQ(weft_runtime_open(&there, &options), 0);
        weft_task *awaited = go_into(there, stand_by, &open);
        weft_task *task = go_into(here, join_task, awaited);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        wait_for_other_deadlock();
        raise_by_one(&open);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(weft_await(awaited), 0);
        CHECK_EQ(weft_runtime_close(here, -1), 0);
        CHECK_EQ(weft_runtime_close(there, -1), 0);
    }
}

/* A cycle beside a running task is not reported: that task may break it. */
static void deadlock_report_ignores_cycle_beside_a_running_task(void)
{
    const struct setting *const chosen[] = {&settings[1], &settings[5], &settings[9]};
    for (size_t i = 0; i < 3; i++) {
        const weft_runtime_options options =
            options_of(chosen[i]); /* a deadlock report fails the test */
        weft_runtime *runtime = NULL;
        wf_atomic_u32 open = {0};
        struct cycle cycle = {.size = 3};
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        weft_task *busy = go_into(runtime, stand_by, &open);
        cycle_begin(&cycle, runtime);
        for (size_t j = 0; j < cycle.size; j++) {
            wait_for_state(cycle.members[j].task, WEFT_TASK_BLOCKED);
        }
        wait_for_other_deadlock();
        CHECK_EQ(weft_cancel(cycle.members[1].task), 0); /* breaks the cycle */
        CHECK_EQ(weft_join(cycle.members[2].task, NULL), 0);
        CHECK_EQ(cycle.members[1].rc, -ECANCELED);
        raise_by_one(&open);
        CHECK_EQ(weft_await(busy), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        cycle_drop(&cycle);
    }
}

static void deadlock_report_ignores_an_idle_runtime(void)
{
    const weft_runtime_options options = options_of(&settings[1]);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    CHECK_EQ(weft_await(go_into(runtime, echo, NULL)), 0);
    wait_for_other_deadlock();
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static void run_without_a_hook(void)
{
    root_cycle = (struct cycle){.size = 2};
    CHECK_EQ(weft_run(join_cycle, &root_cycle, &(weft_runtime_options){.workers = 2}), -EDEADLK);
    cycle_drop(&root_cycle);
}

static void deadlock_report_goes_to_stderr_without_a_hook(void)
{
    char text[4096];
    CHECK_EQ(tap_run_child(run_without_a_hook, text, sizeof(text)), 0);
    CHECK(strstr(text, "anna") != NULL);
    CHECK(strstr(text, "bert") != NULL);
}

static const struct tap_test tests[] = {
    TAP_TEST(deadlock_report_names_cycle_and_close_breaks_it),
    TAP_TEST(run_fails_with_edeadlk_when_all_tasks_wait_in_a_cycle),
    TAP_TEST(run_fails_with_edeadlk_when_the_cycle_is_shielded),
    TAP_TEST(deadlock_report_finds_cycle_behind_a_race),
    TAP_TEST(deadlock_report_follows_a_scope),
    TAP_TEST(deadlock_report_tolerates_concurrent_cancel),
    TAP_TEST(deadlock_report_is_dropped_if_the_cycle_ends_first),
    TAP_TEST(deadlock_report_is_retried_when_runtime_is_quiescent_again),
    TAP_TEST(deadlock_report_ignores_wait_for_another_runtime),
    TAP_TEST(deadlock_report_ignores_cycle_beside_a_running_task),
    TAP_TEST(deadlock_report_ignores_an_idle_runtime),
    TAP_TEST(deadlock_report_goes_to_stderr_without_a_hook),
};
TAP_MAIN(tests)
