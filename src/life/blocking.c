/* SPDX-License-Identifier: MIT */
/*
 * life/blocking.c - the pool of threads for blocking functions.
 *
 * One lock guards all jobs and threads.  An idle thread is in the list `idle` and parks.  The
 * submitter assigns its job to the thread that became idle last, so the others stay idle, and end
 * after blocking_idle_ns.  Submitter against idle thread:
 *
 *   submitter                                idle thread
 *   1 lock; take the thread out of `idle`,   1 park, until idle_ns have passed
 *     store the job in it; unlock            2 lock; is it still in `idle`?
 *   2 unpark the thread                          yes: leave the list, end
 *                                                no:  take the job
 *                                            3 unlock; no, and the park timed out: park again
 *
 * Invariant: a waiting thread that is not in `idle` has a job, or is to end (job NULL), and exactly
 * one unpark is on its way.  The thread consumes it in step 1 or 3 before it can end: the submitter
 * still uses the thread's memory in its step 2.
 *
 * A thread that has run a job takes the next one, or enters `idle`, before it wakes the task of the
 * last job.  So a task that calls one blocking function after the other needs one thread.
 *
 * If a thread cannot be started and others exist, the job waits for one of these.  If there are
 * none the job fails, and with it every queued job: no thread would ever run them.
 *
 * Threads that end join each other in a chain: each joins the thread that ended before it, and the
 * closer joins the last.  So no thread is detached, and none outlives the close.
 *
 * The job of a future is on the heap, because the future can be dropped while the function runs,
 * and a function cannot be stopped.  Under the lock the job is either DONE, and the future frees
 * it; or is_left, and the thread that would make it DONE frees it.
 *
 * In the reactor policy the control thread carries jobs to the pool and results to the tasks, in
 * steps 2 and 3 of its loop (reactor.c).
 *
 * Rejected: threads that all take jobs from the list (they would race for each job, and none would
 * become idle for long enough to end); a semaphore instead of the assigned job (it counts wake-ups
 * that are no longer needed).
 */
#include <errno.h>

#include "life/blocking.h"
#include "life/life.h"

/* A thread of the pool. */
struct pool_thread {
    struct wf_list link; /* [lock]  while is_idle */
    struct wf_blocking *pool;
    struct wf_parker parker;
    struct wf_job *job; /* [lock]  assigned to it; NULL: the thread ends */
    bool is_idle;       /* [lock]  it is in `idle` */
};

