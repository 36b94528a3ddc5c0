/* SPDX-License-Identifier: MIT */
/*
 * io/fd.c - using a descriptor, waiting for it, closing it.
 *
 * A side has news: a number that grows when the kernel reports something.  A call reads it, then
 * tries; if it finds nothing it notes that as of these news the side is drained, and waits until
 * the number is another.  What came in between has changed it, and nothing is lost.  Also a read
 * that got less than it asked for notes so: the next call waits at once, without a system call that
 * would find nothing.  Not after a hang-up: that is reported once, and may be news already used up.
 *
 * The kernel is told of a descriptor when somebody first waits for it, for both sides, through the
 * poller of whoever does.  When that one ends, those of other runtimes who wait begin again.
 *
 * A number may be closed by one while others use it.  Its state counts those inside:
 *
 *   users | CLOSING           somebody closed it: nobody enters any more, waits end with -EBADF
 *         | CLOSING | KEPT    somebody said that others close it
 *         | ENDING            nobody is inside: one closes it, and makes the entry as new
 *
 * Who enters counts itself first and looks then, since adding is half as dear as to compare; one
 * that finds a mark takes itself out again, and may be the last to do so.  The entry is made new
 * after the kernel has closed the number, since before it nobody else can have it; who gets the
 * number meanwhile waits the moment until the state is 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/io.h"
#include "os/sys.h"
#include "sched/fast.h"

/* ---- going in and out ---------------------------------------------------------------------- */

/* [the only one left]  Makes the entry as new, when the number is not ours any more. */
static void renew(struct wf_entry *entry)
{
    for (unsigned side = 0; side < WF_SIDES; side++) {
        /* relaxed: (I2) */
        wf_store_relaxed(&entry->drained[side], WF_NEWS_NONE);
        wf_store_relaxed(&entry->news[side], 0);
    }
    wf_store_relaxed(&entry->poller, NULL);
    wf_store_relaxed(&entry->kind, WF_FD_UNKNOWN);
    (void)wf_fetch_sub_release(&entry->state, WF_ENTRY_ENDING); /* (I2) */
#ifdef WF_MODEL
    (void)wf_futex_wake(&entry->state, INT32_MAX); /* see wf_spin_pause */
#endif
}

/* [the only one left]  Closes it, or leaves that to others. */
static int end(struct wf_entry *entry, bool is_kept)
{
    int rc = 0;
    if (is_kept) {
        wf_spin_acquire(&entry->spin); /* under it: who ends the poller waits for that */
        struct wf_poller *poller = wf_load_relaxed(&entry->poller); /* relaxed: the lock's */
        if (poller != NULL) {
            poller->backend->remove(poller, entry);
            wf_store_relaxed(&entry->poller, NULL);
        }
        wf_spin_release(&entry->spin);
    } else {
        rc = wf_sys_close(entry->fd);
    }
    renew(entry);
    return rc;
}

/* [any]  It was closed, and has so many users now: if there is none, the caller is the last. */
static void leave_closed(struct wf_entry *entry, uint32_t state)
{
    const bool is_kept = (state & WF_ENTRY_KEPT) != 0;
    /* acquire: (I1); lost: somebody looked in, and is the last */
    if (state < WF_ENTRY_USER && (state & WF_ENTRY_CLOSING) != 0 &&
        wf_cas_acquire(&entry->state, &state, WF_ENTRY_ENDING)) {
        WF_REACHED("fd.closed_by_the_last_user");
        (void)end(entry, is_kept); /* who closed it has its answer already */
    }
}

void wf_entry_leave_slowly(struct wf_entry *entry, uint32_t before)
{
    leave_closed(entry, before - WF_ENTRY_USER);
}

bool wf_entry_enter_slowly(struct wf_entry *entry, uint32_t before)
{
    unsigned looks = 0;
    do { /* ends: each turn it is closed, or is about to be as new */
        /* relaxed: it has used nothing */
        const uint32_t state = wf_fetch_sub_relaxed(&entry->state, WF_ENTRY_USER) - WF_ENTRY_USER;
        leave_closed(entry, state);
        if ((before & WF_ENTRY_CLOSING) != 0) {
            return false;
        }
        if ((state & WF_ENTRY_ENDING) != 0) {
            wf_spin_pause(&entry->state, state, looks++);
        }
        before = wf_fetch_add_acquire(&entry->state, WF_ENTRY_USER); /* (I2) */
    } while ((before & WF_ENTRY_MARKS) != 0);
    return true;
}

