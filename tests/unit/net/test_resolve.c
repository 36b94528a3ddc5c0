/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a name is looked up without blocking a worker; the caller may abandon a lookup at any
 *         time, and the last user frees its memory.
 * Method: a name server that is a task on the same worker, and answers when the test allows it; a
 *         pool with one thread, which is busy; many lookups of names that are in a file; memory
 *         blocks are counted before and after.
 */
#include <pthread.h>

#include "dns_helpers.h"
#include "fault_helpers.h"

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
    weft_address_list *addrs = NULL;
    CHECK_EQ(weft_net_resolve(&addrs, host, service), 0);
    CHECK_EQ(addrs->count, 1);
    CHECK_STR(text_of(&addrs->list[0]).text, expected);
    weft_address_list_free(addrs);
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

static void resolve_of_numbers_needs_no_thread(void)
{
    run_under(ON_ONE_WORKER, resolve_numbers);
}

static intptr_t resolve_bad_services(void *arg)
{
    (void)arg;
    static const char *const services[] = {"65536", "99999999999999999999", "-1", "+1", " 80", ""};
    weft_address_list *const untouched = (weft_address_list *)(void *)&arg;
    weft_address_list *addrs = untouched;
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        CHECK_EQ(weft_net_resolve(&addrs, "localhost", services[i]), -EINVAL);
        CHECK_EQ(weft_net_resolve(&addrs, "127.0.0.1", services[i]), -EINVAL);
    }
    CHECK_EQ(weft_net_resolve(&addrs, "127.0.0.1", "080"), -EINVAL); /* a number has one spelling */
    CHECK_EQ(weft_net_resolve(&addrs, "127.1", "80"), -EINVAL);
    CHECK_EQ(weft_net_resolve(&addrs, "0x7f.1", "80"), -EINVAL);
    CHECK_EQ(weft_net_resolve(&addrs, "2130706433", "80"), -EINVAL);
    CHECK_EQ(weft_net_resolve(&addrs, "", "80"), -EINVAL);
    CHECK_EQ(weft_net_resolve(&addrs, "localhost", "weft-no-such-service"), -ENOENT);
    CHECK(addrs == untouched);
    weft_address_list_free(NULL);
    return 0;
}

static void resolve_refuses_bad_services(void)
{
    run_under(ON_ONE_WORKER, resolve_bad_services);
}

static intptr_t resolve_localhost(void *arg)
{
    weft_address_list *addrs;
    (void)arg;
    int rc = weft_net_resolve(&addrs, "localhost", "8080");
    if (rc != 0) {
        return rc;
    }
    CHECK(addrs->count >= 1);
    for (size_t i = 0; i < addrs->count; i++) {
        check_loopback(&addrs->list[i], 8080);
    }
    weft_address_list_free(addrs);
    return 0;
}

enum { MANY_TASKS = 40 };

static intptr_t resolve_in_many_tasks(void *arg)
{
    (void)arg;
    weft_task *tasks[MANY_TASKS];
    for (unsigned i = 0; i < MANY_TASKS; i++) {
        tasks[i] = go(resolve_localhost, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, MANY_TASKS);
    return 0;
}

static void resolve_many_at_once(void)
{
    run_under(EVERYWHERE, resolve_in_many_tasks);
}

static void *resolve_in_thread(void *arg)
{
    CHECK_EQ(resolve_localhost(arg), 0);
    return NULL;
}

static void resolve_in_a_thread_runs_inline(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, resolve_in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static weft_poll_result resolve_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    weft_address_list *addrs;
    (void)cx;
    (void)state;
    *result = weft_net_resolve(&addrs, "localhost", NULL) == -EAGAIN ? 0 : -EIO;
    return WEFT_POLL_READY;
}

static intptr_t spawn_poll(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, resolve_in_poll, NULL, 0, NULL), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void resolve_in_a_poll_task_is_refused(void)
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
    return weft_blocking_call(pass_gate, arg);
}

static intptr_t resolve_for_a_moment(void *arg)
{
    weft_address_list *addrs;
    (void)arg;
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_net_resolve(&addrs, "localhost", NULL), -ETIMEDOUT);
    return 0;
}

/* Other tasks continue, and so do tasks whose deadline passes; the others get their answer
 * later. */
static intptr_t wait_for_a_thread(void *arg)
{
    struct gate gate = {{0}, {0}};
    (void)arg;
    weft_task *blocker = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    weft_task *waiting = go(resolve_localhost, NULL);
    weft_task *cancelled = go(resolve_localhost, NULL);
    wait_until_blocked(cancelled, WEFT_WAIT_WAKER);
    CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    CHECK_EQ(weft_await(go(resolve_for_a_moment, NULL)), 0);
    CHECK_EQ(weft_cancel(cancelled), 0);
    CHECK_EQ(weft_await(cancelled), -ECANCELED);
    wait_until_blocked(waiting, WEFT_WAIT_WAKER); /* until a thread is free */
    raise_by_one(&gate.open);
    CHECK_EQ(weft_await(waiting), 0);
    CHECK_EQ(weft_await(blocker), 0);
    return 0;
}

/* part of behaviour 59 */
static void resolve_waiting_for_a_thread_blocks_no_worker(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(wait_for_a_thread, NULL, &tour.options), 0);
    }
}

/* ---- with a server --------------------------------------------------------------------------- */

