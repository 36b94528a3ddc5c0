/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/os/park.c never loses a wake and never makes one up, in every order of steps under
 *         every memory model.
 * Method: a sleeper waits for plain data that wakers write before they unpark: a lost wake is a
 *         deadlock, a missing edge a race.  Keeps S4.26; behaviour 12.
 */
#include <errno.h>

#include "model/model.h"
#include "os/os.h"

static struct wf_parker parker;
static WF_ATOMIC(int) rounds; /* how many wakers have spoken */
static int data[2];
static int result;

static void start(void)
{
    wf_parker_init(&parker);
    wf_store_relaxed(&rounds, 0);
    data[0] = data[1] = 0;
    result = 1;
}

static void sleep_once(void)
{
    MODEL_REQUIRE(wf_parker_park(&parker, WF_FOREVER) == 0);
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1);
}

static void wake_once(void)
{
    wf_plain_store(&data[0], 1);
    wf_parker_unpark(&parker);
}

/* Two wakers may come as one wake, so the sleeper goes by what they count. */
static void sleep_until_two(void)
{
    while (wf_load_acquire(&rounds) < 2) {
        MODEL_REQUIRE(wf_parker_park(&parker, WF_FOREVER) == 0);
    }
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1 && wf_plain_load(&data[1]) == 1);
}

static void wake_of(int index)
{
    wf_plain_store(&data[index], 1);
    (void)wf_fetch_add_release(&rounds, 1);
    wf_parker_unpark(&parker);
}

static void wake_first(void)
{
    wake_of(0);
}

static void wake_second(void)
{
    wake_of(1);
}

/* A wake that comes with the deadline is either reported or kept for the next park. */
static void sleep_with_deadline(void)
{
    result = wf_parker_park(&parker, 1);
    if (result == -ETIMEDOUT) {
        result = wf_parker_park(&parker, WF_FOREVER);
    }
    MODEL_REQUIRE(result == 0);
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1);
}

/* ---- in a berth ------------------------------------------------------------------------------ */

/* As an eventfd: counts calls, and the wait ends by any that it has not seen. */
static struct calls {
    struct wf_berth berth;
    wf_atomic_u32 count;
    uint32_t seen;
} calls;

static void wait_for_call(struct wf_berth *berth, int64_t deadline_ns)
{
    (void)berth;
    uint32_t count = wf_load_acquire(&calls.count);
    while (count == calls.seen && wf_futex_wait(&calls.count, count, deadline_ns) != -ETIMEDOUT) {
        count = wf_load_acquire(&calls.count);
    }
    calls.seen = count;
}

static void call(struct wf_berth *berth)
{
    (void)berth;
    (void)wf_fetch_add_release(&calls.count, 1);
    (void)wf_futex_wake(&calls.count, 1);
}

static void start_with_berth(void)
{
    start();
    calls = (struct calls){.berth = {wait_for_call, call}};
}

static void wake_wherever(void)
{
    wf_plain_store(&data[0], 1);
    if (wf_parker_unpark(&parker)) {
        call(&calls.berth);
    }
}

static void wake_second_wherever(void)
{
    wf_plain_store(&data[1], 1);
    (void)wf_fetch_add_release(&rounds, 1);
    if (wf_parker_unpark(&parker)) {
        call(&calls.berth);
    }
}

static void wake_first_wherever(void)
{
    wf_plain_store(&data[0], 1);
    (void)wf_fetch_add_release(&rounds, 1);
    if (wf_parker_unpark(&parker)) {
        call(&calls.berth);
    }
}

/* Back without a wake it goes again; a wake is not made up. */
static void sleep_in_berth(void)
{
    while (wf_parker_park_in(&parker, &calls.berth, WF_FOREVER) != 0) {
    }
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1);
}

/* News of its own ends the sleep at the same time: the wake is reported or kept. */
static void sleep_in_berth_with_deadline(void)
{
    int rc = wf_parker_park_in(&parker, &calls.berth, 1);
    MODEL_REQUIRE(rc == 0 || rc == -ETIMEDOUT);
    if (rc == -ETIMEDOUT) {
        MODEL_REQUIRE(wf_parker_park(&parker, WF_FOREVER) == 0);
    }
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1);
}

static void sleep_in_berth_until_two(void)
{
    while (wf_load_acquire(&rounds) < 2) {
        (void)wf_parker_park_in(&parker, &calls.berth, WF_FOREVER);
    }
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1 && wf_plain_load(&data[1]) == 1);
}

static void check_empty(void)
{
    MODEL_REQUIRE(wf_load_relaxed(&parker.word) == 0);
}

static const struct model_test tests[] = {
    {.name = "one wake",
     .setup = start,
     .threads = {sleep_once, wake_once},
     .names = {"sleeper", "waker"},
     .check = check_empty},
    {.name = "one wake, spurious returns",
     .setup = start,
     .threads = {sleep_once, wake_once},
     .names = {"sleeper", "waker"},
     .check = check_empty,
     .spurious_wakes = 2},
    {.name = "a wake at the deadline",
     .setup = start,
     .threads = {sleep_with_deadline, wake_once},
     .names = {"sleeper", "waker"},
     .check = check_empty},
    {.name = "two wakers",
     .setup = start,
     .threads = {sleep_until_two, wake_first, wake_second},
     .names = {"sleeper", "waker 1", "waker 2"},
     .spurious_wakes = 1},
    {.name = "one wake, in a berth",
     .setup = start_with_berth,
     .threads = {sleep_in_berth, wake_wherever},
     .names = {"sleeper", "waker"},
     .check = check_empty,
     .spurious_wakes = 1},
    {.name = "a wake at the deadline, in a berth",
     .setup = start_with_berth,
     .threads = {sleep_in_berth_with_deadline, wake_wherever},
     .names = {"sleeper", "waker"},
     .check = check_empty},
    {.name = "two wakers, in a berth",
     .setup = start_with_berth,
     .threads = {sleep_in_berth_until_two, wake_first_wherever, wake_second_wherever},
     .names = {"sleeper", "waker 1", "waker 2"},
     .spurious_wakes = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"park", tests, MODEL_COUNT(tests), NULL, 0, NULL};
    return model_main(argc, argv, &suite);
}
