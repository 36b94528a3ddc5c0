/* SPDX-License-Identifier: MIT */
/*
 * io/io.h - descriptors: who waits for them, and how news of them comes.
 *
 * Promises:      a call that would block suspends its task and no thread.  No news is lost: who
 *                finds a descriptor drained and then waits hears of what came in between.  A number
 *                that was closed and given out again is never taken for the old one.
 * Must not know: processes, bytecode.
 *
 *   poller    the driver of a runtime: a way to ask the kernel for news of many descriptors
 *   entry     what is known of one number: which poller has news of it, what news came
 *   side      reading or writing
 *   news      a number that grows when the kernel reports something for a side
 *
 * Tags:  as in sched.h and sync.h;  [inside] the caller has entered the entry.
 *
 * Who synchronises with whom (the letters are the labels in the code):
 *
 *   edge  from                           to                            carries
 *   I1    leave: sub                     the last one's CAS            every use before the close
 *   I2    fd.c renew: sub                enter: add                    that the entry is as new
 *   I3    table.c grow: CAS              entry: load                   the page of entries
 *   I4    fd.c happened: store news      news: load                    what the kernel had by then
 *   I5    resolve.c lookup_put: sub      the last one's sub            every use of a lookup
 *   I6    epoll.c add: add               wait: load                    the entry, past the kernel
 *   U1    uring.c complete: store        its task: load                what the kernel has told
 *   U3    uring.c ring_of: store         relieve: load                 the ring of a spare
 *   U2    uring.c begin: store           gather: load                  the call, through the kernel
 */
#ifndef WF_IO_IO_H
#define WF_IO_IO_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/net.h>
#include <weft/weft.h>

#include "base/base.h"
#include "os/os.h"
#include "sched/sched.h"
#include "sync/sync.h"

/* ---- descriptors --------------------------------------------------------------------------- */

enum wf_side {
    WF_SIDE_READ,
    WF_SIDE_WRITE,
    WF_SIDES,
};

/* What a descriptor is, as far as waiting for it goes. */
enum wf_fd_kind {
    WF_FD_UNKNOWN,
    WF_FD_POLLED, /* does not block; the poller can be asked for news; so for the next two */
    WF_FD_SOCKET,
    WF_FD_TCP,      /* who gets less than it asked for has all there is */
    WF_FD_TERMINAL, /* may block: it is read only after news of it */
    WF_FD_FILE,     /* blocks, and cannot be polled */
};

/* News of a side: grows by WF_NEWS when the kernel reports something. */
enum {
    /* To get less than one asked for says nothing from now on: the end, an error or urgent data is
     * there. */
    WF_NEWS_HUNG_UP = 1,
    WF_NEWS = 2,
};
/* What news never are. */
#define WF_NEWS_NONE UINT32_MAX

struct wf_poller;

/* A thread that is no worker, and waits. */
struct wf_thread_wait {
    struct wf_thread_wait *next; /* [locked] */
    int call_fd;                 /* an eventfd, where it is called if the descriptor is closed */
};

/* What is known of one descriptor, by all runtimes.  Its memory is only ever used for this number.
 */
struct wf_entry {
    wf_atomic_u32 state;                  /* [any: CAS]  users and marks: see fd.c */
    struct wf_spin spin;                  /* of the queues */
    WF_ATOMIC(struct wf_poller *) poller; /* [inside, its end: CAS]  who has news of it; or NULL */
    WF_ATOMIC(uint32_t) news[WF_SIDES];   /* [locked: write] [inside: read] */
    /* [inside: write]  The news as of which there was nothing more to be had; see fd.c. */
    WF_ATOMIC(uint32_t) drained[WF_SIDES];
    WF_ATOMIC(uint8_t) kind;          /* [inside: write]  enum wf_fd_kind */
    int32_t fd;                       /* [const] */
    struct wf_waitq queues[WF_SIDES]; /* [locked] */
    struct wf_thread_wait *threads;   /* [locked]  threads that wait for it; or NULL */
};

/* The state of an entry: marks, and above them the number of users.  See fd.c. */
enum {
    WF_ENTRY_CLOSING = 1,
    WF_ENTRY_KEPT = 2,
    WF_ENTRY_ENDING = 4,
    WF_ENTRY_MARKS = 7,
    WF_ENTRY_USER = 8,
};

/* fd.c  [any]  The caller has counted itself, beside a mark. */
bool wf_entry_enter_slowly(struct wf_entry *entry, uint32_t before);
void wf_entry_leave_slowly(struct wf_entry *entry, uint32_t before);

