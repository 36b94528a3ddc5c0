/* SPDX-License-Identifier: MIT */
/*
 * Goal:   of several addresses the first that answers is connected to, none is waited for longer
 *         than it must, and no attempt is left behind, whatever ends the call.
 * Method: addresses that refuse, that never answer and that do, in every order; delays of a
 *         millisecond and of an hour, so that what goes on at once is told from what waits; each
 *         system call fails in turn; the descriptors are counted.
 */
#include <stdlib.h>

#include "dns_aids.h"
#include "fault_aids.h"
#include "io/io.h"
#include "net_aids.h"

#define SOON_NS (1 * WEFT_MILLISECOND)
#define LATE_NS (3600 * WEFT_SECOND)

enum { GOOD, REFUSING, SILENT, KINDS };

/* One address of each kind. */
struct places {
    int fds[KINDS];
    weft_address addresses[KINDS];
};

static struct places places_new(void)
{
    struct places places;
    places.fds[GOOD] = listening("127.0.0.1:0");
    places.addresses[GOOD] = local_of(places.fds[GOOD]);
    places.fds[REFUSING] = refusing(&places.addresses[REFUSING]);
    places.fds[SILENT] = silent(&places.addresses[SILENT]);
    return places;
}

static void places_done(const struct places *places)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        CHECK_EQ(weft_close(places->fds[kind]), 0);
    }
}

/* Dials addresses of these kinds; the descriptor has to be connected to the good one. */
static int dial_kinds(const struct places *places, const char *kinds, int64_t delay_ns)
{
    weft_address list[64];
    size_t count = 0;
    for (const char *kind = kinds; *kind != '\0'; kind++) {
        list[count++] = places->addresses[*kind == 'g' ? GOOD : *kind == 'r' ? REFUSING : SILENT];
    }
    return wf_dial_addresses(list, count, delay_ns);
}

