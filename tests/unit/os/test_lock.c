/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a lock admits one thread at a time, publishes the writes of its holder to the next
 *         holder, loses no sleeper, and reports a wrong order of ranks before it becomes a
 *         deadlock.
 * Method: plain data under the lock (a race shows as a wrong sum and in TSan); sleepers are known
 *         from the lock's word and from the kernel; wrong orders are tried in child processes.
 */
#include <signal.h>
#include <sys/wait.h>

#include "helpers.h"
#include "os/os.h"

/* The states of the word, which os.h documents. */
enum { OPEN, HELD, SLEEPERS };

enum {
    RANK_LOW = 3,
    RANK_MIDDLE = 10,
    RANK_HIGH = 63,
};

static void init(struct wf_lock *lock, int rank)
{
    wf_lock_init(lock, (enum wf_lock_rank)rank);
}

static uint32_t state(struct wf_lock *lock)
{
    return wf_load_relaxed(&lock->word);
}

/* ---- exclusion ----------------------------------------------------------------------------- */

enum {
    THREADS = 4,
    ROUNDS = 20000,
    YIELD_EVERY = 64, /* iterations; the other threads then find the lock held, and sleep */
    SPINNERS = 2,
    QUICK_ROUNDS = 200000,
    SPREAD = 16, /* maximum iterations of an empty loop outside the lock */
};

struct account {
    struct wf_lock lock;
    int inside; /* plain, as all below: the lock alone protects them */
    long deposits;
    long balance;
};

static void *deposit(void *arg)
{
    struct account *account = arg;
    for (int i = 0; i < ROUNDS; i++) {
        wf_lock_acquire(&account->lock);
        CHECK_EQ(account->inside, 0);
        account->inside = 1;
        account->deposits++;
        if (i % YIELD_EVERY == 0) {
            (void)sched_yield();
        }
        account->balance += 3;
        account->inside = 0;
        wf_lock_release(&account->lock);
    }
    return NULL;
}

static wf_atomic_u32 spinners_ready;

static void *deposit_quickly(void *arg)
{
    struct account *account = arg;
    (void)wf_fetch_add_seq_cst(&spinners_ready, 1);
    while (wf_load_acquire(&spinners_ready) < SPINNERS) {
        (void)sched_yield(); /* or the first thread would finish before the second has begun */
    }
    for (int i = 0; i < QUICK_ROUNDS; i++) {
        wf_lock_acquire(&account->lock);
        CHECK_EQ(account->inside, 0);
        account->inside = 1;
        account->deposits++;
        account->balance += 3;
        account->inside = 0;
        wf_lock_release(&account->lock);
        for (volatile int left = i % SPREAD; left > 0; left--) { /* avoids lockstep */
        }
    }
    return NULL;
}

static void *deposit_by_trying(void *arg)
{
    struct account *account = arg;
    for (int i = 0; i < ROUNDS; i++) {
        while (!wf_lock_try(&account->lock)) {
            (void)sched_yield();
        }
        CHECK_EQ(account->inside, 0);
        account->deposits++;
        account->balance += 3;
        wf_lock_release(&account->lock);
    }
    return NULL;
}

