/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/io/fd.c no readiness of a descriptor is lost, however a wait, a report of the
 *         kernel and a close interleave.  A descriptor is closed once, by the last put; a call that
 *         uses the number after that finds a reset record.  With select.c of src/io and of src/sync
 *         a select is woken by descriptors too, and one of its cases runs.  In every interleaving
 *         under every memory model.
 * Method: tasks that find nothing and wait, a kernel that receives bytes and reports them, closes.
 *         The kernel here is a few cells: how many bytes there are, and how often the number was
 *         closed.  A lost report is a deadlock.  Each fd operation writes plain data that the close
 *         reads.
 */
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "io/io.h"
#include "io/poller.h"
#include "model/sync_helpers.h"
#include "os/sys.h"
#include "sched/sched.h"
#include "sync/chan.h"

static struct wf_fd the_record;
static struct wf_fd *const record = &the_record;
static struct wf_poller poller;
static struct wf_fd_op first_op;
static WF_ATOMIC(int) bytes;           /* that can be read */
static WF_ATOMIC(int) closes;          /* how often the number was closed */
static WF_ATOMIC(int) is_registered;   /* the kernel reports readiness */
static int touched[MODEL_THREADS_MAX]; /* plain: each operation writes it, the close reads it */

/* ---- what fd.c calls ------------------------------------------------------------------------- */

int wf_poller_of(weft_runtime *of, struct wf_poller **out)
{
    (void)of;
    *out = &poller;
    return 0;
}

struct wf_fd *wf_fd_table_get(int fd)
{
    (void)fd;
    return record;
}

struct wf_fd *wf_fd_table_find(int fd)
{
    (void)fd;
    return record;
}

void wf_fd_table_visit(void (*visit)(struct wf_fd *one, void *context), void *context)
{
    visit(record, context);
}

int wf_sys_close(int fd)
{
    (void)fd;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        (void)wf_plain_load(&touched[i]); /* a race, if an operation has not ended */
    }
    (void)wf_fetch_add_relaxed(&closes, 1);
    return 0;
}

int wf_sys_fstat(int fd, struct stat *out)
{
    (void)fd;
    (void)out;
    model_fail("the kind of the descriptor is known");
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
    model_fail("no non-worker thread waits here");
}

int wf_sys_poll(int fd, int wakeup_fd, short events, int64_t deadline_ns)
{
    (void)fd;
    (void)wakeup_fd;
    (void)deadline_ns;
    wf_plain_store(&touched[model_thread()], 1);
    return events == POLLIN && wf_load_acquire(&bytes) > 0 ? POLLIN : 0;
}

/* ---- what the two select.c call: neither channels, tasks nor signals here -------------------- */

