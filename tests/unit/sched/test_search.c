/* SPDX-License-Identifier: MIT */
/*
 * Goal:   where a worker looks for work, in which order, how much it takes from there, and whom it
 *         robs; that it looks nowhere while its task does not let go of it; and that nobody has
 *         more of the kernel, or of others' priorities, than was said.
 * Method: every worker is held by a task while the queues are filled; then one of them is let go,
 *         and what it runs is written down.  Hostile builds put tasks elsewhere on purpose: there
 *         the same runs, and where things were is not compared.
 */
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sched/sched.h"
#include "sched_aids.h"

/* Where every turn is long, averages of turns say nothing. */
#if defined(__OPTIMIZE__) && defined(__x86_64__) && !defined(WF_TSAN) && !defined(WF_HOSTILE)
#define IS_SLOW 0
#else
#define IS_SLOW 1
#endif

enum { WORKERS_MOST = 3 };

static weft_options options_for(enum weft_order order, unsigned workers)
{
    const struct setting setting = {WEFT_POLICY_STEAL, order, workers};
    return options_of(&setting);
}

/* ---- one task for each worker ---------------------------------------------------------------- */

struct scene {
    weft_runtime *runtime;
    unsigned workers;
    wf_atomic_u32 held;    /* workers that are, each by a task of its own */
    wf_atomic_u32 loaded;  /* of them, those that have filled their queues */
    wf_atomic_u32 is_over; /* those that are still held may go */
    unsigned free;         /* plain: the worker that is let go first */
    void (*load)(struct scene *scene, unsigned worker); /* [task on that worker] */
};

static intptr_t hold_a_worker(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->held);
    hold_for(&scene->held, scene->workers); /* so each is on another */
    const unsigned worker = wf_worker_self()->index;
    if (scene->load != NULL) {
        scene->load(scene, worker);
    }
    raise_by_one(&scene->loaded);
    hold_for(&scene->loaded, scene->workers);
    if (worker != scene->free) {
        hold_for(&scene->is_over, 1);
    }
    return 0;
}

static void scene_open(struct scene *scene, enum weft_order order, unsigned workers)
{
    const weft_options options = options_for(order, workers);
    scene->workers = workers;
    CHECK_EQ(weft_runtime_open(&scene->runtime, &options), 0);
}

/* Until so much has happened; those that are held stay so until then, if nobody lets them go. */
static void scene_play(struct scene *scene, wf_atomic_u32 *cell, uint32_t at_least)
{
    weft_task *holders[WORKERS_MOST] = {NULL};
    wf_store_relaxed(&scene->held, 0);
    wf_store_relaxed(&scene->loaded, 0);
    wf_store_relaxed(&scene->is_over, 0);
    for (unsigned i = 0; i < scene->workers; i++) {
        holders[i] = go_into(scene->runtime, hold_a_worker, scene);
    }
    wait_for(cell, at_least);
    raise_by_one(&scene->is_over);
    for (unsigned i = 0; i < scene->workers; i++) {
        CHECK_EQ(weft_await(holders[i]), 0);
    }
}

/* ---- whom it robs ---------------------------------------------------------------------------- */

struct robbery {
    struct scene scene;
    wf_atomic_u32 first; /* 1: one was taken */
    wf_atomic_u32 ran;
    struct loot {
        struct robbery *robbery;
        unsigned victim;
    } loot[WORKERS_MOST];
    /* Plain: by the first that was taken. */
    unsigned thief;
    unsigned victim;
};

static intptr_t be_taken(void *arg)
{
    const struct loot *loot = arg;
    struct robbery *robbery = loot->robbery;
    uint32_t none = 0;
    if (wf_cas_relaxed(&robbery->first, &none, 1)) { /* relaxed: the raise carries what we write */
        robbery->thief = wf_worker_self()->index;
        robbery->victim = loot->victim;
    }
    raise_by_one(&robbery->ran);
    return 0;
}

