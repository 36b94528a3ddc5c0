/* SPDX-License-Identifier: MIT */
/*
 * sched/monitor.c - workers that are stuck, and spares that stand in for them.
 *
 * A task that computes without a call, or waits in a system call, keeps its worker.  Everything
 * that lies in the worker's queues can be taken by others as it is; all that may be missing is
 * somebody awake who does.  So a worker that is stuck keeps its seat and its thread, and the
 * monitor puts a spare into play: one more worker, with a seat and a thread of its own.  When the
 * first one comes back there is one too many, and a spare goes to the bench.  ADR 16 has the
 * reasons.
 *
 * But who has enough to do never looks into the queues of others.  So at each look the monitor
 * carries what lies with those who are stuck to the global queue, where everybody looks.
 *
 *   in play   it runs tasks, searches or sleeps as any worker; `in_play` counts them
 *   stuck     in play, and in one turn for longer than hog_ns; or between weft_block_begin and end
 *   lack      less than options.workers are in play and not stuck, and nobody is free
 *   surplus   more than options.workers are: the next spare that is between two tasks and sees it
 *             gives what it has queued to the global queue and sits down
 *   bench     spares that are not in play; the one that sat down last is called first
 *
 * Spares take no forks: those who fork are computing on purpose, on as many workers as the user
 * wants; more threads would only take turns with them.
 *
 * The monitor looks every half of hog_ns, as long as anybody is awake.  When all workers have slept
 * for a few looks it dozes, without a timeout (M3):
 *
 *   monitor   is_dozing, fence, are all of them safe?  then sleeps
 *   worker    is not safe any more, fence (of the safepoint), is the monitor dozing?  wakes it
 *
 * A spare that sits down may be the last one that was awake, or be the home of a pinned task that
 * is woken just now; in_play and the mark on the bench are then for the others what the bit of a
 * sleeper is: it looks once more after a fence (S1).
 *
 * The only worker of a runtime calls nobody for what it queues.  Before there is a second one the
 * monitor comes to it as a visitor (alone.c); if it is turned away, it comes back at its next look.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sched/fast.h"
#include "sched/sched.h"

/* Looks at which everybody slept before the monitor sleeps too. */
#define DOZE_LOOKS 4u
/* Nanoseconds between two looks: at least, and at most. */
#define LOOK_NS_MIN INT64_C(100000)
#define LOOK_NS_MAX INT64_C(50000000)

/* ---- who is in play ------------------------------------------------------------------------ */

/* [locked monitor.lock] */
static void count_locked(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    /* Both relaxed: written under the lock, hints for the others. */
    const uint32_t able = wf_load_relaxed(&runtime->in_play) - monitor->stuck;
    const uint32_t wanted = runtime->worker_count;
    wf_store_relaxed(&monitor->surplus, able > wanted ? able - wanted : 0);
}

/* [locked monitor.lock] */
static void add_in_play_locked(weft_runtime *runtime, uint32_t more)
{
    /* relaxed: the lock's; for those who look without it behind a fence (S1) */
    wf_store_relaxed(&runtime->in_play, wf_load_relaxed(&runtime->in_play) + more);
    count_locked(runtime);
}

static bool is_anybody_free(weft_runtime *runtime)
{
    return runtime->reactor != NULL
               ? wf_reactor_idle(runtime->reactor) > 0
               : wf_idle_asleep(&runtime->idle) + wf_idle_searching(&runtime->idle) > 0;
}

/* [locked monitor.lock] */
static bool is_lacking_locked(weft_runtime *runtime)
{
    return wf_in_play(runtime) - runtime->monitor.stuck < runtime->worker_count &&
           !is_anybody_free(runtime);
}

/* [locked monitor.lock]  Why it cannot be counted on has changed. */
static void set_stuck_locked(struct wf_worker *worker, bool is_hog, bool is_blocked)
{
    struct wf_post *post = &worker->post;
    struct wf_monitor *monitor = &worker->runtime->monitor;
    const bool was_stuck = post->is_hog || post->is_blocked;
    post->is_hog = is_hog;
    post->is_blocked = is_blocked;
    if ((is_hog || is_blocked) != was_stuck) {
        monitor->stuck += was_stuck ? (unsigned)-1 : 1;
        count_locked(worker->runtime);
    }
}

bool wf_monitor_is_surplus(const weft_runtime *runtime)
{
    return wf_load_relaxed(&runtime->monitor.surplus) > 0; /* relaxed: a hint */
}

/* ---- the bench ----------------------------------------------------------------------------- */

