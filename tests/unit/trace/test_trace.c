/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a trace shows the recorded events, each complete and in order, at any time and for any
 *         reader; and nothing else.
 * Method: in one thread; a reader and a writer stopped after each of their instructions while the
 *         other runs (step.h); with real threads.  All words of an event hold its number, so that
 *         an event mixed from two is noticed.  tests/model/model_trace.c exhausts the orders of
 *         steps.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "marks.h"
#include "step.h"
#include "tap.h"
#include "trace/trace.h"

enum { SMALL = WF_TRACE_EVENTS_MIN, WORKER = 3 };

static struct wf_trace_ring *ring_of(uint32_t events, unsigned worker)
{
    struct wf_trace_ring *ring;
    CHECK_EQ(wf_trace_ring_new(&ring, events, worker), 0);
    return ring;
}

static void put(struct wf_trace_ring *ring, uint64_t number)
{
    wf_trace(ring, (enum wf_trace_event)(number % WF_TRACE_EVENT_COUNT), number, ~number);
}

static void check_complete(const struct wf_trace_record *record)
{
    CHECK_EQ(record->kind, record->task_id % WF_TRACE_EVENT_COUNT);
    CHECK_EQ(record->arg, ~record->task_id);
}

/* Complete, of this worker, without a gap, and the last one is `last`. */
static void check_events(const struct wf_trace_record *records, size_t count, uint64_t last)
{
    for (size_t i = 0; i < count; i++) {
        check_complete(&records[i]);
        CHECK_EQ(records[i].worker, WORKER);
        CHECK_EQ(records[i].task_id, last - (count - 1 - i));
        CHECK(i == 0 || records[i].time_ns >= records[i - 1].time_ns);
    }
}

/* ---- single thread ------------------------------------------------------------------------- */

static void trace_event_names_follow_a_tasks_life(void)
{
    static const char *const names[] = {"spawn",  "queue", "notify", "find",  "enter",   "wait",
                                        "commit", "wake",  "finish", "free",  "steal",   "park",
                                        "unpark", "yield", "cancel", "block", "unblock", "step"};
    CHECK_EQ(sizeof(names) / sizeof(names[0]), WF_TRACE_EVENT_COUNT);
    for (unsigned i = 0; i < WF_TRACE_EVENT_COUNT; i++) {
        CHECK_STR(wf_trace_event_name((enum wf_trace_event)i), names[i]);
    }
    CHECK_STR(wf_trace_event_name(WF_TRACE_EVENT_COUNT), "?");
    CHECK_EQ(WF_TRACE_SPAWN, 0);
    CHECK_EQ(WF_TRACE_STEP, WF_TRACE_EVENT_COUNT - 1);
}

static void trace_ring_refuses_invalid_sizes(void)
{
    static struct wf_trace_ring untouched;
    struct wf_trace_ring *ring = &untouched;
    const uint32_t sizes[] = {
        0, 1, SMALL / 2, SMALL - 1, SMALL + 1, WF_TRACE_EVENTS_MAX * 2, UINT32_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        CHECK_EQ(wf_trace_ring_new(&ring, sizes[i], 0), -EINVAL);
    }
    CHECK_EQ(wf_trace_ring_new(&ring, SMALL, WF_WORKERS_MAX), -EINVAL);
    CHECK_EQ(wf_trace_ring_new(&ring, SMALL, WF_TRACE_FOREIGN + 1u), -EINVAL);
    CHECK(ring == &untouched);
    const unsigned workers[] = {0, WF_WORKERS_MAX - 1, WF_TRACE_FOREIGN};
    for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        CHECK_EQ(wf_trace_ring_new(&ring, i == 0 ? WF_TRACE_EVENTS_MAX : SMALL, workers[i]), 0);
        wf_trace_ring_free(ring);
    }
    wf_trace_ring_free(NULL);
}