/* [any]  False: it is closed. */
static inline bool wf_entry_enter(struct wf_entry *entry)
{
    const uint32_t before = wf_fetch_add_acquire(&entry->state, WF_ENTRY_USER); /* (I2) */
    return (before & WF_ENTRY_MARKS) == 0 || wf_entry_enter_slowly(entry, before);
}

/* [inside] */
static inline void wf_entry_leave(struct wf_entry *entry)
{
    const uint32_t before = wf_fetch_sub_release(&entry->state, WF_ENTRY_USER); /* (I1) */
    if ((before & WF_ENTRY_MARKS) != 0) {
        wf_entry_leave_slowly(entry, before);
    }
}

/* A call that uses a descriptor. */
struct wf_use {
    int fd;
    struct wf_entry *entry;
    struct wf_poller *poller; /* of the task's runtime; NULL: a thread, which asks the kernel */
    struct weft_task *self;   /* NULL: a thread */
    bool has_waited;          /* so others have run meanwhile */
};

/* fd.c  [any]  Begins to use it.  -EBADF: it is closed, or no number at all; -ENOMEM, and what
 * opening a poller gives. */
int wf_use_begin(struct wf_use *use, int fd);
/* fd.c  [inside]  The last one of a descriptor that was closed meanwhile closes it. */
void wf_use_end(struct wf_use *use);
/* fd.c  [inside]  Finds the kind out, and sees to it that what can be polled does not block. */
int wf_use_find_kind(struct wf_use *use, enum wf_fd_kind *kind);

/* [inside]  The same, if nobody has yet. */
static inline int wf_use_classify(struct wf_use *use, enum wf_fd_kind *kind)
{
    *kind = wf_load_relaxed(&use->entry->kind); /* relaxed: a fact that anybody may find out */
    return *kind != WF_FD_UNKNOWN ? 0 : wf_use_find_kind(use, kind);
}

/* [inside]  The news so far; to be read before the system call that may find nothing. */
static inline uint32_t wf_use_news(const struct wf_use *use, enum wf_side side)
{
    return wf_load_acquire(&use->entry->news[side]); /* (I4) */
}

/* [inside]  Whether nothing came since there was nothing to be had, and the caller may wait for it.
 * Who cannot has to try each time: it would not hear of what comes. */
static inline bool wf_use_is_drained(const struct wf_use *use, enum wf_side side, uint32_t news)
{
    const struct wf_entry *entry = use->entry;
    /* Both relaxed: as of news that were read before; if nobody is told of others, it is tried. */
    return wf_load_relaxed(&entry->drained[side]) == news &&
           wf_load_relaxed(&entry->poller) != NULL && use->self != NULL &&
           use->self->body != WF_BODY_POLL;
}

/* [inside]  As of these news there is nothing more. */
static inline void wf_use_drain(struct wf_use *use, enum wf_side side, uint32_t news)
{
    if ((news & WF_NEWS_HUNG_UP) == 0) {
        wf_store_relaxed(&use->entry->drained[side], news); /* relaxed: as above */
    }
}
/* fd.c  [inside]  Waits for others than these.  0; -ECANCELED, -ETIMEDOUT, -EBADF: it was closed;
 * -EAGAIN: a poll task; or what the kernel has against polling it. */
int wf_use_wait(struct wf_use *use, enum wf_side side, uint32_t news);
/* fd.c  [inside]  The same; -ETIME: the point in time has come. */
int wf_use_wait_until(struct wf_use *use, enum wf_side side, uint32_t news, int64_t until_ns);
/* fd.c  [inside]  The same in phases, as sync.h has them. */
int wf_use_begin_wait(struct wf_use *use, enum wf_side side, uint32_t news,
                      struct wf_wait_node *node);
/* A use that waits for something else than its descriptor: if its task never goes on, it is out. */
struct wf_hold {
    struct wf_parting parting;
    struct wf_use *use;
};
/* fd.c  [inside]  Around such a wait. */
void wf_hold_begin(struct wf_hold *hold, struct wf_use *use);
void wf_hold_end(struct wf_hold *hold);

/* What a call has for itself while it waits: if its task never goes on, `end` gives it back. */
struct wf_belonging {
    struct wf_parting parting;
    struct weft_task *self; /* NULL: a thread, from which nobody takes its stack */
    void (*end)(void *what);
    void *what;
};
/* belonging.c  [any]  Around the wait. */
void wf_belonging_begin(struct wf_belonging *belonging, void (*end)(void *what), void *what);
void wf_belonging_begin_fd(struct wf_belonging *belonging, int fd);
void wf_belonging_end(struct wf_belonging *belonging);

