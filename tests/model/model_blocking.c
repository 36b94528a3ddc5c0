/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/life/blocking.c a job runs once or is cancelled, its task is woken, no thread
 *         sleeps beside a queued job, no thread touches a job after its task was told that it is
 *         done, and a stop of the pool leaves no thread, in every order of steps under every memory
 *         model.
 * Method: threads of the test are tasks, threads of the pool, which sleep until wf_thread_start
 *         starts them, cancellers and the control thread.  A task that waits is parked by its real
 *         state, and its thread by a parker: a lost wake-up is a deadlock.  A task that leaves the
 *         frame with its job writes to the job: a late access is a race.  The job of a future and
 *         the record of a thread come from the checker's heap: a late access is a use after free,
 *         and a job that no thread frees is a leak.  At the end of a test without a stop of the
 *         pool each thread has ended or rests, and no job is queued.
 */
#include <errno.h>

#include "life/blocking.h"
#include "life/life.h"
#include "model/model.h"

enum { RESULT = 7, ITEMS = 3, FIRST_ITEM = 2 /* of setup */, IDLE_NS = 1 };

static weft_runtime runtime;
static struct wf_blocking blocking; /* of the runtime */
static struct wf_task_pool pool;
static struct wf_worker worker;
static struct weft_task first_task; /* of the job that setup submits */
static struct wf_job first_job;

/* What a job reads and writes. */
static struct item {
    int input;  /* plain: the task writes it before the call */
    int output; /* plain: the job writes it */
    int runs;   /* plain: of the job */
    int releases;
} items[ITEMS];

/* By thread. */
static struct weft_task selves[MODEL_THREADS_MAX]; /* the task it is, if it is one */
static struct wf_parker parkers[MODEL_THREADS_MAX];
static struct wf_job *frames[MODEL_THREADS_MAX]; /* the job in the frame of a task that waits */
static bool is_over[MODEL_THREADS_MAX];          /* a task has the result of its calls */

/* The threads of the pool: the last threads of the test. */
static unsigned first_thread;
static unsigned thread_count;
static wf_atomic_u32 started;
static struct {
    void *(*fn)(void *arg);
    void *arg;
    struct wf_parker start;
    struct wf_parker end;
    bool is_joined;
} threads[MODEL_THREADS_MAX];

static bool is_stopped; /* the test stops the pool */
static int requests;    /* plain: of wf_quiescence_request; one thread calls it */

/* The reactor policy. */
static struct wf_parker control;
static WF_ATOMIC(struct wf_job *) requested;
static WF_ATOMIC(struct wf_job *) returned;
static wf_atomic_u32 is_dropped; /* the task has left its job */
static bool is_dropped_first;    /* [control thread]  before the job could begin */

/* ---- the rest of the scheduler --------------------------------------------------------------- */

struct wf_worker *wf_worker_self(void)
{
    return &worker;
}

struct weft_task *wf_task_self(void)
{
    return &selves[model_thread()];
}

void wf_task_suspend(struct weft_task *self)
{
    if (wf_state_park(&self->state)) {
        (void)wf_parker_park(&parkers[self - selves], WF_FOREVER);
    }
}

static void queue_task(struct weft_task *task)
{
    if (task != &first_task) {
        MODEL_REQUIRE(task >= selves && task < selves + MODEL_THREADS_MAX);
        wf_parker_unpark(&parkers[task - selves]);
    }
}

void wf_task_wake(struct weft_task *task)
{
    if (wf_state_wake(&task->state) == WF_WAKE_QUEUE) {
        queue_task(task);
    }
}

int wf_task_interrupted(struct weft_task *self)
{
    return wf_state_is_cancelled(&self->state) ? -ECANCELED : 0;
}

void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object)
{
    (void)self;
    MODEL_REQUIRE(wait == WEFT_WAIT_BLOCKING);
    frames[model_thread()] = (struct wf_job *)(uintptr_t)object;
}