static void lay_out_loot(struct scene *scene, unsigned worker)
{
    struct robbery *robbery = wf_container_of(scene, struct robbery, scene);
    if (worker != scene->free) {
        robbery->loot[worker] = (struct loot){robbery, worker};
        weft_drop(go(be_taken, &robbery->loot[worker]));
        weft_drop(go(be_taken, &robbery->loot[worker])); /* the first is in the queue now */
    }
}

/* All of three are robbed by all others, and each begins now here, now there.  How often that
 * takes is chance; a thief with a rule would never come to the end. */
static void rob_until_all_were(enum weft_order order)
{
    struct robbery robbery = {.scene = {.load = lay_out_loot}};
    unsigned seen = 0; /* pairs that were; six of the nine can be */
    unsigned pairs = 0;
    scene_open(&robbery.scene, order, WORKERS_MOST);
    for (unsigned round = 0; HAS_ORDER ? pairs < 6 : round < 30; round++) {
        robbery.scene.free = round % WORKERS_MOST;
        wf_store_relaxed(&robbery.first, 0);
        wf_store_relaxed(&robbery.ran, 0);
        scene_play(&robbery.scene, &robbery.ran, 1);
        wait_for(&robbery.ran, 2 * (WORKERS_MOST - 1));
        if (HAS_ORDER) {
            CHECK_EQ(robbery.thief, robbery.scene.free);
            CHECK(robbery.victim != robbery.thief);
            const unsigned pair = 1u << (robbery.thief * WORKERS_MOST + robbery.victim);
            pairs += (seen & pair) == 0 ? 1 : 0;
            seen |= pair;
        }
    }
    CHECK_EQ(weft_runtime_close(robbery.scene.runtime, -1), 0);
}

/* S0.12, S0.15, S2.3, S2.13, S2.24, S3.12: whom it loses a race at is asked again in test_ring.c
 * and test_deque.c. */
static void any_worker_is_robbed_by_any_other(void)
{
    rob_until_all_were(WEFT_ORDER_FAIR);
    rob_until_all_were(WEFT_ORDER_DEPTH_FIRST);
}

enum { DRAWS_MOST = 1000000 };

struct lottery {
    struct scene scene;
    struct wf_random randoms[WORKERS_MOST]; /* plain: as each worker's was when it was held */
};

static void show_generator(struct scene *scene, unsigned worker)
{
    struct lottery *lottery = wf_container_of(scene, struct lottery, scene);
    lottery->randoms[worker] = wf_worker_self()->random;
}

/* How many numbers were drawn since the seed; DRAWS_MOST: it has another. */
static unsigned draws_since(uint64_t seed, const struct wf_random *random)
{
    struct wf_random draws;
    wf_random_init(&draws, seed);
    unsigned count = 0;
    while (count < DRAWS_MOST && memcmp(&draws, random, sizeof(draws)) != 0) {
        (void)wf_random_next(&draws);
        count++;
    }
    return count;
}

/* S4.7: with the_generator_is_xorshift128_plus in test_util.c.  All begin from the seed of the
 * options, each at another place, so that they do not all rob the same one. */
static void every_worker_draws_numbers_of_its_own(void)
{
    struct lottery lottery = {.scene = {.load = show_generator}};
    scene_open(&lottery.scene, WEFT_ORDER_FAIR, WORKERS_MOST);
    scene_play(&lottery.scene, &lottery.scene.loaded, WORKERS_MOST);
    CHECK_EQ(weft_runtime_close(lottery.scene.runtime, -1), 0);
    for (unsigned i = 0; i < WORKERS_MOST; i++) {
        CHECK(draws_since(tap_seed() + i, &lottery.randoms[i]) < DRAWS_MOST);
    }
}

/* ---- in which order -------------------------------------------------------------------------- */

/* What one worker ran, while the other was held. */
static struct {
    char text[16];
    size_t length;
    wf_atomic_u32 written;
} diary;

static char names[] = "abc12vw";

