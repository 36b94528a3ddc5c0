/* SPDX-License-Identifier: MIT */
/*
 * Goal:   dial connects to the first of several addresses that answers, waits for no address longer
 *         than necessary, and leaves no attempt behind, whatever ends the call.
 * Method: addresses that refuse, never answer, and answer, in every order; delays of a millisecond
 *         and of an hour, so that immediate steps differ from delayed ones; each system call fails
 *         in turn; the descriptors are counted.
 */
#include <pthread.h>
#include <stdlib.h>

#include "dns_helpers.h"
#include "fault_helpers.h"
#include "net/net.h"
#include "net_helpers.h"

#define SOON_NS (1 * WEFT_MILLISECOND)
#define LATE_NS (3600 * WEFT_SECOND)

enum { GOOD, REFUSING, SILENT, KINDS };

/* One address of each kind. */
struct targets {
    int fds[KINDS];
    weft_address addresses[KINDS];
};

static struct targets targets_new(void)
{
    struct targets targets;
    targets.fds[GOOD] = listening("127.0.0.1:0");
    targets.addresses[GOOD] = local_of(targets.fds[GOOD]);
    targets.fds[REFUSING] = refusing(&targets.addresses[REFUSING]);
    targets.fds[SILENT] = silent(&targets.addresses[SILENT]);
    return targets;
}

static void targets_done(const struct targets *targets)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        CHECK_EQ(weft_close(targets->fds[kind]), 0);
    }
}

/* Dials addresses of these kinds; the descriptor must be connected to the good one. */
static int dial_kinds(const struct targets *targets, const char *kinds, int64_t delay_ns)
{
    weft_address list[64];
    size_t count = 0;
    for (const char *kind = kinds; *kind != '\0'; kind++) {
        list[count++] = targets->addresses[*kind == 'g' ? GOOD : *kind == 'r' ? REFUSING : SILENT];
    }
    return wf_dial_addresses(list, count, delay_ns);
}

/* An abandoned attempt may have connected earlier: such a connection is closed. */
static void check_dialled(const struct targets *targets, int near)
{
    CHECK(near >= 0);
    weft_address own = local_of(near);
    int far = -1;
    for (;;) { /* ends: the test's connection is in the queue */
        weft_address peer = {.size = sizeof(peer.as)};
        far = weft_accept(targets->fds[GOOD], &peer.as.any, &peer.size);
        CHECK(far >= 0);
        if (peer.as.ip4.sin_port == own.as.ip4.sin_port) {
            break;
        }
        CHECK_EQ(weft_close(far), 0);
    }
    check_connected(near, far);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(far), 0);
}

/* ---- how descriptors are counted ------------------------------------------------------------- */

static void *open_for_a_moment(void *arg)
{
    while (wf_load_relaxed((wf_atomic_u32 *)arg) == 0) { /* relaxed: only whether to go on */
        int fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0);
        CHECK_EQ(close(fd), 0);
    }
    return NULL;
}