int wf_chan_send_locked(struct weft_chan *chan, const void *item, struct weft_task **woken)
{
    (void)chan;
    (void)item;
    (void)woken;
    model_fail("no case is a channel");
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
    model_fail("no case is the end of a task");
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
    model_fail("no case is a signal");
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

void wf_prefetch_next(struct wf_worker *worker)
{
    (void)worker;
}

/* As poller.c dispatches an event. */
static void report(struct wf_fd *one, uint32_t dirs, bool is_hung_up)
{
    struct wf_wakes wakes = {0};
    wf_fd_ready(one, dirs, is_hung_up, &wakes);
    wf_wakes_do(&wakes);
}

/* As the kernel: what is ready already is reported at once. */
int wf_epoll_add(struct wf_poller *of, struct wf_fd *one)
{
    MODEL_REQUIRE(of == &poller);
    wf_store_relaxed(&is_registered, 1);
    wf_fence_seq_cst(); /* the kernel has a lock here */
    if (wf_load_relaxed(&bytes) > 0) {
        report(one, 1u << WF_DIR_READ, false);
    }
    return 0;
}

void wf_epoll_remove(struct wf_poller *of, struct wf_fd *one)
{
    (void)of;
    (void)one;
}

/* ---- the threads ----------------------------------------------------------------------------- */

static void start(void)
{
    start_tasks();
    the_record = (struct wf_fd){0};
    wf_store_relaxed(&record->empty_at[0], WF_READY_NONE);
    wf_store_relaxed(&record->empty_at[1], WF_READY_NONE);
    wf_store_relaxed(&bytes, 0);
    wf_store_relaxed(&closes, 0);
    wf_store_relaxed(&is_registered, 0);
    memset(touched, 0, sizeof(touched));
    first_op = (struct wf_fd_op){0};
}

/* The descriptor was registered long ago. */
static void start_registered(void)
{
    start();
    wf_store_relaxed(&record->poller, &poller);
    wf_store_relaxed(&is_registered, 1);
}

/* One byte can be read. */
static void start_with_a_byte(void)
{
    start_registered();
    wf_store_relaxed(&bytes, 1);
}

/* The first thread has begun an operation. */
static void start_with_op(void)
{
    start_registered();
    wf_store_relaxed(&record->state, WF_FD_REF);
    first_op = (struct wf_fd_op){.fd = 3, .record = record, .poller = &poller, .self = &selves[0]};
}

/* [kernel]  Receives a byte, and reports it if the descriptor is registered. */
static void receive(void)
{
    (void)wf_fetch_add_release(&bytes, 1);
    wf_fence_seq_cst(); /* as in wf_epoll_add */
    if (wf_load_relaxed(&is_registered) != 0) {
        report(record, 1u << WF_DIR_READ, false);
    }
}

/* [kernel]  The descriptor was registered long ago. */
static void receive_and_report(void)
{
    (void)wf_fetch_add_relaxed(&bytes, 1);
    report(record, 1u << WF_DIR_READ, false);
}

/* The system call: takes up to `wanted` bytes and returns their number. */
static int take(int wanted)
{
    int available = wf_load_acquire(&bytes);
    int taken;
    do {
        taken = available < wanted ? available : wanted;
    } while (taken > 0 && !wf_cas_acquire(&bytes, &available, available - taken));
    return taken;
}

/* [op]  As rw.c: returns the number of bytes, or an error. */
static int read_in_op(struct wf_fd_op *op, int wanted)
{
    int rc;
    do {
        wf_plain_store(&touched[model_thread()], 1);
        const uint32_t ready_seq = wf_fd_op_ready_seq(op, WF_DIR_READ);
        const int taken = wf_fd_op_is_known_empty(op, WF_DIR_READ, ready_seq) ? 0 : take(wanted);
        if (taken < wanted) {
            wf_fd_op_set_empty(op, WF_DIR_READ, ready_seq);
        }
        rc = taken > 0 ? taken : wf_fd_op_wait(op, WF_DIR_READ, ready_seq);
    } while (rc == 0);
    wf_fd_op_end(op);
    return rc;
}

static int read_some(int wanted)
{
    struct wf_fd_op op;
    const int rc = wf_fd_op_begin(&op, 3);
    return rc != 0 ? rc : read_in_op(&op, wanted);
}

static void read_it(void)
{
    MODEL_REQUIRE(read_some(1) == 1);
}

/* It asks for more than there is, and finds what comes later too. */
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
    MODEL_REQUIRE(read_in_op(&first_op, 1) == -EBADF);
}

static void end_op(void)
{
    wf_plain_store(&touched[model_thread()], 1);
    wf_fd_op_end(&first_op);
}

static void close_it(void)
{
    wf_plain_store(&touched[model_thread()], 1); /* an operation of its own has ended before */
    MODEL_REQUIRE(weft_close(3) == 0);
}

/* The next owner of the number closes it without having used it. */
static void close_if_reused(void)
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

/* A report that was taken from the kernel before the close comes after it. */
static void report_late(void)
{
    report(record, 1u << WF_DIR_READ, true);
}

static void close_and_use_again(void)
{
    MODEL_REQUIRE(weft_close(3) == 0);
    (void)wf_fetch_add_relaxed(&bytes, 1);
    const int rc = read_some(1);
    MODEL_REQUIRE(rc == 1 ||
                  (rc == -EBADF && first_op.record != NULL)); /* the last put has not come yet */
}

/* The number is reused as soon as the kernel has closed it, while the closer may still run. */
static void end_op_and_use_again(void)
{
    end_op();
    if (wf_load_acquire(&closes) > 0) {
        MODEL_REQUIRE(read_some(1) == 1);
    }
}

static void close_and_receive(void)
{
    MODEL_REQUIRE(weft_close(3) == 0);
    receive_and_report();
}

/* ---- selects --------------------------------------------------------------------------------- */

/* A select over the read direction or both; the descriptor never becomes writable. */
static int choose(weft_case cases[2], size_t count)
{
    cases[0] = weft_case_fd(3, POLLIN);
    cases[1] = weft_case_fd(3, POLLOUT);
    return weft_select(cases, count);
}

static void choose_it(void)
{
    weft_case cases[2];
    MODEL_REQUIRE(choose(cases, 2) == 0);
    MODEL_REQUIRE(cases[0].result == 0 && cases[0].value == POLLIN);
    MODEL_REQUIRE(take(1) == 1);
}

