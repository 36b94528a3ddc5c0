/* SPDX-License-Identifier: MIT */
/*
 * io/io.h - descriptors: how tasks wait for them, and how readiness is reported.
 *
 * Promises:      a call that would block suspends its task, not its thread.  No readiness is
 *                lost: a task that finds a descriptor empty and then waits is woken for bytes
 *                that came in between.  A number that was closed and reused is never taken for
 *                the old descriptor.
 * Must not know: addresses as text, host names, processes with mailboxes (a layer to come).
 *
 *   fd record      what is known of one descriptor number: its poller, readiness and waiters
 *   fd operation   one call that uses a descriptor; it holds a reference to the record
 *   direction      read or write; each has its own readiness and its own queue of waiters
 *   ready_seq      a number that grows when the kernel reports readiness of a direction
 *   empty_at       the ready_seq at which a call last found nothing in a direction
 *   poller         the driver of a runtime (poller.h): epoll, and an io_uring for each worker
 *
 * Tags:  as in sched.h and sync.h;  [op] during an fd operation of the caller.
 *
 * Synchronisation (edge labels are in the code):
 *
 *   edge   from                            to                          carries
 *   io.I1  wf_fd_put: sub                  last put or close: CAS      each access to the record
 *   io.I2  fd.c fd_reset: sub              wf_fd_get: add              the record after its reset
 *   io.I3  fd_table.c fd_table_grow: CAS   wf_fd_table_find: load      a page of records
 *   io.I4  fd.c wf_fd_ready: store         wf_fd_op_ready_seq: load    what the kernel reported
 *   io.I5  epoll.c wf_epoll_add: add       wf_epoll_wait: load         the record, by epoll
 *   io.U1  uring.c request_complete: store request_wait: load          the result of a request
 *   io.U2  uring.c request_begin: store    reap_completions: load      the request, by the ring
 *   io.U3  uring.c ring_of_worker: store   wf_uring_submit: load       the ring of a spare
 */
#ifndef WF_IO_IO_H
#define WF_IO_IO_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/weft.h>

#include "base/base.h"
#include "future/future.h"
#include "os/os.h"
#include "sync/sync.h"

struct wf_poller;

/* ---- fd records ---------------------------------------------------------------------------- */

enum wf_dir {
    WF_DIR_READ,
    WF_DIR_WRITE,
    WF_DIRS,
};

/* What a descriptor is, as far as waiting for it is concerned. */
enum wf_fd_kind {
    WF_FD_KIND_UNKNOWN,
    WF_FD_KIND_POLLED, /* non-blocking and pollable, as the next two are */
    WF_FD_KIND_SOCKET,
    WF_FD_KIND_TCP,      /* a short read or write means that nothing more can be moved now */
    WF_FD_KIND_TERMINAL, /* may block: a task reads it only after a poll */
    WF_FD_KIND_FILE,     /* blocks, and cannot be polled */
};

/* A ready_seq: a count in steps of WF_READY_STEP, and a flag. */
enum {
    /* The end, an error or urgent data is there.  The kernel reports it once, so a short read no
     * longer means that nothing is left. */
    WF_READY_HUNG_UP = 1,
    WF_READY_STEP = 2,
};
/* Never a ready_seq. */
#define WF_READY_NONE UINT32_MAX

/* A non-worker thread that waits for a descriptor. */
struct wf_thread_wait {
    struct wf_thread_wait *next; /* [locked] */
    int wakeup_fd;               /* an eventfd; the closer of the descriptor writes to it */
};

/* What is known of one descriptor number, by all runtimes of the process.  The memory of a record
 * belongs to its number for good. */
struct wf_fd {
    wf_atomic_u32 state; /* [any: CAS]  references and flags: see fd.c */
    struct wf_spin spin; /* guards what is tagged [locked] */
    /* [op, closer of the poller: CAS]  The poller that reports readiness; NULL: none yet. */
    WF_ATOMIC(struct wf_poller *) poller;
    WF_ATOMIC(uint32_t) ready_seq[WF_DIRS]; /* [locked: write] [op: read] */
    WF_ATOMIC(uint32_t) empty_at[WF_DIRS];  /* [op: write]  see fd.c */
    WF_ATOMIC(uint8_t) kind;                /* [op: write]  enum wf_fd_kind */
    int32_t fd;                             /* [const] */
    struct wf_waitq queues[WF_DIRS];        /* [locked] */
    struct wf_thread_wait *threads;         /* [locked]  non-worker threads that wait; or NULL */
};

/* The state of a record: flags, and above them the number of references.  See fd.c. */
enum {
    WF_FD_CLOSING = 1,
    WF_FD_KEEP_OPEN = 2,
    WF_FD_RESETTING = 4,
    WF_FD_FLAGS = 7,
    WF_FD_REF = 8,
};

