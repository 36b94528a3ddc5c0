/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/io/fd.c no news of a descriptor is lost, however a wait, a report of the kernel
 *         and a close meet; a descriptor is closed once, by the last who uses it, and who uses the
 *         number after that finds the entry as new; with select.c of src/io and src/sync a select
 *         hears of descriptors, too, and one of its cases runs; in every order of steps under every
 *         memory model.
 * Method: tasks that find nothing and wait, a kernel that has bytes and then reports them, closes.
 *         The kernel here is a few cells: whether there are bytes, and whether the number is open.
 *         A lost report is a deadlock; plain data is touched by all who are inside.
 */
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "io/io.h"
#include "model/sync_aids.h"
#include "os/sys.h"
#include "sync/chan.h"

static struct wf_entry the_entry;
static struct wf_entry *const entry = &the_entry;
static struct wf_poller poller;
static struct wf_use first_use;
static WF_ATOMIC(int) bytes;          /* that can be read */
static WF_ATOMIC(int) closes;         /* how often it was closed */
static WF_ATOMIC(int) told;           /* the kernel reports what comes */
static int inside[MODEL_THREADS_MAX]; /* plain: of who is inside; read by who closes it */

/* ---- what fd.c calls ------------------------------------------------------------------------- */

int wf_poller_of(weft_runtime *of, struct wf_poller **out)
{
    (void)of;
    *out = &poller;
    return 0;
}

struct wf_entry *wf_table_entry(int fd)
{
    (void)fd;
    return entry;
}

struct wf_entry *wf_table_find(int fd)
{
    (void)fd;
    return entry;
}

void wf_table_visit(void (*visit)(struct wf_entry *one, void *context), void *context)
{
    visit(entry, context);
}

int wf_sys_close(int fd)
{
    (void)fd;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        (void)wf_plain_load(&inside[i]); /* nobody is: a race else */
    }
    (void)wf_fetch_add_relaxed(&closes, 1);
    return 0;
}

int wf_sys_fstat(int fd, struct stat *out)
{
    (void)fd;
    (void)out;
    model_fail("its kind is known");
    return 0;
}

int wf_sys_socket_type(int fd, int *domain, int *type)
{
    (void)fd;
    (void)domain;
    (void)type;
    return -EBADF;
}

int wf_sys_set_nonblocking(int fd)
{
    (void)fd;
    return 0;
}

int wf_sys_eventfd(void)
{
    return 1;
}

void wf_sys_eventfd_add(int fd)
{
    (void)fd;
    model_fail("no thread waits here");
}

int wf_sys_poll(int fd, int call_fd, short events, int64_t deadline_ns)
{
    (void)fd;
    (void)call_fd;
    (void)deadline_ns;
    wf_plain_store(&inside[model_thread()], 1);
    return events == POLLIN && wf_load_acquire(&bytes) > 0 ? POLLIN : 0;
}

/* ---- what the two select.c call beside it: nothing of it here -------------------------------- */

int wf_chan_send_locked(struct weft_chan *chan, const void *item, struct weft_task **woken)
{
    (void)chan;
    (void)item;
    (void)woken;
    model_fail("a channel");
}

int wf_chan_recv_locked(struct weft_chan *chan, void *item, struct weft_task **woken)
{
    return wf_chan_send_locked(chan, item, woken);
}

int wf_chan_grow(struct weft_chan *chan)
{
    return wf_chan_send_locked(chan, NULL, NULL);
}

void wf_chan_put_back(struct weft_chan *chan, const void *item)
{
    (void)wf_chan_send_locked(chan, item, NULL);
}

void wf_chan_node_init(struct wf_wait_node *node, struct weft_task *self, void *item)
{
    (void)node;
    (void)self;
    (void)wf_chan_send_locked(NULL, item, NULL);
}

void wf_chan_push_locked(struct weft_chan *chan, struct wf_wait_node *node, bool is_sender)
{
    (void)node;
    (void)is_sender;
    (void)wf_chan_send_locked(chan, NULL, NULL);
}