static void trace_record_holds_event_and_time(void)
{
    struct wf_trace_record record;
    struct wf_trace_ring *ring = ring_of(SMALL, WORKER);
    CHECK_EQ(wf_trace_read(ring, &record, 1), 0);
    int64_t before = wf_clock_now();
    wf_trace(ring, WF_TRACE_STEAL, UINT64_MAX, UINT64_MAX - 1);
    int64_t after = wf_clock_now();
    CHECK_EQ(wf_trace_read(ring, &record, 1), 1);
    CHECK(record.time_ns >= before);
    CHECK(record.time_ns <= after);
    CHECK(record.task_id == UINT64_MAX);
    CHECK(record.arg == UINT64_MAX - 1);
    CHECK_EQ(record.kind, WF_TRACE_STEAL);
    CHECK_EQ(record.worker, WORKER);
    wf_trace_ring_free(ring);
}

static void trace_ring_keeps_only_the_last_events(void)
{
    enum { SPACE = 2 * SMALL };
    struct wf_trace_record records[SPACE];
    for (uint32_t events = SMALL; events <= 2 * SMALL; events *= 2) {
        struct wf_trace_ring *ring = ring_of(events, WORKER);
        for (uint64_t number = 1; number < 5 * (uint64_t)events; number++) {
            put(ring, number);
            size_t count = wf_trace_read(ring, records, SPACE);
            CHECK_EQ(count, number < events ? number : events);
            check_events(records, count, number);
        }
        wf_trace_ring_free(ring);
    }
}

static void trace_read_with_small_buffer_returns_the_newest(void)
{
    struct wf_trace_record records[SMALL];
    struct wf_trace_ring *ring = ring_of(SMALL, WORKER);
    for (uint64_t number = 1; number <= SMALL + 5; number++) {
        put(ring, number);
    }
    for (size_t max = 0; max <= SMALL; max++) {
        CHECK_EQ(wf_trace_read(ring, records, max), max);
        check_events(records, max, SMALL + 5);
    }
    wf_trace_ring_free(ring);
}

static void trace_without_ring_records_nothing(void)
{
    wf_trace(NULL, WF_TRACE_SPAWN, 1, 2);
    wf_trace_shared(NULL, WF_TRACE_SPAWN, 1, 2);
}

static void trace_recording_allocates_nothing(void)
{
    struct wf_trace_record records[SMALL];
    struct wf_alloc_stats before;
    struct wf_alloc_stats after;
    struct wf_trace_ring *ring = ring_of(SMALL, WORKER);
    wf_alloc_stats(&before);
    for (uint64_t number = 1; number <= 3 * SMALL; number++) {
        put(ring, number);
        (void)wf_trace_read(ring, records, SMALL);
    }
    wf_alloc_stats(&after);
    CHECK_EQ(after.allocated, before.allocated);
    wf_trace_ring_free(ring);
}

/* ---- between any two instructions ------------------------------------------------------------ */

enum { READ_MAX = 2 }; /* number of events to read: few, so that the read has few instructions */

struct scene {
    struct wf_trace_ring *ring;
    struct wf_trace_record records[READ_MAX];
    size_t count;
    uint64_t written; /* by the interrupting function */
    uint64_t more;    /* events to write during the interruption */
};

static void read_scene(void *context)
{
    struct scene *scene = context;
    scene->count = wf_trace_read(scene->ring, scene->records, READ_MAX);
}

static void write_one(void *context)
{
    struct scene *scene = context;
    put(scene->ring, scene->written + 1);
}

static void write_more(void *context)
{
    struct scene *scene = context;
    for (uint64_t i = 0; i < scene->more; i++) {
        put(scene->ring, ++scene->written);
    }
}

static void fill(struct scene *scene, uint64_t count)
{
    *scene = (struct scene){.ring = ring_of(SMALL, WORKER)};
    while (scene->written < count) {
        put(scene->ring, ++scene->written);
    }
}

/* The last event that the reader returns is the newest one at the time of its read.  It omits only
 * events that the writer could have overwritten. */