static intptr_t note(void *arg)
{
    diary.text[diary.length++] = *(const char *)arg;
    raise_by_one(&diary.written);
    return 0;
}

static struct scene *current;

static void *inject(void *arg)
{
    CHECK_EQ(weft_runtime_spawn(current->runtime, NULL, note, arg, NULL), 0);
    return NULL;
}

static void let_a_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, fn, arg, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
}

/* The global queue goes first where a millisecond has passed, but never twice in a row: the first
 * that comes from there may come at any time, and puts the one that matters in. */
static intptr_t note_and_inject(void *arg)
{
    CHECK_EQ(note(arg), 0);
    let_a_thread(inject, (char *)arg + 1);
    return 0;
}

static void *inject_the_first(void *arg)
{
    CHECK_EQ(weft_runtime_spawn(current->runtime, NULL, note_and_inject, arg, NULL), 0);
    return NULL;
}

static void fill_every_queue(struct scene *scene, unsigned worker)
{
    if (worker != scene->free) {
        weft_drop(go(note, &names[5])); /* the next drives it out of the slot */
        weft_drop(go(note, &names[6]));
        return;
    }
    let_a_thread(inject_the_first, &names[3]);
    for (int i = 0; i < 3; i++) {
        weft_drop(go(note, &names[i]));
    }
}

static size_t place_of(char name)
{
    const char *found = strchr(diary.text, name);
    CHECK(found != NULL);
    return (size_t)(found - diary.text);
}

/* True: as it is where no turn takes long. */
static bool check_diary(void)
{
    CHECK_EQ(diary.length, sizeof(names) - 1);
    const char own[] = {'c', 'a', 'b', 'v', 'w'};
    for (size_t i = 1; i < sizeof(own); i++) {
        CHECK(place_of(own[i - 1]) < place_of(own[i]));
    }
    CHECK(place_of('1') < place_of('2'));
    CHECK(place_of('2') < place_of('v')); /* all others are asked when nothing is left here */
    return place_of('2') > place_of('b');
}

/* S4.8: the slot, the ring (with what was fetched: see below), the global queue, the others'. */
static void a_worker_looks_near_before_it_looks_far(void)
{
    struct scene scene = {.load = fill_every_queue};
    current = &scene;
    scene_open(&scene, WEFT_ORDER_FAIR, 2);
    bool is_shown = !HAS_ORDER;
    for (unsigned round = 0; round < 5 || !is_shown; round++) {
        memset(&diary, 0, sizeof(diary));
        scene.free = round % 2;
        scene_play(&scene, &diary.written, sizeof(names) - 1);
        is_shown = !HAS_ORDER || check_diary() || is_shown;
    }
    CHECK_EQ(weft_runtime_close(scene.runtime, -1), 0);
}

/* ---- how much it takes ----------------------------------------------------------------------- */

enum { WAITING = 240 };

struct share {
    struct scene scene;
    uint64_t global[WAITING]; /* plain: left in the global queue, as each of them ran */
    uint64_t local[WAITING];  /* and in the worker's own */
    unsigned count;
    wf_atomic_u32 ran;
};

static struct share share;

static intptr_t note_depths(void *arg)
{
    (void)arg;
    weft_counters counters;
    CHECK_EQ(weft_worker_stats(share.scene.runtime, wf_worker_self()->index, &counters), 0);
    share.global[share.count] = stats_of(share.scene.runtime).global_depth;
    share.local[share.count] = counters.queue_depth;
    share.count++;
    raise_by_one(&share.ran);
    return 0;
}

static void *inject_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < WAITING; i++) {
        CHECK_EQ(weft_runtime_spawn(share.scene.runtime, NULL, note_depths, NULL, NULL), 0);
    }
    return NULL;
}

static void fill_the_global_queue(struct scene *scene, unsigned worker)
{
    if (worker == scene->free) {
        let_a_thread(inject_all, NULL);
    }
}

