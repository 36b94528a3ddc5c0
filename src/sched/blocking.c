/* SPDX-License-Identifier: MIT */
/*
 * sched/blocking.c - threads for functions that block.
 *
 * A job lies in the frame of the task that waits for it.  Everything about jobs and threads is
 * decided under one lock: a thread without a job stands in a list and sleeps; who brings a job
 * takes the newest thread out of the list and puts the job into its hand, so that the others grow
 * old and end.  Whether a thread that wakes at its deadline may end is whether it still stands in
 * the list.  If it does not, a job is in its hand and a wake is on its way, which it waits for: who
 * wakes it may be about to touch its memory.
 *
 * A thread takes its next job, or stands in the list, before it wakes the task of the last one: so
 * a task that calls one function after the other needs one thread.
 *
 * A thread that cannot be started is no error as long as there are others: the job waits for one of
 * these.  If there are none, nobody would ever run it.
 *
 * Threads that end join each other in a chain, the next one the one before, and who closes the
 * runtime the last.  So they need not be detached, and nothing of them is left after the close.
 *
 * The job of a future has memory of its own, because the task may leave at any time and a function
 * that runs cannot be stopped.  Under the lock it is either DONE, and the future's, or left, and
 * freed by whoever makes it DONE.
 *
 * In the reactor policy the control thread brings the jobs to the threads and the results to the
 * tasks, in steps 2 and 3 of its loop.
 *
 * Rejected: threads that all take from the list (each job would be a race for it, and all of them
 * stay young); a semaphore instead of the hand (it counts wakes that nobody needs any more).
 */
#include <errno.h>

#include "sched/sched.h"

/* One of the threads. */
struct blocker {
    struct wf_list link; /* [lock]  while it is idle */
    struct wf_blocking *pool;
    struct wf_parker parker;
    struct wf_job *job; /* [lock]  in its hand; NULL: it is to end */
    bool is_idle;       /* [lock]  it stands in the list */
};

