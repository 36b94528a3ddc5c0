/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a futex wait ends for the reasons that os.h names and for no other.
 * Method: waiters in threads of their own; the kernel tells when one is asleep, and the count that
 *         a wake gives tells how many were.  No test depends on how long anything takes.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#include "aids.h"
#include "os/os.h"

struct waiter {
    wf_atomic_u32 *word;
    int64_t deadline_ns;
    pthread_t thread;
    wf_atomic_u32 id;      /* of the thread, once it is about to wait */
    wf_atomic_u32 is_done; /* 1: `rc` is set */
    int rc;
};

static void *wait_once(void *arg)
{
    struct waiter *waiter = arg;
    wf_store_release(&waiter->id, (uint32_t)wf_thread_id());
    waiter->rc = wf_futex_wait(waiter->word, 0, waiter->deadline_ns);
    wf_store_release(&waiter->is_done, 1);
    return NULL;
}

static void start_and_wait_until_asleep(struct waiter *waiter, wf_atomic_u32 *word,
                                        int64_t deadline_ns)
{
    *waiter = (struct waiter){.word = word, .deadline_ns = deadline_ns};
    CHECK_EQ(wf_thread_start(&waiter->thread, wait_once, waiter, NULL), 0);
    while (wf_load_acquire(&waiter->id) == 0) {
        (void)sched_yield();
    }
    wait_until_asleep((int)wf_load_relaxed(&waiter->id));
}

static int64_t far_away(void)
{
    return wf_clock_now() + 3600 * WF_NS_PER_S;
}

/* ---- a wake -------------------------------------------------------------------------------- */

struct letter {
    wf_atomic_u32 is_sent;
    int text; /* plain: TSan sees it if the word carried no order */
};

static void *receive(void *arg)
{
    struct letter *letter = arg;
    while (wf_load_acquire(&letter->is_sent) == 0) {
        int rc = wf_futex_wait(&letter->is_sent, 0, WF_FOREVER);
        CHECK(rc == 0 || rc == -EAGAIN);
    }
    CHECK_EQ(letter->text, 42);
    return NULL;
}

static void a_wake_after_a_store_is_never_missed(void)
{
    for (int round = 0; round < 2000; round++) {
        struct letter letter = {.text = 0};
        pthread_t thread;
        CHECK_EQ(wf_thread_start(&thread, receive, &letter, NULL), 0);
        for (int i = 0; i < round % 4; i++) {
            (void)sched_yield(); /* sometimes before, sometimes after it sleeps */
        }
        letter.text = 42;
        wf_store_release(&letter.is_sent, 1);
        CHECK(wf_futex_wake(&letter.is_sent, 1) >= 0);
        CHECK_EQ(wf_thread_join(thread), 0);
    }
}

static void a_wake_reaches_a_sleeper_although_the_word_is_the_same(void)
{
    wf_atomic_u32 word = {0};
    struct waiter waiter;
    start_and_wait_until_asleep(&waiter, &word, far_away());
    CHECK_EQ(wf_futex_wake(&word, 1), 1);
    CHECK_EQ(wf_thread_join(waiter.thread), 0);
    CHECK_EQ(waiter.rc, 0);
}

static void a_wake_takes_at_most_its_count(void)
{
    enum { WAITERS = 3 };
    wf_atomic_u32 word = {0};
    struct waiter waiters[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        start_and_wait_until_asleep(&waiters[i], &word, WF_FOREVER);
    }
    CHECK_EQ(wf_futex_wake(&word, 2), 2);
    CHECK_EQ(wf_futex_wake(&word, INT_MAX), 1);
    for (int i = 0; i < WAITERS; i++) {
        CHECK_EQ(wf_thread_join(waiters[i].thread), 0);
        CHECK_EQ(waiters[i].rc, 0);
    }
}

static void a_wake_without_sleepers_wakes_nobody_and_is_not_kept(void)
{
    wf_atomic_u32 word = {0};
    CHECK_EQ(wf_futex_wake(&word, INT_MAX), 0);
    CHECK_EQ(wf_futex_wait(&word, 0, 0), -ETIMEDOUT);
}

/* ---- the word and the deadline ------------------------------------------------------------- */

static void a_word_that_differs_is_refused_at_once(void)
{
    wf_atomic_u32 word = {7};
    CHECK_EQ(wf_futex_wait(&word, 8, WF_FOREVER), -EAGAIN);
    CHECK_EQ(wf_futex_wait(&word, 0, far_away()), -EAGAIN);
    wf_store_relaxed(&word, UINT32_MAX);
    CHECK_EQ(wf_futex_wait(&word, UINT32_MAX - 1, WF_FOREVER), -EAGAIN);
    CHECK_EQ(wf_futex_wait(&word, UINT32_MAX, 0), -ETIMEDOUT);
}

