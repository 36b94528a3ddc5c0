/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/os/park.c never loses an unpark and never returns without one, in every order of
 *         steps under every memory model.
 * Method: a sleeper waits for plain data that wakers write before they unpark: a lost unpark is a
 *         deadlock, a missing edge a race.  Keeps S4.26; behaviour 12.
 */
#include <errno.h>

#include "model/model.h"
#include "os/os.h"

static struct wf_parker parker;
static WF_ATOMIC(int) rounds; /* number of wakers that have unparked */
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

/* Two unparks may count as one, so the sleeper uses the wakers' counter. */
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

/* An unpark at the deadline is either reported or kept for the next park. */
static void sleep_with_deadline(void)
{
    result = wf_parker_park(&parker, 1);
    if (result == -ETIMEDOUT) {
        result = wf_parker_park(&parker, WF_FOREVER);
    }
    MODEL_REQUIRE(result == 0);
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1);
}

/* ---- parking in the driver ------------------------------------------------------------------- */

/* As an eventfd: counts wake-ups, and the wait ends at any that it has not seen. */
static struct wakeups {
    wf_atomic_u32 count;
    uint32_t seen;
} wakeups;

static void driver_wait(int64_t deadline_ns)
{
    uint32_t count = wf_load_acquire(&wakeups.count);
    while (count == wakeups.seen &&
           wf_futex_wait(&wakeups.count, count, deadline_ns) != -ETIMEDOUT) {
        count = wf_load_acquire(&wakeups.count);
    }
    wakeups.seen = count;
}

static void wake_driver(void)
{
    (void)wf_fetch_add_release(&wakeups.count, 1);
    (void)wf_futex_wake(&wakeups.count, 1);
}

/* As wf_driver_park. */
static int park_away(int64_t deadline_ns)
{
    if (!wf_parker_begin_away(&parker)) {
        return 0;
    }
    driver_wait(deadline_ns);
    return wf_parker_end_away(&parker);
}

static void start_with_driver(void)
{
    start();
    wakeups = (struct wakeups){.seen = 0};
}

static void wake_anywhere(void)
{
    wf_plain_store(&data[0], 1);
    if (wf_parker_unpark(&parker)) {
        wake_driver();
    }
}

static void wake_second_anywhere(void)
{
    wf_plain_store(&data[1], 1);
    (void)wf_fetch_add_release(&rounds, 1);
    if (wf_parker_unpark(&parker)) {
        wake_driver();
    }
}

static void wake_first_anywhere(void)
{
    wf_plain_store(&data[0], 1);
    (void)wf_fetch_add_release(&rounds, 1);
    if (wf_parker_unpark(&parker)) {
        wake_driver();
    }
}

/* Returned without an unpark it parks again; it never reports an unpark that did not happen. */
static void sleep_in_driver(void)
{
    while (park_away(WF_FOREVER) != 0) {
    }
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1);
}

/* An event ends the park at the same time: the unpark is reported or kept. */
static void sleep_in_driver_with_deadline(void)
{
    int rc = park_away(1);
    MODEL_REQUIRE(rc == 0 || rc == -ETIMEDOUT);
    if (rc == -ETIMEDOUT) {
        MODEL_REQUIRE(wf_parker_park(&parker, WF_FOREVER) == 0);
    }
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1);
}

static void sleep_in_driver_until_two(void)
{
    while (wf_load_acquire(&rounds) < 2) {
        (void)park_away(WF_FOREVER);
    }
    MODEL_REQUIRE(wf_plain_load(&data[0]) == 1 && wf_plain_load(&data[1]) == 1);
}

static void check_empty(void)
{
    MODEL_REQUIRE(wf_load_relaxed(&parker.word) == 0);
}

static const struct model_test tests[] = {
    {.name = "unpark races park",
     .setup = start,
     .threads = {sleep_once, wake_once},
     .names = {"sleeper", "waker"},
     .check = check_empty},
    {.name = "unpark races park with spurious returns",
     .setup = start,
     .threads = {sleep_once, wake_once},
     .names = {"sleeper", "waker"},
     .check = check_empty,
     .spurious_wakes = 2},
    {.name = "unpark at the deadline",
     .setup = start,
     .threads = {sleep_with_deadline, wake_once},
     .names = {"sleeper", "waker"},
     .check = check_empty},
    {.name = "two unparks race park",
     .setup = start,
     .threads = {sleep_until_two, wake_first, wake_second},
     .names = {"sleeper", "waker 1", "waker 2"},
     .spurious_wakes = 1},
    {.name = "unpark races park in the driver",
     .setup = start_with_driver,
     .threads = {sleep_in_driver, wake_anywhere},
     .names = {"sleeper", "waker"},
     .check = check_empty,
     .spurious_wakes = 1},
    {.name = "unpark at the deadline of a park in the driver",
     .setup = start_with_driver,
     .threads = {sleep_in_driver_with_deadline, wake_anywhere},
     .names = {"sleeper", "waker"},
     .check = check_empty},
    {.name = "two unparks race park in the driver",
     .setup = start_with_driver,
     .threads = {sleep_in_driver_until_two, wake_first_anywhere, wake_second_anywhere},
     .names = {"sleeper", "waker 1", "waker 2"},
     .spurious_wakes = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"park", tests, MODEL_COUNT(tests), NULL, 0, NULL};
    return model_main(argc, argv, &suite);
}
