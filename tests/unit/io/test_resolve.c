/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a name is looked up without keeping a worker; who asked may leave at any time, and what
 *         was asked for is freed by whoever is last.
 * Method: a name server that is a task on the same worker, and answers when the test lets it; a
 *         pool with one thread, which is busy; crowds of lookups of names that stand in a file;
 *         blocks of memory are counted before and after.
 */
#include <pthread.h>

#include "dns_aids.h"
#include "fault_aids.h"

static void check_loopback(const weft_address *address, unsigned port)
{
    struct text text = text_of(address);
    char expected[2][32];
    (void)snprintf(expected[0], sizeof(expected[0]), "127.0.0.1:%u", port);
    (void)snprintf(expected[1], sizeof(expected[1]), "[::1]:%u", port);
    CHECK(strcmp(text.text, expected[0]) == 0 || strcmp(text.text, expected[1]) == 0);
}

/* ---- without a server ------------------------------------------------------------------------ */

static void check_number(const char *host, const char *service, const char *expected)
{
    weft_addrs *addrs = NULL;
    CHECK_EQ(weft_resolve(host, service, &addrs), 0);
    CHECK_EQ(addrs->count, 1);
    CHECK_STR(text_of(&addrs->list[0]).text, expected);
    weft_addrs_free(addrs);
}

static intptr_t resolve_numbers(void *arg)
{
    (void)arg;
    check_number("127.0.0.1", "80", "127.0.0.1:80");
    check_number("10.1.2.3", NULL, "10.1.2.3:0");
    check_number("::1", "65535", "[::1]:65535");
    check_number("fe80::1", NULL, "[fe80::1]:0");
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, 0);
    return 0;
}

static void numbers_need_no_thread(void)
{
    run_under(ON_ONE_WORKER, resolve_numbers);
}

static intptr_t resolve_nonsense(void *arg)
{
    (void)arg;
    static const char *const services[] = {"65536", "99999999999999999999", "-1", "+1", " 80", ""};
    weft_addrs *const untouched = (weft_addrs *)(void *)&arg;
    weft_addrs *addrs = untouched;
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        CHECK_EQ(weft_resolve("localhost", services[i], &addrs), -EINVAL);
        CHECK_EQ(weft_resolve("127.0.0.1", services[i], &addrs), -EINVAL);
    }
    CHECK_EQ(weft_resolve("127.0.0.1", "080", &addrs), -EINVAL); /* one way to write a number */
    CHECK_EQ(weft_resolve("127.1", "80", &addrs), -EINVAL);
    CHECK_EQ(weft_resolve("0x7f.1", "80", &addrs), -EINVAL);
    CHECK_EQ(weft_resolve("2130706433", "80", &addrs), -EINVAL);
    CHECK_EQ(weft_resolve(NULL, "80", &addrs), -EINVAL);
    CHECK_EQ(weft_resolve("", "80", &addrs), -EINVAL);
    CHECK_EQ(weft_resolve("localhost", "80", NULL), -EINVAL);
    CHECK_EQ(weft_resolve("localhost", "weft-no-such-service", &addrs), -ENOENT);
    CHECK(addrs == untouched);
    weft_addrs_free(NULL);
    return 0;
}

static void what_is_no_service_is_refused(void)
{
    run_under(ON_ONE_WORKER, resolve_nonsense);
}

static intptr_t resolve_localhost(void *arg)
{
    weft_addrs *addrs;
    (void)arg;
    int rc = weft_resolve("localhost", "8080", &addrs);
    if (rc != 0) {
        return rc;
    }
    CHECK(addrs->count >= 1);
    for (size_t i = 0; i < addrs->count; i++) {
        check_loopback(&addrs->list[i], 8080);
    }
    weft_addrs_free(addrs);
    return 0;
}

enum { CROWD = 40 };