/* The C library does so in any thread, at any time: also between two steps of the count. */
static void open_count_ignores_transient_descriptors(void)
{
    wf_atomic_u32 is_over = {0};
    pthread_t thread;
    const size_t before = open_count();
    CHECK_EQ(pthread_create(&thread, NULL, open_for_a_moment, &is_over), 0);
    for (unsigned i = 0; i < 2000; i++) {
        CHECK_EQ(open_count(), before);
    }
    wf_store_relaxed(&is_over, 1); /* relaxed: as above */
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* ---- which address wins
 * -------------------------------------------------------------------------------- */

static intptr_t dial_in_every_order(void *arg)
{
    static const struct {
        const char *kinds;
        int64_t delay_ns;
    } races[] = {
        {"g", LATE_NS},         {"rg", LATE_NS},    {"rrrg", LATE_NS}, {"gr", LATE_NS},
        {"gs", LATE_NS},        {"sg", SOON_NS},    {"sssg", SOON_NS}, {"srg", SOON_NS},
        {"rsg", SOON_NS},       {"srsrg", SOON_NS}, {"rgs", LATE_NS},  {"gg", LATE_NS},
        {"ssssssssg", SOON_NS},
    };
    (void)arg;
    struct targets targets = targets_new();
    check_dialled(&targets, dial_kinds(&targets, "g", LATE_NS)); /* allocates the poller */
    const size_t before = open_count();
    for (size_t i = 0; i < sizeof(races) / sizeof(races[0]); i++) {
        check_dialled(&targets, dial_kinds(&targets, races[i].kinds, races[i].delay_ns));
        CHECK_EQ(open_count(), before);
    }
    targets_done(&targets);
    return 0;
}

static void dial_connects_to_the_first_address_that_answers(void)
{
    run_under(EVERYWHERE, dial_in_every_order);
}

static void dial_works_in_a_thread(void)
{
    CHECK_EQ(dial_in_every_order(NULL), 0);
}

/* After a failure the next attempt starts without the delay, also beside a pending attempt. */
static intptr_t fail_beside_pending(void *arg)
{
    (void)arg;
    struct targets targets = targets_new();
    const int64_t delay_ns = 20 * WEFT_MILLISECOND;
    uint64_t fired = 0;
    do { /* a busy machine may report a failure after the delay: repeat */
        const weft_time begin = weft_now();
        const uint64_t before = stats_of(weft_runtime_self()).timers_fired;
        check_dialled(&targets, dial_kinds(&targets, "srrrrrrrrrrrrrrrrrrrrrrrrrrrrrrg", delay_ns));
        CHECK(weft_now() - begin >= delay_ns); /* the silent attempt had its delay */
        fired = stats_of(weft_runtime_self()).timers_fired - before;
    } while (fired > 1); /* the failed attempts had no delay: 31 timers otherwise, in every run */
    targets_done(&targets);
    return 0;
}

static void dial_tries_the_next_address_at_once_after_a_failure(void)
{
    run_under(ON_ONE_WORKER, fail_beside_pending);
}

/* At most 32 addresses are tried, and the first error is returned. */
static intptr_t all_fail(void *arg)
{
    (void)arg;
    struct targets targets = targets_new();
    CHECK_EQ(dial_kinds(&targets, "r", SOON_NS), -ECONNREFUSED);
    CHECK_EQ(dial_kinds(&targets, "rrrr", LATE_NS), -ECONNREFUSED);
    CHECK_EQ(dial_kinds(&targets, "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrg", LATE_NS), -ECONNREFUSED);
    weft_address list[2] = {targets.addresses[REFUSING], targets.addresses[REFUSING]};
    list[0].as.any.sa_family = AF_UNSPEC; /* no socket has this family */
    CHECK_EQ(wf_dial_addresses(list, 2, LATE_NS), -EAFNOSUPPORT);
    CHECK_EQ(wf_dial_addresses(list, 0, LATE_NS), -EINVAL);
    targets_done(&targets);
    return 0;
}

static void dial_returns_the_first_error_if_all_fail(void)
{
    run_under(ON_ONE_WORKER, all_fail);
}

/* ---- cancel and deadline --------------------------------------------------------------------- */

static intptr_t dial_silent(void *arg)
{
    return dial_kinds(arg, "ss", LATE_NS);
}

static intptr_t interrupt_dials(void *arg)
{
    (void)arg;
    struct targets targets = targets_new();
    check_dialled(&targets, dial_kinds(&targets, "g", LATE_NS));
    const size_t before = open_count();
    weft_task *task = go(dial_silent, &targets);
    wait_until_blocked(task, WEFT_WAIT_READABLE); /* its sockets */
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(open_count(), before);
    weft_time old = weft_deadline_set(weft_time_after(5 * WEFT_MILLISECOND));
    CHECK_EQ(dial_kinds(&targets, "ssss", SOON_NS), -ETIMEDOUT);
    CHECK_EQ(dial_kinds(&targets, "sg", LATE_NS), -ETIMEDOUT);
    CHECK_EQ(weft_net_dial(text_of(&targets.addresses[SILENT]).text), -ETIMEDOUT);
    (void)weft_deadline_set(old);
    CHECK_EQ(open_count(), before);
    targets_done(&targets);
    return 0;
}

/* part of behaviour 32 */
static void dial_cancel_and_deadline_end_all_attempts(void)
{
    run_under(EVERYWHERE, interrupt_dials);
}

/* The delay is independent of the task's deadline: it also expires behind a shield. */
static intptr_t dial_shielded(void *arg)
{
    (void)arg;
    struct targets targets = targets_new();
    CHECK_EQ(weft_shield_begin(), 0);
    check_dialled(&targets, dial_kinds(&targets, "sg", SOON_NS));
    CHECK_EQ(weft_shield_end(), 0);
    targets_done(&targets);
    return 0;
}

static void dial_races_addresses_behind_a_shield(void)
{
    run_under(ON_ONE_WORKER, dial_shielded);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static intptr_t dial_texts(void *arg)
{
    (void)arg;
    static const char *const bad[] = {
        "",
        ":",
        "localhost",
        "localhost:",
        "a:b:c",
        "[::1]",
        "[name]:80",
        "unix:",
        "unix:@",
        "127.0.0.1",
        "127.0.0.1:",
        "::1",
        ":http",
        "localhost:65536",
        "127.0.0.1:65536",
        "localhost: 80",
        "localhost:-1",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tap_doing("\"%s\"", bad[i]);
        CHECK_EQ(weft_net_dial(bad[i]), -EINVAL);
    }
    char text[400];
    memset(text, 'a', sizeof(text));
    memcpy(text + 256, ":80", sizeof(":80"));
    CHECK_EQ(weft_net_dial(text), -ENAMETOOLONG);
    memset(text, 'a', sizeof(text));
    text[1] = ':';
    text[66] = '\0';
    CHECK_EQ(weft_net_dial(text), -ENAMETOOLONG);
    CHECK_EQ(weft_net_dial("unix:@weft-no-listener"), -ECONNREFUSED);
    return 0;
}

static void dial_refuses_bad_texts(void)
{
    run_under(ON_ONE_WORKER, dial_texts);
}

/* These names need no server: they are in a file, or are numbers. */
static intptr_t dial_names(void *arg)
{
    (void)arg;
    static const char *const hosts[] = {"127.0.0.1", "", "localhost"};
    int listener = listening("127.0.0.1:0");
    weft_address address = local_of(listener);
    for (size_t i = 0; i < 3; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s:%u", hosts[i], ntohs(address.as.ip4.sin_port));
        int near = weft_net_dial(text);
        CHECK(near >= 0);
        int far = weft_accept(listener, NULL, NULL);
        CHECK(far >= 0);
        check_connected(near, far);
        CHECK_EQ(weft_close(near), 0);
        CHECK_EQ(weft_close(far), 0);
    }
    CHECK_EQ(weft_close(listener), 0);
    return 0;
}

static void dial_accepts_names_of_this_machine(void)
{
    run_under(EVERYWHERE, dial_names);
}

/* The server listens on one of the two families, whichever is preferred. */
static intptr_t dial_a_name(void *arg)
{
    (void)arg;
    static const weft_net_listen_options only = {.is_v6only = true};
    struct dns dns = {.asked = {0}};
    weft_task *server = dns_start(&dns);
    for (unsigned is_ip6 = 0; is_ip6 < (has_ip6() ? 2u : 1u); is_ip6++) {
        int listener = weft_net_listen(is_ip6 ? "[::1]:0" : "127.0.0.1:0", &only);
        CHECK(listener >= 0);
        char text[64];
        (void)snprintf(text, sizeof(text), "both.test:%u",
                       /* at the same offset in both families */
                       ntohs(local_of(listener).as.ip4.sin_port));
        int near = weft_net_dial(text);
        CHECK(near >= 0);
        int far = weft_accept(listener, NULL, NULL);
        CHECK(far >= 0);
        check_connected(near, far);
        CHECK_EQ(fcntl(near, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        CHECK_EQ(fcntl(near, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        CHECK_EQ(weft_close(near), 0);
        CHECK_EQ(weft_close(far), 0);
        CHECK_EQ(weft_close(listener), 0);
        CHECK_EQ(weft_net_dial(text), -ECONNREFUSED);
    }
    CHECK_EQ(weft_net_dial("none.test:80"), -ENOENT);
    dns_stop(&dns, server);
    return 0;
}

/* part of behaviour 59: the server is a task on the same worker */
static void dial_of_a_name_tries_all_its_addresses(void)
{
    dns_enter();
    run_under(EVERYWHERE, dial_a_name);
}

static weft_poll_result dial_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    (void)cx;
    (void)state;
    *result = weft_net_dial("127.0.0.1:1") == -EAGAIN ? 0 : -EIO;
    return WEFT_POLL_READY;
}

static intptr_t spawn_poll(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, dial_in_poll, NULL, 0, NULL), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void dial_in_a_poll_task_is_refused(void)
{
    run_under(ON_ONE_WORKER, spawn_poll);
}

/* ---- order of families ----------------------------------------------------------------------- */

/* Ports distinguish the addresses: 4 and 6 are families, letters are addresses. */
static void check_interleaved(const char *before, const char *after)
{
    weft_address list[16];
    const size_t count = strlen(before) / 2;
    memset(list, 0, sizeof(list));
    for (size_t i = 0; i < count; i++) {
        list[i].as.any.sa_family = before[2 * i] == '4' ? AF_INET : AF_INET6;
        list[i].size = (socklen_t)before[2 * i + 1];
    }
    wf_interleave(list, count);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(list[i].as.any.sa_family, after[2 * i] == '4' ? AF_INET : AF_INET6);
        CHECK_EQ(list[i].size, after[2 * i + 1]);
    }
}

static void dial_interleaves_address_families(void)
{
    check_interleaved("", "");
    check_interleaved("4a", "4a");
    check_interleaved("4a4b", "4a4b");
    check_interleaved("4a6b", "4a6b");
    check_interleaved("6a6b4c", "6a4c6b");
    check_interleaved("6a6b6c4d4e", "6a4d6b4e6c");
    check_interleaved("4a6b6c6d", "4a6b6c6d");
    check_interleaved("4a4b4c6d", "4a6d4b4c");
    check_interleaved("6a6b4c4d4e4f", "6a4c6b4d4e4f");
}

/* ---- injected failures ----------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS

struct attempt {
    const char *kinds; /* NULL: by its text */
    unsigned refused_min;
    struct faults faults;
};

static intptr_t dial_with_fault(void *arg)
{
    struct attempt *attempt = arg;
    struct faults *faults = &attempt->faults;
    struct targets targets = targets_new();
    struct text text = text_of(&targets.addresses[GOOD]);
    check_dialled(&targets, dial_kinds(&targets, "g", LATE_NS)); /* allocates the poller */
    const size_t before = open_count();
    faults_begin(faults);
    int fd = attempt->kinds == NULL ? weft_net_dial(text.text)
                                    : dial_kinds(&targets, attempt->kinds, SOON_NS);
    faults_end(faults);
    if (fd < 0) {
        faults->refused++;
        CHECK(faults->what != NULL);
    } else {
        check_dialled(&targets, fd);
    }
    CHECK_EQ(open_count(), before);
    targets_done(&targets);
    return 0;
}

static void dial_failure_leaves_nothing_open(void)
{
    faults_prepare();
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        /* With a second good address, a failure of the first does not fail the dial. */
        struct attempt attempts[] = {{.kinds = "g", .refused_min = 3},
                                     {.kinds = NULL, .refused_min = 2},
                                     {.kinds = "rgg", .refused_min = 1},
                                     {.kinds = "sgg", .refused_min = 1}};
        for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
            while (faults_next(&attempts[i].faults)) {
                CHECK_EQ(weft_run(dial_with_fault, &attempts[i], &tour.options), 0);
            }
            CHECK(attempts[i].faults.refused >= attempts[i].refused_min);
        }
    }
}

/* A thread, which has no poller, at the first use of any descriptor: the only allocation is the
 * page of the fd table. */
static void dial_without_memory_closes_the_connection(void)
{
    weft_address address;
    memset(&address, 0, sizeof(address));
    int listener = listen_here(&address.as.ip4);
    address.size = sizeof(address.as.ip4);
    struct text text = text_of(&address);
    const size_t before = open_count();
    wf_fault_arm(2); /* after the socket */
    CHECK_EQ(weft_net_dial(text.text), -ENOMEM);
    wf_fault_arm(0);
    CHECK_EQ(open_count(), before);
    CHECK_EQ(close(listener), 0);
}

/* The first system call of a race: without it no address is tried. */
static void dial_fails_without_an_epoll(void)
{
    struct targets targets = targets_new();
    const size_t before = open_count();
    wf_fault_arm(1);
    CHECK_EQ(dial_kinds(&targets, "gg", LATE_NS), -EMFILE);
    CHECK_EQ(wf_fault_calls(), 1);
    wf_fault_arm(0);
    CHECK_EQ(open_count(), before);
    targets_done(&targets);
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(open_count_ignores_transient_descriptors),
    TAP_TEST(dial_connects_to_the_first_address_that_answers),
    TAP_TEST(dial_works_in_a_thread),
    TAP_TEST(dial_tries_the_next_address_at_once_after_a_failure),
    TAP_TEST(dial_returns_the_first_error_if_all_fail),
    TAP_TEST(dial_cancel_and_deadline_end_all_attempts),
    TAP_TEST(dial_races_addresses_behind_a_shield),
    TAP_TEST(dial_refuses_bad_texts),
    TAP_TEST(dial_accepts_names_of_this_machine),
    TAP_TEST(dial_of_a_name_tries_all_its_addresses),
    TAP_TEST(dial_in_a_poll_task_is_refused),
    TAP_TEST(dial_interleaves_address_families),
#ifdef WF_TEST_HOOKS
    TAP_TEST(dial_failure_leaves_nothing_open),
    TAP_TEST(dial_without_memory_closes_the_connection),
    TAP_TEST(dial_fails_without_an_epoll),
#endif
};
TAP_MAIN(tests)