/* [locked]  All of these numbers are written under the lock; others only look. */
static void count_locked(wf_atomic_u32 *cell, uint32_t more)
{
    wf_store_relaxed(cell, wf_load_relaxed(cell) + more);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

/* [locked] */
static void queue_locked(struct wf_blocking *pool, struct wf_job *job)
{
    job->state = WF_JOB_QUEUED;
    wf_list_push_back(&pool->jobs, &job->link);
    count_locked(&pool->waiting, 1);
}

/* [locked] */
static void unqueue_locked(struct wf_blocking *pool, struct wf_job *job)
{
    wf_list_remove(&job->link);
    count_locked(&pool->waiting, (uint32_t)-1);
}

/* [whose it is]  Nobody waits for it, and nobody will touch it. */
static void discard(struct wf_job *job)
{
    if (job->release != NULL) {
        job->release(job->arg);
    }
    wf_free(job);
}

/* [any]  It has run, and nobody waited for it.  While it did, it could have ended the wait of a
 * task; if all of them wait now, for each other, that is a deadlock. */
static void discard_left(struct wf_blocking *pool, struct wf_job *job)
{
    discard(job);
    wf_runtime_tell(pool->runtime->pool);
}

/* [locked]  The oldest job; NULL: none, or none any more. */
static struct wf_job *next_locked(struct wf_blocking *pool)
{
    if (wf_list_is_empty(&pool->jobs) || pool->is_closing) {
        return NULL;
    }
    struct wf_job *job = wf_container_of(pool->jobs.next, struct wf_job, link);
    unqueue_locked(pool, job);
    job->state = WF_JOB_RUNNING;
    return job;
}

/* ---- threads ------------------------------------------------------------------------------- */

/* [locked]  The thread that rests for the shortest time is not in the list any more, and the caller
 * has to wake it; NULL: none rests. */
static struct blocker *call_locked(struct wf_blocking *pool, struct wf_job *job)
{
    struct wf_list *first = wf_list_pop_front(&pool->idle);
    if (first == NULL) {
        return NULL;
    }
    struct blocker *blocker = wf_container_of(first, struct blocker, link);
    blocker->is_idle = false;
    blocker->job = job;
    count_locked(&pool->resting, (uint32_t)-1);
    return blocker;
}

/* [a thread]  Until there is a job; NULL: it is to end. */
static struct wf_job *wait_for_job(struct blocker *self)
{
    struct wf_blocking *pool = self->pool;
    const int64_t idle_ns = pool->runtime->options.blocking_idle_ns;
    const int64_t now = wf_clock_now();
    WF_JITTER();
    int rc = wf_parker_park(&self->parker, idle_ns < WF_FOREVER - now ? now + idle_ns : WF_FOREVER);
    WF_JITTER();
    wf_lock_acquire(&pool->lock);
    const bool is_forgotten = self->is_idle;
    if (is_forgotten) {
        self->is_idle = false;
        wf_list_remove(&self->link);
        count_locked(&pool->resting, (uint32_t)-1);
    }
    struct wf_job *job = self->job;
    self->job = NULL;
    wf_lock_release(&pool->lock);
    if (!is_forgotten && rc != 0) {
        WF_REACHED("blocking.called_at_the_deadline");
        (void)wf_parker_park(&self->parker, WF_FOREVER); /* the wake is certain */
    }
    return job;
}

/* [a thread]  Tells who waits for the job, and gives the next one; NULL: it is to end. */
static struct wf_job *next_job(struct blocker *self, struct wf_job *job)
{
    struct wf_blocking *pool = self->pool;
    struct wf_reactor *reactor = pool->runtime->reactor;
    struct weft_task *task = job->task;
    wf_lock_acquire(&pool->lock);
    const bool is_left = job->is_left; /* then its task may be gone, too */
    const uint64_t id = job->task_id;
    if (reactor == NULL && !is_left) {
        job->state = WF_JOB_DONE; /* its memory may be gone as soon as the lock is open */
    }
    wf_store_relaxed(&pool->done, wf_load_relaxed(&pool->done) + 1); /* relaxed: as count_locked */
    struct wf_job *next = next_locked(pool);
    const bool is_last = pool->is_closing;
    if (next == NULL && !is_last) {
        self->is_idle = true;
        wf_list_push_front(&pool->idle, &self->link);
        count_locked(&pool->resting, 1);
    }
    wf_lock_release(&pool->lock);
    if (is_left) {
        WF_REACHED("blocking.left_while_it_ran");
        discard_left(pool, job);
    } else if (reactor == NULL) {
        wf_trace_event(pool->runtime, NULL, WF_TRACE_UNBLOCK, id, 0);
        wf_task_wake(task);
    } else {
        wf_reactor_return(reactor, job);
    }
    return next != NULL || is_last ? next : wait_for_job(self);
}

static void *blocker_main(void *arg)
{
    struct blocker *self = arg;
    struct wf_blocking *pool = self->pool;
    wf_lock_acquire(&pool->lock);
    count_locked(&pool->started, 1);
    struct wf_job *job = self->job;
    self->job = NULL;
    wf_lock_release(&pool->lock);
    for (;;) { /* ends: with a thread that nobody needs */
        while (job != NULL) {
            job->result = job->fn(job->arg);
            job = next_job(self, job);
        }
        wf_lock_acquire(&pool->lock);
        job = next_locked(pool); /* who brought it has counted on this one, up to now */
        if (job == NULL) {
            break;
        }
        wf_lock_release(&pool->lock);
    }
    count_locked(&pool->threads, (uint32_t)-1);
    count_locked(&pool->started, (uint32_t)-1);
    const bool has_one_before = pool->has_left;
    const pthread_t before = pool->left;
    pool->has_left = true;
    pool->left = pthread_self();
    if (pool->is_closing) {
        wf_parker_unpark(&pool->closer); /* under the lock, which the closer takes */
    }
    wf_lock_release(&pool->lock);
    wf_free(self);
    if (has_one_before) {
        WF_REACHED("blocking.joins_the_one_before");
        int rc = wf_thread_join(before);
        WEFT_CHECK(rc == 0); /* a thread of our own, joined once */
    }
    return NULL;
}

/* [any]  Starts a thread with this job in its hand. */
static int start(struct wf_blocking *pool, struct wf_job *job)
{
    static const struct wf_thread_options options = {.name = "weft-blocking"};
    struct blocker *blocker = wf_alloc_zeroed(1, sizeof(*blocker));
    if (blocker == NULL) {
        return -ENOMEM;
    }
    wf_parker_init(&blocker->parker);
    blocker->pool = pool;
    blocker->job = job;
    pthread_t thread; /* it knows itself */
    int rc = wf_thread_start(&thread, blocker_main, blocker, &options);
    if (rc != 0) {
        wf_free(blocker);
    }
    return rc;
}

/* ---- bringing jobs ------------------------------------------------------------------------- */

/* [locked]  There is no thread that could run those that were left for it. */
static void fail_queued_locked(struct wf_blocking *pool, int rc)
{
    struct wf_job *job;
    while ((job = next_locked(pool)) != NULL) {
        WF_REACHED("blocking.nobody_is_left_for_it");
        job->result = rc;
        job->state = WF_JOB_DONE;
        wf_task_wake(job->task);
    }
}

/* [any]  A thread could not be started: another one has the job, or it waits, or it fails. */
static int do_without(struct wf_blocking *pool, struct wf_job *job, int rc)
{
    wf_lock_acquire(&pool->lock);
    count_locked(&pool->threads, (uint32_t)-1);
    wf_store_relaxed(&pool->refused, wf_load_relaxed(&pool->refused) + 1);
    struct blocker *blocker = call_locked(pool, job);
    const bool is_any = wf_load_relaxed(&pool->threads) > 0;
    if (blocker == NULL && is_any && !job->is_left) {
        WF_REACHED("blocking.waits_for_another_thread");
        queue_locked(pool, job);
        wf_task_wake(job->task); /* it may have been cancelled meanwhile */
        rc = 0;
    } else if (blocker == NULL && !is_any) {
        fail_queued_locked(pool, rc);
    }
    wf_lock_release(&pool->lock);
    if (blocker != NULL) {
        WF_REACHED("blocking.another_thread_is_free_by_now");
        wf_parker_unpark(&blocker->parker);
        rc = 0;
    }
    return rc;
}

int wf_blocking_submit(struct wf_blocking *pool, struct wf_job *job)
{
    wf_lock_acquire(&pool->lock);
    const int unwanted = job->unwanted;
    if (unwanted != 0) {
        wf_lock_release(&pool->lock);
        return unwanted;
    }
    job->state = WF_JOB_RUNNING;
    struct blocker *blocker = call_locked(pool, job);
    const bool is_full =
        wf_load_relaxed(&pool->threads) >= pool->runtime->options.blocking_max; /* relaxed: lock */
    if (blocker == NULL && is_full) {
        queue_locked(pool, job);
    } else if (blocker == NULL) {
        count_locked(&pool->threads, 1);
    }
    wf_lock_release(&pool->lock);
    if (blocker != NULL) {
        WF_JITTER();
        wf_parker_unpark(&blocker->parker);
        return 0;
    }
    int rc = is_full ? 0 : start(pool, job);
    return rc == 0 ? 0 : do_without(pool, job, rc);
}

/* ---- the reactor policy -------------------------------------------------------------------- */

static void finish(struct wf_blocking *pool, struct wf_job *job)
{
    struct weft_task *task = job->task;
    wf_trace_event(pool->runtime, NULL, WF_TRACE_UNBLOCK, job->task_id, 0);
    wf_lock_acquire(&pool->lock);
    const bool is_left = job->is_left;
    if (!is_left) {
        job->state = WF_JOB_DONE;
    }
    wf_lock_release(&pool->lock);
    if (is_left) {
        WF_REACHED("blocking.left_on_its_way");
        discard_left(pool, job);
    } else {
        wf_task_wake(task);
    }
}

void wf_blocking_begin(struct wf_blocking *pool, struct wf_job *job)
{
    wf_trace_event(pool->runtime, NULL, WF_TRACE_BLOCK, job->task_id, 0);
    int rc = wf_blocking_submit(pool, job);
    if (rc != 0) {
        job->result = rc;
        finish(pool, job);
    }
}

void wf_blocking_end(struct wf_blocking *pool, struct wf_job *job)
{
    finish(pool, job);
}

void wf_blocking_strand(struct wf_blocking *pool, struct wf_job *job)
{
    wf_lock_acquire(&pool->lock);
    const bool is_left = job->is_left;
    job->state = WF_JOB_DONE; /* for wf_blocking_leave; its task never runs again */
    wf_lock_release(&pool->lock);
    if (is_left) {
        discard(job);
    }
}

/* ---- waiting for it ------------------------------------------------------------------------ */

int wf_blocking_ask(struct wf_blocking *pool, struct wf_job *job)
{
    weft_runtime *runtime = pool->runtime;
    job->state = WF_JOB_ASKED;
    job->task_id = wf_task_id(job->task);
    if (runtime->reactor != NULL) {
        wf_reactor_ask(runtime->reactor, job);
        return 0;
    }
    wf_trace_event(runtime, wf_worker_self(), WF_TRACE_BLOCK, job->task_id, 0);
    return wf_blocking_submit(pool, job);
}

bool wf_blocking_is_over(struct wf_blocking *pool, struct wf_job *job, int interrupted)
{
    wf_lock_acquire(&pool->lock);
    bool is_over = job->state == WF_JOB_DONE;
    if (!is_over && interrupted != 0) {
        if (job->state == WF_JOB_QUEUED) {
            unqueue_locked(pool, job);
            job->result = interrupted;
            is_over = true;
        } else {
            job->unwanted = interrupted; /* matters while the control thread has not seen it */
        }
    }
    wf_lock_release(&pool->lock);
    return is_over;
}

void wf_blocking_leave(struct wf_blocking *pool, struct wf_job *job)
{
    wf_lock_acquire(&pool->lock);
    const bool is_ours = job->state == WF_JOB_DONE || job->state == WF_JOB_QUEUED;
    if (job->state == WF_JOB_QUEUED) {
        unqueue_locked(pool, job);
    }
    job->unwanted = -ECANCELED;
    job->is_left = true;
    wf_lock_release(&pool->lock);
    if (is_ours) {
        discard(job);
    }
}

intptr_t weft_blocking(weft_fn fn, void *arg)
{
    struct weft_task *self = wf_task_self();
    if (fn == NULL) {
        return -EINVAL;
    }
    if (self == NULL) {
        return fn(arg);
    }
    int rc = wf_task_interrupted(self);
    if (rc != 0) {
        return rc;
    }
    struct wf_blocking *pool = &self->pool->runtime->blocking;
    struct wf_job job = {.fn = fn, .arg = arg, .task = self};
    wf_wait_begin(self, WEFT_WAIT_BLOCKING, &job);
    rc = wf_blocking_ask(pool, &job);
    if (rc == 0) {
        do { /* a wake may come without a reason */
            wf_task_suspend(self);
            rc = wf_task_interrupted(self);
        } while (!wf_blocking_is_over(pool, &job, rc));
    } else {
        job.result = rc;
    }
    wf_wait_end(self);
    return job.result;
}

/* ---- life ---------------------------------------------------------------------------------- */

void wf_blocking_init(struct wf_blocking *pool, weft_runtime *runtime)
{
    wf_lock_init(&pool->lock, WF_RANK_BLOCKING);
    wf_list_init(&pool->jobs);
    wf_list_init(&pool->idle);
    wf_parker_init(&pool->closer);
    pool->runtime = runtime;
}

/* [closer]  Tells one of those that rest to end; false: none does. */
static bool send_away(struct wf_blocking *pool)
{
    wf_lock_acquire(&pool->lock);
    struct blocker *blocker = call_locked(pool, NULL);
    wf_lock_release(&pool->lock);
    if (blocker != NULL) {
        wf_parker_unpark(&blocker->parker);
    }
    return blocker != NULL;
}

void wf_blocking_shut(struct wf_blocking *pool)
{
    wf_lock_acquire(&pool->lock);
    pool->is_closing = true;
    wf_lock_release(&pool->lock);
}

void wf_blocking_stop(struct wf_blocking *pool)
{
    wf_blocking_shut(pool);
    while (send_away(pool)) {
    }
    bool is_any = true;
    while (is_any) { /* each turn but the last is the end of a thread */
        wf_lock_acquire(&pool->lock);
        is_any = wf_load_relaxed(&pool->threads) > 0; /* relaxed: the lock's */
        wf_lock_release(&pool->lock);
        if (is_any) {
            (void)wf_parker_park(&pool->closer, WF_FOREVER);
        }
    }
    if (pool->has_left) {
        int rc = wf_thread_join(pool->left);
        WEFT_CHECK(rc == 0); /* the last of our own, joined once */
    }
}

unsigned wf_blocking_resting(const struct wf_blocking *pool)
{
    return wf_load_relaxed(&pool->resting); /* relaxed: a number */
}
