/* SPDX-License-Identifier: MIT */
/*
 * life/fail.c - weft_fail and its cleanups; reports of unobserved failures.
 *
 * weft_fail does not unwind the stack.  It runs the cleanups of the task on top of the frames that
 * they belong to, completes the task, and switches away from the stack for the last time.
 *
 * A failure is unobserved if the last reference to the task is released and no caller has read the
 * result.  It is noted then, and reported when the runtime is quiescent, so that the report does
 * not interrupt the output of running tasks.  If the runtime never is quiescent, the monitor
 * reports it.  A task that ends while it holds a lock is reported in the same way.
 *
 * Not reported:
 *   - a task that was cancelled and ends with -ECANCELED: that is what the canceller asked for;
 *   - a task of a scope: weft_scope_close gives the first error, the others follow from it;
 *   - -ESHUTDOWN in a runtime that is closing: the closer refused a spawn of the task.
 *
 * A failure hook gets every failure.  Without a hook the reporter prints WF_FAILURE_LINES failures
 * a second, then one line with the number of the others.  What is counted after that line stays for
 * the next report in a later second, or for the close.  (The kernel's printk_ratelimit does it in
 * this way.)
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "life/life.h"

void weft_cleanup_push(weft_cleanup *cleanup, void (*fn)(void *arg), void *arg)
{
    struct weft_task *self = wf_task_self();
    WF_RULE(self != NULL && self->body != WF_BODY_POLL, "weft_cleanup_push: not in a green thread");
    WF_NOT_NULL(cleanup, "weft_cleanup_push: cleanup is NULL");
    WF_NOT_NULL(fn, "weft_cleanup_push: fn is NULL");
    *cleanup = (weft_cleanup){.fn = fn, .arg = arg, .next = self->cleanups};
    self->cleanups = cleanup;
    self->is_bare = false;
}

void weft_cleanup_pop(weft_cleanup *cleanup, bool run)
{
    struct weft_task *self = wf_task_self();
    WF_RULE(self != NULL && self->body != WF_BODY_POLL, "weft_cleanup_pop: not in a green thread");
    WF_RULE(self->cleanups == cleanup, "weft_cleanup_pop: not the newest cleanup");
    self->cleanups = cleanup->next;
    if (run) {
        cleanup->fn(cleanup->arg);
    }
}

void wf_cleanups_run(struct weft_task *task)
{
    while (task->cleanups != NULL) { /* each is removed before it runs: it may call weft_fail */
        weft_cleanup *cleanup = task->cleanups;
        task->cleanups = cleanup->next;
        cleanup->fn(cleanup->arg);
    }
}

/* [the task]  Stores the message; without memory there is none. */
__attribute__((format(printf, 2, 0))) static void
message_keep(struct weft_task *self, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    self->is_bare = false;
    struct wf_task_extra *extra = length > 0 ? wf_task_extra(self) : NULL;
    char *text = extra != NULL ? wf_alloc((size_t)length + 1) : NULL;
    if (text != NULL) {
        (void)vsnprintf(text, (size_t)length + 1, format, again); /* has this length */
        wf_free(extra->message); /* a cleanup failed in turn: the last message counts */
        extra->message = text;
    }
    va_end(again);
}

void weft_fail(int error, const char *format, ...)
{
    struct weft_task *self = wf_task_self();
    WF_RULE(self != NULL && self->body != WF_BODY_POLL, "weft_fail: not in a green thread");
    WF_RULE(error < 0, "weft_fail: the error must be negative, for example -EIO");
    if (format != NULL) {
        va_list arguments;
        va_start(arguments, format);
        message_keep(self, format, arguments);
        va_end(arguments);
    }
    (void)wf_state_shield(&self->state); /* cleanups may wait; -EOVERFLOW: it has 255 already */
    if (wf_has_forks(self)) {
        wf_upcalls.forks_cut(self); /* first: forks may use what the cleanups free */
    }
    wf_cleanups_run(self);
    wf_abandon_hooks_run(self); /* of calls that do not return, and of futures not polled again */
    WEFT_CHECK(self->open_scopes == NULL);
    (void)wf_fetch_or_relaxed(&self->marks, WF_TASK_FAILED); /* relaxed: (task.T3) orders it */
    wf_task_exit(self, error);
}