/* An attempt that was given up may have come through before: it is closed, and not the one. */
static void check_dialled(const struct places *places, int near)
{
    CHECK(near >= 0);
    weft_address own = local_of(near);
    int far = -1;
    for (;;) { /* ends: ours is among them */
        weft_address peer = {.size = sizeof(peer.as)};
        far = weft_accept(places->fds[GOOD], &peer.as.any, &peer.size);
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

/* ---- who wins -------------------------------------------------------------------------------- */

static intptr_t race_them(void *arg)
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
    struct places places = places_new();
    check_dialled(&places, dial_kinds(&places, "g", LATE_NS)); /* the poller is there from now on */
    const size_t before = open_count();
    for (size_t i = 0; i < sizeof(races) / sizeof(races[0]); i++) {
        check_dialled(&places, dial_kinds(&places, races[i].kinds, races[i].delay_ns));
        CHECK_EQ(open_count(), before);
    }
    places_done(&places);
    return 0;
}

static void the_first_that_answers_is_taken(void)
{
    run_under(EVERYWHERE, race_them);
}

static void a_thread_dials_the_same_way(void)
{
    CHECK_EQ(race_them(NULL), 0);
}

/* A failure does not wait for the delay, also beside an attempt that goes on. */
static intptr_t fail_beside(void *arg)
{
    (void)arg;
    struct places places = places_new();
    const int64_t delay_ns = 300 * WEFT_MILLISECOND;
    weft_time begin = weft_now();
    check_dialled(&places, dial_kinds(&places, "srrrrrrrrrrrrrrrrrrrrrrrrrrrrrrg", delay_ns));
    const int64_t took_ns = weft_now() - begin;
    CHECK(took_ns >= delay_ns);     /* the silent one had its time */
    CHECK(took_ns < 20 * delay_ns); /* those that failed had none: else it would be 31 */
    places_done(&places);
    return 0;
}

static void a_failure_is_followed_at_once(void)
{
    run_under(ON_ONE_WORKER, fail_beside);
}

/* No more than 32 are tried, and the first error is told. */
static intptr_t all_fail(void *arg)
{
    (void)arg;
    struct places places = places_new();
    CHECK_EQ(dial_kinds(&places, "r", SOON_NS), -ECONNREFUSED);
    CHECK_EQ(dial_kinds(&places, "rrrr", LATE_NS), -ECONNREFUSED);
    CHECK_EQ(dial_kinds(&places, "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrg", LATE_NS), -ECONNREFUSED);
    weft_address list[2] = {places.addresses[REFUSING], places.addresses[REFUSING]};
    list[0].as.any.sa_family = AF_UNSPEC; /* no socket has it */
    CHECK_EQ(wf_dial_addresses(list, 2, LATE_NS), -EAFNOSUPPORT);
    CHECK_EQ(wf_dial_addresses(list, 0, LATE_NS), -EINVAL);
    places_done(&places);
    return 0;
}

static void the_first_error_is_told_if_all_fail(void)
{
    run_under(ON_ONE_WORKER, all_fail);
}

/* ---- who ends it ----------------------------------------------------------------------------- */

static intptr_t dial_the_silent(void *arg)
{
    return dial_kinds(arg, "ss", LATE_NS);
}

static intptr_t be_interrupted(void *arg)
{
    (void)arg;
    struct places places = places_new();
    check_dialled(&places, dial_kinds(&places, "g", LATE_NS));
    const size_t before = open_count();
    weft_task *task = go(dial_the_silent, &places);
    wait_until_blocked(task, WEFT_WAIT_READABLE); /* its sockets */
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(open_count(), before);
    weft_time old = weft_deadline(weft_in(5 * WEFT_MILLISECOND));
    CHECK_EQ(dial_kinds(&places, "ssss", SOON_NS), -ETIMEDOUT);
    CHECK_EQ(dial_kinds(&places, "sg", LATE_NS), -ETIMEDOUT);
    CHECK_EQ(weft_dial(text_of(&places.addresses[SILENT]).text), -ETIMEDOUT);
    (void)weft_deadline(old);
    CHECK_EQ(open_count(), before);
    places_done(&places);
    return 0;
}

/* part of behaviour 32 */
static void a_cancel_and_a_deadline_end_all_attempts(void)
{
    run_under(EVERYWHERE, be_interrupted);
}

/* The delay is not the task's deadline: it ends behind a shield, too. */
static intptr_t dial_shielded(void *arg)
{
    (void)arg;
    struct places places = places_new();
    CHECK_EQ(weft_shield(1), 0);
    check_dialled(&places, dial_kinds(&places, "sg", SOON_NS));
    CHECK_EQ(weft_shield(0), 0);
    places_done(&places);
    return 0;
}

static void a_shield_does_not_stop_the_race(void)
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
        CHECK_EQ(weft_dial(bad[i]), -EINVAL);
    }
    CHECK_EQ(weft_dial(NULL), -EINVAL);
    char text[400];
    memset(text, 'a', sizeof(text));
    memcpy(text + 256, ":80", sizeof(":80"));
    CHECK_EQ(weft_dial(text), -ENAMETOOLONG);
    memset(text, 'a', sizeof(text));
    text[1] = ':';
    text[66] = '\0';
    CHECK_EQ(weft_dial(text), -ENAMETOOLONG);
    CHECK_EQ(weft_dial("unix:@weft-nobody-listens-here"), -ECONNREFUSED);
    return 0;
}

static void what_cannot_be_dialled_is_refused(void)
{
    run_under(ON_ONE_WORKER, dial_texts);
}

