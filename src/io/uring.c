/* SPDX-License-Identifier: MIT */
/*
 * io/uring.c - system calls by io_uring.
 *
 * Readiness comes by epoll in any case.  A poll request of io_uring would keep the open file: after
 * a close of a listening socket's number the socket would stay open until another thread has
 * cancelled the request.  io_uring is for calls:
 *
 *   of files     which would otherwise take a thread of the blocking pool.  Submitted at once.
 *   of sockets   which are tried after a readiness report, and do not wait.  If several tasks of a
 *                worker are ready, their calls are submitted together when all have run: one system
 *                call instead of one each.  The only ready task makes the system call itself.
 *
 * Each worker has an io_uring, which this file and uring.h call its ring; a spare gets its ring
 * when it first needs it.  A request stays in the ring of the worker on which its task ran,
 * wherever the task goes.  The request lies in the frame of the task, so the task waits for its
 * completion even if it is cancelled: until then the kernel may use the buffer.  A cancellation is
 * another request.
 *
 * Completions are in memory.  A thread that has submitted reaps at once.  Otherwise the kernel
 * writes to an eventfd, which the leader polls like any other descriptor.
 *
 * The kernel completes a request on the thread that submitted it, which it interrupts if need be.
 * When a thread ends, its requests end with -ECANCELED; such a call is made again.
 *
 * The kernel may refuse io_uring at any time: a filter can be set for a running process.  Then no
 * call is made by a ring any more.  Requests that the kernel had not taken are withdrawn, and
 * their calls made in another way; those that it had taken complete.
 *
 * Only functions of liburing use the queues of a ring.  liburing has no function to withdraw a
 * request that was queued: such a request becomes a no-operation without a receiver, and stays in
 * the queue.  Without the lock, threads read whether a ring has unsubmitted requests, and whether
 * it has had them for long.  For that struct wf_uring has its own counters, because those of
 * liburing are not atomic.
 */
#include <errno.h>
#include <liburing.h>

#include "future/future.h"
#include "io/io.h"
#include "io/uring.h"
#include "os/sys.h"

enum {
    REQUESTS = 256,     /* queued in a ring at most */
    COMPLETIONS = 1024, /* slots of the completion ring; the kernel keeps further completions */
    REAP_BATCH = 32,
    SUBMIT_BATCH = 64, /* queued calls of sockets, at most, before they are submitted */
};
/* What the kernel moves at most in one call. */
#define SIZE_MAX_OF_CALL ((size_t)0x7ffff000)

struct wf_uring {
    struct wf_poller *poller; /* [const] */
    struct wf_lock lock;      /* guards submission */
    struct wf_spin spin;      /* guards completion */
    struct io_uring ring;     /* [lock] the submission queue, [spin] the completion queue */
    /* [lock]  The requests from queued[first % REQUESTS] up to but without queued[end % REQUESTS]
     * are not submitted: calls of tasks, cancellations, and requests that were withdrawn. */
    struct io_uring_sqe *queued[REQUESTS];
    unsigned first;
    unsigned end;
    wf_atomic_u32 unsubmitted;  /* [lock: write] [any: read]  how many of them to submit: a hint */
    wf_atomic_u32 queued_total; /* [lock: write] [any: read]  requests that were ever queued */
    int wakeup_fd;              /* [const]  an eventfd, to which the kernel writes */
    unsigned seen;              /* [leader]  queued_total at its last visit */
};

enum { SUBMITTED = 1, DONE };

/* A call that the kernel makes.  In the frame of its task. */
struct request {
    struct weft_task *task;
    struct wf_fd *record; /* to which the task has a reference */
    struct wf_uring *uring;
    const struct wf_uring_call *call;
    wf_atomic_u32 state; /* (io.U1), (io.U2) */
    int result;
    bool is_refused; /* the kernel has not taken it */
    bool is_socket;
    bool has_waited; /* the task was suspended */
    struct wf_abandon_hook hook;
};

/* [any]  Lets the task go on; the request may be gone after this.  `self` is the calling task,
 * which needs no wake-up. */
static void request_complete(struct request *request, const struct weft_task *self)
{
    struct weft_task *task = request->task;
    wf_store_release(&request->state, DONE); /* (io.U1) */
    if (task != self) {
        wf_task_wake(task);
    }
}

static struct request *request_of(uint64_t user_data)
{
    return (struct request *)(uintptr_t)user_data;
}

/* ---- submission ---------------------------------------------------------------------------- */

/* [locked]  A free SQE; NULL: the queue is full. */
static struct io_uring_sqe *sqe_get(struct wf_uring *uring)
{
    return WF_FAULT("io_uring_sqe") ? NULL : io_uring_get_sqe(&uring->ring);
}

