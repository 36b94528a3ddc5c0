/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/os/park.c never loses a wake and never makes one up, in every order of steps under
 *         every memory model.
 * Method: a sleeper waits for plain data that wakers write before they unpark: a lost wake is a
 *         deadlock, a missing edge a race.  Keeps S4.26; part of behaviour 12.
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
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"park", tests, MODEL_COUNT(tests), NULL, 0, NULL};
    return model_main(argc, argv, &suite);
}