/* [locked pool->lock]  relaxed: the lock orders the writers; readers take the number as a hint. */
static void blocking_count_locked(wf_atomic_u32 *cell, uint32_t more)
{
    wf_store_relaxed(cell, wf_load_relaxed(cell) + more);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

/* [locked pool->lock] */
static void job_queue_locked(struct wf_blocking *pool, struct wf_job *job)
{
    wf_plain_store(&job->state, WF_JOB_QUEUED);
    wf_list_push_back(&pool->jobs, &job->link);
    blocking_count_locked(&pool->waiting, 1);
}

/* [locked pool->lock] */
static void job_unqueue_locked(struct wf_blocking *pool, struct wf_job *job)
{
    wf_list_remove(&job->link);
    blocking_count_locked(&pool->waiting, (uint32_t)-1);
}

/* [owner of the job]  Frees the job of a future; no other thread has a pointer to it. */
static void job_free(struct wf_job *job)
{
    if (job->release != NULL) {
        job->release(job->arg);
    }
    wf_free(job);
}

/* [any]  Frees a job that has run after its future was dropped.  While the function ran it could
 * have ended the wait of a task.  Now it cannot: if all tasks wait for each other, that is a
 * deadlock. */
static void job_free_dropped(struct wf_blocking *pool, struct wf_job *job)
{
    job_free(job);
    wf_upcalls.quiescence_request(pool->runtime->pool);
}

/* [locked pool->lock]  Takes the oldest queued job; NULL: there is none, or the pool is closing. */
static struct wf_job *job_pop_locked(struct wf_blocking *pool)
{
    if (wf_list_is_empty(&pool->jobs) || pool->is_closing) {
        return NULL;
    }
    struct wf_job *job = wf_container_of(pool->jobs.next, struct wf_job, link);
    job_unqueue_locked(pool, job);
    wf_plain_store(&job->state, WF_JOB_RUNNING);
    return job;
}

/* ---- threads ------------------------------------------------------------------------------- */

/* [locked pool->lock]  Takes the thread that became idle last out of `idle` and assigns the job to
 * it (NULL: it ends).  The caller must unpark it.  NULL: no thread is idle. */
static struct pool_thread *job_assign_locked(struct wf_blocking *pool, struct wf_job *job)
{
    struct wf_list *first = wf_list_pop_front(&pool->idle);
    if (first == NULL) {
        return NULL;
    }
    struct pool_thread *pool_thread = wf_container_of(first, struct pool_thread, link);
    pool_thread->is_idle = false;
    pool_thread->job = job;
    blocking_count_locked(&pool->resting, (uint32_t)-1);
    return pool_thread;
}

/* [a thread of the pool, in `idle`]  Waits for a job; NULL: the thread ends. */
static struct wf_job *job_wait(struct pool_thread *self)
{
    struct wf_blocking *pool = self->pool;
    const int64_t idle_ns = pool->runtime->options.blocking_idle_ns;
    const int64_t now = wf_clock_now();
    WF_JITTER();
    int rc = wf_parker_park(&self->parker, idle_ns < WF_FOREVER - now ? now + idle_ns : WF_FOREVER);
    WF_JITTER();
    wf_lock_acquire(&pool->lock);
    const bool is_unassigned = self->is_idle;
    if (is_unassigned) {
        self->is_idle = false;
        wf_list_remove(&self->link);
        blocking_count_locked(&pool->resting, (uint32_t)-1);
    }
    struct wf_job *job = self->job;
    self->job = NULL;
    wf_lock_release(&pool->lock);
    if (!is_unassigned && rc != 0) {
        WF_REACHED("blocking.assigned_at_the_deadline");
        (void)wf_parker_park(&self->parker, WF_FOREVER); /* consume the unpark, which will come */
    }
    return job;
}

/* [a thread of the pool]  Completes a job that has run, wakes its task, and waits for the next job;
 * NULL: the thread ends. */
static struct wf_job *job_next(struct pool_thread *self, struct wf_job *job)
{
    struct wf_blocking *pool = self->pool;
    weft_runtime *runtime = pool->runtime;
    const bool is_carried = runtime->policy->carry_result != NULL;
    struct weft_task *task = wf_plain_load(&job->task);
    wf_lock_acquire(&pool->lock);
    const bool is_left = wf_plain_load(&job->is_left); /* then the task may have ended, too */
    const uint64_t id = job->task_id;
    if (!is_carried && !is_left) {
        wf_plain_store(&job->state,
                       WF_JOB_DONE); /* the task may free it as soon as the lock is released */
    }
    wf_store_relaxed(&pool->done, wf_load_relaxed(&pool->done) + 1); /* relaxed: under the lock */
    struct wf_job *next = job_pop_locked(pool);
    const bool is_closing = pool->is_closing;
    if (next == NULL && !is_closing) {
        self->is_idle = true;
        wf_list_push_front(&pool->idle, &self->link);
        blocking_count_locked(&pool->resting, 1);
    }
    wf_lock_release(&pool->lock);
    if (is_left) {
        WF_REACHED("blocking.dropped_while_it_ran");
        job_free_dropped(pool, job);
    } else if (!is_carried) {
        wf_trace_event(runtime, NULL, WF_TRACE_UNBLOCK, id, 0);
        wf_task_wake(task);
    } else {
        runtime->policy->carry_result(runtime, &job->node);
    }
    return next != NULL || is_closing ? next : job_wait(self);
}

static void *pool_thread_main(void *arg)
{
    struct pool_thread *self = arg;
    struct wf_blocking *pool = self->pool;
    wf_lock_acquire(&pool->lock);
    blocking_count_locked(&pool->started, 1);
    struct wf_job *job = self->job;
    self->job = NULL;
    wf_lock_release(&pool->lock);
    for (;;) { /* ends: with a thread that has been idle for too long, or the close */
        while (job != NULL) {
            wf_plain_store(&job->result, job->fn(job->arg));
            job = job_next(self, job);
        }
        wf_lock_acquire(&pool->lock);
        job = job_pop_locked(pool); /* its submitter counted this thread when it queued the job */
        if (job == NULL) {
            break;
        }
        wf_lock_release(&pool->lock);
    }
    blocking_count_locked(&pool->threads, (uint32_t)-1);
    blocking_count_locked(&pool->started, (uint32_t)-1);
    const bool has_previous = pool->has_left;
    const pthread_t previous = pool->left;
    pool->has_left = true;
    pool->left = pthread_self();
    if (pool->is_closing) {
        wf_parker_unpark(&pool->closer); /* under the lock: the closer takes it before it frees */
    }
    wf_lock_release(&pool->lock);
    wf_free(self);
    if (has_previous) {
        WF_REACHED("blocking.joins_previous_thread");
        int rc = wf_thread_join(previous);
        WEFT_CHECK(rc == 0); /* a thread of the pool, joined once */
    }
    return NULL;
}

/* [a thread of the pool]  The task of the job would wait for ever. */
static void pool_thread_exits(void)
{
    wf_upcalls.misuse(
        "a blocking function must not end its thread by pthread_exit or pthread_cancel");
}

/* [any]  Starts a thread with this job assigned to it. */
static int pool_thread_start(struct wf_blocking *pool, struct wf_job *job)
{
    static const struct wf_thread_options options = {.name = "weft-blocking",
                                                     .on_exit = pool_thread_exits};
    struct pool_thread *pool_thread = wf_alloc_zeroed(1, sizeof(*pool_thread));
    if (pool_thread == NULL) {
        return -ENOMEM;
    }
    wf_parker_init(&pool_thread->parker);
    pool_thread->pool = pool;
    pool_thread->job = job;
    pthread_t thread; /* not kept: the thread stores its own handle in `left` when it ends */
    int rc = wf_thread_start(&thread, pool_thread_main, pool_thread, &options);
    if (rc != 0) {
        wf_free(pool_thread);
    }
    return rc;
}

/* ---- submitting ---------------------------------------------------------------------------- */

/* [locked pool->lock]  No thread exists that could run the queued jobs: fails them. */
static void jobs_fail_locked(struct wf_blocking *pool, int rc)
{
    struct wf_job *job;
    while ((job = job_pop_locked(pool)) != NULL) {
        WF_REACHED("blocking.no_thread_for_queued_jobs");
        wf_plain_store(&job->result, rc);
        wf_plain_store(&job->state, WF_JOB_DONE);
        wf_task_wake(job->task);
    }
}

/* [any]  The thread for the job could not be started, because of `rc`.  Assigns the job to a thread
 * that has become idle, or queues it if other threads exist, or fails it. */
static int job_without_thread(struct wf_blocking *pool, struct wf_job *job, int rc)
{
    wf_lock_acquire(&pool->lock);
    blocking_count_locked(&pool->threads, (uint32_t)-1);
    wf_store_relaxed(&pool->refused, wf_load_relaxed(&pool->refused) + 1);
    struct pool_thread *pool_thread = job_assign_locked(pool, job);
    const bool has_threads = wf_load_relaxed(&pool->threads) > 0;
    if (pool_thread == NULL && has_threads && !job->is_left) {
        WF_REACHED("blocking.waits_for_another_thread");
        job_queue_locked(pool, job);
        wf_task_wake(job->task); /* it may have been cancelled meanwhile, and can give up now */
        rc = 0;
    } else if (pool_thread == NULL && !has_threads) {
        jobs_fail_locked(pool, rc);
    }
    wf_lock_release(&pool->lock);
    if (pool_thread != NULL) {
        WF_REACHED("blocking.thread_became_idle");
        wf_parker_unpark(&pool_thread->parker);
        rc = 0;
    }
    return rc;
}

int wf_blocking_submit(struct wf_blocking *pool, struct wf_job *job)
{
    wf_lock_acquire(&pool->lock);
    const int unwanted = wf_plain_load(&job->unwanted);
    if (unwanted != 0) {
        wf_lock_release(&pool->lock);
        return unwanted;
    }
    if (pool->is_closing) {
        WF_REACHED("blocking.submitted_while_closing");
        job_queue_locked(pool, job); /* never begins: a forced close is about to abandon its task */
        wf_lock_release(&pool->lock);
        return 0;
    }
    wf_plain_store(&job->state, WF_JOB_RUNNING);
    struct pool_thread *pool_thread = job_assign_locked(pool, job);
    const bool is_full =
        wf_load_relaxed(&pool->threads) >= pool->runtime->options.blocking_max; /* relaxed: lock */
    if (pool_thread == NULL && is_full) {
        job_queue_locked(pool, job);
    } else if (pool_thread == NULL) {
        blocking_count_locked(&pool->threads, 1);
    }
    wf_lock_release(&pool->lock);
    if (pool_thread != NULL) {
        WF_JITTER();
        wf_parker_unpark(&pool_thread->parker);
        return 0;
    }
    int rc = is_full ? 0 : pool_thread_start(pool, job);
    return rc == 0 ? 0 : job_without_thread(pool, job, rc);
}

/* ---- the reactor policy -------------------------------------------------------------------- */

static void job_finish(struct wf_blocking *pool, struct wf_job *job)
{
    struct weft_task *task = wf_plain_load(&job->task);
    wf_trace_event(pool->runtime, NULL, WF_TRACE_UNBLOCK, job->task_id, 0);
    wf_lock_acquire(&pool->lock);
    const bool is_left = wf_plain_load(&job->is_left);
    if (!is_left) {
        wf_plain_store(&job->state, WF_JOB_DONE);
    }
    wf_lock_release(&pool->lock);
    if (is_left) {
        WF_REACHED("blocking.dropped_on_its_way");
        job_free_dropped(pool, job);
    } else {
        wf_task_wake(task);
    }
}

void wf_blocking_begin(struct wf_blocking *pool, struct wf_job *job)
{
    wf_trace_event(pool->runtime, NULL, WF_TRACE_BLOCK, job->task_id, 0);
    int rc = wf_blocking_submit(pool, job);
    if (rc != 0) {
        wf_plain_store(&job->result, rc);
        job_finish(pool, job);
    }
}

void wf_blocking_end(struct wf_blocking *pool, struct wf_job *job)
{
    job_finish(pool, job);
}

void wf_blocking_abandon(struct wf_blocking *pool, struct wf_job *job)
{
    wf_lock_acquire(&pool->lock);
    const bool is_left = wf_plain_load(&job->is_left);
    wf_plain_store(&job->state, WF_JOB_DONE); /* for wf_blocking_leave; the task never runs again */
    wf_lock_release(&pool->lock);
    if (is_left) {
        job_free(job);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

int wf_blocking_request(struct wf_blocking *pool, struct wf_job *job)
{
    weft_runtime *runtime = pool->runtime;
    job->state = WF_JOB_REQUESTED;
    job->task_id = wf_task_id(job->task);
    if (runtime->policy->carry_job != NULL) {
        runtime->policy->carry_job(runtime, &job->node);
        return 0;
    }
    wf_trace_event(runtime, wf_worker_self(), WF_TRACE_BLOCK, job->task_id, 0);
    return wf_blocking_submit(pool, job);
}

bool wf_blocking_is_over(struct wf_blocking *pool, struct wf_job *job, int interrupted)
{
    wf_lock_acquire(&pool->lock);
    bool is_over = wf_plain_load(&job->state) == WF_JOB_DONE;
    if (!is_over && interrupted != 0) {
        if (job->state == WF_JOB_QUEUED) {
            job_unqueue_locked(pool, job);
            wf_plain_store(&job->result, interrupted);
            is_over = true;
        } else {
            wf_plain_store(&job->unwanted,
                           interrupted); /* for a control thread that did not submit it yet */
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
        job_unqueue_locked(pool, job);
    }
    wf_plain_store(&job->unwanted, -ECANCELED);
    wf_plain_store(&job->is_left, true);
    wf_lock_release(&pool->lock);
    if (is_ours) {
        job_free(job);
    }
}

intptr_t weft_blocking_call(weft_fn fn, void *arg)
{
    struct weft_task *self = wf_task_self();
    WF_NOT_NULL(fn, "weft_blocking_call: fn is NULL");
    if (self == NULL) {
        return fn(arg);
    }
    int rc = wf_task_interrupted(self);
    if (rc != 0) {
        return rc;
    }
    struct wf_blocking *pool = self->pool->runtime->blocking;
    struct wf_job job = {.fn = fn, .arg = arg, .task = self};
    wf_wait_begin(self, WEFT_WAIT_BLOCKING, &job);
    rc = wf_blocking_request(pool, &job);
    if (rc == 0) {
        do { /* a wake may be spurious */
            wf_task_suspend(self);
            rc = wf_task_interrupted(self);
        } while (!wf_blocking_is_over(pool, &job, rc));
    } else {
        job.result = rc;
    }
    wf_wait_end(self);
    return job.result;
}

/* ---- open and close ------------------------------------------------------------------------ */

void wf_blocking_init(struct wf_blocking *pool, weft_runtime *runtime)
{
    wf_lock_init(&pool->lock, WF_RANK_BLOCKING);
    wf_list_init(&pool->jobs);
    wf_list_init(&pool->idle);
    wf_parker_init(&pool->closer);
    pool->runtime = runtime;
}

/* [closer]  Makes one idle thread end; false: no thread is idle. */
static bool pool_thread_dismiss(struct wf_blocking *pool)
{
    wf_lock_acquire(&pool->lock);
    struct pool_thread *pool_thread = job_assign_locked(pool, NULL);
    wf_lock_release(&pool->lock);
    if (pool_thread != NULL) {
        wf_parker_unpark(&pool_thread->parker);
    }
    return pool_thread != NULL;
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
    while (pool_thread_dismiss(pool)) {
    }
    bool has_threads = true;
    while (has_threads) { /* ends: each thread that ends unparks the closer */
        wf_lock_acquire(&pool->lock);
        has_threads = wf_load_relaxed(&pool->threads) > 0; /* relaxed: the lock */
        wf_lock_release(&pool->lock);
        if (has_threads) {
            (void)wf_parker_park(&pool->closer, WF_FOREVER);
        }
    }
    if (pool->has_left) {
        int rc = wf_thread_join(pool->left);
        WEFT_CHECK(rc == 0); /* the last thread of the pool, joined once */
    }
}

unsigned wf_blocking_idle_threads(const struct wf_blocking *pool)
{
    return wf_load_relaxed(&pool->resting); /* relaxed: a hint */
}