/* [locked]  Queues a prepared SQE.  `request` receives the result; NULL: the result is ignored. */
static void sqe_queue(struct wf_uring *uring, struct io_uring_sqe *sqe, struct request *request)
{
    io_uring_sqe_set_data(sqe, request);
    uring->queued[uring->end++ % REQUESTS] = sqe;
    /* Both relaxed: written under the lock, read as hints. */
    wf_store_relaxed(&uring->unsubmitted, wf_load_relaxed(&uring->unsubmitted) + 1);
    wf_store_relaxed(&uring->queued_total, wf_load_relaxed(&uring->queued_total) + 1);
}

/* [any]  Requests that wait for a submit: a hint. */
static unsigned uring_unsubmitted(const struct wf_uring *uring)
{
    return wf_load_relaxed(&uring->unsubmitted); /* relaxed: a hint */
}

/* [locked]  The kernel refuses: withdraws the queued requests, whose tasks make the calls in
 * another way. */
static void withdraw_requests(struct wf_uring *uring, const struct weft_task *self)
{
    for (unsigned i = uring->first; i != uring->end; i++) {
        struct io_uring_sqe *sqe = uring->queued[i % REQUESTS];
        struct request *request = request_of(sqe->user_data);
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data(sqe, NULL);
        if (request != NULL) {
            request->is_refused = true;
            request_complete(request, self);
        }
    }
    wf_store_relaxed(&uring->unsubmitted, 0); /* relaxed: as in sqe_queue */
}

/* [locked]  Submits what is queued.  A refusal switches the poller to epoll for good. */
static void uring_submit(struct wf_uring *uring, const struct weft_task *self)
{
    int rc;
    do { /* ends: each call submits a request, was interrupted, or is the last */
        rc = WF_FAULT("io_uring_enter") ? -EPERM : io_uring_submit(&uring->ring);
        uring->first += rc > 0 ? (unsigned)rc : 0;
    } while (rc == -EINTR || (rc > 0 && uring->first != uring->end));
    if (rc < 0) {
        WF_REACHED("uring.refused_later");
        wf_store_relaxed(&uring->poller->driver.io, WEFT_IO_EPOLL); /* relaxed: a hint */
        withdraw_requests(uring, self);
    } else {
        wf_store_relaxed(&uring->unsubmitted,
                         uring->end - uring->first); /* relaxed: as in sqe_queue */
    }
}

/* ---- completion ---------------------------------------------------------------------------- */

/* [any]  Takes completions out of the ring; returns their number. */
static unsigned take_completions(struct wf_uring *uring, struct io_uring_cqe *taken)
{
    const struct io_uring_cqe *cqe;
    unsigned head;
    unsigned count = 0;
    wf_spin_acquire(&uring->spin);
    io_uring_for_each_cqe(&uring->ring, head, cqe)
    {
        if (count == REAP_BATCH) {
            break;
        }
        taken[count].user_data = cqe->user_data;
        taken[count].res = cqe->res;
        count++;
    }
    io_uring_cq_advance(&uring->ring, count);
    wf_spin_release(&uring->spin);
    return count;
}

/* [any]  Wakes the tasks of all completions in the ring, except `self`. */
static void reap_completions(struct wf_uring *uring, const struct weft_task *self)
{
    struct io_uring_cqe taken[REAP_BATCH];
    unsigned count;
    do { /* ends: the kernel completes no more requests than were submitted */
        count = take_completions(uring, taken);
        for (unsigned i = 0; i < count; i++) {
            struct request *request = request_of(taken[i].user_data);
            if (request != NULL) {
                /* (io.U2) The kernel orders it too, but the C memory model does not know that. */
                (void)wf_load_acquire(&request->state);
                request->result = taken[i].res;
                request_complete(request, self);
            }
        }
    } while (count == REAP_BATCH);
}

/* [any, without the lock]  As reap_completions, and reaps also completions that the ring had no
 * room for.  The kernel moves them into the ring when it is entered, and writes to no eventfd for
 * that: so each reaper must enter it. */
static void uring_reap(struct wf_uring *uring, const struct weft_task *self)
{
    int rc = 0;
    reap_completions(uring, self);
    while (rc >= 0 && io_uring_cq_has_overflow(&uring->ring)) {
        WF_REACHED("uring.completions_overflowed");
        wf_lock_acquire(&uring->lock);
        rc = WF_FAULT("io_uring_enter") ? -EPERM : io_uring_get_events(&uring->ring);
        wf_lock_release(&uring->lock);
        reap_completions(uring, self);
    }
}