static void lock_excludes_threads_that_sleep(void)
{
    struct account account = {.balance = 0};
    pthread_t threads[THREADS];
    init(&account.lock, RANK_MIDDLE);
    for (int i = 0; i < THREADS; i++) {
        void *(*run)(void *) = i == 0 ? deposit_by_trying : deposit;
        CHECK_EQ(wf_thread_start(&threads[i], run, &account, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(account.deposits, (long)THREADS * ROUNDS);
    CHECK_EQ(account.balance, 3L * THREADS * ROUNDS);
    CHECK_EQ(state(&account.lock), OPEN);
}

/* Each thread runs on its own CPU, where there are two, and holds the lock for a short time: a
 * thread that finds the lock held acquires it while spinning. */
static void lock_excludes_threads_that_spin(void)
{
    struct account account = {.balance = 0};
    pthread_t threads[SPINNERS];
    cpu_set_t allowed;
    int cpu = -1;
    init(&account.lock, RANK_MIDDLE);
    CHECK_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    for (int i = 0; i < SPINNERS; i++) {
        if (i < CPU_COUNT(&allowed)) {
            do {
                cpu++;
            } while (!CPU_ISSET((size_t)cpu, &allowed));
        }
        const struct wf_thread_options options = {.is_bound = true, .cpu = cpu};
        CHECK_EQ(wf_thread_start(&threads[i], deposit_quickly, &account, &options), 0);
    }
    for (int i = 0; i < SPINNERS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(account.deposits, (long)SPINNERS * QUICK_ROUNDS);
    CHECK_EQ(account.balance, 3L * SPINNERS * QUICK_ROUNDS);
    CHECK_EQ(state(&account.lock), OPEN);
}

/* ---- one lock and another thread ----------------------------------------------------------- */

struct contender {
    struct wf_lock lock;
    int data;            /* plain: written by the holder, read by the next */
    wf_atomic_u32 id;    /* the contender's thread id */
    wf_atomic_u32 is_in; /* 1: the contender had the lock */
    uint32_t state_in;   /* the lock word that the contender saw while it held the lock */
};

static void *acquire_and_read(void *arg)
{
    struct contender *contender = arg;
    wf_store_release(&contender->id, (uint32_t)wf_thread_id());
    wf_lock_acquire(&contender->lock);
    CHECK_EQ(contender->data, 42);
    contender->state_in = state(&contender->lock);
    wf_store_release(&contender->is_in, 1);
    wf_lock_release(&contender->lock);
    return NULL;
}

static void *try_held(void *arg)
{
    struct contender *contender = arg;
    CHECK(!wf_lock_try(&contender->lock));
    return NULL;
}

static void *try_open(void *arg)
{
    struct contender *contender = arg;
    CHECK(wf_lock_try(&contender->lock));
    CHECK_EQ(contender->data, 42);
    CHECK_EQ(state(&contender->lock), HELD);
    wf_lock_release(&contender->lock);
    return NULL;
}

static void run_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, run, arg, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
}

static void lock_word_is_held_or_open_without_contention(void)
{
    struct wf_lock lock = {.rank = RANK_MIDDLE}; /* zero bytes are an open lock */
    for (int i = 0; i < 3; i++) {
        wf_lock_acquire(&lock);
        CHECK_EQ(state(&lock), HELD);
        wf_lock_release(&lock);
        CHECK_EQ(state(&lock), OPEN);
        CHECK(wf_lock_try(&lock));
        CHECK_EQ(state(&lock), HELD);
        wf_lock_release(&lock);
        CHECK_EQ(state(&lock), OPEN);
    }
}

static void lock_try_fails_on_a_held_lock_and_changes_nothing(void)
{
    struct contender contender = {.data = 0};
    init(&contender.lock, RANK_MIDDLE);
    wf_lock_acquire(&contender.lock);
    run_thread(try_held, &contender);
    CHECK_EQ(state(&contender.lock), HELD);
    contender.data = 42;
    wf_lock_release(&contender.lock);
    run_thread(try_open, &contender);
}

static void start_sleeper(struct contender *contender, pthread_t *thread)
{
    wf_store_relaxed(&contender->id, 0);
    CHECK_EQ(wf_thread_start(thread, acquire_and_read, contender, NULL), 0);
    while (wf_load_acquire(&contender->id) == 0 || state(&contender->lock) != SLEEPERS) {
        (void)sched_yield();
    }
    wait_until_asleep((int)wf_load_relaxed(&contender->id));
}

static void lock_release_wakes_a_sleeper(void)
{
    struct contender contender = {.data = 0};
    pthread_t thread;
    init(&contender.lock, RANK_MIDDLE);
    wf_lock_acquire(&contender.lock);
    start_sleeper(&contender, &thread);
    contender.data = 42;
    wf_lock_release(&contender.lock);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(contender.state_in, SLEEPERS); /* the sleeper cannot know that it was the only one */
    CHECK_EQ(state(&contender.lock), OPEN);
}

static void lock_wakes_all_sleepers_one_by_one(void)
{
    struct contender contender = {.data = 0};
    pthread_t threads[THREADS];
    init(&contender.lock, RANK_MIDDLE);
    wf_lock_acquire(&contender.lock);
    for (int i = 0; i < THREADS; i++) {
        start_sleeper(&contender, &threads[i]);
    }
    contender.data = 42;
    wf_lock_release(&contender.lock);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(state(&contender.lock), OPEN);
}

static void lock_sleeper_survives_spurious_wakes(void)
{
    struct contender contender = {.data = 0};
    pthread_t thread;
    init(&contender.lock, RANK_MIDDLE);
    wf_lock_acquire(&contender.lock);
    start_sleeper(&contender, &thread);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(wf_futex_wake(&contender.lock.word, 1), 1);
        wait_until_asleep((int)wf_load_relaxed(&contender.id));
        CHECK_EQ(wf_load_acquire(&contender.is_in), 0);
        CHECK_EQ(state(&contender.lock), SLEEPERS);
    }
    contender.data = 42;
    wf_lock_release(&contender.lock);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(wf_load_acquire(&contender.is_in), 1);
}

/* ---- ranks --------------------------------------------------------------------------------- */

static struct wf_lock low;
static struct wf_lock middle;
static struct wf_lock high;
static struct wf_lock high_too;

static void init_ranked_locks(void)
{
    init(&low, RANK_LOW);
    init(&middle, RANK_MIDDLE);
    init(&high, RANK_HIGH);
    init(&high_too, RANK_HIGH);
}

static void lock_ranks_may_rise_and_release_in_any_order(void)
{
    init_ranked_locks();
    wf_lock_acquire(&low);
    wf_lock_acquire(&middle);
    CHECK(wf_lock_try(&high));
    wf_lock_release(&middle);
    wf_lock_release(&high);
    wf_lock_acquire(&middle); /* above `low`, which is still held */
    wf_lock_release(&low);
    wf_lock_acquire(&high);
    wf_lock_release(&high);
    wf_lock_release(&middle);
    wf_lock_acquire(&low); /* no lock is held */
    wf_lock_release(&low);
}

static void *acquire_and_release_high(void *arg)
{
    wf_lock_acquire(&high);
    wf_lock_release(&high);
    CHECK(!wf_lock_try(&middle)); /* held by the other thread: a failed try holds no rank */
    wf_lock_acquire(&low);
    wf_lock_release(&low);
    return arg;
}

static void lock_ranks_are_per_thread(void)
{
    init_ranked_locks();
    wf_lock_acquire(&middle);
    run_thread(acquire_and_release_high, NULL);
    wf_lock_release(&middle);
}

static void take_lower(void)
{
    wf_lock_acquire(&middle);
    wf_lock_acquire(&low);
}

static void try_lower(void)
{
    wf_lock_acquire(&high);
    (void)wf_lock_try(&middle);
}

static void take_second_of_same_rank(void)
{
    wf_lock_acquire(&high);
    wf_lock_acquire(&high_too);
}

static void take_below_highest_after_releasing_lower(void)
{
    wf_lock_acquire(&low);
    wf_lock_acquire(&high);
    wf_lock_release(&low);
    wf_lock_acquire(&middle);
}

static void take_rank_out_of_range(void)
{
    struct wf_lock lock;
    init(&lock, RANK_HIGH + 1);
    wf_lock_acquire(&lock);
}

static void release_without_holding(void)
{
    wf_lock_release(&low);
}

static void release_an_open_lock(void)
{
    wf_lock_acquire(&high);
    wf_lock_release(&high_too); /* the rank is held, the lock is not */
}

static void lock_rank_violations_panic_with_assertions(void)
{
    static const struct {
        void (*run)(void);
        const char *condition; /* what the report names */
    } rows[] = {
        {take_lower, "is_above_all_ranks_held(rank)"},
        {try_lower, "is_above_all_ranks_held(rank)"},
        {take_second_of_same_rank, "is_above_all_ranks_held(rank)"},
        {take_below_highest_after_releasing_lower, "is_above_all_ranks_held(rank)"},
        {take_rank_out_of_range, "rank < RANK_END"},
        {release_without_holding, "is_rank_held(rank)"},
        {release_an_open_lock, "found != OPEN"},
    };
    init_ranked_locks();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[1024];
        int status = tap_run_child(rows[i].run, text, sizeof(text));
        if (HAS_ASSERTS) {
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
            CHECK(strstr(text, rows[i].condition) != NULL);
        } else {
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(lock_excludes_threads_that_sleep, 60),
    TAP_TEST_LIMIT(lock_excludes_threads_that_spin, 60),
    TAP_TEST(lock_word_is_held_or_open_without_contention),
    TAP_TEST(lock_try_fails_on_a_held_lock_and_changes_nothing),
    TAP_TEST(lock_release_wakes_a_sleeper),
    TAP_TEST(lock_wakes_all_sleepers_one_by_one),
    TAP_TEST(lock_sleeper_survives_spurious_wakes),
    TAP_TEST(lock_ranks_may_rise_and_release_in_any_order),
    TAP_TEST(lock_ranks_are_per_thread),
    TAP_TEST(lock_rank_violations_panic_with_assertions),
};
TAP_MAIN(tests)