/* [locked monitor.lock] */
static void sit_down_locked(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    wf_list_push_front(&runtime->monitor.bench, &worker->post.link);
    wf_store_relaxed(&worker->post.is_benched, 1); /* relaxed: the fence of sit orders it */
    add_in_play_locked(runtime, (uint32_t)-1);
}

/* [locked monitor.lock]  The only worker is about to be one of several, and has to call the others
 * from now on; false: not yet. */
static bool share_locked(weft_runtime *runtime)
{
    struct wf_worker *worker = &runtime->workers[0];
    if (worker->is_lone) {
        if (!wf_visit_begin(worker)) {
            return false;
        }
        wf_visit_end(worker);
    }
    return true;
}

/* [locked monitor.lock]  Whoever made it get up has to wake it. */
static void get_up_locked(struct wf_worker *worker)
{
    wf_list_remove(&worker->post.link);
    wf_store_relaxed(&worker->post.is_benched, 0); /* relaxed: a mark, it looks at everything */
    add_in_play_locked(worker->runtime, 1);
    (void)share_locked(worker->runtime); /* who wants to steal asks whether it is so yet */
}

/* [owner]  Gets up by itself, if it has a reason that nobody else knows. */
static bool get_up(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    const bool is_last = wf_idle_asleep(&runtime->idle) >= wf_in_play(runtime);
    if (wf_mpsc_is_empty(&worker->inbox) &&
        wf_load_relaxed(&runtime->is_leaving) == 0 && /* relaxed: who says so wakes it */
        !(is_last && runtime->reactor == NULL && wf_runtime_is_news(runtime))) {
        return false;
    }
    WF_REACHED("monitor.gets_up_by_itself");
    wf_lock_acquire(&runtime->monitor.lock);
    if (wf_load_relaxed(&worker->post.is_benched) != 0) { /* relaxed: the lock's */
        get_up_locked(worker);
    }
    wf_lock_release(&runtime->monitor.lock);
    return true;
}

void wf_monitor_sit(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    wf_safe_enter(&runtime->world, &worker->safe);
    /* relaxed: a mark.  The fence between it and the look (S1) is that of wf_safe_enter; after that
     * whoever has something for it wakes it. */
    while (wf_load_relaxed(&worker->post.is_benched) != 0 && !get_up(worker)) {
        (void)wf_parker_park(&worker->post.bench, WF_FOREVER); /* looks again anyway */
    }
    wf_monitor_wake_up(worker);
}

bool wf_monitor_send_off(struct wf_worker *worker)
{
    struct wf_monitor *monitor = &worker->runtime->monitor;
    wf_lock_acquire(&monitor->lock);
    const bool is_surplus = worker->post.is_spare && wf_monitor_is_surplus(worker->runtime);
    if (is_surplus) {
        sit_down_locked(worker);
    }
    wf_lock_release(&monitor->lock);
    return is_surplus;
}

bool wf_monitor_bench(struct wf_worker *worker)
{
    const bool is_surplus = wf_monitor_send_off(worker);
    if (is_surplus) {
        WF_JITTER();
        wf_monitor_sit(worker);
    }
    return is_surplus;
}

void wf_monitor_recall(struct wf_worker *worker)
{
    struct wf_monitor *monitor = &worker->runtime->monitor;
    wf_lock_acquire(&monitor->lock);
    const bool is_benched =
        wf_load_relaxed(&worker->post.is_benched) != 0; /* relaxed: the lock's */
    if (is_benched) {
        WF_REACHED("monitor.home_is_recalled");
        get_up_locked(worker);
    }
    wf_lock_release(&monitor->lock);
    (void)wf_parker_unpark(&worker->post.bench);
}

/* ---- spares -------------------------------------------------------------------------------- */

/* [monitor]  The last worker could not be started. */
static bool is_last_without_thread(weft_runtime *runtime)
{
    return !runtime->workers[wf_seats(runtime) - 1].post.has_thread;
}

/* [monitor]  A worker more, without a thread.  -EBUSY: not now; -ENOMEM. */
static int make_spare(weft_runtime *runtime)
{
    const unsigned index = wf_seats(runtime);
    struct wf_worker *worker = &runtime->workers[index];
    wf_lock_acquire(&runtime->world_lock);
    int rc = -EBUSY;
    if (runtime->world_owner == NULL) { /* who stops the world counts the workers */
        rc = wf_worker_init(runtime, index);
        const struct wf_trace_ring *outside = runtime->outside.ring;
        if (rc == 0 && wf_load_relaxed(&runtime->is_traced) != 0) { /* relaxed: see trace.c */
            (void)wf_trace_ring_new(&worker->trace, outside->events, index); /* or without it */
        }
        if (rc == 0) {
            wf_idle_grow(&runtime->idle, index + 1);
            wf_store_release(&runtime->seats, index + 1); /* (M1) */
        }
    }
    wf_lock_release(&runtime->world_lock);
    return rc;
}