/* Nothing is asked of a server for these names: they stand in a file, or are numbers. */
static intptr_t dial_names(void *arg)
{
    (void)arg;
    static const char *const hosts[] = {"127.0.0.1", "", "localhost"};
    int listener = listening("127.0.0.1:0");
    weft_address address = local_of(listener);
    for (size_t i = 0; i < 3; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s:%u", hosts[i], ntohs(address.as.ip4.sin_port));
        int near = weft_dial(text);
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

static void this_machine_has_several_names(void)
{
    run_under(EVERYWHERE, dial_names);
}

/* The listener hears one of the two families, whichever is the better one. */
static intptr_t dial_a_name(void *arg)
{
    (void)arg;
    static const weft_listen_options only = {.is_v6only = true};
    struct dns dns = {.asked = {0}};
    weft_task *server = dns_start(&dns);
    for (unsigned is_ip6 = 0; is_ip6 < (has_ip6() ? 2u : 1u); is_ip6++) {
        int listener = weft_listen(is_ip6 ? "[::1]:0" : "127.0.0.1:0", &only);
        CHECK(listener >= 0);
        char text[64];
        (void)snprintf(text, sizeof(text), "both.test:%u",
                       ntohs(local_of(listener).as.ip4.sin_port)); /* at the same place in both */
        int near = weft_dial(text);
        CHECK(near >= 0);
        int far = weft_accept(listener, NULL, NULL);
        CHECK(far >= 0);
        check_connected(near, far);
        CHECK_EQ(fcntl(near, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        CHECK_EQ(fcntl(near, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        CHECK_EQ(weft_close(near), 0);
        CHECK_EQ(weft_close(far), 0);
        CHECK_EQ(weft_close(listener), 0);
        CHECK_EQ(weft_dial(text), -ECONNREFUSED);
    }
    CHECK_EQ(weft_dial("none.test:80"), -ENOENT);
    dns_stop(&dns, server);
    return 0;
}

/* part of behaviour 59: the server is a task on the same worker */
static void a_name_with_several_addresses_is_dialled(void)
{
    dns_enter();
    run_under(EVERYWHERE, dial_a_name);
}

static weft_poll dial_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    (void)cx;
    (void)state;
    *result = weft_dial("127.0.0.1:1") == -EAGAIN ? 0 : -EIO;
    return WEFT_READY;
}

static intptr_t spawn_poll(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, dial_in_poll, NULL, 0, NULL), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void a_poll_task_cannot_wait_here(void)
{
    run_under(ON_ONE_WORKER, spawn_poll);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Addresses are told apart by their ports: 4 and 6 are families, 'a' and so on names. */
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

static void families_take_turns(void)
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

/* ---- faults ---------------------------------------------------------------------------------- */

#ifdef WF_TEST_AIDS

struct attempt {
    const char *kinds; /* NULL: by its text */
    unsigned refused_min;
    struct faults faults;
};

static intptr_t dial_with_fault(void *arg)
{
    struct attempt *attempt = arg;
    struct faults *faults = &attempt->faults;
    struct places places = places_new();
    struct text text = text_of(&places.addresses[GOOD]);
    check_dialled(&places, dial_kinds(&places, "g", LATE_NS)); /* the poller is there */
    const size_t before = open_count();
    faults_begin(faults);
    int fd = attempt->kinds == NULL ? weft_dial(text.text)
                                    : dial_kinds(&places, attempt->kinds, SOON_NS);
    faults_end(faults);
    if (fd < 0) {
        faults->refused++;
        CHECK(faults->what != NULL);
    } else {
        check_dialled(&places, fd);
    }
    CHECK_EQ(open_count(), before);
    places_done(&places);
    return 0;
}

static void a_dial_that_fails_leaves_nothing_open(void)
{
    faults_prepare();
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0); /* the table of descriptors stays */
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        /* Where there is a second good one, a fault of the first is none of the whole. */
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

/* A thread, which has no poller, at the first use of any descriptor: the only memory that is asked
 * for is that of the table. */
static void a_connection_without_memory_is_closed(void)
{
    weft_address address;
    memset(&address, 0, sizeof(address));
    int listener = listen_here(&address.as.ip4);
    address.size = sizeof(address.as.ip4);
    struct text text = text_of(&address);
    const size_t before = open_count();
    wf_fault_arm(2); /* after the socket */
    CHECK_EQ(weft_dial(text.text), -ENOMEM);
    wf_fault_arm(0);
    CHECK_EQ(open_count(), before);
    CHECK_EQ(close(listener), 0);
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(the_first_that_answers_is_taken),
    TAP_TEST(a_thread_dials_the_same_way),
    TAP_TEST(a_failure_is_followed_at_once),
    TAP_TEST(the_first_error_is_told_if_all_fail),
    TAP_TEST(a_cancel_and_a_deadline_end_all_attempts),
    TAP_TEST(a_shield_does_not_stop_the_race),
    TAP_TEST(what_cannot_be_dialled_is_refused),
    TAP_TEST(this_machine_has_several_names),
    TAP_TEST(a_name_with_several_addresses_is_dialled),
    TAP_TEST(a_poll_task_cannot_wait_here),
    TAP_TEST(families_take_turns),
#ifdef WF_TEST_AIDS
    TAP_TEST(a_dial_that_fails_leaves_nothing_open),
    TAP_TEST(a_connection_without_memory_is_closed),
#endif
};
TAP_MAIN(tests)
