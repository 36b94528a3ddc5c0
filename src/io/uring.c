/* SPDX-License-Identifier: MIT */
/*
 * io/uring.c - calls that the kernel makes for us: io_uring.
 *
 * News of descriptors come by epoll in any case: a poll of io_uring would hold the file, and who
 * closes the number of a listening socket would leave it open for as long as it takes another
 * thread to hear of it.  A ring is for calls:
 *
 *   of files     those that would else take a thread of their own.  Each is given at once.
 *   of sockets   those that are tried after news, and do not wait.  If a worker has several tasks
 *                with news, their calls are given together when all have been run: one system call
 *                in place of many.  A task that is alone makes the call itself.
 *
 * Each worker has a ring; a spare one gets it when it first needs it.  A call is a request in the
 * ring of the worker that its task is on, and stays there wherever the task goes.  The request says
 * where the call is in the frame of the task, and the task waits until the kernel has told the
 * result: also if it is cancelled, since until then the kernel may use its buffer.  To cancel is
 * another request.
 *
 * What the kernel has to tell is in memory.  Whoever has given requests looks there at once; else
 * it says by an eventfd that there is something, to whoever watches, as of any other descriptor.
 *
 * The kernel reports by the thread that made the request, which it calls into itself for that if
 * need be.  With a thread its requests end: such a call is made again.
 *
 * The kernel may refuse rings at any time, since rules can be set for a process while it runs.
 * Then there are no calls by rings from then on, and what it has not taken is done in the other
 * way; what it has taken comes to its end.
 */
#include <errno.h>
#include <liburing.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/io.h"
#include "os/sys.h"
#include "sched/fast.h"

enum {
    REQUESTS = 256,     /* that wait to be given to the kernel */
    COMPLETIONS = 1024, /* that wait for us; what is more the kernel keeps */
    BATCH = 32,         /* taken at once */
    GIVE = 64,          /* of sockets, given at once */
};
/* The most that the kernel moves at once. */
#define SIZE_MOST ((size_t)0x7ffff000)

struct wf_uring {
    struct wf_poller *poller; /* [const] */
    struct wf_lock lock;      /* of requests */
    struct wf_spin spin;      /* of completions */
    struct io_uring ring;     /* the kernel's side of it is shared */
    int call_fd;              /* [const]  an eventfd, by which the kernel calls the watcher */
    unsigned seen;            /* [watcher]  how many requests there ever were, at its last look */
};

enum { GIVEN = 1, DONE };

/* A call that the kernel makes.  In the frame of its task. */
struct op {
    struct weft_task *task;
    struct wf_entry *entry; /* which the task is inside */
    struct wf_uring *uring;
    const struct wf_ring_call *call;
    wf_atomic_u32 state; /* (U1), (U2) */
    int result;
    bool is_refused; /* the kernel has not taken it */
    bool is_socket;
    bool has_waited; /* others have run meanwhile */
    struct wf_parting parting;
};

/* [any]  The task may go on, and the call is gone with it. */
static void complete(struct op *op, const struct weft_task *self)
{
    struct weft_task *task = op->task;
    wf_store_release(&op->state, DONE); /* (U1) */
    if (task != self) {
        wf_task_wake(task);
    }
}

/* ---- requests ------------------------------------------------------------------------------ */

/* [locked]  Room for a request; NULL: there is none. */
static struct io_uring_sqe *begin_request(struct wf_uring *uring)
{
    const struct io_uring_sq *sq = &uring->ring.sq;
    const unsigned tail = *sq->ktail;
    if (WF_FAULT("io_uring_sqe") ||
        tail - io_uring_smp_load_acquire(sq->khead) >= sq->ring_entries) {
        return NULL;
    }
    sq->array[tail & sq->ring_mask] = tail & sq->ring_mask;
    return &sq->sqes[tail & sq->ring_mask];
}

/* [locked]  The kernel may have it.  NULL: nobody wants to hear of it. */
static void end_request(struct wf_uring *uring, struct io_uring_sqe *sqe, struct op *op)
{
    const struct io_uring_sq *sq = &uring->ring.sq;
    io_uring_sqe_set_data(sqe, op);
    io_uring_smp_store_release(sq->ktail, *sq->ktail + 1);
}

