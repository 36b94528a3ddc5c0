/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a futex wait ends for the reasons that os.h names and for no other.
 * Method: waiters in threads of their own; the kernel's thread state shows when a waiter is asleep,
 *         and the return value of a wake shows the number of waiters.  No test depends on a
 *         duration.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#include "helpers.h"
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

/* ---- wake ---------------------------------------------------------------------------------- */

struct letter {
    wf_atomic_u32 is_sent;
    int text; /* plain: TSan reports it if the futex word does not order it */
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

static void futex_wake_after_store_is_never_missed(void)
{
    for (int round = 0; round < 2000; round++) {
        struct letter letter = {.text = 0};
        pthread_t thread;
        CHECK_EQ(wf_thread_start(&thread, receive, &letter, NULL), 0);
        for (int i = 0; i < round % 4; i++) {
            /* the wake comes before the receiver sleeps in some iterations, after it in others */
            (void)sched_yield();
        }
        letter.text = 42;
        wf_store_release(&letter.is_sent, 1);
        CHECK(wf_futex_wake(&letter.is_sent, 1) >= 0);
        CHECK_EQ(wf_thread_join(thread), 0);
    }
}

static void futex_wake_wakes_waiter_although_word_is_unchanged(void)
{
    wf_atomic_u32 word = {0};
    struct waiter waiter;
    start_and_wait_until_asleep(&waiter, &word, far_away());
    CHECK_EQ(wf_futex_wake(&word, 1), 1);
    CHECK_EQ(wf_thread_join(waiter.thread), 0);
    CHECK_EQ(waiter.rc, 0);
}

static void futex_wake_wakes_at_most_its_count(void)
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

static void futex_wake_without_waiters_is_not_remembered(void)
{
    wf_atomic_u32 word = {0};
    CHECK_EQ(wf_futex_wake(&word, INT_MAX), 0);
    CHECK_EQ(wf_futex_wait(&word, 0, 0), -ETIMEDOUT);
}

/* ---- the word and the deadline ------------------------------------------------------------- */

static void futex_wait_returns_at_once_if_word_differs(void)
{
    wf_atomic_u32 word = {7};
    CHECK_EQ(wf_futex_wait(&word, 8, WF_FOREVER), -EAGAIN);
    CHECK_EQ(wf_futex_wait(&word, 0, far_away()), -EAGAIN);
    wf_store_relaxed(&word, UINT32_MAX);
    CHECK_EQ(wf_futex_wait(&word, UINT32_MAX - 1, WF_FOREVER), -EAGAIN);
    CHECK_EQ(wf_futex_wait(&word, UINT32_MAX, 0), -ETIMEDOUT);
}

static void futex_wait_with_past_deadline_returns_at_once(void)
{
    const int64_t deadlines_ns[] = {INT64_MIN, -1, 0, 1, wf_clock_now()};
    wf_atomic_u32 word = {0};
    for (size_t i = 0; i < sizeof(deadlines_ns) / sizeof(deadlines_ns[0]); i++) {
        CHECK_EQ(wf_futex_wait(&word, 0, deadlines_ns[i]), -ETIMEDOUT);
    }
}

static void futex_wait_ends_at_its_deadline_not_before(void)
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

/* True while a signal that was sent to this thread is pending. */
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
    /* no SA_RESTART: the handler interrupts the wait */
    struct sigaction action = {.sa_handler = count_signal};
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
    CHECK_EQ(wf_futex_wake(&word, 1), 1); /* the waiter is still in the futex wait */
    CHECK_EQ(wf_thread_join(waiter.thread), 0);
    CHECK_EQ(waiter.rc, 0);
    CHECK(wf_load_seq_cst(&signals_taken) > 0);
}

static void futex_wait_without_deadline_survives_signals(void)
{
    interrupt_a_wait_until(WF_FOREVER);
}

static void futex_wait_with_deadline_survives_signals(void)
{
    interrupt_a_wait_until(far_away());
}

#ifdef WF_TEST_HOOKS
static void futex_wait_keeps_its_deadline_when_interrupted(void)
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
    TAP_TEST(futex_wake_after_store_is_never_missed),
    TAP_TEST(futex_wake_wakes_waiter_although_word_is_unchanged),
    TAP_TEST(futex_wake_wakes_at_most_its_count),
    TAP_TEST(futex_wake_without_waiters_is_not_remembered),
    TAP_TEST(futex_wait_returns_at_once_if_word_differs),
    TAP_TEST(futex_wait_with_past_deadline_returns_at_once),
    TAP_TEST(futex_wait_ends_at_its_deadline_not_before),
    TAP_TEST(futex_wait_without_deadline_survives_signals),
    TAP_TEST(futex_wait_with_deadline_survives_signals),
#ifdef WF_TEST_HOOKS
    TAP_TEST(futex_wait_keeps_its_deadline_when_interrupted),
#endif
};
TAP_MAIN(tests)
