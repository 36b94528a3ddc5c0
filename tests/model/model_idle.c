/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/idle.c and src/os/park.c no piece of work waits while every worker sleeps,
 *         and the counts are right at the end, in every order of steps under every memory model.
 * Method: workers that search, take and park without a deadline; producers that queue and notify.
 *         Work is a counter with plain data behind it.  When no thread can continue, all work must
 *         have been taken, every worker must be announced as asleep, and none may count as
 *         searching.  Work for one worker only comes through its real inbox.
 *         Keeps S4.24, S4.28, S4.29, S4.30, behaviour 13; part of behaviours 14 and 17.
 */
#include "model/ledger.h"
#include "sched/sched.h"

enum { WORKERS = 2 };

static struct wf_idle idle;
static struct wf_parker parkers[WORKERS];
static WF_ATOMIC(uint32_t) queued; /* pieces of work to take */
static WF_ATOMIC(uint32_t) begun;  /* long pieces in progress */
static uint32_t long_pieces;       /* a piece ends when this number has begun; 0: at once */
static int taken[WORKERS];
static int made[WORKERS]; /* plain: written by a worker before it sleeps, read by its wakers */
static int data;          /* plain: written before the first push, read by every taker */
static int pieces;        /* in this test */

/* Work that only worker 0 may take. */
static struct wf_mpsc inbox;
static struct wf_chain pinned;
static int pinned_pieces; /* in this test */

static void start(void)
{
    MODEL_REQUIRE(wf_idle_init(&idle, WORKERS) == 0);
    for (int i = 0; i < WORKERS; i++) {
        wf_parker_init(&parkers[i]);
    }
    wf_store_relaxed(&queued, 0);
    wf_store_relaxed(&begun, 0);
    long_pieces = 0;
    taken[0] = taken[1] = 0;
    made[0] = made[1] = 0;
    data = 0;
    pieces = 0;
    ledger_clear();
    wf_mpsc_init(&inbox);
    pinned = (struct wf_chain){0};
    pinned_pieces = 0;
}

static void start_one(void)
{
    start();
    pieces = 1;
}

static void start_two(void)
{
    start();
    pieces = 2;
}

/* Two pieces of which neither ends before the other has begun: they need two workers. */
static void start_two_long(void)
{
    start_two();
    long_pieces = 2;
}

static void check_rest(unsigned workers)
{
    MODEL_REQUIRE(wf_load_relaxed(&queued) == 0); /* nothing waits beside sleeping workers */
    MODEL_REQUIRE(taken[0] + taken[1] == pieces);
    ledger_all_taken(pinned_pieces);
    MODEL_REQUIRE(wf_idle_searching(&idle) == 0);
    MODEL_REQUIRE(wf_idle_asleep(&idle) == workers);
}

static void check_one(void)
{
    check_rest(1);
}

static void check_two(void)
{
    check_rest(2);
}

/* A waker sees the worker that it has claimed as it was made: the worker may be a new spare. */
static void unpark(unsigned worker)
{
    MODEL_REQUIRE(wf_plain_load(&made[worker]) == 1);
    wf_parker_unpark(&parkers[worker]);
}

static void notify(void)
{
    int worker = wf_idle_notify(&idle);
    if (worker >= 0) {
        unpark((unsigned)worker);
    }
}

static bool has_work(void *context)
{
    const unsigned *index = context;
    /* relaxed: between the fence of the announcement and the park, as in the scheduler */
    return wf_load_relaxed(&queued) > 0 ||
           (*index == 0 && pinned_pieces > 0 && !wf_mpsc_is_empty(&inbox));
}

/* [worker 0] */
static bool take_pinned(void)
{
    if (pinned_pieces == 0) {
        return false;
    }
    if (!wf_mpsc_is_empty(&inbox)) {
        (void)wf_mpsc_take(&inbox, &pinned);
    }
    return ledger_take(wf_chain_pop(&pinned)) >= 0;
}