static int enter(struct wf_uring *uring, unsigned wanted, unsigned flags)
{
    if (WF_FAULT("io_uring_enter")) {
        return -EPERM;
    }
    /* The kernel looks for what there is to tell only if it got as many as were announced. */
    const unsigned given = flags == 0 ? REQUESTS : 0;
    const long rc = syscall(SYS_io_uring_enter, uring->ring.ring_fd, given, wanted, flags, NULL, 0);
    return rc >= 0 ? (int)rc : -errno;
}

/* [locked]  Takes back what the kernel has not taken. */
static void take_back(struct wf_uring *uring, const struct weft_task *self)
{
    const struct io_uring_sq *sq = &uring->ring.sq;
    unsigned head = io_uring_smp_load_acquire(sq->khead);
    const unsigned tail = *sq->ktail;
    io_uring_smp_store_release(sq->ktail, head);
    for (; head != tail; head++) {
        struct op *op = (struct op *)(uintptr_t)sq->sqes[head & sq->ring_mask].user_data;
        if (op != NULL) {
            op->is_refused = true;
            complete(op, self);
        }
    }
}

/* [locked]  Gives the kernel what there is.  One that refuses is not asked again. */
static void submit(struct wf_uring *uring, const struct weft_task *self)
{
    const struct io_uring_sq *sq = &uring->ring.sq;
    int rc;
    do { /* ends: each turn the kernel takes a request, or says why not */
        rc = enter(uring, 0, 0);
    } while (rc == -EINTR || (rc > 0 && io_uring_smp_load_acquire(sq->khead) != *sq->ktail));
    if (rc < 0) {
        WF_REACHED("uring.refused_later");
        wf_store_relaxed(&uring->poller->driver.io, WEFT_IO_EPOLL); /* relaxed: a hint */
        take_back(uring, self);
    }
}

/* ---- completions --------------------------------------------------------------------------- */

/* [any]  Takes some; gives their number. */
static unsigned take(struct wf_uring *uring, struct io_uring_cqe *taken)
{
    const struct io_uring_cq *cq = &uring->ring.cq;
    unsigned count = 0;
    wf_spin_acquire(&uring->spin);
    unsigned head = *cq->khead;
    const unsigned tail = io_uring_smp_load_acquire(cq->ktail);
    for (; head != tail && count < BATCH; head++) {
        const struct io_uring_cqe *cqe = &cq->cqes[head & cq->ring_mask];
        taken[count].user_data = cqe->user_data;
        taken[count].res = cqe->res;
        count++;
    }
    io_uring_smp_store_release(cq->khead, head);
    wf_spin_release(&uring->spin);
    return count;
}

/* [any]  `self` need not be woken. */
static void gather_told(struct wf_uring *uring, const struct weft_task *self)
{
    struct io_uring_cqe taken[BATCH];
    unsigned count;
    do { /* ends: nobody gives the kernel requests without an end */
        count = take(uring, taken);
        for (unsigned i = 0; i < count; i++) {
            struct op *op = (struct op *)(uintptr_t)taken[i].user_data;
            if (op != NULL) {
                (void)wf_load_acquire(&op->state); /* (U2); the kernel saw to it, unseen by tools */
                op->result = taken[i].res;
                complete(op, self);
            }
        }
    } while (count == BATCH);
}

/* [any, without the lock]  The same.  What the ring had no room for comes into it when the kernel
 * is asked, and it calls nobody for that: so whoever looks, asks. */
static void gather(struct wf_uring *uring, const struct weft_task *self)
{
    int rc = 0;
    gather_told(uring, self);
    while (rc >= 0 && (*(volatile unsigned *)uring->ring.sq.kflags & IORING_SQ_CQ_OVERFLOW) != 0) {
        WF_REACHED("uring.overflown");
        wf_lock_acquire(&uring->lock);
        rc = enter(uring, 0, IORING_ENTER_GETEVENTS);
        wf_lock_release(&uring->lock);
        gather_told(uring, self);
    }
}