size_t wf_message_copy(const struct weft_task *task, char *text, size_t text_size)
{
    const struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: COMPLETE */
    const char *message = extra != NULL && extra->message != NULL ? extra->message : "";
    if (text_size > 0) {
        size_t length = strnlen(message, text_size - 1);
        memcpy(text, message, length);
        text[length] = '\0';
    }
    return strlen(message);
}

int weft_task_message(const weft_task *task, char *text, size_t text_size)
{
    WF_NOT_NULL(task, "weft_task_message: task is NULL");
    WF_RULE_CHECKED(text_size == 0 || text != NULL, "weft_task_message: text is NULL");
    if (!wf_state_is_complete(&task->state)) {
        return -EAGAIN;
    }
    return (int)wf_message_copy(task, text, text_size);
}

/* ---- unobserved failures ------------------------------------------------------------------- */

/* [locked pool->lock]  Whether the failure gets a record.  Without a hook the reporter prints no
 * more than WF_FAILURE_LINES at once, so a record beyond these would only cost memory. */
static bool keeps_record_locked(struct wf_task_pool *pool, int error)
{
    const weft_runtime *runtime = pool->runtime;
    if (error == -ESHUTDOWN &&
        wf_load_relaxed(&runtime->shutdown.is_closing) != 0) { /* relaxed: a flag */
        WF_REACHED("fail.caused_by_the_close");
        return false;
    }
    if (runtime->options.on_failure == NULL && pool->failures.count >= WF_FAILURE_LINES) {
        WF_REACHED("fail.counted_only");
        pool->failures.more++;
        return false;
    }
    return true;
}

/* [any]  Keeps the failure until the runtime is quiescent, or the monitor finds that this takes too
 * long. */
static void failure_note(struct weft_task *task, int error, const char *message)
{
    struct wf_task_pool *pool = task->pool;
    const size_t size = strlen(message) + 1;
    struct wf_failure *failure = wf_alloc(sizeof(*failure) + size);
    if (failure == NULL) {
        WF_REACHED("fail.no_memory_to_note_it");
        wf_lock_acquire(&pool->lock);
        pool->failures.lost++;
        wf_lock_release(&pool->lock);
        wf_upcalls.quiescence_request(pool);
        return;
    }
    *failure = (struct wf_failure){.task_id = wf_task_id(task), .error = error};
    wf_task_name(task, failure->name);
    memcpy(failure->message, message, size);
    wf_lock_acquire(&pool->lock);
    const bool is_closed = pool->is_closed; /* the handle outlived the runtime: no reporter */
    const bool is_kept = !is_closed && keeps_record_locked(pool, error);
    if (is_kept) {
        failure->next = pool->failures.newest;
        pool->failures.newest = failure;
        pool->failures.count++;
    }
    wf_lock_release(&pool->lock);
    if (!is_kept) {
        wf_free(failure);
    }
    if (is_closed) {
        WF_REACHED("fail.after_its_runtime");
    } else {
        wf_upcalls.quiescence_request(pool);
    }
}

void wf_failure_note(struct wf_task_pool *pool, struct weft_task *task)
{
    const struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: last user */
    const char *message = extra != NULL && extra->message != NULL ? extra->message : "";
    WEFT_ASSERT(pool == task->pool);
    failure_note(task, (int)task->result, message);
}

void wf_failure_note_owned(struct weft_task *task, const void *object, size_t count)
{
    char message[128];
    (void)snprintf(message, sizeof(message), "it held %zu lock%s, the newest at %p", count,
                   count == 1 ? "" : "s", object); /* fits */
    failure_note(task, -EOWNERDEAD, message);
}

/* ---- reporting ----------------------------------------------------------------------------- */

/* [reporter]  Whether one more line may be printed in this second. */
static bool takes_line(struct wf_failures *failures, unsigned lines_max)
{
    const int64_t now = wf_clock_now();
    if (now - failures->lines_since_ns >= WF_NS_PER_S) {
        failures->lines_since_ns = now;
        failures->lines = 0;
    }
    if (failures->lines >= lines_max) {
        return false;
    }
    failures->lines++;
    return true;
}

static void print_failure(const struct wf_failure *failure)
{
    char line[512];
    const char *name = strerrorname_np(-failure->error);
    int length =
        snprintf(line, sizeof(line), "weft: task %llu%s%s%s %s: %s%s%s\n",
                 (unsigned long long)failure->task_id, failure->name[0] != '\0' ? " \"" : "",
                 failure->name, failure->name[0] != '\0' ? "\"" : "",
                 failure->error == -EOWNERDEAD ? "ended with locks held" : "failed, unobserved",
                 name != NULL ? name : "unknown error", failure->message[0] != '\0' ? ": " : "",
                 failure->message);
    if (length > 0) {
        size_t size = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
        (void)wf_file_write(STDERR_FILENO, line, size); /* an error here cannot be reported */
    }
}

