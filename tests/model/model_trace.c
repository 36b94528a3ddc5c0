/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/trace/ring.c returns no event mixed from two, in every order of steps under every
 *         memory model, and returns every event that is not being overwritten.
 * Method: a writer overtakes one or two readers in rings of one and two events.  All words of an
 *         event hold its number: words of different events are noticed, and so is a gap between
 *         two.
 */
#include "model/model.h"
#include "trace/trace.h"

enum { EVENTS_MAX = 2 };

static struct wf_trace_ring *ring;
static struct wf_trace_shared shared;
static uint64_t written; /* events before the threads, and all events at the end */

/* The time of the event that is being written: a number, so that it is checked like the rest. */
static int64_t now_ns;

int64_t wf_clock_now(void)
{
    return now_ns;
}

/* Numbers begin with 1: a slot never written holds 0. */
static void put(uint64_t number)
{
    now_ns = (int64_t)number;
    wf_trace(ring, (enum wf_trace_event)number, number, number);
}

static void start(uint32_t events, uint64_t count)
{
    MODEL_REQUIRE(wf_trace_ring_new(&ring, events, 7) == 0);
    for (written = 0; written < count; written++) {
        put(written + 1);
    }
}

static void start_one(void)
{
    start(1, 1);
}

static void start_one_empty(void)
{
    start(1, 0);
}

static void start_two(void)
{
    start(2, 2);
}

/* Returns the number of the last event. */
static uint64_t check_records(const struct wf_trace_record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t number = records[i].task_id;
        MODEL_REQUIRE(number >= 1);
        MODEL_REQUIRE(number == (uint64_t)records[i].time_ns);
        MODEL_REQUIRE(number == records[i].arg);
        MODEL_REQUIRE(number == records[i].kind);
        MODEL_REQUIRE(records[i].worker == 7);
        MODEL_REQUIRE(i == 0 || number == records[i - 1].task_id + 1);
    }
    return count == 0 ? 0 : records[count - 1].task_id;
}

static uint64_t read_whole(void)
{
    struct wf_trace_record records[EVENTS_MAX];
    return check_records(records, wf_trace_read(ring, records, EVENTS_MAX));
}

/* A ring that is not being written returns all events that it holds. */
static void check_all(void)
{
    struct wf_trace_record records[EVENTS_MAX];
    size_t count = wf_trace_read(ring, records, EVENTS_MAX);
    MODEL_REQUIRE(count == ring->events);
    MODEL_REQUIRE(check_records(records, count) == written);
    wf_trace_ring_free(ring);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void write_one(void)
{
    put(++written);
}

static void write_two(void)
{
    put(++written);
    put(++written);
}

static void write_three(void)
{
    write_two();
    put(++written);
}

static void read_once(void)
{
    (void)read_whole();
}

/* A later read never returns older events. */
static void read_twice(void)
{
    uint64_t first = read_whole();
    uint64_t second = read_whole();
    MODEL_REQUIRE(second == 0 || second >= first);
}

/* ---- the shared ring ------------------------------------------------------------------------ */

static void start_shared(void)
{
    MODEL_REQUIRE(wf_trace_shared_init(&shared, EVENTS_MAX) == 0);
}

static void put_shared(uint64_t number)
{
    wf_trace_shared(&shared, (enum wf_trace_event)number, number, number);
}

static void write_shared_1(void)
{
    put_shared(1);
}

static void write_shared_2(void)
{
    put_shared(2);
}

static size_t read_shared(struct wf_trace_record *records)
{
    size_t count = wf_trace_read(shared.ring, records, EVENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = records[i].task_id;
        MODEL_REQUIRE(number == 1 || number == 2);
        MODEL_REQUIRE(number == records[i].arg);
        MODEL_REQUIRE(number == records[i].kind);
        MODEL_REQUIRE(records[i].worker == WF_TRACE_FOREIGN);
    }
    MODEL_REQUIRE(count < 2 || records[0].task_id != records[1].task_id);
    return count;
}

static void read_shared_once(void)
{
    struct wf_trace_record records[EVENTS_MAX];
    (void)read_shared(records);
}

static void check_shared(void)
{
    struct wf_trace_record records[EVENTS_MAX];
    MODEL_REQUIRE(read_shared(records) == 2); /* neither was overwritten by the other */
    wf_trace_shared_done(&shared);
}

static const struct model_test tests[] = {
    {.name = "write of the first event races a read",
     .setup = start_one_empty,
     .threads = {write_one, read_once},
     .names = {"writer", "reader"},
     .check = check_all},
    {.name = "reader overtaken once",
     .setup = start_one,
     .threads = {write_two, read_once},
     .names = {"writer", "reader"},
     .check = check_all},
    {.name = "reader overtaken in a ring of two",
     .setup = start_two,
     .threads = {write_two, read_once},
     .names = {"writer", "reader"},
     .check = check_all},
    {.name = "reader overtaken by a whole wrap",
     .setup = start_one,
     .threads = {write_three, read_once},
     .names = {"writer", "reader"},
     .check = check_all,
     .is_slow = 1},
    {.name = "two reads of one reader",
     .setup = start_one,
     .threads = {write_two, read_twice},
     .names = {"writer", "reader"},
     .check = check_all,
     .is_slow = 1},
    {.name = "two readers",
     .setup = start_one,
     .threads = {write_two, read_once, read_once},
     .names = {"writer", "reader 1", "reader 2"},
     .check = check_all,
     .is_slow = 1},
    {.name = "two non-worker threads write",
     .setup = start_shared,
     .threads = {write_shared_1, write_shared_2},
     .names = {"thread 1", "thread 2"},
     .check = check_shared},
    {.name = "two non-worker threads write, one reads",
     .setup = start_shared,
     .threads = {write_shared_1, write_shared_2, read_shared_once},
     .names = {"thread 1", "thread 2", "reader"},
     .check = check_shared,
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"trace", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/trace/ring.c"};
    return model_main(argc, argv, &suite);
}