/* [any]  Sets whether the kernel writes to the eventfd for a completion.  The thread that submits
 * switches this off meanwhile, because it reaps right after.  For a completion that comes while it
 * is off the kernel writes nothing, so the thread switches it on first and reaps after that. */
static void eventfd_enable(struct wf_uring *uring, bool is_on)
{
    (void)io_uring_cq_eventfd_toggle(&uring->ring, is_on); /* fails if there is none */
    if (is_on) {
        /* The fence is between the flag and the reap; the kernel has a fence between a completion
         * and its check of the flag: so the completion is reaped, or the kernel writes. */
        wf_fence_seq_cst();
    }
}

/* [locked]  Submits without a write to the eventfd.  The caller reaps after it has released the
 * lock. */
static void submit_without_event(struct wf_uring *uring, const struct weft_task *self)
{
    eventfd_enable(uring, false);
    uring_submit(uring, self);
    eventfd_enable(uring, true);
}

void wf_uring_reap(struct wf_uring *uring)
{
    uring_reap(uring, NULL);
}

/* ---- calls --------------------------------------------------------------------------------- */

static void request_prepare(struct io_uring_sqe *sqe, const struct request *request)
{
    const struct wf_uring_call *call = request->call;
    const unsigned size = (unsigned)(call->size < SIZE_MAX_OF_CALL ? call->size : SIZE_MAX_OF_CALL);
    const uint64_t offset = (uint64_t)call->offset;
    switch (call->opcode) {
    case WF_URING_READ:
        io_uring_prep_read(sqe, call->fd, call->buffer, size, offset);
        break;
    case WF_URING_WRITE:
        io_uring_prep_write(sqe, call->fd, call->bytes, size, offset);
        break;
    case WF_URING_FSYNC:
        io_uring_prep_fsync(sqe, call->fd, 0);
        break;
    case WF_URING_FDATASYNC:
        io_uring_prep_fsync(sqe, call->fd, IORING_FSYNC_DATASYNC);
        break;
    case WF_URING_RECV:
        io_uring_prep_recv(sqe, call->fd, call->buffer, size, call->flags | MSG_DONTWAIT);
        break;
    case WF_URING_SEND:
        io_uring_prep_send(sqe, call->fd, call->bytes, size, call->flags | MSG_DONTWAIT);
        break;
    }
}

/* [any]  Asks the kernel to cancel the request.  If the queue is full the request ends in its own
 * time. */
static void request_cancel(struct request *request, const struct weft_task *self)
{
    struct wf_uring *uring = request->uring;
    wf_lock_acquire(&uring->lock);
    struct io_uring_sqe *sqe = sqe_get(uring);
    if (sqe != NULL) {
        io_uring_prep_cancel(sqe, request, 0);
        sqe_queue(uring, sqe, NULL);
        submit_without_event(uring, self);
    }
    wf_lock_release(&uring->lock);
    uring_reap(uring, self);
}

/* [the task]  Queues the request.  That of a socket is submitted together with others when the
 * worker has nothing else to do.  False: the queue is full. */
static bool request_begin(struct request *request)
{
    struct wf_uring *uring = request->uring;
    struct wf_worker *worker = wf_worker_self();
    const bool is_later = request->is_socket && worker->runtime->policy->steals;
    wf_lock_acquire(&uring->lock);
    struct io_uring_sqe *sqe = sqe_get(uring);
    if (sqe != NULL) {
        request_prepare(sqe, request);
        wf_store_release(&request->state, SUBMITTED); /* (io.U2) */
        sqe_queue(uring, sqe, request);
    }
    const bool is_now = !is_later || sqe == NULL || uring_unsubmitted(uring) >= SUBMIT_BATCH;
    if (is_now) {
        submit_without_event(uring, request->task);
    }
    wf_lock_release(&uring->lock);
    if (is_now) {
        uring_reap(uring, request->task);
    }
    worker->io.has_unsubmitted |= is_later;
    return sqe != NULL;
}

bool wf_uring_is_worth(const struct wf_fd_op *op)
{
    struct wf_worker *worker = wf_worker_self();
    const weft_runtime *runtime = worker->runtime;
    /* relaxed: only the owner writes it */
    const struct wf_uring *uring = wf_load_relaxed(&op->poller->urings[worker->index]);
    /* Do not defer calls if no other thread would submit them for a stuck worker: only in the steal
     * policy, with stealing, does the leader do that. */
    return uring != NULL && runtime->policy->steals && !runtime->options.no_steal &&
           (wf_runq_count(&worker->runq) > 0 || uring_unsubmitted(uring) > 0);
}