/* [any]  Whether the kernel calls the watcher for what it has to tell.  Not for what it tells to
 * one who is about to look, but who looks is told only before it says so: it looks again. */
static void set_calls(struct wf_uring *uring, bool is_on)
{
    (void)io_uring_cq_eventfd_toggle(&uring->ring, is_on); /* fails if there is none */
    if (is_on) {
        wf_fence_seq_cst(); /* (U4) the kernel's is between what it tells and its look at this */
    }
}

void wf_uring_gather(struct wf_uring *uring)
{
    gather(uring, NULL);
}

/* ---- calls --------------------------------------------------------------------------------- */

static void prepare(struct io_uring_sqe *sqe, const struct op *op)
{
    const struct wf_ring_call *call = op->call;
    const unsigned size = (unsigned)(call->size < SIZE_MOST ? call->size : SIZE_MOST);
    const uint64_t offset = (uint64_t)call->offset;
    switch (call->what) {
    case WF_RING_READ:
        io_uring_prep_read(sqe, call->fd, call->buffer, size, offset);
        break;
    case WF_RING_WRITE:
        io_uring_prep_write(sqe, call->fd, call->bytes, size, offset);
        break;
    case WF_RING_FSYNC:
        io_uring_prep_fsync(sqe, call->fd, 0);
        break;
    case WF_RING_FDATASYNC:
        io_uring_prep_fsync(sqe, call->fd, IORING_FSYNC_DATASYNC);
        break;
    case WF_RING_RECV:
        io_uring_prep_recv(sqe, call->fd, call->buffer, size, call->flags | MSG_DONTWAIT);
        break;
    case WF_RING_SEND:
        io_uring_prep_send(sqe, call->fd, call->bytes, size, call->flags | MSG_DONTWAIT);
        break;
    }
}

/* [any] */
static void cancel(struct op *op, const struct weft_task *self)
{
    struct wf_uring *uring = op->uring;
    set_calls(uring, false);
    wf_lock_acquire(&uring->lock);
    struct io_uring_sqe *sqe = begin_request(uring);
    if (sqe != NULL) { /* else it comes to its end by itself */
        io_uring_prep_cancel(sqe, op, 0);
        end_request(uring, sqe, NULL);
        submit(uring, self);
    }
    wf_lock_release(&uring->lock);
    set_calls(uring, true);
    gather(uring, self);
}

/* [any]  Requests that wait to be given to the kernel, at a glance. */
static unsigned owed(const struct wf_uring *uring)
{
    const struct io_uring_sq *sq = &uring->ring.sq;
    return io_uring_smp_load_acquire(sq->ktail) - io_uring_smp_load_acquire(sq->khead);
}

/* [the task]  Gives the call to the kernel: that of a socket when the worker has nothing else to
 * do, together with those of others.  False: there is no room. */
static bool begin(struct op *op)
{
    struct wf_uring *uring = op->uring;
    struct wf_worker *worker = wf_worker_self();
    const bool is_later = op->is_socket && worker->runtime->reactor == NULL;
    wf_lock_acquire(&uring->lock);
    struct io_uring_sqe *sqe = begin_request(uring);
    const bool is_now = !is_later || sqe == NULL || owed(uring) + 1 >= GIVE;
    if (sqe != NULL) {
        prepare(sqe, op);
        wf_store_release(&op->state, GIVEN); /* (U2) */
        end_request(uring, sqe, op);
    }
    if (is_now) {
        set_calls(uring, false);
        submit(uring, op->task);
        set_calls(uring, true);
    }
    wf_lock_release(&uring->lock);
    if (is_now) {
        gather(uring, op->task);
    }
    worker->is_owing |= is_later;
    return sqe != NULL;
}

bool wf_uring_is_worth(const struct wf_use *use)
{
    struct wf_worker *worker = wf_worker_self();
    const weft_runtime *runtime = worker->runtime;
    /* relaxed: our own */
    const struct wf_uring *uring = wf_load_relaxed(&use->poller->rings[worker->index]);
    /* Not where nobody would relieve a worker that has no time for it. */
    return uring != NULL && runtime->reactor == NULL && !runtime->options.no_steal &&
           (wf_ring_count(&worker->ring) > 0 || wf_deque_count(&worker->deque) > 0 ||
            owed(uring) > 0);
}