/* S4.4, S4.21: several at once, into the ring, where others see them; and then for a while none. */
static void a_share_of_the_global_queue_is_fetched_at_once(void)
{
    share = (struct share){.scene = {.load = fill_the_global_queue}};
    scene_open(&share.scene, WEFT_ORDER_FAIR, 2);
    scene_play(&share.scene, &share.ran, WAITING);
    unsigned fetches = 0;
    uint64_t before = WAITING;
    for (unsigned i = 0; i < WAITING && HAS_ORDER; i++) {
        CHECK_EQ(share.global[i] + share.local[i] + i + 1, WAITING); /* all are to be seen */
        if (share.global[i] != before) {
            CHECK(before - share.global[i] <= WF_INJECT_BATCH_MAX);
            fetches++;
        }
        before = share.global[i];
    }
    CHECK(fetches <= WAITING / WF_INJECT_BATCH_MIN);
    CHECK_EQ(weft_runtime_close(share.scene.runtime, -1), 0);
}

/* ---- how often it looks there ---------------------------------------------------------------- */

/* S4.23 */
static void the_interval_follows_from_the_length_of_a_turn(void)
{
    static const struct {
        int64_t us;
        uint32_t interval;
    } table[] = {{0, 255}, {1, 255}, {10, 100}, {50, 20}, {100, 10}, {1000, 1}, {60000000, 1}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        CHECK_EQ(wf_steal_interval(table[i].us * 1000), table[i].interval);
    }
}

static intptr_t take_some_time(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        const weft_time end = weft_in(100 * WEFT_MICROSECOND);
        while (weft_now() < end) {
        }
        CHECK_EQ(weft_yield(), 0);
    }
    return (intptr_t)wf_worker_self()->interval;
}

/* Gives the interval after one turn of 100 us. */
static intptr_t take_turns(void *arg)
{
    (void)arg;
    int turns = 1;
    weft_task *other = go(take_some_time, &turns);
    const intptr_t first = take_some_time(&turns);
    CHECK(weft_await(other) >= 1);
    turns = 60; /* the average comes to 100 us, by a tenth of the rest each time */
    other = go(take_some_time, &turns);
    const intptr_t last = take_some_time(&turns);
    CHECK(last >= 1 && last <= 10);
    CHECK(weft_await(other) <= 10);
    return first;
}

/* S4.22, with the_interval_follows_from_the_length_of_a_turn, and
 * busy_local_queues_do_not_starve_the_global_one in test_fairness.c, where it is about the clock.
 * A turn is longer where the machine is busy; one that weighs a tenth shows up some time. */
static void the_interval_follows_what_tasks_do(void)
{
    const weft_options options = options_for(WEFT_ORDER_FAIR, 1);
    while (weft_run(take_turns, NULL, &options) <= 10 && !IS_SLOW) {
    }
}

/* Of the only worker, plain: since its last look at the clock. */
static int64_t looked_ns;
static uint32_t turns_since;
static uint32_t turns_most;

static intptr_t count_turns(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        const int64_t now_ns = wf_worker_self()->now_ns;
        turns_since = now_ns == looked_ns ? turns_since + 1 : 1;
        turns_most = turns_since > turns_most ? turns_since : turns_most;
        looked_ns = now_ns;
        CHECK(turns_since <= WF_CLOCK_INTERVAL_MAX + 1); /* with the one that it found then */
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static intptr_t take_short_turns(void *arg)
{
    (void)arg;
    enum { TASKS = 4 };
    int turns = 500;
    weft_task *tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = go(count_turns, &turns);
    }
    return weft_await_all(tasks, TASKS, NULL);
}

/* S4.6, S4.33: what it then does is shown by the_interval_follows_what_tasks_do, by
 * timers_fire_while_all_are_busy in test_time.c, and by news_are_heard_while_all_are_busy in
 * test_fd.c: in all of them nobody is ever idle.  A turn that the machine makes long is one after
 * which it looks; some time there are as many short ones in a row as there may be. */