int wf_use_begin(struct wf_use *use, int fd)
{
    struct weft_task *self = wf_task_self();
    *use = (struct wf_use){.fd = fd, .self = self};
    if (fd < 0) {
        return -EBADF;
    }
    int rc = self != NULL ? wf_poller_of(wf_worker_self()->runtime, &use->poller) : 0;
    if (rc != 0) {
        return rc;
    }
    use->entry = wf_table_find(fd);
    if (use->entry == NULL && (use->entry = wf_table_entry(fd)) == NULL) {
        return -ENOMEM;
    }
    return wf_entry_enter(use->entry) ? 0 : -EBADF;
}

void wf_use_end(struct wf_use *use)
{
    wf_entry_leave(use->entry);
}

/* [closer] */
static void let_go(struct wf_parting *parting)
{
    wf_entry_leave(wf_container_of(parting, struct wf_hold, parting)->use->entry);
}

static bool can_be_taken_away(const struct wf_use *use)
{
    return use->self != NULL && use->self->body != WF_BODY_POLL;
}

void wf_hold_begin(struct wf_hold *hold, struct wf_use *use)
{
    *hold = (struct wf_hold){.parting = {.forget = let_go}, .use = use};
    if (can_be_taken_away(use)) {
        wf_parting_add(use->self, &hold->parting);
    }
}

void wf_hold_end(struct wf_hold *hold)
{
    if (can_be_taken_away(hold->use)) {
        wf_parting_remove(hold->use->self, &hold->parting);
    }
}

/* ---- what it is ---------------------------------------------------------------------------- */

/* A Unix socket stops at borders that its peer has set, with more behind them. */
static enum wf_fd_kind kind_of_socket(int fd)
{
    int domain = 0;
    int type = 0;
    return wf_sys_socket_type(fd, &domain, &type) == 0 && type == SOCK_STREAM &&
                   (domain == AF_INET || domain == AF_INET6)
               ? WF_FD_TCP
               : WF_FD_SOCKET;
}

static int find_kind(int fd, enum wf_fd_kind *kind)
{
    struct stat status;
    int rc = wf_sys_fstat(fd, &status);
    if (rc != 0) {
        return rc;
    }
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)) {
        *kind = WF_FD_FILE;
        return 0;
    }
    if (S_ISCHR(status.st_mode) && isatty(fd) == 1) {
        *kind = WF_FD_TERMINAL; /* shared with who started us, whose reads must go on blocking */
        return 0;
    }
    *kind = S_ISSOCK(status.st_mode) ? kind_of_socket(fd) : WF_FD_POLLED;
    return wf_sys_set_nonblocking(fd);
}

int wf_use_find_kind(struct wf_use *use, enum wf_fd_kind *kind)
{
    int rc = find_kind(use->fd, kind);
    if (rc == 0) {
        wf_store_relaxed(&use->entry->kind, (uint8_t)*kind); /* relaxed: see wf_use_classify */
    }
    return rc;
}

int wf_fd_adopt(int fd, enum wf_fd_kind kind)
{
    struct wf_use use;
    int rc = wf_use_begin(&use, fd);
    if (rc == 0) {
        wf_store_relaxed(&use.entry->kind, (uint8_t)kind); /* relaxed: as above */
        wf_use_end(&use);
    }
    return rc;
}

/* ---- news ---------------------------------------------------------------------------------- */