void wf_uring_flush(struct wf_poller *poller, struct wf_worker *worker)
{
    struct wf_uring *uring =
        worker->index < poller->ring_count ? wf_load_acquire(&poller->rings[worker->index]) : NULL;
    if (uring == NULL) { /* (U3) it has none, or none yet */
        return;
    }
    if (owed(uring) > 0) {
        WF_REACHED("uring.given_together");
        wf_lock_acquire(&uring->lock);
        set_calls(uring, false);
        submit(uring, NULL);
        set_calls(uring, true);
        wf_lock_release(&uring->lock);
    }
    gather(uring, NULL);
}

void wf_uring_relieve(struct wf_poller *poller)
{
    for (unsigned i = 0; i < poller->ring_count; i++) {
        struct wf_uring *uring = wf_load_acquire(&poller->rings[i]); /* (U3) */
        if (uring == NULL) {
            continue;
        }
        const unsigned tail = io_uring_smp_load_acquire(uring->ring.sq.ktail);
        if (tail == uring->seen && owed(uring) > 0) {
            WF_REACHED("uring.relieved");
            wf_lock_acquire(&uring->lock);
            submit(uring, NULL);
            wf_lock_release(&uring->lock);
            gather(uring, NULL);
        }
        uring->seen = tail;
    }
}

/* [closer]  The task is never resumed, and its frame goes: not before the kernel has done with it.
 */
static void forget(struct wf_parting *parting)
{
    struct op *op = wf_container_of(parting, struct op, parting);
    struct wf_uring *uring = op->uring;
    WF_REACHED("uring.forgets_a_call");
    cancel(op, op->task);
    while (wf_load_acquire(&op->state) != DONE) { /* (U1); ends: the kernel does, sooner or later */
        (void)enter(uring, 1, IORING_ENTER_GETEVENTS); /* what it tells is looked at */
        gather(uring, op->task);
    }
    wf_entry_leave(op->entry);
}

/* [the task]  Until the kernel has told its result.  What interrupts it, if it was: not a call on a
 * socket, which ends as soon as the kernel has it. */
static int wait(struct op *op)
{
    struct weft_task *self = op->task;
    int interrupted = 0;
    while (wf_load_acquire(&op->state) != DONE) { /* (U1); ends: as above */
        if (interrupted == 0 && !op->is_socket) {
            interrupted = wf_interrupted(self); /* before the first time too: no wake would come */
            if (interrupted != 0) {
                cancel(op, self);
                continue;
            }
        }
        op->has_waited = true;
        wf_task_suspend(self);
    }
    return interrupted;
}

/* [task]  That of its worker; NULL: there is none. */
static struct wf_uring *ring_of(struct wf_poller *poller);

/* [the task]  Once.  False: the kernel has not taken it. */
static bool run(struct op *op, int *interrupted)
{
    const struct wf_ring_call *call = op->call;
    const enum weft_wait kind = call->what == WF_RING_READ || call->what == WF_RING_RECV
                                    ? WEFT_WAIT_READABLE
                                    : WEFT_WAIT_WRITABLE;
    wf_parting_add(op->task, &op->parting);
    wf_wait_begin(op->task, kind, (const void *)(uintptr_t)(unsigned)call->fd);
    const bool has_begun = begin(op);
    *interrupted = has_begun ? wait(op) : 0;
    wf_wait_end(op->task);
    wf_parting_remove(op->task, &op->parting);
    return has_begun && !op->is_refused;
}