static intptr_t resolve_slow(void *arg)
{
    weft_address_list *addrs;
    (void)arg;
    int rc = weft_net_resolve(&addrs, "slow.test", "80");
    if (rc != 0) {
        return rc;
    }
    CHECK_EQ(addrs->count, 1);
    check_loopback(&addrs->list[0], 80);
    weft_address_list_free(addrs);
    return 0;
}

/* The server would never receive the question if the lookup blocked the worker. */
static intptr_t ask_a_slow_server(void *arg)
{
    struct dns dns = {.asked = {0}};
    (void)arg;
    weft_task *server = dns_start(&dns);
    weft_task *task = go(resolve_slow, NULL);
    wait_for(&dns.asked, 1);
    for (unsigned i = 0; i < 100; i++) {
        CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    }
    wait_until_blocked(task, WEFT_WAIT_WAKER); /* until it is released */
    raise_by_one(&dns.release);
    CHECK_EQ(weft_await(task), 0);
    dns_stop(&dns, server);
    return 0;
}

/* behaviour 59 */
static void resolve_of_a_slow_name_blocks_no_worker(void)
{
    dns_enter();
    run_under(EVERYWHERE, ask_a_slow_server);
}

static intptr_t resolve_slowly_for_a_moment(void *arg)
{
    weft_address_list *addrs;
    (void)weft_deadline_set(weft_time_after(*(const int64_t *)arg));
    CHECK_EQ(weft_net_resolve(&addrs, "slow.test", "80"), -ETIMEDOUT);
    return 0;
}

/* Lookups that occupy a thread of the pool. */
static unsigned lookup_count(void)
{
    const weft_runtime_stats stats = stats_of(weft_runtime_self());
    return (unsigned)(stats.blocking_threads - stats.blocking_idle);
}

/* The server has the question and does not answer before both tasks have left. */
static intptr_t leave_a_slow_server(void *arg)
{
    struct dns dns = {.asked = {0}};
    (void)arg;
    weft_task *server = dns_start(&dns);
    weft_task *task = go(resolve_slow, NULL);
    wait_for(&dns.asked, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    /* until the second lookup begins before the deadline of its task */
    for (int64_t ns = WEFT_MILLISECOND; lookup_count() < 2; ns *= 2) {
        CHECK_EQ(weft_await(go(resolve_slowly_for_a_moment, &ns)), 0);
    }
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, 0); /* the lookups still run */
    raise_by_one(&dns.release);
    while (stats_of(weft_runtime_self()).blocking_done < 2) {
        let_others_run();
    }
    dns_stop(&dns, server);
    return 0;
}

static void resolve_cancelled_returns_at_once(void)
{
    dns_enter();
    faults_prepare();
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    const uint64_t before = blocks_out();
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        CHECK_EQ(weft_run(leave_a_slow_server, NULL, &tour.options), 0);
        CHECK_EQ(blocks_out(), before);
    }
}

static intptr_t ask_for_all(void *arg)
{
    struct dns dns = {.asked = {0}};
    weft_address_list *addrs = NULL;
    (void)arg;
    weft_task *server = dns_start(&dns);
    CHECK_EQ(weft_net_resolve(&addrs, "both.test", "8080"), 0);
    CHECK_EQ(addrs->count, 2);
    CHECK(addrs->list[0].as.any.sa_family != addrs->list[1].as.any.sa_family);
    check_loopback(&addrs->list[0], 8080);
    check_loopback(&addrs->list[1], 8080);
    weft_address_list_free(addrs);
    CHECK_EQ(weft_net_resolve(&addrs, "none.test", NULL), -ENOENT);
    CHECK_EQ(weft_net_resolve(&addrs, "broken.test", NULL), -EREMOTEIO);
    dns_stop(&dns, server);
    return 0;
}

static void resolve_returns_the_servers_answer(void)
{
    dns_enter();
    run_under(ON_ONE_WORKER, ask_for_all);
}

/* ---- injected failures ----------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS

static intptr_t resolve_with_fault(void *arg)
{
    struct faults *faults = arg;
    weft_address_list *addrs = NULL;
    weft_address_list *numbers = NULL;
    faults_begin(faults);
    int rc = weft_net_resolve(&numbers, "127.0.0.1", "80");
    int again = weft_net_resolve(&addrs, "localhost", "80");
    faults_end(faults);
    CHECK((rc == 0) == (numbers != NULL));
    CHECK((again == 0) == (addrs != NULL));
    faults_refused(faults, (rc != 0 ? 1u : 0u) + (again != 0 ? 1u : 0u));
    weft_address_list_free(numbers);
    weft_address_list_free(addrs);
    return 0;
}

static void resolve_reports_every_injected_failure(void)
{
    fail_each(resolve_with_fault, 4); /* the list, the lookup, its job, the answer */
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(resolve_of_numbers_needs_no_thread),
    TAP_TEST(resolve_refuses_bad_services),
    TAP_TEST(resolve_many_at_once),
    TAP_TEST(resolve_in_a_thread_runs_inline),
    TAP_TEST(resolve_in_a_poll_task_is_refused),
    TAP_TEST(resolve_waiting_for_a_thread_blocks_no_worker),
    TAP_TEST(resolve_of_a_slow_name_blocks_no_worker),
    TAP_TEST(resolve_cancelled_returns_at_once),
    TAP_TEST(resolve_returns_the_servers_answer),
#ifdef WF_TEST_HOOKS
    TAP_TEST(resolve_reports_every_injected_failure),
#endif
};
TAP_MAIN(tests)