void wf_uring_submit(struct wf_poller *poller, struct wf_worker *worker)
{
    struct wf_uring *uring = worker->index < poller->uring_count
                                 ? wf_load_acquire(&poller->urings[worker->index])
                                 : NULL;
    if (uring == NULL) { /* (io.U3) the worker has none, or none yet */
        return;
    }
    if (uring_unsubmitted(uring) > 0) {
        WF_REACHED("uring.submitted_together");
        wf_lock_acquire(&uring->lock);
        submit_without_event(uring, NULL);
        wf_lock_release(&uring->lock);
    }
    uring_reap(uring, NULL);
}

void wf_uring_submit_stuck(struct wf_poller *poller)
{
    for (unsigned i = 0; i < poller->uring_count; i++) {
        struct wf_uring *uring = wf_load_acquire(&poller->urings[i]); /* (io.U3) */
        if (uring == NULL) {
            continue;
        }
        const unsigned total = wf_load_relaxed(&uring->queued_total); /* relaxed: a hint */
        if (total == uring->seen && uring_unsubmitted(uring) > 0) {
            WF_REACHED("uring.submitted_for_stuck_worker");
            wf_lock_acquire(&uring->lock);
            uring_submit(uring, NULL);
            wf_lock_release(&uring->lock);
            uring_reap(uring, NULL);
        }
        uring->seen = total;
    }
}

/* [closer]  The task is never resumed and its frame is freed, but not before the request has
 * completed.  No other thread uses the ring any more. */
static void request_abandon(struct wf_abandon_hook *hook)
{
    struct request *request = wf_container_of(hook, struct request, hook);
    struct wf_uring *uring = request->uring;
    struct io_uring_cqe *cqe;
    WF_REACHED("uring.request_abandoned");
    request_cancel(request, request->task);
    while (wf_load_acquire(&request->state) != DONE) { /* (io.U1); ends: the kernel completes it */
        if (!WF_FAULT("io_uring_enter")) {
            (void)io_uring_wait_cqe(&uring->ring, &cqe); /* the reap below takes it */
        }
        uring_reap(uring, request->task);
    }
    wf_fd_put(request->record);
}

/* [the task]  Suspends until the request has completed.  Returns what interrupted it, or 0.  A call
 * of a socket is not interrupted: it completes as soon as it is submitted. */
static int request_wait(struct request *request)
{
    struct weft_task *self = request->task;
    int interrupted = 0;
    while (wf_load_acquire(&request->state) != DONE) { /* (io.U1); ends: the kernel completes it */
        if (interrupted == 0 && !request->is_socket) {
            /* Also before the first suspension: an earlier cancellation sends no further wake-up.
             */
            interrupted = wf_interrupted(self);
            if (interrupted != 0) {
                request_cancel(request, self);
                continue;
            }
        }
        request->has_waited = true;
        wf_task_suspend(self);
    }
    return interrupted;
}

/* [the task]  False: the kernel has not taken the request. */
static bool request_run(struct request *request, int *interrupted)
{
    const struct wf_uring_call *call = request->call;
    const enum weft_wait kind = call->opcode == WF_URING_READ || call->opcode == WF_URING_RECV
                                    ? WEFT_WAIT_READABLE
                                    : WEFT_WAIT_WRITABLE;
    wf_abandon_hook_add(request->task, &request->hook);
    wf_wait_begin(request->task, kind, (const void *)(uintptr_t)(unsigned)call->fd);
    const bool has_begun = request_begin(request);
    *interrupted = has_begun ? request_wait(request) : 0;
    wf_wait_end(request->task);
    wf_abandon_hook_remove(request->task, &request->hook);
    return has_begun && !request->is_refused;
}

/* [task]  The ring of its worker; NULL: there is none. */
static struct wf_uring *ring_of_worker(struct wf_poller *poller);

bool wf_uring_call(struct wf_fd_op *op, const struct wf_uring_call *call, ssize_t *result)
{
    struct weft_task *self = op->self;
    if (self == NULL || self->body == WF_BODY_POLL) {
        return false;
    }
    for (;;) { /* ends: with a result, an interruption or a refusal */
        struct request request = {.task = self,
                                  .record = op->record,
                                  .uring = ring_of_worker(op->poller),
                                  .call = call,
                                  .is_socket = call->opcode >= WF_URING_RECV,
                                  .hook = {.abandon = request_abandon}};
        int interrupted = request.is_socket ? 0 : wf_interrupted(self);
        *result = interrupted;
        if (request.uring == NULL || interrupted != 0) {
            return interrupted != 0;
        }
        if (!request_run(&request, &interrupted)) {
            return false;
        }
        op->has_waited = op->has_waited || request.has_waited;
        *result = request.result;
        if (request.result != -ECANCELED && request.result != -EINTR) {
            return true;
        }
        WF_REACHED("uring.request_ended_early"); /* with its thread, or by request_cancel */
        if (interrupted != 0) {
            *result = interrupted;
            return true;
        }
    }
}