bool wf_ring_call(struct wf_use *use, const struct wf_ring_call *call, ssize_t *result)
{
    struct weft_task *self = use->self;
    if (self == NULL || self->body == WF_BODY_POLL) {
        return false;
    }
    for (;;) { /* ends: with a result, or what ended the call ends it for good */
        struct op op = {.task = self,
                        .entry = use->entry,
                        .uring = ring_of(use->poller),
                        .call = call,
                        .is_socket = call->what >= WF_RING_RECV,
                        .parting = {.forget = forget}};
        int interrupted = op.is_socket ? 0 : wf_interrupted(self);
        *result = interrupted;
        if (op.uring == NULL || interrupted != 0) {
            return interrupted != 0;
        }
        if (!run(&op, &interrupted)) {
            return false;
        }
        use->has_waited = use->has_waited || op.has_waited;
        *result = op.result;
        if (op.result != -ECANCELED && op.result != -EINTR) {
            return true;
        }
        WF_REACHED("uring.ended_before_its_end"); /* with the thread, or by us */
        if (interrupted != 0) {
            *result = interrupted;
            return true;
        }
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static int open_ring(struct wf_uring *uring)
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

/* [any]  An eventfd that the kernel adds to when the ring has something to tell, and epoll's news
 * of it. */
static int open_call(struct wf_uring *uring)
{
    int rc = wf_sys_eventfd();
    if (rc < 0) {
        return rc;
    }
    uring->call_fd = rc;
    rc = WF_FAULT("io_uring_register") ? -EPERM
                                       : io_uring_register_eventfd(&uring->ring, uring->call_fd);
    if (rc == 0) {
        rc = wf_sys_epoll_add(uring->poller->fd, uring->call_fd, EPOLLIN | EPOLLET,
                              wf_event_data_of(uring));
    }
    if (rc != 0) {
        (void)wf_sys_close(uring->call_fd); /* nothing was written */
    }
    return rc;
}

/* [owner]  The ring of a worker, and epoll's news of it. */
static int open_uring(struct wf_poller *poller, struct wf_uring **out)
{
    struct wf_uring *uring = wf_alloc_zeroed(1, sizeof(*uring));
    if (uring == NULL) {
        return -ENOMEM;
    }
    uring->poller = poller;
    wf_lock_init(&uring->lock, WF_RANK_URING);
    int rc = open_ring(uring);
    if (rc != 0) {
        goto free_it;
    }
    rc = open_call(uring);
    if (rc != 0) {
        goto close_it;
    }
    *out = uring;
    return 0;

close_it:
    io_uring_queue_exit(&uring->ring);
free_it:
    wf_free(uring);
    return rc;
}

static struct wf_uring *ring_of(struct wf_poller *poller)
{
    if (wf_load_relaxed(&poller->driver.io) != WEFT_IO_URING) { /* relaxed: a hint */
        return NULL;
    }
    const unsigned index = wf_worker_self()->index;
    struct wf_uring *uring = wf_load_relaxed(&poller->rings[index]); /* relaxed: our own */
    if (uring == NULL) {
        WF_REACHED("uring.of_a_spare");
        if (open_uring(poller, &uring) != 0) {
            wf_store_relaxed(&poller->driver.io, WEFT_IO_EPOLL);
            return NULL;
        }
        wf_store_release(&poller->rings[index], uring); /* (U3) */
    }
    return uring;
}

int wf_uring_open(struct wf_poller *poller, weft_runtime *runtime)
{
    poller->rings = wf_alloc_zeroed(runtime->seats_max, sizeof(poller->rings[0]));
    if (poller->rings == NULL) {
        return -ENOMEM;
    }
    poller->ring_count = runtime->seats_max;
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        struct wf_uring *uring;
        int rc = open_uring(poller, &uring);
        if (rc != 0) {
            return rc;
        }
        wf_store_relaxed(&poller->rings[i], uring); /* relaxed: nobody has the poller yet */
    }
    WF_REACHED("uring.opened"); /* without it the other marks of this file prove nothing */
    wf_store_relaxed(&poller->driver.io, WEFT_IO_URING); /* relaxed: nobody has it yet */
    return 0;
}

void wf_uring_close(struct wf_poller *poller)
{
    for (unsigned i = 0; i < poller->ring_count; i++) {
        struct wf_uring *uring = wf_load_relaxed(&poller->rings[i]); /* relaxed: we are alone */
        if (uring != NULL) {
            io_uring_queue_exit(&uring->ring);
            (void)wf_sys_close(uring->call_fd); /* nothing was written that could be lost */
            wf_free(uring);
        }
    }
    wf_free(poller->rings);
}