static void trace_reader_overtaken_anywhere_returns_complete_events(void)
{
    step_require();
    bool is_interrupted = true;
    for (uint64_t at = 1; is_interrupted; at++) {
        for (uint64_t more = SMALL - READ_MAX; more <= SMALL + 1; more++) {
            struct scene scene;
            fill(&scene, SMALL + 3);
            scene.more = more;
            is_interrupted = step_interrupt(at, read_scene, write_more, &scene);
            if (scene.count > 0) {
                uint64_t last = scene.records[scene.count - 1].task_id;
                CHECK(last == SMALL + 3 || last == scene.written);
                check_events(scene.records, scene.count, last);
            }
            CHECK(scene.count + more >= SMALL);
            CHECK(scene.count == READ_MAX || more > SMALL - READ_MAX);
            CHECK(is_interrupted || at > 1);
            wf_trace_ring_free(scene.ring);
        }
    }
    check_reached("trace.overtaken");
}

static void trace_writer_stopped_anywhere_hides_no_earlier_event(void)
{
    step_require();
    bool is_interrupted = true;
    for (uint64_t at = 1; is_interrupted; at++) {
        struct scene scene;
        fill(&scene, 2 * SMALL + 1);
        is_interrupted = step_interrupt(at, write_one, read_scene, &scene);
        if (is_interrupted) {
            CHECK_EQ(scene.count, READ_MAX);
            uint64_t last = scene.records[READ_MAX - 1].task_id;
            CHECK(last == scene.written || last == scene.written + 1);
            check_events(scene.records, READ_MAX, last);
        }
        read_scene(&scene);
        CHECK_EQ(scene.count, READ_MAX);
        check_events(scene.records, READ_MAX, scene.written + 1);
        wf_trace_ring_free(scene.ring);
    }
}

/* ---- threads ------------------------------------------------------------------------------- */

enum { ROUNDS = 200000, READERS = 2 };

struct race {
    struct wf_trace_ring *ring;
    wf_atomic_u32 is_over;
    /* plain, set by the writer before each event; (trace.E1) makes it visible to readers */
    uint64_t *numbers;
};

static void *read_until_over(void *arg)
{
    struct race *race = arg;
    struct wf_trace_record records[SMALL];
    uint64_t last = 0;
    while (wf_load_relaxed(&race->is_over) == 0) {
        size_t count = wf_trace_read(race->ring, records, SMALL);
        if (count == 0) {
            (void)sched_yield();
            continue;
        }
        uint64_t newest = records[count - 1].task_id;
        CHECK(newest >= last);
        CHECK_EQ(race->numbers[newest], newest);
        check_events(records, count, newest);
        last = newest;
    }
    return NULL;
}

static void trace_readers_see_complete_events_while_owner_writes(void)
{
    struct race race = {.ring = ring_of(SMALL, WORKER)};
    race.numbers = calloc(ROUNDS + 1, sizeof(race.numbers[0]));
    CHECK(race.numbers != NULL);
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(wf_thread_start(&readers[i], read_until_over, &race, NULL), 0);
    }
    for (uint64_t number = 1; number <= ROUNDS; number++) {
        race.numbers[number] = number;
        put(race.ring, number);
    }
    wf_store_relaxed(&race.is_over, 1);
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(wf_thread_join(readers[i]), 0);
    }
    struct wf_trace_record records[SMALL];
    CHECK_EQ(wf_trace_read(race.ring, records, SMALL), SMALL);
    check_events(records, SMALL, ROUNDS);
    free(race.numbers);
    wf_trace_ring_free(race.ring);
}

enum { OUTSIDE_THREADS = 4, OUTSIDE_EVENTS = 4096 }; /* events of each */

struct outside {
    struct wf_trace_shared *shared;
    uint64_t thread;
};

static void *record_outside(void *arg)
{
    struct outside *outside = arg;
    for (uint64_t i = 0; i < OUTSIDE_EVENTS; i++) {
        wf_trace_shared(outside->shared, WF_TRACE_QUEUE, outside->thread, i);
    }
    return NULL;
}