void wf_entry_happened(struct wf_entry *entry, uint32_t sides, bool is_hung_up,
                       struct wf_wakes *wakes)
{
    wf_spin_acquire(&entry->spin);
    for (unsigned side = 0; side < WF_SIDES; side++) {
        if ((sides & 1u << side) != 0) {
            uint32_t news = wf_load_relaxed(&entry->news[side]); /* relaxed: the lock's */
            news = (news + WF_NEWS) | (is_hung_up ? WF_NEWS_HUNG_UP : 0);
            if (news == WF_NEWS_NONE) {
                news = WF_NEWS_HUNG_UP; /* after two thousand million of them */
            }
            wf_store_release(&entry->news[side], news); /* (I4) */
            wf_wakes_grant_all(wakes, &entry->queues[side], &entry->spin, 0);
        }
    }
    wf_spin_release(&entry->spin);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* [inside]  All who wait get this result. */
static void end_waits(struct wf_entry *entry, int result)
{
    wf_spin_acquire(&entry->spin);
    for (unsigned side = 0; side < WF_SIDES; side++) {
        wf_waitq_grant_all(&entry->queues[side], &entry->spin, result);
    }
    for (struct wf_thread_wait *wait = entry->threads; wait != NULL; wait = wait->next) {
        wf_sys_eventfd_add(wait->call_fd);
    }
    wf_spin_release(&entry->spin);
}

/* [inside]  Somebody waits: the kernel has to be told, once. */
static int ask_for_news(struct wf_use *use)
{
    struct wf_entry *entry = use->entry;
    struct wf_poller *nobody = NULL;
    /* relaxed: who finds it told needs nothing of who told it; news come by the lock */
    if (wf_load_relaxed(&entry->poller) != NULL ||
        !wf_cas_relaxed(&entry->poller, &nobody, use->poller)) {
        return 0;
    }
    int rc = use->poller->backend->add(use->poller, entry);
    if (rc != 0) {
        wf_store_relaxed(&entry->poller, NULL);
        end_waits(entry, rc); /* ours, and of those who relied on us */
    }
    return rc;
}

/* [closer] */
static void leave_poller(struct wf_entry *entry, void *context)
{
    struct wf_poller *poller = context;
    if (wf_load_relaxed(&entry->poller) != poller) { /* relaxed: the CAS decides */
        return;
    }
    wf_spin_acquire(&entry->spin); /* who forgets the descriptor may be at the poller just now */
    const bool is_ours = wf_cas_relaxed(&entry->poller, &poller, NULL);
    wf_spin_release(&entry->spin);
    if (is_ours) {
        end_waits(entry, 0);
    }
}

void wf_entries_leave(struct wf_poller *poller)
{
    wf_table_visit(leave_poller, poller);
}

/* [closer]  The task that waits is never resumed. */
static void forget(struct wf_parting *parting)
{
    struct wf_wait_node *node = wf_container_of(parting, struct wf_wait_node, parting);
    struct wf_entry *entry = wf_container_of(node->spin, struct wf_entry, spin);
    wf_waitq_abandon(node);
    wf_entry_leave(entry);
}

int wf_use_begin_wait(struct wf_use *use, enum wf_side side, uint32_t news,
                      struct wf_wait_node *node)
{
    struct wf_entry *entry = use->entry;
    node->spin = &entry->spin;
    node->parting.forget = forget;
    wf_spin_acquire(&entry->spin);
    /* Both relaxed: the lock's; who closes it sets the bit before it takes the lock. */
    const bool is_closing = (wf_load_relaxed(&entry->state) & WF_ENTRY_CLOSING) != 0;
    const bool is_new = wf_load_relaxed(&entry->news[side]) != news;
    if (!is_closing && !is_new) {
        wf_waitq_push(&entry->queues[side], node);
    }
    wf_spin_release(&entry->spin);
    if (is_closing) {
        return -EBADF;
    }
    if (is_new) {
        return 0;
    }
    int rc = ask_for_news(use);
    if (rc != 0) {
        (void)wf_waitq_leave(node); /* granted, with the error */
        return rc;
    }
    return -EINPROGRESS;
}

/* [thread]  Without a poller: asks the kernel for this one, and for the call of who closes it. */
static int wait_in_thread(const struct wf_use *use, enum wf_side side, int64_t until_ns)
{
    struct wf_entry *entry = use->entry;
    struct wf_thread_wait wait = {.call_fd = wf_sys_eventfd()};
    if (wait.call_fd < 0) {
        return wait.call_fd;
    }
    wf_spin_acquire(&entry->spin);
    wait.next = entry->threads;
    entry->threads = &wait;
    /* relaxed: the lock's, as in wf_use_begin_wait */
    int rc = (wf_load_relaxed(&entry->state) & WF_ENTRY_CLOSING) != 0 ? -EBADF : 0;
    wf_spin_release(&entry->spin);
    if (rc == 0) {
        rc = wf_sys_poll(use->fd, wait.call_fd, side == WF_SIDE_READ ? POLLIN : POLLOUT, until_ns);
    }
    wf_spin_acquire(&entry->spin);
    struct wf_thread_wait **link = &entry->threads;
    while (*link != &wait) { /* ends: it is there */
        link = &(*link)->next;
    }
    *link = wait.next;
    const bool is_closing = (wf_load_relaxed(&entry->state) & WF_ENTRY_CLOSING) != 0;
    wf_spin_release(&entry->spin);
    (void)wf_sys_close(wait.call_fd); /* nothing is lost with it */
    if (is_closing || (rc > 0 && (rc & POLLNVAL) != 0)) {
        return -EBADF;
    }
    return rc == 0 && wf_clock_now() >= until_ns ? -ETIME : rc < 0 ? rc : 0;
}

int wf_use_wait(struct wf_use *use, enum wf_side side, uint32_t news)
{
    return wf_use_wait_until(use, side, news, WEFT_NEVER);
}

int wf_use_wait_until(struct wf_use *use, enum wf_side side, uint32_t news, int64_t until_ns)
{
    struct weft_task *self = use->self;
    if (self == NULL) {
        return wait_in_thread(use, side, until_ns);
    }
    if (self->body == WF_BODY_POLL) {
        return -EAGAIN;
    }
    int rc = wf_interrupted(self);
    if (rc != 0) {
        return rc;
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    rc = wf_use_begin_wait(use, side, news, &node);
    if (rc == -EINPROGRESS) {
        rc = wf_waitq_wait(&node, side == WF_SIDE_READ ? WEFT_WAIT_READABLE : WEFT_WAIT_WRITABLE,
                           (const void *)(uintptr_t)(unsigned)use->fd, until_ns);
        if (rc == -ETIMEDOUT && until_ns != WEFT_NEVER && wf_interrupted(self) == 0) {
            rc = -ETIME; /* not the task's deadline */
        }
        rc = rc != 0 ? rc : node.result;
        wf_fetch_next(wf_worker_self()); /* a system call comes now, mostly */
    }
    return rc;
}

/* ---- closing ------------------------------------------------------------------------------- */

/* [any]  Nobody enters from now on; the last one inside ends it.  Who closes it is one of them
 * until it has told the others: else the number could be another's by then, whose waits it would
 * end. */
static int close_entry(struct wf_entry *entry, bool is_kept)
{
    uint32_t state = wf_load_relaxed(&entry->state); /* relaxed: the CAS decides */
    uint32_t next;
    unsigned looks = 0;
    do {                                         /* each lost one is another's step */
        while ((state & WF_ENTRY_ENDING) != 0) { /* the kernel may have given it to the caller */
            wf_spin_pause(&entry->state, state, looks++);
            state = wf_load_relaxed(&entry->state); /* relaxed: as above */
        }
        if ((state & WF_ENTRY_MARKS) != 0) {
            return -EBADF; /* somebody else has closed it, and it stays open until all are out */
        }
        next = state == 0
                   ? WF_ENTRY_ENDING
                   : (state | WF_ENTRY_CLOSING | (is_kept ? WF_ENTRY_KEPT : 0)) + WF_ENTRY_USER;
    } while (!wf_cas_acquire(&entry->state, &state, next)); /* (I1) */
    if (next == WF_ENTRY_ENDING) {
        return end(entry, is_kept);
    }
    end_waits(entry, -EBADF);
    wf_entry_leave(entry);
    return 0;
}

int weft_close(int fd)
{
    struct wf_entry *entry = wf_table_find(fd);
    return entry != NULL ? close_entry(entry, false) : wf_sys_close(fd);
}

int weft_forget(int fd)
{
    struct wf_entry *entry = wf_table_find(fd);
    if (fd < 0) {
        return -EBADF;
    }
    return entry != NULL ? close_entry(entry, true) : 0;
}