/* fd.c  [task]  A descriptor that was opened just now, and does not block. */
int wf_fd_adopt(int fd, enum wf_fd_kind kind);
/* socket.c  [any]  weft_poll_fd with an end of its own, after which it gives -ETIME. */
int wf_poll_until(int fd, int events, int64_t until_ns);
/* fd.c  [worker, control thread]  The kernel has news.  Who waited for them is granted, and is to
 * be woken by the caller. */
void wf_entry_happened(struct wf_entry *entry, uint32_t sides, bool is_hung_up,
                       struct wf_wakes *wakes);

/* ---- signals ------------------------------------------------------------------------------- */

/* signal.c  [any]  0; -EINVAL, -EPERM: as weft_signal_wait. */
int wf_signals_check(const sigset_t *set);
/* signal.c  [worker, a thread that blocks them]  Whether one of them could be taken. */
bool wf_signals_are_pending(const sigset_t *set);

/* ---- files --------------------------------------------------------------------------------- */

/* file.c  [any]  fn(arg), on a thread that may block if the caller is a green thread.  If there is
 * no thread, here.  -ECANCELED, -ETIMEDOUT: it has not begun. */
intptr_t wf_call_blocking(weft_fn fn, void *arg);

/* ---- calls by io_uring --------------------------------------------------------------------- */

enum wf_ring_what {
    WF_RING_READ,
    WF_RING_WRITE,
    WF_RING_FSYNC,
    WF_RING_FDATASYNC,
    WF_RING_RECV, /* of sockets; these two never wait for more than to be given to the kernel */
    WF_RING_SEND,
};

/* A call that the kernel can make while we do something else. */
struct wf_ring_call {
    enum wf_ring_what what;
    int fd;
    union {
        void *buffer;
        const void *bytes;
    };
    size_t size;
    int64_t offset;
    int flags; /* of a socket */
};

struct wf_poller;
struct wf_uring;

#ifdef WF_URING
/* uring.c  [inside]  Waits for its result.  False: it was not made, and has to be in another way.
 * -ECANCELED, -ETIMEDOUT: it has moved nothing. */
bool wf_ring_call(struct wf_use *use, const struct wf_ring_call *call, ssize_t *result);
/* uring.c  [task]  Whether others of its worker have calls to make as well: then the kernel is
 * given them all at once. */
bool wf_uring_is_worth(const struct wf_use *use);
/* uring.c  [owner, monitor]  Gives the kernel what the worker has for it; wakes tasks. */
void wf_uring_flush(struct wf_poller *poller, struct wf_worker *worker);
/* uring.c  [watcher]  Gives the kernel what a worker has for it that has not come to it. */
void wf_uring_relieve(struct wf_poller *poller);
/* uring.c  [worker, control thread]  Wakes tasks whose calls the kernel has made. */
void wf_uring_gather(struct wf_uring *uring);
/* uring.c  [task]  -ENOSYS, -ENOMEM: the kernel refuses; what there is goes with wf_uring_close. */
int wf_uring_open(struct wf_poller *poller, weft_runtime *runtime);
/* uring.c  [closer] */
void wf_uring_close(struct wf_poller *poller);
#else
static inline bool wf_ring_call(struct wf_use *use, const struct wf_ring_call *call,
                                ssize_t *result)
{
    (void)use;
    (void)call;
    (void)result;
    return false;
}

static inline void wf_uring_gather(struct wf_uring *uring)
{
    (void)uring;
}

static inline bool wf_uring_is_worth(const struct wf_use *use)
{
    (void)use;
    return false;
}

static inline void wf_uring_flush(struct wf_poller *poller, struct wf_worker *worker)
{
    (void)poller;
    (void)worker;
}

static inline void wf_uring_relieve(struct wf_poller *poller)
{
    (void)poller;
}

static inline int wf_uring_open(struct wf_poller *poller, weft_runtime *runtime)
{
    (void)poller;
    (void)runtime;
    return 0;
}

static inline void wf_uring_close(struct wf_poller *poller)
{
    (void)poller;
}
#endif

/* What epoll keeps for a ring, in place of an entry: an odd address. */
static inline void *wf_event_data_of(struct wf_uring *uring)
{
    return (char *)uring + 1;
}

/* ---- connections --------------------------------------------------------------------------- */