/* [reporter]  Reports one failure.  Returns how many failures stay unprinted, 0 or 1. */
static size_t failure_report(weft_runtime *runtime, const struct wf_failure *failure)
{
    if (runtime->options.on_failure != NULL) {
        const weft_failure report = {.task_id = failure->task_id,
                                     .name = failure->name,
                                     .error = failure->error,
                                     .message = failure->message};
        runtime->options.on_failure(runtime->options.hook_context, &report);
        return 0;
    }
    if (!takes_line(&runtime->pool->failures, WF_FAILURE_LINES)) {
        return 1;
    }
    print_failure(failure);
    return 0;
}

/* [reporter]  Reports all failures of a list, oldest first.  Returns how many stay unprinted. */
static size_t failures_report_list(weft_runtime *runtime, struct wf_failure *newest)
{
    struct wf_failure *oldest = NULL;
    size_t unprinted = 0;
    while (newest != NULL) {
        struct wf_failure *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct wf_failure *next = oldest->next;
        unprinted += failure_report(runtime, oldest);
        wf_free(oldest);
        oldest = next;
    }
    return unprinted;
}

/* [reporter]  Reports failures of which only the number is known.  Returns how many stay unprinted:
 * all, if there is no hook. */
static size_t report_lost(weft_runtime *runtime, size_t count)
{
    if (count > 0 && runtime->options.on_failure != NULL) {
        char message[64];
        (void)snprintf(message, sizeof(message), "%zu more failure%s, not recorded: out of memory",
                       count, count == 1 ? "" : "s"); /* fits */
        const weft_failure lost = {.name = "", .error = -ENOMEM, .message = message};
        runtime->options.on_failure(runtime->options.hook_context, &lost);
        return 0;
    }
    return count;
}

/* [reporter]  Prints "and N more tasks failed", as one extra line in each second and always while
 * the workers leave.  Returns how many failures are still unprinted. */
static size_t report_more(weft_runtime *runtime, size_t count)
{
    const bool is_last =
        wf_load_relaxed(&runtime->shutdown.exit_mode) != WF_EXIT_NOT; /* relaxed: a flag */
    if (count == 0 || !(takes_line(&runtime->pool->failures, WF_FAILURE_LINES + 1) || is_last)) {
        return count;
    }
    char line[64];
    int length = snprintf(line, sizeof(line), "weft: and %zu more task%s failed, unobserved\n",
                          count, count == 1 ? "" : "s");      /* fits */
    (void)wf_file_write(STDERR_FILENO, line, (size_t)length); /* an error here cannot be reported */
    return 0;
}

/* [locked, of the pool] */
static bool are_noted_locked(const struct wf_failures *failures)
{
    return failures->newest != NULL || failures->lost > 0 || failures->more > 0;
}

bool wf_failures_are_noted(struct wf_task_pool *pool)
{
    wf_lock_acquire(&pool->lock);
    const bool are_noted = are_noted_locked(&pool->failures);
    wf_lock_release(&pool->lock);
    return are_noted;
}

void wf_failures_report(weft_runtime *runtime)
{
    struct wf_task_pool *pool = runtime->pool;
    struct wf_failures *failures = &pool->failures;
    size_t unprinted = 0;
    wf_lock_acquire(&pool->lock);
    if (failures->is_reporting) {
        wf_lock_release(&pool->lock);
        return; /* the reporter checks again before it is done */
    }
    failures->is_reporting = true;
    while (are_noted_locked(failures)) { /* hooks may drop handles of other tasks that failed */
        struct wf_failure *newest = failures->newest;
        const size_t lost = failures->lost;
        unprinted += failures->more;
        failures->newest = NULL;
        failures->count = 0;
        failures->lost = 0;
        failures->more = 0;
        wf_lock_release(&pool->lock);
        unprinted += failures_report_list(runtime, newest);
        unprinted += report_lost(runtime, lost);
        unprinted = report_more(runtime, unprinted);
        wf_lock_acquire(&pool->lock);
    }
    failures->more = unprinted;
    failures->is_reporting = false;
    wf_lock_release(&pool->lock);
}