static void a_deadline_in_the_past_ends_the_wait_at_once(void)
{
    const int64_t deadlines_ns[] = {INT64_MIN, -1, 0, 1, wf_clock_now()};
    wf_atomic_u32 word = {0};
    for (size_t i = 0; i < sizeof(deadlines_ns) / sizeof(deadlines_ns[0]); i++) {
        CHECK_EQ(wf_futex_wait(&word, 0, deadlines_ns[i]), -ETIMEDOUT);
    }
}

static void a_deadline_ends_the_wait_and_not_too_early(void)
{
    wf_atomic_u32 word = {0};
    for (int64_t wait_ns = 1; wait_ns < WF_NS_PER_S / 100; wait_ns *= 7) {
        const int64_t deadline_ns = wf_clock_now() + wait_ns;
        CHECK_EQ(wf_futex_wait(&word, 0, deadline_ns), -ETIMEDOUT);
        CHECK(wf_clock_now() >= deadline_ns);
    }
}

/* ---- signals ------------------------------------------------------------------------------- */

static wf_atomic_u32 signals_taken;

static void count_signal(int number)
{
    (void)number;
    (void)wf_fetch_add_seq_cst(&signals_taken, 1);
}

/* True while the kernel holds a signal back that was sent to this very thread. */
static bool is_signal_pending(int thread_id)
{
    static const char field[] = "SigPnd:";
    char path[64];
    char line[256];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread_id);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    unsigned long long pending = 0;
    bool is_found = false;
    while (!is_found && fgets(line, sizeof(line), file) != NULL) {
        is_found = strncmp(line, field, strlen(field)) == 0;
        pending = is_found ? strtoull(line + strlen(field), NULL, 16) : 0;
    }
    (void)fclose(file);
    CHECK(is_found);
    return pending != 0;
}

static void *wait_with_signals(void *arg)
{
    sigset_t wanted;
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &wanted, NULL), 0);
    return wait_once(arg);
}

static void interrupt_a_wait_until(int64_t deadline_ns)
{
    enum { SIGNALS = 5 };
    struct sigaction action = {.sa_handler = count_signal}; /* no SA_RESTART: waits are cut short */
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    wf_atomic_u32 word = {0};
    struct waiter waiter = {.word = &word, .deadline_ns = deadline_ns};
    CHECK_EQ(wf_thread_start(&waiter.thread, wait_with_signals, &waiter, NULL), 0);
    while (wf_load_acquire(&waiter.id) == 0) {
        (void)sched_yield();
    }
    const int id = (int)wf_load_relaxed(&waiter.id);
    for (int i = 0; i < SIGNALS; i++) {
        wait_until_asleep(id);
        CHECK_EQ(pthread_kill(waiter.thread, SIGUSR1), 0);
        while (is_signal_pending(id)) {
            (void)sched_yield();
        }
    }
    wait_until_asleep(id);
    CHECK_EQ(wf_load_acquire(&waiter.is_done), 0);
    CHECK_EQ(wf_futex_wake(&word, 1), 1); /* it is in the futex still, not anywhere else */
    CHECK_EQ(wf_thread_join(waiter.thread), 0);
    CHECK_EQ(waiter.rc, 0);
    CHECK(wf_load_seq_cst(&signals_taken) > 0);
}

static void a_signal_does_not_end_an_endless_wait(void)
{
    interrupt_a_wait_until(WF_FOREVER);
}

static void a_signal_does_not_end_a_wait_with_a_deadline(void)
{
    interrupt_a_wait_until(far_away());
}

#ifdef WF_TEST_AIDS
static void an_interrupted_wait_keeps_its_deadline(void)
{
    wf_atomic_u32 word = {0};
    const char *what;
    const int64_t deadline_ns = wf_clock_now() + WF_NS_PER_S / 1000;
    wf_fault_arm(1);
    CHECK_EQ(wf_futex_wait(&word, 0, deadline_ns), -ETIMEDOUT);
    CHECK(wf_fault_hit(&what));
    CHECK_STR(what, "futex_wait");
    CHECK_EQ(wf_fault_calls(), 2); /* interrupted once, then waited */
    CHECK(wf_clock_now() >= deadline_ns);
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(a_wake_after_a_store_is_never_missed),
    TAP_TEST(a_wake_reaches_a_sleeper_although_the_word_is_the_same),
    TAP_TEST(a_wake_takes_at_most_its_count),
    TAP_TEST(a_wake_without_sleepers_wakes_nobody_and_is_not_kept),
    TAP_TEST(a_word_that_differs_is_refused_at_once),
    TAP_TEST(a_deadline_in_the_past_ends_the_wait_at_once),
    TAP_TEST(a_deadline_ends_the_wait_and_not_too_early),
    TAP_TEST(a_signal_does_not_end_an_endless_wait),
    TAP_TEST(a_signal_does_not_end_a_wait_with_a_deadline),
#ifdef WF_TEST_AIDS
    TAP_TEST(an_interrupted_wait_keeps_its_deadline),
#endif
};
TAP_MAIN(tests)