/* ---- opening and closing ------------------------------------------------------------------- */

static int uring_setup(struct wf_uring *uring)
{
    const unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE;
    struct io_uring_params params = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL |
                 IORING_SETUP_COOP_TASKRUN,
        .cq_entries = COMPLETIONS,
    };
    if (WF_FAULT("io_uring_setup")) {
        return -ENOSYS;
    }
    int rc = io_uring_queue_init_params(REQUESTS, &uring->ring, &params);
    if (rc == 0 && (params.features & needed) != needed) {
        io_uring_queue_exit(&uring->ring);
        rc = -ENOSYS;
    }
    return rc;
}

/* [owner]  An eventfd to which the kernel writes for a completion, registered with epoll. */
static int uring_open_eventfd(struct wf_uring *uring)
{
    int rc = wf_sys_eventfd();
    if (rc < 0) {
        return rc;
    }
    uring->wakeup_fd = rc;
    rc = WF_FAULT("io_uring_register") ? -EPERM
                                       : io_uring_register_eventfd(&uring->ring, uring->wakeup_fd);
    if (rc == 0) {
        rc = wf_sys_epoll_add(uring->poller->fd, uring->wakeup_fd, EPOLLIN | EPOLLET,
                              wf_uring_to_epoll(uring));
    }
    if (rc != 0) {
        (void)wf_sys_close(uring->wakeup_fd); /* nothing was written */
    }
    return rc;
}

/* [owner]  The ring of a worker. */
static int uring_open(struct wf_poller *poller, struct wf_uring **out)
{
    struct wf_uring *uring = wf_alloc_zeroed(1, sizeof(*uring));
    if (uring == NULL) {
        return -ENOMEM;
    }
    uring->poller = poller;
    wf_lock_init(&uring->lock, WF_RANK_URING);
    int rc = uring_setup(uring);
    if (rc != 0) {
        goto free_memory;
    }
    rc = uring_open_eventfd(uring);
    if (rc != 0) {
        goto exit_ring;
    }
    *out = uring;
    return 0;

exit_ring:
    io_uring_queue_exit(&uring->ring);
free_memory:
    wf_free(uring);
    return rc;
}

static struct wf_uring *ring_of_worker(struct wf_poller *poller)
{
    if (wf_load_relaxed(&poller->driver.io) != WEFT_IO_URING) { /* relaxed: a hint */
        return NULL;
    }
    const unsigned index = wf_worker_self()->index;
    struct wf_uring *uring =
        wf_load_relaxed(&poller->urings[index]); /* relaxed: only the owner writes it */
    if (uring == NULL) {
        WF_REACHED("uring.ring_of_spare");
        if (uring_open(poller, &uring) != 0) {
            wf_store_relaxed(&poller->driver.io, WEFT_IO_EPOLL);
            return NULL;
        }
        wf_store_release(&poller->urings[index], uring); /* (io.U3) */
    }
    return uring;
}

int wf_uring_open(struct wf_poller *poller, weft_runtime *runtime)
{
    poller->urings = wf_alloc_zeroed(runtime->workers_max, sizeof(poller->urings[0]));
    if (poller->urings == NULL) {
        return -ENOMEM;
    }
    poller->uring_count = runtime->workers_max;
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        struct wf_uring *uring;
        int rc = uring_open(poller, &uring);
        if (rc != 0) {
            return rc;
        }
        wf_store_relaxed(&poller->urings[i], uring); /* relaxed: not published yet */
    }
    WF_REACHED("uring.opened"); /* tests/marks.sh needs the other uring marks only with this one */
    wf_store_relaxed(&poller->driver.io, WEFT_IO_URING); /* relaxed: not published yet */
    return 0;
}

void wf_uring_close(struct wf_poller *poller)
{
    for (unsigned i = 0; i < poller->uring_count; i++) {
        struct wf_uring *uring =
            wf_load_relaxed(&poller->urings[i]); /* relaxed: no other thread is left */
        if (uring != NULL) {
            io_uring_queue_exit(&uring->ring);
            (void)wf_sys_close(uring->wakeup_fd); /* no data is lost with it */
            wf_free(uring);
        }
    }
    wf_free(poller->urings);
}