static void trace_non_worker_threads_share_a_ring(void)
{
    enum { ALL = OUTSIDE_THREADS * OUTSIDE_EVENTS };
    static struct wf_trace_record records[ALL];
    struct wf_trace_shared shared;
    CHECK_EQ(wf_trace_shared_init(&shared, 1), -EINVAL);
    CHECK_EQ(wf_trace_shared_init(&shared, ALL), 0);
    pthread_t threads[OUTSIDE_THREADS];
    struct outside outside[OUTSIDE_THREADS];
    for (uint64_t i = 0; i < OUTSIDE_THREADS; i++) {
        outside[i] = (struct outside){&shared, i};
        CHECK_EQ(wf_thread_start(&threads[i], record_outside, &outside[i], NULL), 0);
    }
    for (int i = 0; i < OUTSIDE_THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    uint64_t next[OUTSIDE_THREADS] = {0};
    CHECK_EQ(wf_trace_read(shared.ring, records, ALL), ALL);
    for (size_t i = 0; i < ALL; i++) {
        CHECK_EQ(records[i].worker, WF_TRACE_FOREIGN);
        CHECK_EQ(records[i].kind, WF_TRACE_QUEUE);
        CHECK(records[i].task_id < OUTSIDE_THREADS);
        CHECK_EQ(records[i].arg, next[records[i].task_id]);
        next[records[i].task_id]++;
        CHECK(i == 0 || records[i].time_ns >= records[i - 1].time_ns);
    }
    wf_trace_shared_done(&shared);
}

static void trace_records_under_any_other_lock(void)
{
    struct wf_trace_record record;
    struct wf_trace_shared shared;
    struct wf_lock lock;
    CHECK_EQ(wf_trace_shared_init(&shared, SMALL), 0);
    wf_lock_init(&lock, (enum wf_lock_rank)62); /* the second highest rank that a lock can have */
    wf_lock_acquire(&lock);
    wf_trace_shared(&shared, WF_TRACE_WAKE, 1, 2);
    wf_lock_release(&lock);
    CHECK_EQ(wf_trace_read(shared.ring, &record, 1), 1);
    CHECK_EQ(record.kind, WF_TRACE_WAKE);
    wf_trace_shared_done(&shared);
}

/* ---- several rings --------------------------------------------------------------------------- */

/* Records an event and sets its time. */
static void put_at(struct wf_trace_ring *ring, uint64_t task_id, int64_t time_ns)
{
    const uint32_t slot = ring->next;
    wf_trace(ring, WF_TRACE_ENTER, task_id, 0);
    wf_store_relaxed(&ring->slots[slot].time_ns, time_ns);
}

enum { RINGS_MAX = 9 };

/* Some rings with some events, often several with the same time; returns the number of events. */
static size_t fill_rings(struct wf_trace_ring **rings, size_t count, struct wf_random *random)
{
    size_t held = 0;
    for (size_t i = 0; i < count; i++) {
        rings[i] = NULL;
        if (wf_random_below(random, 4) == 0) {
            continue; /* a worker without a ring */
        }
        rings[i] = ring_of(SMALL, (unsigned)i);
        int64_t now_ns = 0;
        size_t events = wf_random_below(random, 3 * SMALL);
        for (size_t j = 0; j < events; j++) {
            now_ns += wf_random_below(random, 3);
            put_at(rings[i], j, now_ns);
        }
        held += events < SMALL ? events : SMALL;
    }
    return held;
}

/* By time, then by ring; each ring keeps its own order. */
static void check_order(const struct wf_trace_record *records, size_t count)
{
    uint64_t next[RINGS_MAX] = {0}; /* by worker; 0: none seen */
    for (size_t i = 0; i < count; i++) {
        const int64_t before_ns = i == 0 ? 0 : records[i - 1].time_ns;
        CHECK(records[i].time_ns >= before_ns);
        CHECK(i == 0 || records[i].time_ns > before_ns ||
              records[i].worker >= records[i - 1].worker);
        uint64_t *mine = &next[records[i].worker];
        CHECK(*mine == 0 || records[i].task_id == *mine);
        *mine = records[i].task_id + 1;
    }
}

static void trace_merge_orders_events_of_rings_by_time(void)
{
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    for (size_t count = 1; count <= RINGS_MAX; count++) {
        struct wf_trace_ring *rings[RINGS_MAX];
        struct wf_trace_record *records = NULL;
        size_t held = fill_rings(rings, count, &random);
        size_t got = 0;
        CHECK_EQ(wf_trace_collect(rings, count, &records, &got), 0);
        CHECK_EQ(got, held);
        check_order(records, got);
        wf_free(records);
        for (size_t i = 0; i < count; i++) {
            wf_trace_ring_free(rings[i]);
        }
    }
}

static void trace_merge_of_no_ring_is_empty(void)
{
    struct wf_trace_ring *rings[2] = {NULL, NULL};
    for (size_t count = 0; count <= 2; count++) {
        struct wf_trace_record *records = NULL;
        size_t got = 7;
        CHECK_EQ(wf_trace_collect(rings, count, &records, &got), 0);
        CHECK_EQ(got, 0);
        wf_free(records);
    }
}

/* ---- text output --------------------------------------------------------------------------- */

static const struct wf_trace_record sample[] = {
    {1000, 7, 0, WF_TRACE_SPAWN, WF_TRACE_FOREIGN},
    {1000, 7, 1, WF_TRACE_ENTER, 0},
    {1250, 8, 0, WF_TRACE_FINISH, 1023},
    {3000001000, UINT64_MAX, UINT64_MAX, WF_TRACE_CANCEL, 12},
    {4000001000, 0, 9, WF_TRACE_EVENT_COUNT, 1},
};
static const char story_text[] =
    "           0 -     spawn        7 0\n"
    "           0 w0    enter        7 1\n"
    "         250 w1023 finish       8 0\n"
    "  3000000000 w12   cancel  18446744073709551615 18446744073709551615\n"
    "  4000000000 w1    ?            0 9\n";
enum { SAMPLES = sizeof(sample) / sizeof(sample[0]) };

/* Reads the pipe's content as a string. */
static void read_text(int fd, char *text, size_t size)
{
    ssize_t length = read(fd, text, size - 1);
    CHECK(length >= 0);
    text[length] = '\0';
}

static void trace_write_prints_one_line_per_event(void)
{
    int fds[2];
    char text[1024];
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(wf_trace_write(fds[1], sample, SAMPLES), 0);
    read_text(fds[0], text, sizeof(text));
    CHECK_STR(text, story_text);
    CHECK_EQ(wf_trace_write(-1, NULL, 0), 0); /* nothing to write */
}

static void trace_write_fits_the_longest_lines(void)
{
    const struct wf_trace_record records[] = {
        {INT64_MIN + 1, 0, 0, WF_TRACE_SPAWN, 0},
        {0, UINT64_MAX, UINT64_MAX, WF_TRACE_NOTIFY, WF_WORKERS_MAX - 1},
    };
    int fds[2];
    char text[1024];
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(wf_trace_write(fds[1], records, 2), 0);
    read_text(fds[0], text, sizeof(text));
    CHECK_STR(strchr(text, '\n') + 1, "9223372036854775807 w1023 notify  "
                                      "18446744073709551615 18446744073709551615\n");
}

static void trace_write_writes_long_traces_completely(void)
{
    enum { EVENTS = 5000 };
    struct wf_trace_record *records = calloc(EVENTS, sizeof(records[0]));
    CHECK(records != NULL);
    for (size_t i = 0; i < EVENTS; i++) {
        records[i] = (struct wf_trace_record){(int64_t)(i * i), i, i % 9 + 1, WF_TRACE_STEP, 2};
    }
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(wf_trace_write(fileno(file), records, EVENTS), 0);
    rewind(file);
    for (size_t i = 0; i < EVENTS; i++) {
        char line[128];
        char expected[128];
        CHECK(fgets(line, sizeof(line), file) != NULL);
        (void)snprintf(expected, sizeof(expected), "%12zu w2    step    %6zu %zu\n", i * i, i,
                       i % 9 + 1);
        CHECK_STR(line, expected);
    }
    CHECK_EQ(fgetc(file), EOF);
    (void)fclose(file);
    free(records);
}

static void trace_write_returns_the_kernels_error(void)
{
    int fds[2];
    CHECK_EQ(wf_trace_write(-1, sample, SAMPLES), -EBADF);
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(wf_trace_write(fds[0], sample, SAMPLES), -EBADF); /* opened for reading only */
}

#ifdef WF_TEST_HOOKS
static void trace_write_retries_interruptions_and_short_writes(void)
{
    const int expected[] = {-ENOSPC, 0, -EIO, 0};
    for (uint64_t nth = 1; nth <= 4; nth++) {
        int fds[2];
        char text[1024];
        CHECK_EQ(pipe(fds), 0);
        wf_fault_arm(nth);
        CHECK_EQ(wf_trace_write(fds[1], sample, SAMPLES), expected[nth - 1]);
        CHECK(wf_fault_hit(NULL));
        wf_fault_arm(0);
        CHECK_EQ(close(fds[1]), 0);
        read_text(fds[0], text, sizeof(text));
        CHECK_STR(text, expected[nth - 1] == 0 ? story_text : "");
        CHECK_EQ(close(fds[0]), 0);
    }
}

static void trace_merge_without_memory_leaves_nothing_behind(void)
{
    struct wf_trace_ring *ring = NULL;
    struct wf_trace_shared shared = {.ring = NULL};
    wf_fault_arm(1);
    CHECK_EQ(wf_trace_ring_new(&ring, SMALL, 0), -ENOMEM);
    CHECK(ring == NULL);
    wf_fault_arm(1);
    CHECK_EQ(wf_trace_shared_init(&shared, SMALL), -ENOMEM);
    CHECK(shared.ring == NULL);

    ring = ring_of(SMALL, WORKER);
    put(ring, 1);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        struct wf_trace_record *records = NULL;
        size_t count = 7;
        struct wf_alloc_stats before;
        struct wf_alloc_stats after;
        wf_alloc_stats(&before);
        wf_fault_arm(nth);
        CHECK_EQ(wf_trace_collect(&ring, 1, &records, &count), nth < 3 ? -ENOMEM : 0);
        CHECK_EQ(wf_fault_hit(NULL), nth < 3);
        CHECK_EQ(records != NULL, nth == 3);
        CHECK_EQ(count, nth == 3 ? 1 : 7);
        wf_free(records);
        wf_alloc_stats(&after);
        CHECK_EQ(after.allocated - before.allocated, after.freed - before.freed);
    }
    wf_trace_ring_free(ring);
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(trace_event_names_follow_a_tasks_life),
    TAP_TEST(trace_ring_refuses_invalid_sizes),
    TAP_TEST(trace_record_holds_event_and_time),
    TAP_TEST(trace_ring_keeps_only_the_last_events),
    TAP_TEST(trace_read_with_small_buffer_returns_the_newest),
    TAP_TEST(trace_without_ring_records_nothing),
    TAP_TEST(trace_recording_allocates_nothing),
    TAP_TEST(trace_reader_overtaken_anywhere_returns_complete_events),
    TAP_TEST(trace_writer_stopped_anywhere_hides_no_earlier_event),
    TAP_TEST(trace_readers_see_complete_events_while_owner_writes),
    TAP_TEST(trace_non_worker_threads_share_a_ring),
    TAP_TEST(trace_records_under_any_other_lock),
    TAP_TEST(trace_merge_orders_events_of_rings_by_time),
    TAP_TEST(trace_merge_of_no_ring_is_empty),
    TAP_TEST(trace_write_prints_one_line_per_event),
    TAP_TEST(trace_write_fits_the_longest_lines),
    TAP_TEST(trace_write_writes_long_traces_completely),
    TAP_TEST(trace_write_returns_the_kernels_error),
#ifdef WF_TEST_HOOKS
    TAP_TEST(trace_write_retries_interruptions_and_short_writes),
    TAP_TEST(trace_merge_without_memory_leaves_nothing_behind),
#endif
};
TAP_MAIN(tests)