/* [monitor]  One that is counted as in play already. */
static void start_spare(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    int rc = is_last_without_thread(runtime) ? 0 : make_spare(runtime);
    if (rc == 0) {
        rc = wf_worker_start(&runtime->workers[wf_seats(runtime) - 1]);
    }
    if (rc == 0) {
        wf_counter_add(&monitor->started, 1);
        return;
    }
    WF_REACHED("monitor.no_spare");
    wf_counter_add(&monitor->refused, rc != -EBUSY ? 1 : 0);
    wf_lock_acquire(&monitor->lock);
    add_in_play_locked(runtime, (uint32_t)-1);
    wf_lock_release(&monitor->lock);
    runtime->policy->rouse(runtime); /* all others may have fallen asleep meanwhile */
}

/* [locked monitor.lock, monitor]  Workers are lacking, and there is, or may be, one more. */
static bool wants_spare_locked(weft_runtime *runtime)
{
    const bool can_grow = wf_seats(runtime) < runtime->seats_max || is_last_without_thread(runtime);
    return (can_grow || !wf_list_is_empty(&runtime->monitor.bench)) && is_lacking_locked(runtime);
}

/* [monitor]  It could not have one yet, and comes back: who is lacking counts as asleep if it is
 * blocked, and nobody else would wake the monitor. */
static bool wants_spare(weft_runtime *runtime)
{
    wf_lock_acquire(&runtime->monitor.lock);
    const bool wants = runtime->monitor.stuck > 0 && wants_spare_locked(runtime);
    wf_lock_release(&runtime->monitor.lock);
    return wants;
}

/* [monitor]  If workers are lacking, puts one into play. */
static void fill_up(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    struct wf_worker *spare = NULL;
    wf_lock_acquire(&monitor->lock);
    const bool is_lacking = wants_spare_locked(runtime) && share_locked(runtime);
    if (is_lacking && !wf_list_is_empty(&monitor->bench)) {
        spare = wf_container_of(monitor->bench.next, struct wf_worker, post.link);
        get_up_locked(spare);
    } else if (is_lacking) {
        add_in_play_locked(runtime, 1);
    }
    wf_lock_release(&monitor->lock);
    if (spare != NULL) {
        (void)wf_parker_unpark(&spare->post.bench);
    } else if (is_lacking) {
        start_spare(runtime);
    }
}

/* [monitor]  Who is stuck may have been the watcher, and would have looked at news and the time in
 * passing; those who sleep do not know.  One of them has to watch. */
static void see_to_watch(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    wf_lock_acquire(&monitor->lock);
    const bool is_anybody_stuck = monitor->stuck > 0;
    wf_lock_release(&monitor->lock);
    if (is_anybody_stuck && runtime->reactor == NULL &&
        wf_load_relaxed(&runtime->is_watched) == 0 && /* relaxed: a hint, and it looks again */
        (wf_driver_of(runtime) != NULL || wf_timers_next(runtime) != WF_FOREVER)) {
        runtime->policy->rouse(runtime);
    }
}

/* [monitor]  One too many is in play: one of them may be asleep. */
static void send_home(weft_runtime *runtime)
{
    if (!wf_monitor_is_surplus(runtime)) {
        return;
    }
    if (runtime->reactor != NULL) {
        runtime->policy->rouse(runtime); /* the control thread knows who wants work */
        return;
    }
    for (unsigned i = runtime->worker_count; i < wf_seats(runtime); i++) {
        if (wf_idle_claim_worker(&runtime->idle, i)) {
            wf_driver_unpark(runtime, &runtime->workers[i].parker); /* it sees for itself */
            return;
        }
    }
}

/* [monitor]  Nobody who has tasks of its own would come for those of one who is stuck. */
static void take_over(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    for (unsigned i = 0; i < wf_seats(runtime) && runtime->reactor == NULL; i++) {
        struct wf_worker *worker = &runtime->workers[i];
        struct wf_chain chain = {0};
        wf_lock_acquire(&monitor->lock); /* or a spare that gets up could find us asking */
        const bool is_stuck = worker->post.is_hog || worker->post.is_blocked;
        if (is_stuck && wf_in_play(runtime) > 1 && wf_visit_begin(worker)) {
            wf_steal_take_over(worker, &chain);
            wf_visit_end(worker);
        }
        wf_lock_release(&monitor->lock);
        if (chain.first != NULL) {
            WF_REACHED("monitor.takes_over");
            wf_steal_hand_on(runtime, &chain);
        }
        if (is_stuck) {
            wf_driver_relieve(runtime, worker);
        }
    }
}