bool wf_joiner_enter(struct weft_task *task, struct wf_joiner *joiner)
{
    (void)task;
    (void)joiner;
    model_fail("the end of a task");
}

void wf_joiner_leave(struct weft_task *task, struct wf_joiner *joiner)
{
    (void)wf_joiner_enter(task, joiner);
}

int weft_try_join(weft_task *task, intptr_t *result)
{
    (void)result;
    return wf_joiner_enter(task, NULL) ? 1 : 0;
}

int wf_signals_check(const sigset_t *set)
{
    (void)set;
    model_fail("a signal");
}

bool wf_signals_are_pending(const sigset_t *set)
{
    return wf_signals_check(set) == 0;
}

int wf_sys_signalfd(const sigset_t *set)
{
    return wf_signals_check(set);
}

int wf_sys_signal_take(const sigset_t *set, siginfo_t *info)
{
    (void)info;
    return wf_signals_check(set);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

void wf_fetch_next(struct wf_worker *worker)
{
    (void)worker;
}

/* As the poller does. */
static void report(struct wf_entry *one, uint32_t sides, bool is_hung_up)
{
    struct wf_wakes wakes = {0};
    wf_entry_happened(one, sides, is_hung_up, &wakes);
    wf_wakes_do(&wakes);
}

/* As the kernel: what is there already is reported at once. */
static int add(struct wf_poller *of, struct wf_entry *one)
{
    MODEL_REQUIRE(of == &poller);
    wf_store_relaxed(&told, 1);
    wf_fence_seq_cst(); /* in the kernel there is a lock */
    if (wf_load_relaxed(&bytes) > 0) {
        report(one, 1u << WF_SIDE_READ, false);
    }
    return 0;
}

static void forget_it(struct wf_poller *of, struct wf_entry *one)
{
    (void)of;
    (void)one;
}

/* ---- the threads ----------------------------------------------------------------------------- */

static const struct wf_backend backend = {.add = add, .remove = forget_it};

static void start(void)
{
    start_tasks();
    the_entry = (struct wf_entry){0};
    wf_store_relaxed(&entry->drained[0], WF_NEWS_NONE);
    wf_store_relaxed(&entry->drained[1], WF_NEWS_NONE);
    poller.backend = &backend;
    wf_store_relaxed(&bytes, 0);
    wf_store_relaxed(&closes, 0);
    wf_store_relaxed(&told, 0);
    memset(inside, 0, sizeof(inside));
    first_use = (struct wf_use){0};
}

/* The kernel was told long ago. */
static void start_told(void)
{
    start();
    wf_store_relaxed(&entry->poller, &poller);
    wf_store_relaxed(&told, 1);
}

/* A byte is there. */
static void start_with_one(void)
{
    start_told();
    wf_store_relaxed(&bytes, 1);
}

/* The first thread is inside. */
static void start_inside(void)
{
    start_told();
    wf_store_relaxed(&entry->state, WF_ENTRY_USER);
    first_use = (struct wf_use){.fd = 3, .entry = entry, .poller = &poller, .self = &selves[0]};
}

/* [kernel]  One byte comes, and is reported if anybody asked. */
static void bring(void)
{
    (void)wf_fetch_add_release(&bytes, 1);
    wf_fence_seq_cst(); /* as in add */
    if (wf_load_relaxed(&told) != 0) {
        report(entry, 1u << WF_SIDE_READ, false);
    }
}

/* [kernel]  It was told long ago. */
static void bring_and_report(void)
{
    (void)wf_fetch_add_relaxed(&bytes, 1);
    report(entry, 1u << WF_SIDE_READ, false);
}

/* The system call: takes so many, or less if there are not as many; gives their number. */
static int take(int wanted)
{
    int there = wf_load_acquire(&bytes);
    int taken;
    do {
        taken = there < wanted ? there : wanted;
    } while (taken > 0 && !wf_cas_acquire(&bytes, &there, there - taken));
    return taken;
}

/* [inside]  As rw.c has it: what was read, or why nothing. */
static int read_inside(struct wf_use *use, int wanted)
{
    int rc;
    do {
        wf_plain_store(&inside[model_thread()], 1);
        const uint32_t news = wf_use_news(use, WF_SIDE_READ);
        const int taken = wf_use_is_drained(use, WF_SIDE_READ, news) ? 0 : take(wanted);
        if (taken < wanted) {
            wf_use_drain(use, WF_SIDE_READ, news);
        }
        rc = taken > 0 ? taken : wf_use_wait(use, WF_SIDE_READ, news);
    } while (rc == 0);
    wf_use_end(use);
    return rc;
}

static int read_some(int wanted)
{
    struct wf_use use;
    const int rc = wf_use_begin(&use, 3);
    return rc != 0 ? rc : read_inside(&use, wanted);
}

static void read_it(void)
{
    MODEL_REQUIRE(read_some(1) == 1);
}

/* It asks for more than there is: what comes later is found, too. */
static void read_two_of_many(void)
{
    int sum = 0;
    while (sum < 2) {
        const int rc = read_some(8);
        MODEL_REQUIRE(rc > 0);
        sum += rc;
    }
}

static void read_or_be_closed(void)
{
    MODEL_REQUIRE(read_inside(&first_use, 1) == -EBADF);
}

static void leave_it(void)
{
    wf_plain_store(&inside[model_thread()], 1);
    wf_use_end(&first_use);
}

static void close_it(void)
{
    wf_plain_store(&inside[model_thread()], 1); /* it used it before */
    MODEL_REQUIRE(weft_close(3) == 0);
}

/* Another who was given the number by the kernel, and closes it without having used it. */
static void close_if_given_again(void)
{
    if (wf_load_acquire(&closes) == 1) {
        MODEL_REQUIRE(weft_close(3) == 0);
        MODEL_REQUIRE(wf_load_relaxed(&closes) == 2);
    }
}

static void cancel_first(void)
{
    cancel(0);
}

static void read_or_be_cancelled(void)
{
    const int rc = read_some(1);
    MODEL_REQUIRE(rc == 1 || rc == -ECANCELED);
}

/* A report that was under way when the number was closed comes late. */
static void report_late(void)
{
    report(entry, 1u << WF_SIDE_READ, true);
}

static void close_and_use_again(void)
{
    MODEL_REQUIRE(weft_close(3) == 0);
    (void)wf_fetch_add_relaxed(&bytes, 1);
    const int rc = read_some(1);
    MODEL_REQUIRE(rc == 1 || (rc == -EBADF && first_use.entry != NULL)); /* not closed yet */
}

/* The number is had again as soon as it is free, while who closed it may still be at it. */
static void leave_and_use_again(void)
{
    leave_it();
    if (wf_load_acquire(&closes) > 0) {
        MODEL_REQUIRE(read_some(1) == 1);
    }
}

static void close_and_bring(void)
{
    MODEL_REQUIRE(weft_close(3) == 0);
    bring_and_report();
}

/* ---- selects --------------------------------------------------------------------------------- */

/* What the select gives, over the first side or both; nobody can ever write. */
static int choose(weft_case cases[2], size_t count)
{
    cases[0] = weft_case_fd(3, POLLIN);
    cases[1] = weft_case_fd(3, POLLOUT);
    return weft_select(cases, count, 0);
}

static void choose_it(void)
{
    weft_case cases[2];
    MODEL_REQUIRE(choose(cases, 2) == 0);
    MODEL_REQUIRE(cases[0].result == 0 && cases[0].value == POLLIN);
    MODEL_REQUIRE(take(1) == 1);
}

/* Another may take what it was woken for: it waits on, for the second. */
static void choose_until_it_has_one(void)
{
    weft_case cases[2];
    do {
        MODEL_REQUIRE(choose(cases, 1) == 0 && cases[0].result == 0);
    } while (take(1) == 0);
}

static void bring_one_and_another(void)
{
    bring_and_report();
    (void)take(1);
    bring_and_report();
}

static void choose_or_be_cancelled(void)
{
    weft_case cases[2];
    const int rc = choose(cases, 1);
    MODEL_REQUIRE(rc == -ECANCELED || (rc == 0 && cases[0].result == 0));
}

/* When it waits, or before it began; somebody else is still inside. */
static void choose_or_be_closed(void)
{
    weft_case cases[2];
    MODEL_REQUIRE(choose(cases, 1) == 0);
    MODEL_REQUIRE(cases[0].result == -EBADF);
}

/* A byte is there: it runs at once, and is the last who uses the number, or comes too late. */
static void choose_and_leave(void)
{
    weft_case cases[2];
    MODEL_REQUIRE(choose(cases, 1) == 0);
    MODEL_REQUIRE(cases[0].result == 0 || cases[0].result == -EBADF);
}

static void check_queues(void)
{
    MODEL_REQUIRE(entry->queues[WF_SIDE_READ].first == NULL);
    MODEL_REQUIRE(entry->queues[WF_SIDE_WRITE].first == NULL);
}

static void check(void)
{
    check_queues();
    MODEL_REQUIRE(wf_load_relaxed(&entry->state) == 0);
}

static void check_closed_once(void)
{
    check();
    MODEL_REQUIRE(wf_load_relaxed(&closes) == 1);
}

static const struct model_test tests[] = {
    {.name = "a byte comes before the kernel is told, or after",
     .setup = start,
     .threads = {read_it, bring},
     .names = {"reader", "kernel"},
     .check = check},
    {.name = "a reader is cancelled",
     .setup = start_told,
     .threads = {read_or_be_cancelled, bring, cancel_first},
     .names = {"reader", "kernel", "canceller"},
     .bound = {2, 1, 1}, /* one preemption, else none */
     .check = check},
    {.name = "it is closed",
     .setup = start_inside,
     .threads = {read_or_be_closed, close_it},
     .names = {"reader", "closer"},
     .check = check_closed_once},
    {.name = "less than it asked for",
     .setup = start_with_one,
     .threads = {read_two_of_many, bring_and_report},
     .names = {"reader", "kernel"},
     .check = check},
    {.name = "its last user leaves",
     .setup = start_inside,
     .threads = {leave_it, close_it},
     .names = {"user", "closer"},
     .check = check_closed_once},
    {.name = "who has the number next closes it before the first is done",
     .setup = start,
     .threads = {close_it, close_if_given_again},
     .names = {"closer", "next"},
     .check = check},
    {.name = "it is closed under a user, and its number is used again",
     .setup = start_inside,
     .threads = {leave_it, close_and_use_again},
     .names = {"user", "closer"},
     .check = check},
    {.name = "its last user has the number again while it is being closed",
     .setup = start_inside,
     .threads = {leave_and_use_again, close_and_bring},
     .names = {"user", "closer"},
     .check = check},
    {.name = "a late report meets the next user of the number",
     .setup = start,
     .threads = {close_and_use_again, report_late},
     .names = {"user", "kernel"},
     .check = check},
    {.name = "a select waits, a byte comes",
     .setup = start,
     .threads = {choose_it, bring},
     .names = {"selecter", "kernel"},
     .bound = {0, 0, 3},
     .check = check},
    {.name = "a select waits, another takes the byte",
     .setup = start_told,
     .threads = {choose_until_it_has_one, bring_one_and_another},
     .names = {"selecter", "thief"},
     .bound = {3, 1, 2},
     .check = check},
    {.name = "a select is cancelled",
     .setup = start_told,
     .threads = {choose_or_be_cancelled, bring_and_report, cancel_first},
     .names = {"selecter", "kernel", "canceller"},
     .bound = {0, 0, 2}, /* without: half a minute, and nothing is found */
     .check = check},
    {.name = "a select waits, it is closed",
     .setup = start_inside,
     .threads = {choose_or_be_closed, close_it},
     .names = {"selecter", "closer"},
     .check = check_queues},
    {.name = "a select is the last user",
     .setup = start_with_one,
     .threads = {choose_and_leave, close_it},
     .names = {"selecter", "closer"},
     .check = check_closed_once},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"fd", tests, MODEL_COUNT(tests), NULL, 0, "src/io/"};
    return model_main(argc, argv, &suite);
}