/* By the last searcher that stops searching. */
static void notify_of_more(void)
{
    wf_fence_seq_cst();
    if (wf_load_relaxed(&queued) > 0) {
        notify();
    }
}

static bool take(void)
{
    uint32_t count = wf_load_relaxed(&queued);
    while (count > 0) {
        if (wf_cas_acquire(&queued, &count, count - 1)) {
            MODEL_REQUIRE(wf_plain_load(&data) == 1);
            return true;
        }
    }
    return false;
}

static void run_piece(void)
{
    if (long_pieces == 0) {
        return;
    }
    (void)wf_fetch_add_relaxed(&begun, 1);
    while (wf_load_relaxed(&begun) < long_pieces) {
        wf_spin_hint();
    }
}

/* A worker's loop, as in the scheduler. */
static void work(unsigned index, bool is_searching)
{
    for (;;) {
        if (!is_searching) {
            is_searching = wf_idle_begin_search(&idle);
        }
        const bool is_pinned = index == 0 && take_pinned();
        if (!is_pinned && !take()) {
            is_searching = wf_idle_sleep(&idle, index,
                                         &(struct wf_sleep){.parker = &parkers[index],
                                                            .has_work = has_work,
                                                            .context = &index,
                                                            .deadline_ns = WF_FOREVER,
                                                            .is_searching = is_searching});
            continue;
        }
        taken[index] += is_pinned ? 0 : 1;
        if (is_searching) {
            is_searching = false;
            if (wf_idle_end_search(&idle)) {
                notify_of_more();
            }
        }
        run_piece();
    }
}

static void worker_0(void)
{
    wf_plain_store(&made[0], 1);
    work(0, false);
}

static void worker_1(void)
{
    wf_plain_store(&made[1], 1);
    work(1, false);
}

/* Its deadline may pass at any moment, once: it returns and continues without a deadline. */
static void worker_0_with_deadline(void)
{
    unsigned index = 0;
    wf_plain_store(&made[0], 1);
    work(0, wf_idle_sleep(&idle, 0,
                          &(struct wf_sleep){.parker = &parkers[0],
                                             .has_work = has_work,
                                             .context = &index,
                                             .deadline_ns = 1}));
}

static void push_one(void)
{
    wf_plain_store(&data, 1);
    (void)wf_fetch_add_release(&queued, 1);
    notify();
}

static void push_two(void)
{
    wf_plain_store(&data, 1);
    (void)wf_fetch_add_release(&queued, 1);
    notify();
    (void)wf_fetch_add_release(&queued, 1);
    notify();
}

static void push_two_at_once(void)
{
    wf_plain_store(&data, 1);
    (void)wf_fetch_add_release(&queued, 2);
    notify();
}

/* Two searchers: both were woken, for more work than one takes. */
static void start_searching(void)
{
    start_one();
    wf_store_relaxed(&idle.searching, 2);
}

/* Has stolen, and keeps the rest in its own queue; unless it is the last searcher, it wakes no
 * worker for the rest. */
static void thief_0(void)
{
    wf_plain_store(&data, 1);
    wf_store_release(&queued, 1);
    if (wf_idle_end_search(&idle)) {
        notify_of_more();
    }
}

static void searcher_1(void)
{
    wf_plain_store(&made[1], 1);
    work(1, true);
}

/* ---- work for one worker only -------------------------------------------------------------- */

static void start_pinned(void)
{
    start();
    pinned_pieces = 1;
}

static void start_two_pinned(void)
{
    start();
    pinned_pieces = 2;
}

static void start_pinned_and_one(void)
{
    start_one();
    pinned_pieces = 1;
}

static void push_to_0(int number)
{
    (void)wf_mpsc_push(&inbox, ledger_make(number));
    if (wf_idle_claim_worker(&idle, 0)) {
        unpark(0);
    }
}

static void push_pinned(void)
{
    push_to_0(0);
}

static void push_second_pinned(void)
{
    push_to_0(1);
}

/* ---- steal backoff ------------------------------------------------------------------------- */