/* Another thread may take the byte that the select was woken for: it waits for the second. */
static void choose_until_it_has_a_byte(void)
{
    weft_case cases[2];
    do {
        MODEL_REQUIRE(choose(cases, 1) == 0 && cases[0].result == 0);
    } while (take(1) == 0);
}

static void receive_take_and_receive(void)
{
    receive_and_report();
    (void)take(1);
    receive_and_report();
}

static void choose_or_be_cancelled(void)
{
    weft_case cases[2];
    const int rc = choose(cases, 1);
    MODEL_REQUIRE(rc == -ECANCELED || (rc == 0 && cases[0].result == 0));
}

/* The close comes while it waits, or before it begins; another operation goes on. */
static void choose_or_be_closed(void)
{
    weft_case cases[2];
    MODEL_REQUIRE(choose(cases, 1) == 0);
    MODEL_REQUIRE(cases[0].result == -EBADF);
}

/* The case is ready at once.  Its operation is the last, or begins after the close. */
static void choose_once(void)
{
    weft_case cases[2];
    MODEL_REQUIRE(choose(cases, 1) == 0);
    MODEL_REQUIRE(cases[0].result == 0 || cases[0].result == -EBADF);
}

static void check_queues(void)
{
    MODEL_REQUIRE(record->queues[WF_DIR_READ].first == NULL);
    MODEL_REQUIRE(record->queues[WF_DIR_WRITE].first == NULL);
}

static void check(void)
{
    check_queues();
    MODEL_REQUIRE(wf_load_relaxed(&record->state) == 0);
}

static void check_closed_once(void)
{
    check();
    MODEL_REQUIRE(wf_load_relaxed(&closes) == 1);
}

static const struct model_test tests[] = {
    {.name = "read races registration and arrival of a byte",
     .setup = start,
     .threads = {read_it, receive},
     .names = {"reader", "kernel"},
     .check = check},
    {.name = "cancel races read and arrival of a byte",
     .setup = start_registered,
     .threads = {read_or_be_cancelled, receive, cancel_first},
     .names = {"reader", "kernel", "canceller"},
     .bound = {2, 1, 1}, /* one preemption, else none */
     .check = check},
    {.name = "close ends a waiting read",
     .setup = start_with_op,
     .threads = {read_or_be_closed, close_it},
     .names = {"reader", "closer"},
     .check = check_closed_once},
    {.name = "short read, more bytes arrive",
     .setup = start_with_a_byte,
     .threads = {read_two_of_many, receive_and_report},
     .names = {"reader", "kernel"},
     .check = check},
    {.name = "last operation closes the descriptor",
     .setup = start_with_op,
     .threads = {end_op, close_it},
     .names = {"op", "closer"},
     .check = check_closed_once},
    {.name = "next user closes the number during the first close",
     .setup = start,
     .threads = {close_it, close_if_reused},
     .names = {"closer", "next"},
     .check = check},
    {.name = "close during an operation, number reused",
     .setup = start_with_op,
     .threads = {end_op, close_and_use_again},
     .names = {"op", "closer"},
     .check = check},
    {.name = "last operation reuses the number during the close",
     .setup = start_with_op,
     .threads = {end_op_and_use_again, close_and_receive},
     .names = {"op", "closer"},
     .check = check},
    {.name = "late report races the next user of the number",
     .setup = start,
     .threads = {close_and_use_again, report_late},
     .names = {"op", "kernel"},
     .check = check},
    {.name = "select races arrival of a byte",
     .setup = start,
     .threads = {choose_it, receive},
     .names = {"selecter", "kernel"},
     .bound = {0, 0, 3},
     .check = check},
    {.name = "select loses its byte and waits again",
     .setup = start_registered,
     .threads = {choose_until_it_has_a_byte, receive_take_and_receive},
     .names = {"selecter", "taker"},
     .bound = {3, 1, 2},
     .check = check},
    {.name = "cancel races select",
     .setup = start_registered,
     .threads = {choose_or_be_cancelled, receive_and_report, cancel_first},
     .names = {"selecter", "kernel", "canceller"},
     .bound = {0, 0, 2}, /* exhaustively it takes half a minute, and finds nothing more */
     .check = check},
    {.name = "close ends a waiting select",
     .setup = start_with_op,
     .threads = {choose_or_be_closed, close_it},
     .names = {"selecter", "closer"},
     .check = check_queues},
    {.name = "select is the last operation of a closed descriptor",
     .setup = start_with_a_byte,
     .threads = {choose_once, close_it},
     .names = {"selecter", "closer"},
     .check = check_closed_once},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"fd", tests, MODEL_COUNT(tests), NULL, 0, "src/io/"};
    return model_main(argc, argv, &suite);
}
