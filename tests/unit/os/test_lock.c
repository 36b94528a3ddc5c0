/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a lock admits one thread at a time, hands over what was written under it, loses no
 *         sleeper, and reports a wrong order of ranks before it becomes a deadlock.
 * Method: plain data under the lock (a race shows as a wrong sum and in TSan); sleepers are known
 *         from the lock's word and from the kernel; wrong orders are tried in child processes.
 */
#include <signal.h>
#include <sys/wait.h>

#include "aids.h"
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
    YIELD_EVERY = 64, /* rounds; the others then find the lock held for long, and sleep */
    SPINNERS = 2,
    QUICK_ROUNDS = 200000,
    SPREAD = 16, /* turns of an empty loop outside the lock, at most */
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
        (void)sched_yield(); /* or one would be done before the other has begun */
    }
    for (int i = 0; i < QUICK_ROUNDS; i++) {
        wf_lock_acquire(&account->lock);
        CHECK_EQ(account->inside, 0);
        account->inside = 1;
        account->deposits++;
        account->balance += 3;
        account->inside = 0;
        wf_lock_release(&account->lock);
        for (volatile int left = i % SPREAD; left > 0; left--) { /* not in step */
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

static void one_thread_at_a_time_is_inside(void)
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

/* Each on a CPU of its own, where there are two, and never long inside: who finds the lock held
 * gets it while spinning. */
static void one_thread_at_a_time_is_inside_when_threads_spin(void)
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

struct visit {
    struct wf_lock lock;
    int data;            /* plain: written by the holder, read by the next */
    wf_atomic_u32 id;    /* of the visitor's thread */
    wf_atomic_u32 is_in; /* 1: the visitor had the lock */
    uint32_t state_in;   /* the word as the visitor found it under the lock */
};

static void *acquire_and_read(void *arg)
{
    struct visit *visit = arg;
    wf_store_release(&visit->id, (uint32_t)wf_thread_id());
    wf_lock_acquire(&visit->lock);
    CHECK_EQ(visit->data, 42);
    visit->state_in = state(&visit->lock);
    wf_store_release(&visit->is_in, 1);
    wf_lock_release(&visit->lock);
    return NULL;
}

static void *try_held(void *arg)
{
    struct visit *visit = arg;
    CHECK(!wf_lock_try(&visit->lock));
    return NULL;
}

static void *try_open(void *arg)
{
    struct visit *visit = arg;
    CHECK(wf_lock_try(&visit->lock));
    CHECK_EQ(visit->data, 42);
    CHECK_EQ(state(&visit->lock), HELD);
    wf_lock_release(&visit->lock);
    return NULL;
}

static void run_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, run, arg, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
}

static void without_contention_the_word_is_held_or_open(void)
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

static void try_fails_on_a_held_lock_and_leaves_it_alone(void)
{
    struct visit visit = {.data = 0};
    init(&visit.lock, RANK_MIDDLE);
    wf_lock_acquire(&visit.lock);
    run_thread(try_held, &visit);
    CHECK_EQ(state(&visit.lock), HELD);
    visit.data = 42;
    wf_lock_release(&visit.lock);
    run_thread(try_open, &visit);
}

static void start_sleeper(struct visit *visit, pthread_t *thread)
{
    wf_store_relaxed(&visit->id, 0);
    CHECK_EQ(wf_thread_start(thread, acquire_and_read, visit, NULL), 0);
    while (wf_load_acquire(&visit->id) == 0 || state(&visit->lock) != SLEEPERS) {
        (void)sched_yield();
    }
    wait_until_asleep((int)wf_load_relaxed(&visit->id));
}

static void a_sleeper_gets_the_lock_when_it_is_released(void)
{
    struct visit visit = {.data = 0};
    pthread_t thread;
    init(&visit.lock, RANK_MIDDLE);
    wf_lock_acquire(&visit.lock);
    start_sleeper(&visit, &thread);
    visit.data = 42;
    wf_lock_release(&visit.lock);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(visit.state_in, SLEEPERS); /* it cannot know that it was the only one */
    CHECK_EQ(state(&visit.lock), OPEN);
}

static void every_one_of_several_sleepers_gets_the_lock(void)
{
    struct visit visit = {.data = 0};
    pthread_t threads[THREADS];
    init(&visit.lock, RANK_MIDDLE);
    wf_lock_acquire(&visit.lock);
    for (int i = 0; i < THREADS; i++) {
        start_sleeper(&visit, &threads[i]);
    }
    visit.data = 42;
    wf_lock_release(&visit.lock);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(state(&visit.lock), OPEN);
}

static void a_wake_for_nothing_does_not_let_a_sleeper_in(void)
{
    struct visit visit = {.data = 0};
    pthread_t thread;
    init(&visit.lock, RANK_MIDDLE);
    wf_lock_acquire(&visit.lock);
    start_sleeper(&visit, &thread);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(wf_futex_wake(&visit.lock.word, 1), 1);
        wait_until_asleep((int)wf_load_relaxed(&visit.id));
        CHECK_EQ(wf_load_acquire(&visit.is_in), 0);
        CHECK_EQ(state(&visit.lock), SLEEPERS);
    }
    visit.data = 42;
    wf_lock_release(&visit.lock);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(wf_load_acquire(&visit.is_in), 1);
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

static void rising_ranks_are_allowed_and_released_in_any_order(void)
{
    init_ranked_locks();
    wf_lock_acquire(&low);
    wf_lock_acquire(&middle);
    CHECK(wf_lock_try(&high));
    wf_lock_release(&middle);
    wf_lock_release(&high);
    wf_lock_acquire(&middle); /* above `low`, which is held still */
    wf_lock_release(&low);
    wf_lock_acquire(&high);
    wf_lock_release(&high);
    wf_lock_release(&middle);
    wf_lock_acquire(&low); /* nothing is held */
    wf_lock_release(&low);
}

static void *hold_high_and_let_go(void *arg)
{
    wf_lock_acquire(&high);
    wf_lock_release(&high);
    CHECK(!wf_lock_try(&middle)); /* held by the other thread: a failed try holds no rank */
    wf_lock_acquire(&low);
    wf_lock_release(&low);
    return arg;
}

static void ranks_are_each_threads_own(void)
{
    init_ranked_locks();
    wf_lock_acquire(&middle);
    run_thread(hold_high_and_let_go, NULL);
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

static void broken_rules_panic_in_builds_with_assertions(void)
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
    TAP_TEST_LIMIT(one_thread_at_a_time_is_inside, 60),
    TAP_TEST_LIMIT(one_thread_at_a_time_is_inside_when_threads_spin, 60),
    TAP_TEST(without_contention_the_word_is_held_or_open),
    TAP_TEST(try_fails_on_a_held_lock_and_leaves_it_alone),
    TAP_TEST(a_sleeper_gets_the_lock_when_it_is_released),
    TAP_TEST(every_one_of_several_sleepers_gets_the_lock),
    TAP_TEST(a_wake_for_nothing_does_not_let_a_sleeper_in),
    TAP_TEST(rising_ranks_are_allowed_and_released_in_any_order),
    TAP_TEST(ranks_are_each_threads_own),
    TAP_TEST(broken_rules_panic_in_builds_with_assertions),
};
TAP_MAIN(tests)