static intptr_t resolve_in_a_crowd(void *arg)
{
    (void)arg;
    weft_task *tasks[CROWD];
    for (unsigned i = 0; i < CROWD; i++) {
        tasks[i] = go(resolve_localhost, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, CROWD, NULL), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, CROWD);
    return 0;
}

static void many_look_up_at_once(void)
{
    run_under(EVERYWHERE, resolve_in_a_crowd);
}

static void *resolve_in_thread(void *arg)
{
    CHECK_EQ(resolve_localhost(arg), 0);
    return NULL;
}

static void a_thread_looks_up_by_itself(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, resolve_in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static weft_poll resolve_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    weft_addrs *addrs;
    (void)cx;
    (void)state;
    *result = weft_resolve("localhost", NULL, &addrs) == -EAGAIN ? 0 : -EIO;
    return WEFT_READY;
}

static intptr_t spawn_poll(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, resolve_in_poll, NULL, 0, NULL), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void a_poll_task_cannot_wait_here(void)
{
    run_under(ON_ONE_WORKER, spawn_poll);
}

/* ---- without a thread ------------------------------------------------------------------------ */

struct gate {
    wf_atomic_u32 inside;
    wf_atomic_u32 open;
};

static intptr_t pass_gate(void *arg)
{
    struct gate *gate = arg;
    raise_by_one(&gate->inside);
    hold_for(&gate->open, 1);
    return 0;
}

static intptr_t call_gate(void *arg)
{
    return weft_blocking(pass_gate, arg);
}

static intptr_t resolve_for_a_moment(void *arg)
{
    weft_addrs *addrs;
    (void)arg;
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_resolve("localhost", NULL, &addrs), -ETIMEDOUT);
    return 0;
}

/* Other tasks go on, and so do those who do not want to wait; the rest have their answer later. */
static intptr_t wait_for_a_thread(void *arg)
{
    struct gate gate = {{0}, {0}};
    (void)arg;
    weft_task *blocker = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    weft_task *patient = go(resolve_localhost, NULL);
    weft_task *cancelled = go(resolve_localhost, NULL);
    wait_until_blocked(cancelled, WEFT_WAIT_RECEIVE);
    CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    CHECK_EQ(weft_await(go(resolve_for_a_moment, NULL)), 0);
    CHECK_EQ(weft_cancel(cancelled), 0);
    CHECK_EQ(weft_await(cancelled), -ECANCELED);
    wait_until_blocked(patient, WEFT_WAIT_RECEIVE); /* until there is a thread for it */
    raise_by_one(&gate.open);
    CHECK_EQ(weft_await(patient), 0);
    CHECK_EQ(weft_await(blocker), 0);
    return 0;
}

/* part of behaviour 59 */
static void a_lookup_that_waits_for_a_thread_keeps_no_worker(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(wait_for_a_thread, NULL, &tour.options), 0);
    }
}

/* ---- with a server --------------------------------------------------------------------------- */

static intptr_t resolve_slowly(void *arg)
{
    weft_addrs *addrs;
    (void)arg;
    int rc = weft_resolve("slow.test", "80", &addrs);
    if (rc != 0) {
        return rc;
    }
    CHECK_EQ(addrs->count, 1);
    check_loopback(&addrs->list[0], 80);
    weft_addrs_free(addrs);
    return 0;
}

/* The server would never hear the question if the lookup kept the worker. */
static intptr_t ask_a_slow_server(void *arg)
{
    struct dns dns = {.asked = {0}};
    (void)arg;
    weft_task *server = dns_start(&dns);
    weft_task *task = go(resolve_slowly, NULL);
    wait_for(&dns.asked, 1);
    for (unsigned i = 0; i < 100; i++) {
        CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    }
    wait_until_blocked(task, WEFT_WAIT_RECEIVE); /* until it is released */
    raise_by_one(&dns.release);
    CHECK_EQ(weft_await(task), 0);
    dns_stop(&dns, server);
    return 0;
}

/* behaviour 59 */
static void a_slow_lookup_keeps_no_worker(void)
{
    dns_enter();
    run_under(EVERYWHERE, ask_a_slow_server);
}