static void a_busy_worker_looks_around_after_a_few_turns(void)
{
    const enum weft_order orders[] = {WEFT_ORDER_FAIR, WEFT_ORDER_DEPTH_FIRST};
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        const weft_options options = options_for(orders[i], 1);
        turns_most = 0;
        do {
            turns_since = 0;
            CHECK_EQ(weft_run(take_short_turns, NULL, &options), 0);
        } while (turns_most < WF_CLOCK_INTERVAL_MAX && !IS_SLOW);
    }
}

struct patience {
    weft_runtime *runtime;
    bool is_injected; /* all plain: there is one worker */
    bool has_run;
    unsigned turns; /* that began since */
};

static intptr_t be_seen(void *arg)
{
    struct patience *patience = arg;
    patience->has_run = true;
    return 0;
}

static void *inject_one(void *arg)
{
    struct patience *patience = arg;
    CHECK_EQ(weft_runtime_spawn(patience->runtime, NULL, be_seen, patience, NULL), 0);
    return NULL;
}

static intptr_t take_long_turns(void *arg)
{
    struct patience *patience = arg;
    while (!patience->has_run) {
        patience->turns += patience->is_injected ? 1 : 0;
        const int64_t end_ns = wf_clock_now() + WF_GLOBAL_LATENCY_NS;
        while (wf_clock_now() <= end_ns) {
        }
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static intptr_t wait_for_the_global_queue(void *arg)
{
    (void)arg;
    struct patience patience = {.runtime = weft_runtime_self()};
    weft_task *tasks[2] = {go(take_long_turns, &patience), go(take_long_turns, &patience)};
    while (info_of(tasks[1]).runs < 2 * WF_CLOCK_INTERVAL_MAX) { /* it knows that turns are long */
        CHECK_EQ(weft_yield(), 0);
    }
    let_a_thread(inject_one, &patience);
    patience.is_injected = true;
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    CHECK(patience.turns <= 3); /* the one that runs, and the look is never twice in a row */
    return 0;
}

/* S4.41: a millisecond; as a number of turns, since those may take as long as they like.  For the
 * workers see seventy_workers_work_at_once and bad_options_are_refused_by_name in test_runtime.c.
 */
static void a_busy_worker_sees_the_global_queue_after_a_millisecond(void)
{
    CHECK_EQ(WF_GLOBAL_LATENCY_NS, WEFT_MILLISECOND);
    for (int i = 0; i < 2; i++) {
        const weft_options options =
            options_for(i == 0 ? WEFT_ORDER_FAIR : WEFT_ORDER_DEPTH_FIRST, 1);
        CHECK_EQ(weft_run(wait_for_the_global_queue, NULL, &options), 0);
    }
}

/* ---- what belongs to whom -------------------------------------------------------------------- */

struct estate {
    struct scene scene;
    wf_atomic_u32 ran;
    unsigned of_each[WORKERS_MOST]; /* plain: what its task put into its queue */
};

static void put_down_some(struct scene *scene, unsigned worker)
{
    struct estate *estate = wf_container_of(scene, struct estate, scene);
    CHECK(weft_runtime_self() == scene->runtime);
    CHECK(wf_worker_self()->runtime == scene->runtime);
    CHECK(wf_worker_self() == &scene->runtime->workers[worker]);
    estate->of_each[worker] = 2 * worker + 1;
    for (unsigned i = 0; i < estate->of_each[worker]; i++) {
        weft_drop(go(count_up, &estate->ran));
    }
}

/* S0.3, S0.10, S2.32: each runtime has its workers, each of which has its queue; above them stands
 * one that takes what comes from outside. */
static void every_worker_and_every_runtime_has_its_own(void)
{
    struct estate estates[2] = {{.ran = {0}}, {.ran = {0}}};
    weft_task *holders[2][WORKERS_MOST];
    for (unsigned e = 0; e < 2; e++) {
        struct scene *scene = &estates[e].scene;
        scene->load = put_down_some;
        scene->free = WORKERS_MOST; /* nobody */
        scene_open(scene, WEFT_ORDER_FAIR, e == 0 ? WORKERS_MOST : 2);
        for (unsigned i = 0; i < scene->workers; i++) {
            holders[e][i] = go_into(scene->runtime, hold_a_worker, scene);
        }
        wait_for(&scene->loaded, scene->workers);
    }
    for (unsigned e = 0; e < 2; e++) {
        struct scene *scene = &estates[e].scene;
        const uint64_t outside = e == 0 ? 5 : 0;
        uint64_t inside = 0;
        const uint64_t depth = stats_of(scene->runtime).global_depth; /* hostile: some are there */
        const uint64_t of_other = stats_of(estates[1].scene.runtime).global_depth;
        for (uint64_t i = 0; i < outside; i++) {
            weft_drop(go_into(scene->runtime, count_up, &estates[e].ran));
            CHECK_EQ(stats_of(scene->runtime).global_depth, depth + i + 1);
        }
        CHECK_EQ(stats_of(estates[1].scene.runtime).global_depth, of_other);
        for (unsigned i = 0; i < scene->workers; i++) {
            weft_counters counters;
            CHECK_EQ(weft_worker_stats(scene->runtime, i, &counters), 0);
            CHECK(!HAS_ORDER || counters.queue_depth == estates[e].of_each[i]);
            inside += estates[e].of_each[i];
        }
        CHECK_EQ(stats_of(scene->runtime).live, scene->workers + inside + outside);
        CHECK_EQ(stats_of(scene->runtime).workers, scene->workers);
        raise_by_one(&scene->is_over);
        wait_for(&estates[e].ran, (uint32_t)(inside + outside));
        for (unsigned i = 0; i < scene->workers; i++) {
            CHECK_EQ(weft_await(holders[e][i]), 0);
        }
        CHECK_EQ(weft_runtime_close(scene->runtime, -1), 0);
    }
}

/* ---- while a task runs ----------------------------------------------------------------------- */

static intptr_t compute_beside_another(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    weft_task *other = go(count_up, &ran);
    const weft_time end = weft_in(5 * WF_TURN_MAX_NS);
    uint64_t steps = 0;
    while (weft_now() < end) { /* it is asked for a break meanwhile, and does not look */
        steps++;
    }
    CHECK(steps > 0);
    CHECK_EQ(wf_load_acquire(&ran), 0); /* to raise_by_one */
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_await(other), 0);
    return 0;
}

/* S0.26, S2.5, S2.10: there is one worker, and the other task is ready all the time. */
static void nothing_interrupts_a_task_that_does_not_ask(void)
{
    run_under(ON_ONE_WORKER, compute_beside_another);
}

/* What the kernel grants a thread; outside of Linux's own answers nothing is known of the memory.
 */
struct favours {
    int policy;
    int nice;
    cpu_set_t cpus;
    int memory;
};

static struct favours favours_of_this_thread(void)
{
    struct favours favours = {.policy = sched_getscheduler(0),
                              .nice = getpriority(PRIO_PROCESS, 0)};
    CHECK(favours.policy >= 0);
    CHECK_EQ(sched_getaffinity(0, sizeof(favours.cpus), &favours.cpus), 0);
    if (syscall(SYS_get_mempolicy, &favours.memory, NULL, 0, NULL, 0) != 0) {
        favours.memory = 0; /* a kernel without NUMA, or a container that does not say */
    }
    return favours;
}

struct court {
    struct scene scene;
    struct favours granted[WORKERS_MOST]; /* plain: to the thread of each worker */
    struct favours of_the_high[WORKERS_MOST];
};

static intptr_t note_favours(void *arg)
{
    *(struct favours *)arg = favours_of_this_thread();
    return 0;
}

static void look_at_favours(struct scene *scene, unsigned worker)
{
    struct court *court = wf_container_of(scene, struct court, scene);
    const weft_task_options high = {.is_pinned = true, .priority = WEFT_PRIORITY_HIGH};
    weft_task *task = NULL;
    court->granted[worker] = favours_of_this_thread();
    CHECK_EQ(weft_pin(1), 0);
    CHECK_EQ(weft_spawn(&task, note_favours, &court->of_the_high[worker], &high), 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_pin(0), 0);
}

static void check_same(const struct favours *one, const struct favours *other)
{
    CHECK_EQ(one->policy, other->policy);
    CHECK_EQ(one->nice, other->nice);
    CHECK(CPU_EQUAL(&one->cpus, &other->cpus));
    CHECK_EQ(one->memory, other->memory);
}

/* S2.10: no class of real time, no place of its own, also for tasks that go before others. */
static void workers_are_threads_like_any_other(void)
{
    struct court court = {.scene = {.load = look_at_favours}};
    const struct favours ours = favours_of_this_thread();
    scene_open(&court.scene, WEFT_ORDER_FAIR, WORKERS_MOST);
    scene_play(&court.scene, &court.scene.loaded, WORKERS_MOST);
    CHECK_EQ(weft_runtime_close(court.scene.runtime, -1), 0);
    for (unsigned i = 0; i < WORKERS_MOST; i++) {
        check_same(&ours, &court.granted[i]);
        check_same(&ours, &court.of_the_high[i]);
    }
}

struct heir {
    weft_mutex mutex;
    wf_atomic_u32 is_held;
    wf_atomic_u32 open;
};

static intptr_t have_the_mutex(void *arg)
{
    struct heir *heir = arg;
    CHECK_EQ(weft_mutex_lock(&heir->mutex), 0);
    raise_by_one(&heir->is_held);
    wait_for(&heir->open, 1);
    return weft_mutex_unlock(&heir->mutex);
}

static intptr_t want_the_mutex(void *arg)
{
    struct heir *heir = arg;
    CHECK_EQ(weft_mutex_lock(&heir->mutex), 0);
    return weft_mutex_unlock(&heir->mutex);
}

static intptr_t wait_for_the_low(void *arg)
{
    (void)arg;
    struct heir heir = {.is_held = {0}};
    weft_task *low = NULL;
    weft_task *high = NULL;
    const weft_task_options lowly = {.priority = WEFT_PRIORITY_LOW};
    const weft_task_options highly = {.priority = WEFT_PRIORITY_HIGH};
    CHECK_EQ(weft_spawn(&low, have_the_mutex, &heir, &lowly), 0);
    wait_for(&heir.is_held, 1);
    CHECK_EQ(weft_spawn(&high, want_the_mutex, &heir, &highly), 0);
    wait_for_state(high, WEFT_BLOCKED);
    CHECK_EQ(info_of(high).wait, WEFT_WAIT_MUTEX);
    CHECK_EQ(info_of(low).priority, WEFT_PRIORITY_LOW);
    raise_by_one(&heir.open);
    CHECK_EQ(weft_await(high), 0);
    return weft_await(low);
}

/* S2.10 */
static void who_is_waited_for_inherits_no_priority(void)
{
    run_under(EVERYWHERE, wait_for_the_low);
}

static const struct tap_test tests[] = {
    TAP_TEST(any_worker_is_robbed_by_any_other),
    TAP_TEST(every_worker_draws_numbers_of_its_own),
    TAP_TEST(a_worker_looks_near_before_it_looks_far),
    TAP_TEST(a_share_of_the_global_queue_is_fetched_at_once),
    TAP_TEST(the_interval_follows_from_the_length_of_a_turn),
    TAP_TEST(the_interval_follows_what_tasks_do),
    TAP_TEST(a_busy_worker_looks_around_after_a_few_turns),
    TAP_TEST(a_busy_worker_sees_the_global_queue_after_a_millisecond),
    TAP_TEST(every_worker_and_every_runtime_has_its_own),
    TAP_TEST(nothing_interrupts_a_task_that_does_not_ask),
    TAP_TEST(workers_are_threads_like_any_other),
    TAP_TEST(who_is_waited_for_inherits_no_priority),
};
TAP_MAIN(tests)