/* ---- hogs ---------------------------------------------------------------------------------- */

/* [monitor]  Whether nobody was told of this place yet. */
static bool is_new_site(struct wf_monitor *monitor, const void *site)
{
    for (unsigned i = 0; i < monitor->site_count; i++) {
        if (monitor->sites[i] == site) {
            return false;
        }
    }
    if (monitor->site_count == WF_HOG_SITES) {
        return false;
    }
    monitor->sites[monitor->site_count++] = site;
    return true;
}

/* [monitor] */
static void report_hog(struct wf_worker *worker, int64_t ran_ns)
{
    weft_runtime *runtime = worker->runtime;
    struct weft_task *task = wf_load_acquire(&worker->current); /* (D1) */
    weft_info info;
    wf_counter_add(&runtime->monitor.hogs, 1);
    if (task == NULL || runtime->options.on_hog == NULL) {
        return;
    }
    wf_task_describe(runtime, task, false, &info);
    if (is_new_site(&runtime->monitor, info.site)) {
        const weft_hog hog = {.task_id = info.id,
                              .name = info.name,
                              .fn = info.fn,
                              .site = info.site,
                              .worker = worker->index,
                              .ran_ns = ran_ns};
        runtime->options.on_hog(runtime->options.hook_context, &hog);
    }
}

/* [monitor]  Whether it is in the same turn as at the last look, and since when. */
static void look_at(struct wf_worker *worker, int64_t now)
{
    struct wf_post *post = &worker->post;
    weft_runtime *runtime = worker->runtime;
    const uint64_t polled = wf_counter_read(&worker->counters.polled);
    const uint64_t rounds = wf_load_acquire(&worker->rounds); /* (Y1) */
    const bool is_same =
        rounds % 2 != 0 && polled == post->seen_polled && rounds == post->seen_rounds;
    if (!is_same) {
        post->seen_polled = polled;
        post->seen_rounds = rounds;
        post->seen_ns = now;
    }
    const int64_t ran_ns = now - post->seen_ns;
    const bool is_long = is_same && ran_ns >= runtime->options.hog_ns;
    if (is_same && ran_ns >= runtime->options.hog_ns / 2) {
        wf_store_relaxed(&worker->is_asked, 1); /* relaxed: a request, early or late */
    }
    wf_lock_acquire(&runtime->monitor.lock);
    const bool is_hog = is_long && !post->is_blocked;
    const bool was_hog = post->is_hog;
    set_stuck_locked(worker, is_hog, post->is_blocked);
    wf_lock_release(&runtime->monitor.lock);
    wf_store_relaxed(&post->stuck_ns, is_hog ? post->seen_ns : 0); /* relaxed: for dumps */
    if (is_hog && !was_hog) {
        report_hog(worker, ran_ns);
    }
}

/* ---- the monitor --------------------------------------------------------------------------- */

/* [monitor]  Failures are told of when nothing runs.  If that does not come, it has to be now. */
static void see_to_failures(weft_runtime *runtime, int64_t now)
{
    struct wf_monitor *monitor = &runtime->monitor;
    if (!wf_failures_are_noted(runtime->pool)) {
        monitor->noted_ns = 0;
    } else if (monitor->noted_ns == 0) {
        monitor->noted_ns = now;
    } else if (now - monitor->noted_ns >= WF_FAILURE_WAIT_NS) {
        WF_REACHED("monitor.tells_of_failures");
        monitor->noted_ns = 0;
        wf_failures_report(runtime);
    }
}

void wf_monitor_wake_up(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    wf_safe_leave(&runtime->world, &worker->safe);
    if (wf_load_relaxed(&runtime->monitor.is_dozing) != 0) { /* relaxed: (M3) */
        (void)wf_parker_unpark(&runtime->monitor.parker);
    }
}

static bool is_anybody_awake(weft_runtime *runtime)
{
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        if (wf_load_relaxed(&runtime->workers[i].safe.is_safe) == 0) { /* relaxed: (M3) */
            return true;
        }
    }
    return false;
}