/* fd.c  [any]  The slow paths of wf_fd_get and wf_fd_put: the record had a flag before the
 * reference was counted. */
bool wf_fd_get_slow(struct wf_fd *record, uint32_t before);
void wf_fd_put_slow(struct wf_fd *record, uint32_t before);

/* [any]  Takes a reference.  False: the descriptor is closed. */
static inline bool wf_fd_get(struct wf_fd *record)
{
    const uint32_t before = wf_fetch_add_acquire(&record->state, WF_FD_REF); /* (io.I2) */
    return (before & WF_FD_FLAGS) == 0 || wf_fd_get_slow(record, before);
}

/* [op]  Drops a reference.  The last put of a descriptor that was closed meanwhile closes it. */
static inline void wf_fd_put(struct wf_fd *record)
{
    const uint32_t before = wf_fetch_sub_release(&record->state, WF_FD_REF); /* (io.I1) */
    if ((before & WF_FD_FLAGS) != 0) {
        wf_fd_put_slow(record, before);
    }
}

/* fd.c  [worker, control thread]  The kernel reports readiness of these directions (bits by enum
 * wf_dir).  Grants the waiters and adds them to `wakes`; the caller wakes them. */
void wf_fd_ready(struct wf_fd *record, uint32_t dirs, bool is_hung_up, struct wf_wakes *wakes);
/* fd.c  [closer]  The poller is about to be freed.  Tasks of other runtimes that wait for its
 * reports are woken and register with a poller of their own. */
void wf_fds_detach(struct wf_poller *poller);

/* ---- the table of records ------------------------------------------------------------------ */

enum {
    WF_FD_TABLE_PAGE = 256,    /* records */
    WF_FD_TABLE_PAGES = 16384, /* more descriptors than any kernel setting gives to a process */
};

/* fd_table.c  [any: CAS] */
typedef WF_ATOMIC(struct wf_fd *) wf_fd_table_page;
extern wf_fd_table_page wf_fd_table_pages[WF_FD_TABLE_PAGES];

/* [any]  Returns the record of the number.  NULL: the number has no record yet, or can have
 * none. */
#ifdef WF_MODEL
struct wf_fd *wf_fd_table_find(int fd);
#else
static inline struct wf_fd *wf_fd_table_find(int fd)
{
    const unsigned number = (unsigned)fd / WF_FD_TABLE_PAGE; /* too large if fd is negative */
    if (number >= WF_FD_TABLE_PAGES) {
        return NULL;
    }
    struct wf_fd *page = wf_load_acquire(&wf_fd_table_pages[number]); /* (io.I3) */
    return page != NULL ? &page[(unsigned)fd % WF_FD_TABLE_PAGE] : NULL;
}
#endif

/* fd_table.c  [any]  The record, made if there is none.  NULL: no memory, or the number can have
 * none. */
struct wf_fd *wf_fd_table_get(int fd);
/* fd_table.c  [any]  Calls `visit` for each record there is. */
void wf_fd_table_visit(void (*visit)(struct wf_fd *record, void *context), void *context);

/* ---- fd operations ------------------------------------------------------------------------- */

/* A call that uses a descriptor.  In its frame. */
struct wf_fd_op {
    int fd;
    struct wf_fd *record;
    struct wf_poller *poller; /* of the task's runtime; NULL: a non-worker thread, which polls */
    struct weft_task *self;   /* NULL: a non-worker thread */
    bool has_waited;          /* the task was suspended, so others have run meanwhile */
};

/* fd.c  [any]  Begins an operation.  Errors: -EBADF: the descriptor is closed, or the number is
 * negative; -ENOMEM; what opening the poller of the runtime gives. */
int wf_fd_op_begin(struct wf_fd_op *op, int fd);
/* fd.c  [op]  Ends it: see wf_fd_put. */
void wf_fd_op_end(struct wf_fd_op *op);
/* fd.c  [closer]  Undo function for wf_undo_hook_add.  A call registers it while its task waits for
 * something other than the descriptor, such as a blocking job.  If the task never resumes, the
 * closer ends the operation `op`. */
void wf_fd_op_undo(void *op);

/* fd.c  [op]  Finds out the kind, and makes a pollable descriptor non-blocking.  Errors: what fstat
 * and fcntl give. */
int wf_fd_op_find_kind(struct wf_fd_op *op, enum wf_fd_kind *kind);

/* [op]  The kind, found out if it is unknown.  Errors: as wf_fd_op_find_kind. */
static inline int wf_fd_op_kind(struct wf_fd_op *op, enum wf_fd_kind *kind)
{
    *kind = wf_load_relaxed(&op->record->kind); /* relaxed: a fact that any caller can find out */
    return *kind != WF_FD_KIND_UNKNOWN ? 0 : wf_fd_op_find_kind(op, kind);
}

