/* SPDX-License-Identifier: MIT */
/*
 * Goal:   an unpark is never lost and a park never returns without one, whenever the unpark comes.
 * Method: before, during and after the park, with real threads; at the deadline, between any two
 *         instructions.  tests/model/model_park.c exhausts the orders of steps.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "os/os.h"
#include "step.h"
#include "tap.h"

enum { ROUNDS = 20000, MS = 1000000 };

/* behaviour 12 */
static void park_returns_at_once_after_an_earlier_unpark(void)
{
    struct wf_parker parker;
    wf_parker_init(&parker);
    wf_parker_unpark(&parker);
    CHECK_EQ(wf_parker_park(&parker, WF_FOREVER), 0);
}

static void park_consumes_any_number_of_unparks(void)
{
    struct wf_parker parker = {0};
    wf_parker_unpark(&parker);
    wf_parker_unpark(&parker);
    CHECK_EQ(wf_parker_park(&parker, WF_FOREVER), 0);
    CHECK_EQ(wf_parker_park(&parker, 0), -ETIMEDOUT);
}

static void park_ends_at_its_deadline_not_before(void)
{
    struct wf_parker parker = {0};
    int64_t deadline_ns = wf_clock_now() + 20 * MS;
    CHECK_EQ(wf_parker_park(&parker, deadline_ns), -ETIMEDOUT);
    CHECK(wf_clock_now() >= deadline_ns);
    wf_parker_unpark(&parker); /* the parker is as good as new */
    CHECK_EQ(wf_parker_park(&parker, WF_FOREVER), 0);
}

/* ---- two threads ---------------------------------------------------------------------------- */

struct pair {
    struct wf_parker parkers[2];
    uint64_t handoffs; /* plain: each unpark publishes it to the other thread */
};

static void *answer(void *arg)
{
    struct pair *pair = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        CHECK_EQ(wf_parker_park(&pair->parkers[1], WF_FOREVER), 0);
        CHECK_EQ(pair->handoffs, 2 * i + 1);
        pair->handoffs++;
        wf_parker_unpark(&pair->parkers[0]);
    }
    return NULL;
}

/* behaviour 12; S4.26: no wake-up is lost, and the woken thread sees the writes before it. */
static void park_two_threads_wake_each_other_alternately(void)
{
    struct pair pair;
    memset(&pair, 0, sizeof(pair));
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, answer, &pair, NULL), 0);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        pair.handoffs++;
        wf_parker_unpark(&pair.parkers[1]);
        CHECK_EQ(wf_parker_park(&pair.parkers[0], WF_FOREVER), 0);
        CHECK_EQ(pair.handoffs, 2 * i + 2);
    }
    CHECK_EQ(wf_thread_join(thread), 0);
}

/* ---- at the deadline ------------------------------------------------------------------------ */

struct scene {
    struct wf_parker parker;
    int result;
};

static void park_with_past_deadline(void *context)
{
    struct scene *scene = context;
    scene->result = wf_parker_park(&scene->parker, 0);
}

static void unpark(void *context)
{
    struct scene *scene = context;
    wf_parker_unpark(&scene->parker);
}

static void park_unpark_at_the_deadline_is_reported_or_kept(void)
{
    step_require();
    bool is_interrupted = true;
    int reported = 0;
    for (uint64_t at = 1; is_interrupted; at++) {
        struct scene scene = {.result = 1};
        is_interrupted = step_interrupt(at, park_with_past_deadline, unpark, &scene);
        if (!is_interrupted) {
            break;
        }
        CHECK(scene.result == 0 || scene.result == -ETIMEDOUT);
        reported += scene.result == 0;
        CHECK_EQ(wf_parker_park(&scene.parker, 0), scene.result == 0 ? -ETIMEDOUT : 0);
    }
    CHECK(reported > 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(park_returns_at_once_after_an_earlier_unpark),
    TAP_TEST(park_consumes_any_number_of_unparks),
    TAP_TEST(park_ends_at_its_deadline_not_before),
    TAP_TEST(park_two_threads_wake_each_other_alternately),
    TAP_TEST(park_unpark_at_the_deadline_is_reported_or_kept),
};
TAP_MAIN(tests)