void wf_monitor_doze(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    wf_store_relaxed(&monitor->is_dozing, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                       /* (M3) */
    if (!is_anybody_awake(runtime)) {
        (void)wf_parker_park(&monitor->parker, WF_FOREVER); /* it looks at everything anyway */
    }
    wf_store_relaxed(&monitor->is_dozing, 0); /* relaxed: one wake too many is no harm */
}

static void *monitor_main(void *arg)
{
    weft_runtime *runtime = arg;
    struct wf_monitor *monitor = &runtime->monitor;
    const int64_t half_ns = runtime->options.hog_ns / 2;
    const int64_t look_ns = half_ns < LOOK_NS_MIN   ? LOOK_NS_MIN
                            : half_ns > LOOK_NS_MAX ? LOOK_NS_MAX
                                                    : half_ns;
    unsigned quiet_looks = 0;
    while (wf_load_acquire(&monitor->is_leaving) == 0) { /* acquire: the closer's */
        const int64_t now = wf_clock_now();
        for (unsigned i = 0; i < wf_seats(runtime); i++) {
            look_at(&runtime->workers[i], now);
        }
        fill_up(runtime);
        take_over(runtime);
        see_to_watch(runtime);
        send_home(runtime);
        see_to_failures(runtime, now);
        const bool is_quiet =
            !wf_monitor_is_surplus(runtime) && !is_anybody_awake(runtime) && !wants_spare(runtime);
        quiet_looks = is_quiet ? quiet_looks + 1 : 0;
        if (quiet_looks >= DOZE_LOOKS) {
            quiet_looks = 0;
            wf_monitor_doze(runtime);
        } else {
            (void)wf_parker_park(&monitor->parker, now + look_ns); /* looks either way */
        }
    }
    return NULL;
}

int wf_monitor_start(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    const struct wf_thread_options options = {.name = "weft-monitor"};
    if (runtime->options.no_monitor) {
        return 0;
    }
    int rc = wf_thread_start(&monitor->thread, monitor_main, runtime, &options);
    wf_store_relaxed(&monitor->is_started, rc == 0 ? 1 : 0); /* relaxed: a number for others */
    return rc;
}

void wf_monitor_stop(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    if (wf_load_relaxed(&monitor->is_started) == 0) { /* relaxed: the closer's own */
        return;
    }
    wf_store_release(&monitor->is_leaving, 1); /* release: pairs with the loop's load */
    (void)wf_parker_unpark(&monitor->parker);
    int rc = wf_thread_join(monitor->thread);
    WEFT_CHECK(rc == 0); /* a thread of our own, joined once */
    wf_store_relaxed(&monitor->is_started, 0);
}

/* ---- calls that block ---------------------------------------------------------------------- */

/* [owner]  It blocks from now on, or does not any more.  Gives whom to wake; NULL: nobody. */
static struct wf_worker *set_blocked(struct wf_worker *worker, bool is_blocked, bool *is_lacking)
{
    weft_runtime *runtime = worker->runtime;
    struct wf_monitor *monitor = &runtime->monitor;
    struct wf_worker *spare = NULL;
    wf_lock_acquire(&monitor->lock);
    set_stuck_locked(worker, false, is_blocked);
    *is_lacking = is_blocked && is_lacking_locked(runtime);
    if (is_blocked && worker->is_lone) {
        wf_alone_give_up(worker);
    }
    if (*is_lacking && !wf_list_is_empty(&monitor->bench)) {
        spare = wf_container_of(monitor->bench.next, struct wf_worker, post.link);
        get_up_locked(spare);
    }
    if (is_blocked) {
        wf_counter_add(&monitor->blocked, 1);
    }
    wf_lock_release(&monitor->lock);
    return spare;
}

void weft_block_begin(void)
{
    struct wf_worker *worker = wf_worker_self();
    if (worker == NULL || wf_load_relaxed(&worker->current) == NULL || /* relaxed: our own */
        worker->post.blocks++ > 0) {
        return;
    }
    weft_runtime *runtime = worker->runtime;
    WF_RULE(wf_load_relaxed(&runtime->stopper) !=
                worker, /* relaxed: only compared with ourselves */
            "weft_block_begin by whoever has stopped the world");
    bool is_lacking = false;
    if (worker->is_owing) {
        wf_driver_flush(worker); /* what it waits for may be the answer */
    }
    struct wf_worker *spare = set_blocked(worker, true, &is_lacking);
    if (spare != NULL) {
        (void)wf_parker_unpark(&spare->post.bench);
    } else if (is_lacking) {
        (void)wf_parker_unpark(&runtime->monitor.parker);
    } else {
        wf_steal_leave_behind(worker);
    }
    wf_safe_enter(&runtime->world, &worker->safe);
}

void weft_block_end(void)
{
    struct wf_worker *worker = wf_worker_self();
    if (worker == NULL || worker->post.blocks == 0 || --worker->post.blocks > 0) {
        return;
    }
    bool is_lacking = false;
    (void)set_blocked(worker, false, &is_lacking);
    wf_monitor_wake_up(worker);
}