/* [op]  The ready_seq now.  A caller reads it before the system call that may find nothing. */
static inline uint32_t wf_fd_op_ready_seq(const struct wf_fd_op *op, enum wf_dir dir)
{
    return wf_load_acquire(&op->record->ready_seq[dir]); /* (io.I4) */
}

/* [op]  True if a call found nothing at this ready_seq and the caller can wait for the next.  A
 * caller that cannot wait must try each time, and so must every caller while the record has no
 * poller: no report would come. */
static inline bool wf_fd_op_is_known_empty(const struct wf_fd_op *op, enum wf_dir dir,
                                           uint32_t ready_seq)
{
    const struct wf_fd *record = op->record;
    /* Both relaxed: a value older than `ready_seq` only makes the caller try. */
    return wf_load_relaxed(&record->empty_at[dir]) == ready_seq &&
           wf_load_relaxed(&record->poller) != NULL && op->self != NULL &&
           op->self->body != WF_BODY_POLL;
}

/* [op]  The caller found nothing, or less than it asked for, after it had read this ready_seq. */
static inline void wf_fd_op_set_empty(struct wf_fd_op *op, enum wf_dir dir, uint32_t ready_seq)
{
    if ((ready_seq & WF_READY_HUNG_UP) == 0) {
        wf_store_relaxed(&op->record->empty_at[dir], ready_seq); /* relaxed: see is_known_empty */
    }
}

/* fd.c  [op]  Suspends until ready_seq[dir] differs from `ready_seq`; returns 0.  Errors:
 * -ECANCELED, -ETIMEDOUT; -EBADF: the descriptor was closed; -EAGAIN: the caller is a poll task;
 * what the kernel gives for a descriptor that cannot be polled. */
int wf_fd_op_wait(struct wf_fd_op *op, enum wf_dir dir, uint32_t ready_seq);
/* fd.c  [op]  Like wf_fd_op_wait, and returns -ETIME at the time `until_ns`. */
int wf_fd_op_wait_until(struct wf_fd_op *op, enum wf_dir dir, uint32_t ready_seq, int64_t until_ns);
/* fd.c  [op]  The begin phase of that wait (sync.h): never suspends.  0: ready_seq differs already;
 * -EINPROGRESS: the node is queued; else an error of wf_fd_op_wait. */
int wf_fd_op_begin_wait(struct wf_fd_op *op, enum wf_dir dir, uint32_t ready_seq,
                        struct wf_wait_node *node);

/* ---- descriptors that a call has opened ---------------------------------------------------- */

/* fd.c  [any]  The kind of a socket of this family and type. */
enum wf_fd_kind wf_fd_socket_kind(int family, int type);
/* fd.c  [any]  Notes the kind of a descriptor that was just opened, non-blocking.  Errors: as
 * wf_fd_op_begin; the caller still owns the descriptor then. */
int wf_fd_adopt(int fd, enum wf_fd_kind kind);
/* fd.c  [closer]  Undo function for wf_undo_hook_add, registered by a call that has opened a
 * descriptor: closes the number `fd`. */
void wf_fd_open_undo(void *fd);

/* socket.c  [any]  As weft_fd_wait, but returns -ETIME at the time `until_ns`. */
int wf_poll_until(int fd, int events, int64_t until_ns);
/* socket.c  [op, green thread]  Closes the open socket, and keeps its number from being reused
 * until the operation ends.  Called after weft_close of the same number. */
void wf_fd_op_retire_socket(struct wf_fd_op *op);

/* ---- signals ------------------------------------------------------------------------------- */

/* signal.c  [any]  Returns `set`.  If that is NULL: returns `storage`, filled with SIGINT and
 * SIGTERM. */
const sigset_t *wf_signals_or_default(const sigset_t *set, sigset_t *storage);
/* signal.c  [any]  0: a task may wait for these signals.  -EINVAL: the set is NULL or empty;
 * -EPERM: weft_signals_block was not called for one of them. */
int wf_signals_check(const sigset_t *set);
/* signal.c  [a thread that blocks these signals]  True if one signal of the set is pending. */
bool wf_signals_are_pending(const sigset_t *set);

/* ---- files --------------------------------------------------------------------------------- */

/* file.c  [any]  Returns fn(arg).  A green thread is suspended while a thread of the blocking pool
 * calls it.  If there is no such thread the green thread calls it itself; so does every other
 * caller.  -ECANCELED, -ETIMEDOUT: fn was not called. */
intptr_t wf_call_blocking(weft_fn fn, void *arg);

#endif