static intptr_t resolve_slowly_for_a_moment(void *arg)
{
    weft_addrs *addrs;
    (void)arg;
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_resolve("slow.test", "80", &addrs), -ETIMEDOUT);
    return 0;
}

/* The server has the question and gives no answer until both have left. */
static intptr_t leave_a_slow_server(void *arg)
{
    struct dns dns = {.asked = {0}};
    (void)arg;
    weft_task *server = dns_start(&dns);
    weft_task *task = go(resolve_slowly, NULL);
    wait_for(&dns.asked, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_await(go(resolve_slowly_for_a_moment, NULL)), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, 0); /* they are still at it */
    raise_by_one(&dns.release);
    while (stats_of(weft_runtime_self()).blocking_done < 2) {
        let_others_run();
    }
    dns_stop(&dns, server);
    return 0;
}

static void who_is_cancelled_leaves_a_lookup_at_once(void)
{
    dns_enter();
    faults_prepare();
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0); /* the table of descriptors stays */
    const uint64_t before = blocks_out();
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        CHECK_EQ(weft_run(leave_a_slow_server, NULL, &tour.options), 0);
        CHECK_EQ(blocks_out(), before);
    }
}

static intptr_t ask_for_all(void *arg)
{
    struct dns dns = {.asked = {0}};
    weft_addrs *addrs = NULL;
    (void)arg;
    weft_task *server = dns_start(&dns);
    CHECK_EQ(weft_resolve("both.test", "8080", &addrs), 0);
    CHECK_EQ(addrs->count, 2);
    CHECK(addrs->list[0].as.any.sa_family != addrs->list[1].as.any.sa_family);
    check_loopback(&addrs->list[0], 8080);
    check_loopback(&addrs->list[1], 8080);
    weft_addrs_free(addrs);
    CHECK_EQ(weft_resolve("none.test", NULL, &addrs), -ENOENT);
    CHECK_EQ(weft_resolve("broken.test", NULL, &addrs), -EREMOTEIO);
    dns_stop(&dns, server);
    return 0;
}

static void the_answer_of_the_server_is_given(void)
{
    dns_enter();
    run_under(ON_ONE_WORKER, ask_for_all);
}

/* ---- faults ---------------------------------------------------------------------------------- */

#ifdef WF_TEST_AIDS

static intptr_t resolve_with_fault(void *arg)
{
    struct faults *faults = arg;
    weft_addrs *addrs = NULL;
    weft_addrs *numbers = NULL;
    faults_begin(faults);
    int rc = weft_resolve("127.0.0.1", "80", &numbers);
    int again = weft_resolve("localhost", "80", &addrs);
    faults_end(faults);
    CHECK((rc == 0) == (numbers != NULL));
    CHECK((again == 0) == (addrs != NULL));
    faults_refused(faults, (rc != 0 ? 1u : 0u) + (again != 0 ? 1u : 0u));
    weft_addrs_free(numbers);
    weft_addrs_free(addrs);
    return 0;
}

static void a_lookup_that_fails_says_so(void)
{
    fail_each(resolve_with_fault, 4); /* the list, the lookup, its task, the answer */
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(numbers_need_no_thread),
    TAP_TEST(what_is_no_service_is_refused),
    TAP_TEST(many_look_up_at_once),
    TAP_TEST(a_thread_looks_up_by_itself),
    TAP_TEST(a_poll_task_cannot_wait_here),
    TAP_TEST(a_lookup_that_waits_for_a_thread_keeps_no_worker),
    TAP_TEST(a_slow_lookup_keeps_no_worker),
    TAP_TEST(who_is_cancelled_leaves_a_lookup_at_once),
    TAP_TEST(the_answer_of_the_server_is_given),
#ifdef WF_TEST_AIDS
    TAP_TEST(a_lookup_that_fails_says_so),
#endif
};
TAP_MAIN(tests)