/* The frame is about to go: from here on only this task may access the job. */
void wf_wait_end(struct weft_task *self)
{
    struct wf_job *job = frames[model_thread()];
    wf_plain_store(&job->task, self);
    wf_plain_store(&job->state, job->state);
    wf_plain_store(&job->result, job->result);
    wf_plain_store(&job->unwanted, job->unwanted);
    wf_plain_store(&job->is_left, job->is_left);
}

int64_t wf_clock_now(void)
{
    return 0;
}

static void quiescence_request(struct wf_task_pool *of)
{
    MODEL_REQUIRE(of == &pool);
    wf_plain_store(&requests, wf_plain_load(&requests) + 1);
}

const struct wf_upcalls wf_upcalls = {.quiescence_request = quiescence_request};

void wf_trace_shared_put(struct wf_trace_shared *of, enum wf_trace_event event, uint64_t task_id,
                         uint64_t arg)
{
    (void)of;
    (void)event;
    (void)task_id;
    (void)arg;
    model_fail("a trace");
}

void wf_trace_put(struct wf_trace_ring *ring, enum wf_trace_event event, uint64_t task_id,
                  uint64_t arg)
{
    (void)ring;
    (void)event;
    (void)task_id;
    (void)arg;
    model_fail("a trace");
}

/* ---- threads of the pool ------------------------------------------------------------------- */

int wf_thread_start(pthread_t *out, void *(*fn)(void *), void *arg,
                    const struct wf_thread_options *options)
{
    (void)options;
    const uint32_t number = wf_fetch_add_relaxed(&started, 1);
    if (number >= thread_count) {
        return -EAGAIN;
    }
    const unsigned thread = first_thread + number;
    threads[thread].fn = fn;
    threads[thread].arg = arg;
    *out = (pthread_t)thread;
    wf_parker_unpark(&threads[thread].start);
    return 0;
}

int wf_thread_join(pthread_t handle)
{
    const unsigned thread = (unsigned)handle;
    MODEL_REQUIRE(thread != model_thread() && threads[thread].fn != NULL);
    MODEL_REQUIRE(!threads[thread].is_joined);
    threads[thread].is_joined = true;
    (void)wf_parker_park(&threads[thread].end, WF_FOREVER);
    return 0;
}

/* In place of libc's: all threads of the test are one for it. */
pthread_t pthread_self(void)
{
    return (pthread_t)model_thread();
}

/* Sleeps at the end of the test if it was not started. */
static void pool_thread(void)
{
    const unsigned self = model_thread();
    (void)wf_parker_park(&threads[self].start, WF_FOREVER);
    (void)threads[self].fn(threads[self].arg);
    wf_parker_unpark(&threads[self].end);
}

