/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a wake is never lost and never made up, whenever it comes.
 * Method: before, during and after the park, with real threads; at the deadline, between any two
 *         instructions.  The orders of steps are exhausted in tests/model/model_park.c.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "os/os.h"
#include "step.h"
#include "tap.h"

enum { ROUNDS = 20000, MS = 1000000 };

/* behaviour 12 */
static void a_wake_that_comes_first_is_kept(void)
{
    struct wf_parker parker;
    wf_parker_init(&parker);
    wf_parker_unpark(&parker);
    CHECK_EQ(wf_parker_park(&parker, WF_FOREVER), 0);
}

static void wakes_do_not_add_up(void)
{
    struct wf_parker parker = {0};
    wf_parker_unpark(&parker);
    wf_parker_unpark(&parker);
    CHECK_EQ(wf_parker_park(&parker, WF_FOREVER), 0);
    CHECK_EQ(wf_parker_park(&parker, 0), -ETIMEDOUT);
}

static void without_a_wake_the_deadline_ends_it_and_not_before(void)
{
    struct wf_parker parker = {0};
    int64_t deadline_ns = wf_clock_now() + 20 * MS;
    CHECK_EQ(wf_parker_park(&parker, deadline_ns), -ETIMEDOUT);
    CHECK(wf_clock_now() >= deadline_ns);
    wf_parker_unpark(&parker); /* the parker is as new */
    CHECK_EQ(wf_parker_park(&parker, WF_FOREVER), 0);
}

/* ---- two threads ---------------------------------------------------------------------------- */

struct pair {
    struct wf_parker parkers[2];
    uint64_t turns; /* plain: each turn is carried over by a wake */
};

static void *answer(void *arg)
{
    struct pair *pair = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        CHECK_EQ(wf_parker_park(&pair->parkers[1], WF_FOREVER), 0);
        CHECK_EQ(pair->turns, 2 * i + 1);
        pair->turns++;
        wf_parker_unpark(&pair->parkers[0]);
    }
    return NULL;
}

/* behaviour 12; S4.26: no wake is lost, and what was written before it is seen. */
static void two_threads_wake_each_other_in_turns(void)
{
    struct pair pair;
    memset(&pair, 0, sizeof(pair));
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, answer, &pair, NULL), 0);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        pair.turns++;
        wf_parker_unpark(&pair.parkers[1]);
        CHECK_EQ(wf_parker_park(&pair.parkers[0], WF_FOREVER), 0);
        CHECK_EQ(pair.turns, 2 * i + 2);
    }
    CHECK_EQ(wf_thread_join(thread), 0);
}

/* ---- at the deadline ------------------------------------------------------------------------ */

struct scene {
    struct wf_parker parker;
    int result;
};

static void park_in_the_past(void *context)
{
    struct scene *scene = context;
    scene->result = wf_parker_park(&scene->parker, 0);
}

static void unpark(void *context)
{
    struct scene *scene = context;
    wf_parker_unpark(&scene->parker);
}

static void a_wake_at_the_deadline_is_reported_or_kept(void)
{
    step_require();
    bool is_inside = true;
    int reported = 0;
    for (uint64_t at = 1; is_inside; at++) {
        struct scene scene = {.result = 1};
        is_inside = step_interrupt(at, park_in_the_past, unpark, &scene);
        if (!is_inside) {
            break;
        }
        CHECK(scene.result == 0 || scene.result == -ETIMEDOUT);
        reported += scene.result == 0;
        CHECK_EQ(wf_parker_park(&scene.parker, 0), scene.result == 0 ? -ETIMEDOUT : 0);
    }
    CHECK(reported > 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_wake_that_comes_first_is_kept),
    TAP_TEST(wakes_do_not_add_up),
    TAP_TEST(without_a_wake_the_deadline_ends_it_and_not_before),
    TAP_TEST(two_threads_wake_each_other_in_turns),
    TAP_TEST(a_wake_at_the_deadline_is_reported_or_kept),
};
TAP_MAIN(tests)