/* listen.c  [any]  The kind of a socket, by what it was opened with. */
enum wf_fd_kind wf_kind_of_socket(int family, int type);
/* dial.c  [green, thread]  Connects to the first that answers: its descriptor.  The next is tried
 * when one has failed or `delay_ns` have passed.  If all fail: the error of the first that did. */
int wf_dial_addresses(const weft_address *addresses, size_t count, int64_t delay_ns);
/* dial.c  [any]  Puts them into an order in which families take turns, as long as there are
 * several; those of a family keep theirs. */
void wf_interleave(weft_address *addresses, size_t count);

/* ---- the table of descriptors -------------------------------------------------------------- */

enum {
    WF_TABLE_PAGE = 256,    /* entries */
    WF_TABLE_PAGES = 16384, /* more descriptors than a process gets by settings of any kernel */
};

/* table.c  [any: CAS] */
typedef WF_ATOMIC(struct wf_entry *) wf_table_page;
extern wf_table_page wf_table_pages[WF_TABLE_PAGES];

/* [any]  NULL: nobody asked for it yet. */
#ifdef WF_MODEL
struct wf_entry *wf_table_find(int fd);
#else
static inline struct wf_entry *wf_table_find(int fd)
{
    const unsigned number = (unsigned)fd / WF_TABLE_PAGE; /* of a negative one: too large */
    if (number >= WF_TABLE_PAGES) {
        return NULL;
    }
    struct wf_entry *page = wf_load_acquire(&wf_table_pages[number]); /* (I3) */
    return page != NULL ? &page[(unsigned)fd % WF_TABLE_PAGE] : NULL;
}
#endif

/* [any]  NULL: no memory, or no number that a descriptor can have. */
struct wf_entry *wf_table_entry(int fd);
/* [any]  Calls `visit` for all that anybody asked for. */
void wf_table_visit(void (*visit)(struct wf_entry *entry, void *context), void *context);

/* ---- pollers ------------------------------------------------------------------------------- */

/* Events that are taken at once in passing. */
#define WF_POLLER_GLANCE 32
/* From how many on it is worth to fetch what they need first. */
#define WF_EVENTS_AHEAD_MIN 4

/* What the kernel told, before anybody was woken. */
struct wf_event {
    struct wf_entry *entry; /* NULL: a call, or a ring */
    struct wf_uring *ring;  /* that has something to tell; or NULL */
    uint8_t sides;          /* bits by enum wf_side */
    bool is_hung_up;
};

/* A way to ask the kernel.  [const] */
struct wf_backend {
    const char *name;
    int (*open)(struct wf_poller *poller);
    void (*close)(struct wf_poller *poller);
    /* [inside]  From now on news of it come, and at once of what there is.  -EPERM: it cannot be
     * polled. */
    int (*add)(struct wf_poller *poller, struct wf_entry *entry);
    /* [inside]  No more, but for those under way. */
    void (*remove)(struct wf_poller *poller, struct wf_entry *entry);
    /* [watcher; or timeout 0: any]  Waits for news, at most until then; gives their number. */
    int (*wait)(struct wf_poller *poller, struct wf_event *events, int count, int64_t deadline_ns);
    /* [any]  Ends a wait. */
    void (*call)(struct wf_poller *poller);
};
extern const struct wf_backend wf_backend_epoll;

struct wf_poller {
    struct wf_driver driver;
    const struct wf_backend *backend;    /* [const] */
    int fd;                              /* [const]  of the backend */
    int call_fd;                         /* [const]  an eventfd */
    wf_atomic_u32 added;                 /* [any: add]  see epoll.c */
    unsigned ring_count;                 /* [const]  see uring.c; so for the next one */
    WF_ATOMIC(struct wf_uring *) *rings; /* [owner, by its index: write]  NULL: none, or not yet */
    int events_max;                      /* [const]  taken at once: options.io_events_max */
    int caught_count;                    /* [watcher] */
    struct wf_event caught[WF_IO_EVENTS_MAX];
};

/* [any]  Whether a call by io_uring is worth a try. */
static inline bool wf_has_rings(const struct wf_use *use)
{
    /* relaxed: a hint */
    return use->poller != NULL && wf_load_relaxed(&use->poller->driver.io) == WEFT_IO_URING;
}

/* poller.c  [task]  That of the runtime; opened when first asked for.  -ENOMEM, -EMFILE, ... */
int wf_poller_of(weft_runtime *runtime, struct wf_poller **out);

/* fd.c  [closer]  The poller ends: whoever of another runtime waits for its news asks elsewhere. */
void wf_entries_leave(struct wf_poller *poller);

#endif