static void stop(void)
{
    wf_blocking_stop(&blocking);
    MODEL_REQUIRE(wf_load_relaxed(&blocking.threads) == 0);
    is_stopped = true;
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static intptr_t run_job(void *arg)
{
    struct item *item = arg;
    wf_plain_store(&item->runs, wf_plain_load(&item->runs) + 1);
    wf_plain_store(&item->output, wf_plain_load(&item->input) + 1);
    return RESULT;
}

static void release_item(void *arg)
{
    struct item *item = arg;
    wf_plain_store(&item->releases, wf_plain_load(&item->releases) + 1);
}

/* A task that waits in its frame. */
static void call(struct item *item, intptr_t error)
{
    wf_plain_store(&item->input, 1);
    const intptr_t result = weft_blocking_call(run_job, item);
    MODEL_REQUIRE(result == RESULT || result == error);
    MODEL_REQUIRE(wf_plain_load(&item->runs) == (result == RESULT ? 1 : 0));
    MODEL_REQUIRE(wf_plain_load(&item->output) == (result == RESULT ? 2 : 0));
    is_over[model_thread()] = true;
}

static void call_once(void)
{
    call(&items[model_thread()], RESULT);
}

static void call_and_stop(void)
{
    call_once();
    stop();
}

static void call_cancelled(void)
{
    call(&items[0], -ECANCELED);
}

/* If the thread has ended by then, no other can be started. */
static void call_beside_end(void)
{
    call(&items[0], -EAGAIN);
}

/* The second task may find the thread that the first cannot start. */
static void call_without_thread(void)
{
    call(&items[model_thread()], -EAGAIN);
    MODEL_REQUIRE(wf_plain_load(&items[model_thread()].runs) == 0);
}

static void cancel_first(void)
{
    if (wf_state_cancel(&selves[0].state) == WF_WAKE_QUEUE) {
        queue_task(&selves[0]);
    }
}

/* As work_future_begin in future.c; NULL: no thread can be started. */
static struct wf_job *submit_future(struct weft_task *self)
{
    struct wf_job *job = wf_alloc_zeroed(1, sizeof(*job));
    job->fn = run_job;
    job->arg = &items[0];
    job->release = release_item;
    job->task = self;
    wf_plain_store(&items[0].input, 1);
    const int rc = wf_blocking_request(&blocking, job);
    MODEL_REQUIRE(rc == 0 || rc == -EAGAIN);
    if (rc != 0) {
        job->release(job->arg);
        wf_free(job);
    }
    return rc == 0 ? job : NULL;
}

/* As work_future_abandon in future.c. */
static void submit_and_leave(void)
{
    struct wf_job *job = submit_future(&selves[0]);
    MODEL_REQUIRE(job != NULL);
    wf_blocking_leave(&blocking, job);
    wf_store_release(&is_dropped, 1);
    is_over[0] = true;
}

/* The worker leaves after the submission; then the closer leaves the job in the task's stead. */
static void submit_and_exit(void)
{
    frames[0] = submit_future(&selves[0]);
    is_over[0] = true;
    wf_parker_unpark(&parkers[1]);
}

static void shut_and_stop(void)
{
    wf_blocking_shut(&blocking);
    (void)wf_parker_park(&parkers[1], WF_FOREVER);
    stop();
    if (frames[0] != NULL) {
        wf_blocking_leave(&blocking, frames[0]);
    }
}

/* ---- the reactor policy -------------------------------------------------------------------- */

static void carry_job(weft_runtime *of, struct wf_node *node)
{
    (void)of;
    wf_store_release(&requested, wf_container_of(node, struct wf_job, node));
    wf_parker_unpark(&control);
}

static void carry_result(weft_runtime *of, struct wf_node *node)
{
    (void)of;
    wf_store_release(&returned, wf_container_of(node, struct wf_job, node));
    wf_parker_unpark(&control);
}

static const struct wf_policy with_control_thread = {.carry_job = carry_job,
                                                     .carry_result = carry_result};
static const struct wf_policy without_control_thread = {.steals = true};

static struct wf_job *take(void)
{
    struct wf_job *job;
    while ((job = wf_load_acquire(&requested)) == NULL) {
        (void)wf_parker_park(&control, WF_FOREVER);
    }
    return job;
}

/* One job; whether it was begun shows by whether a thread was started for it. */
static void control_job(struct wf_job *job)
{
    wf_blocking_begin(&blocking, job);
    if (wf_load_relaxed(&started) == 0) {
        return;
    }
    while ((job = wf_load_acquire(&returned)) == NULL) {
        (void)wf_parker_park(&control, WF_FOREVER);
    }
    wf_blocking_end(&blocking, job);
}

/* Sleeps at the end of the test if the thread has freed the job. */
static void control_one(void)
{
    struct wf_job *job = take();
    is_dropped_first = wf_load_acquire(&is_dropped) != 0;
    control_job(job);
}

static void cancel_and_control_one(void)
{
    struct wf_job *job = take();
    cancel_first();
    control_job(job);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void start(unsigned tasks, unsigned pool_threads, uint32_t max, int64_t idle_ns)
{
    runtime = (weft_runtime){.pool = &pool,
                             .policy = &without_control_thread,
                             .options = {.blocking_max = max, .blocking_idle_ns = idle_ns}};
    pool = (struct wf_task_pool){.runtime = &runtime};
    worker = (struct wf_worker){.runtime = &runtime, .pool = &pool};
    first_task = (struct weft_task){.pool = &pool};
    wf_state_init(&first_task.state, 1);
    for (unsigned i = 0; i < ITEMS; i++) {
        items[i] = (struct item){0};
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        selves[i] = (struct weft_task){.pool = &pool};
        wf_state_init(&selves[i].state, 1);
        wf_parker_init(&parkers[i]);
        frames[i] = NULL;
        is_over[i] = i >= tasks;
        threads[i].fn = NULL;
        threads[i].is_joined = false;
        wf_parker_init(&threads[i].start);
        wf_parker_init(&threads[i].end);
    }
    first_thread = tasks;
    thread_count = pool_threads;
    wf_store_relaxed(&started, 0);
    is_stopped = false;
    wf_store_relaxed(&requested, NULL);
    wf_store_relaxed(&returned, NULL);
    wf_store_relaxed(&is_dropped, 0);
    is_dropped_first = false;
    wf_parker_init(&control);
    requests = 0;
    runtime.blocking = &blocking;
    blocking = (struct wf_blocking){0};
    wf_blocking_init(&blocking, &runtime);
}

/* A thread of the pool has a job already. */
static void submit_first(void)
{
    items[FIRST_ITEM].input = 1;
    first_job = (struct wf_job){.fn = run_job, .arg = &items[FIRST_ITEM], .task = &first_task};
    MODEL_REQUIRE(wf_blocking_submit(&blocking, &first_job) == 0);
}

static void start_one(void)
{
    start(1, 1, 1, WF_FOREVER);
}

static void *never_called(void *arg)
{
    return arg;
}

/* Another thread has ended already. */
static void start_one_with_deadline(void)
{
    const unsigned before = MODEL_THREADS_MAX - 1;
    start(1, 1, 1, IDLE_NS);
    threads[before].fn = never_called;
    wf_parker_unpark(&threads[before].end);
    blocking.has_left = true;
    blocking.left = (pthread_t)before;
}

static void start_busy_with_deadline(void)
{
    start(1, 1, 1, IDLE_NS);
    submit_first();
}

static void start_busy(void)
{
    start(1, 1, 1, WF_FOREVER);
    submit_first();
}

static void start_two_tasks(void)
{
    start(2, 1, 1, WF_FOREVER);
}

/* Thread 1 is no task. */
static void start_busy_beside_other(void)
{
    start(2, 1, 1, WF_FOREVER);
    is_over[1] = true;
    submit_first();
}

static void start_without_threads(void)
{
    start(2, 0, 1, WF_FOREVER);
}

static void start_busy_without_more(void)
{
    start(1, 1, 2, WF_FOREVER);
    submit_first();
}

static void start_reactor(void)
{
    start(2, 1, 1, WF_FOREVER);
    is_over[1] = true;
    runtime.policy = &with_control_thread;
}

/* Frees the records of the threads that rest: each begins with its link. */
static void check_pool(void)
{
    const uint32_t alive = wf_load_relaxed(&blocking.threads);
    uint32_t resting = 0;
    struct wf_list *link;
    while ((link = wf_list_pop_front(&blocking.idle)) != NULL) {
        resting++;
        wf_free(link);
    }
    MODEL_REQUIRE(alive == resting);
    MODEL_REQUIRE(wf_load_relaxed(&blocking.resting) == resting);
    MODEL_REQUIRE(wf_load_relaxed(&blocking.started) == resting);
    MODEL_REQUIRE(wf_load_relaxed(&blocking.waiting) == 0);
    MODEL_REQUIRE(wf_list_is_empty(&blocking.jobs));
    uint32_t left = 0;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE(is_over[i]);
        left += threads[i].fn != NULL && !threads[i].is_joined ? 1 : 0;
    }
    MODEL_REQUIRE(left == (is_stopped ? 0 : resting + (blocking.has_left ? 1 : 0)));
}

static void check_first_too(void)
{
    MODEL_REQUIRE(items[FIRST_ITEM].runs == 1);
    MODEL_REQUIRE(first_job.state == WF_JOB_DONE);
    check_pool();
}

/* Its argument was released once, by the task or by the thread that ran it. */
static void check_left(void)
{
    MODEL_REQUIRE(items[0].runs <= (is_dropped_first ? 0 : 1));
    MODEL_REQUIRE(items[0].releases == 1);
    MODEL_REQUIRE(requests <= 1);
    check_pool();
}

/* Bounds of zero to four preemptions where a search without one takes minutes. */
static const struct model_test tests[] = {
    {.name = "a call starts a thread",
     .setup = start_one,
     .threads = {call_once, pool_thread},
     .names = {"task", "thread"},
     .check = check_pool,
     .may_rest = 1},
    {.name = "a call at the idle deadline of the thread",
     .setup = start_busy_with_deadline,
     .threads = {call_beside_end, pool_thread},
     .names = {"task", "thread"},
     .bound = {4, 1, 3},
     .is_slow = 1,
     .check = check_first_too,
     .may_rest = 1},
    {.name = "a call beside a busy thread",
     .setup = start_busy,
     .threads = {call_once, pool_thread},
     .names = {"task", "thread"},
     .check = check_first_too,
     .may_rest = 1},
    {.name = "two calls share a thread",
     .setup = start_two_tasks,
     .threads = {call_once, call_once, pool_thread},
     .names = {"task 1", "task 2", "thread"},
     .bound = {3, 1, 1},
     .is_slow = 1,
     .check = check_pool,
     .may_rest = 1},
    {.name = "a cancel of a queued job",
     .setup = start_busy_beside_other,
     .threads = {call_cancelled, cancel_first, pool_thread},
     .names = {"task", "canceller", "thread"},
     .bound = {4, 1, 2},
     .is_slow = 1,
     .check = check_first_too,
     .may_rest = 1},
    {.name = "a future is dropped while its job runs",
     .setup = start_one,
     .threads = {submit_and_leave, pool_thread},
     .names = {"task", "thread"},
     .check = check_left,
     .may_rest = 1},
    {.name = "a future is dropped while its job is queued",
     .setup = start_busy,
     .threads = {submit_and_leave, pool_thread},
     .names = {"task", "thread"},
     .check = check_left,
     .may_rest = 1},
    {.name = "no thread can be started",
     .setup = start_without_threads,
     .threads = {call_without_thread, call_without_thread},
     .names = {"task 1", "task 2"},
     .check = check_pool},
    {.name = "no further thread can be started",
     .setup = start_busy_without_more,
     .threads = {call_once, pool_thread},
     .names = {"task", "thread"},
     .bound = {5, 1, 4},
     .is_slow = 1,
     .check = check_first_too,
     .may_rest = 1},
    {.name = "a stop ends a thread that rests",
     .setup = start_one,
     .threads = {call_and_stop, pool_thread},
     .names = {"task", "thread"},
     .bound = {5, 2, 3},
     .is_slow = 1,
     .check = check_pool},
    {.name = "a stop at the idle deadline of the thread",
     .setup = start_one_with_deadline,
     .threads = {call_and_stop, pool_thread},
     .names = {"task", "thread"},
     .bound = {4, 2, 2},
     .is_slow = 1,
     .check = check_pool},
    {.name = "a stop beside a submission",
     .setup = start_busy_beside_other,
     .threads = {submit_and_exit, shut_and_stop, pool_thread},
     .names = {"worker", "closer", "thread"},
     .bound = {3, 1, 2},
     .is_slow = 1,
     .check = check_left},
    {.name = "reactor: a call",
     .setup = start_reactor,
     .threads = {call_once, control_one, pool_thread},
     .names = {"task", "control", "thread"},
     .check = check_pool,
     .may_rest = 1},
    {.name = "reactor: a cancel of a requested job",
     .setup = start_reactor,
     .threads = {call_cancelled, cancel_and_control_one, pool_thread},
     .names = {"task", "control", "thread"},
     .bound = {3, 1, 2},
     .is_slow = 1,
     .check = check_pool,
     .may_rest = 1},
    {.name = "reactor: a future is dropped",
     .setup = start_reactor,
     .threads = {submit_and_leave, control_one, pool_thread},
     .names = {"task", "control", "thread"},
     .bound = {4, 1, 4},
     .is_slow = 1,
     .check = check_left,
     .may_rest = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "blocking", tests, MODEL_COUNT(tests), NULL, 0, "src/life/blocking.c src/os/lock.c"};
    return model_main(argc, argv, &suite);
}