static void start_backing_off(void)
{
    start_one();
    wf_store_relaxed(&idle.searching, 1);
}

/* Pauses between two searches, without a deadline. */
static void backing_off_1(void)
{
    wf_plain_store(&made[1], 1);
    wf_idle_track_external(&idle, true);
    const uint32_t external_seq = wf_idle_external_seq(&idle);
    if (wf_load_relaxed(&queued) == 0) {
        wf_idle_backoff_wait(&idle, external_seq, WF_FOREVER);
    }
    work(1, true);
}

static void outside(void)
{
    wf_plain_store(&data, 1);
    (void)wf_fetch_add_release(&queued, 1);
    wf_idle_external(&idle);
    notify();
}

static const struct model_test tests[] = {
    {.name = "backoff wait ends at an external submission",
     .setup = start_backing_off,
     .threads = {outside, backing_off_1},
     .names = {"outside", "worker 1"},
     .check = check_one,
     .may_rest = 1},
    {.name = "last searcher finds what another searcher stole",
     .setup = start_searching,
     .threads = {thief_0, searcher_1},
     .names = {"thief", "worker 1"},
     .check = check_one,
     .may_rest = 1},
    {.name = "one worker, one piece",
     .setup = start_one,
     .threads = {worker_0, push_one},
     .names = {"worker 0", "producer"},
     .check = check_one,
     .may_rest = 1},
    {.name = "one worker, one pinned piece",
     .setup = start_pinned,
     .threads = {worker_0, push_pinned},
     .names = {"worker 0", "producer"},
     .check = check_one,
     .may_rest = 1},
    {.name = "one worker, two pinned pieces",
     .setup = start_two_pinned,
     .threads = {worker_0, push_pinned, push_second_pinned},
     .names = {"worker 0", "producer 1", "producer 2"},
     .bound = {0, 0, 3}, /* two preemptions under view */
     .check = check_one,
     .may_rest = 1,
     .is_slow = 1},
    {.name = "one worker, one pinned piece and one for any",
     .setup = start_pinned_and_one,
     .threads = {worker_0, push_pinned, push_one},
     .names = {"worker 0", "producer 1", "producer 2"},
     .bound = {0, 0, 3},
     .check = check_one,
     .may_rest = 1,
     .is_slow = 1},
    {.name = "two workers, one pinned piece",
     .setup = start_pinned,
     .threads = {worker_0, worker_1, push_pinned},
     .names = {"worker 0", "worker 1", "producer"},
     .bound = {4, 4, 3},
     .check = check_two,
     .may_rest = 1,
     .is_slow = 1},
    {.name = "one worker, two pieces",
     .setup = start_two,
     .threads = {worker_0, push_two},
     .names = {"worker 0", "producer"},
     .check = check_one,
     .may_rest = 1,
     .is_slow = 1},
    {.name = "park with deadline races a notify",
     .setup = start_one,
     .threads = {worker_0_with_deadline, push_one},
     .names = {"worker 0", "producer"},
     .check = check_one,
     .may_rest = 1},
    {.name = "two workers, one piece",
     .setup = start_one,
     .threads = {worker_0, worker_1, push_one},
     .names = {"worker 0", "worker 1", "producer"},
     .bound = {4, 4, 3}, /* three preemptions, two under view: more takes hours */
     .check = check_two,
     .may_rest = 1,
     .is_slow = 1},
    {.name = "two workers, two pieces at once",
     .setup = start_two,
     .threads = {worker_0, worker_1, push_two_at_once},
     .names = {"worker 0", "worker 1", "producer"},
     .bound = {4, 4, 2},
     .check = check_two,
     .may_rest = 1,
     .is_slow = 1},
    {.name = "two workers, two long pieces",
     .setup = start_two_long,
     .threads = {worker_0, worker_1, push_two_at_once},
     .names = {"worker 0", "worker 1", "producer"},
     .bound = {3, 3, 2},
     .check = check_two,
     .may_rest = 1,
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"idle", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sched/idle.c"};
    return model_main(argc, argv, &suite);
}
