/* SPDX-License-Identifier: MIT */
/*
 * sched/fail.c - tasks that fail: from any depth, with a message; and failures that nobody saw.
 *
 * weft_fail does not unwind: it runs the cleanups that the task has registered, on top of the
 * frames that they belong to, completes the task and leaves the stack for good.
 *
 * A failure counts as unseen when the last reference to the task goes without anybody having looked
 * at the result.  It is noted then, and so is a task that ended and still held a lock; and reported
 * when the runtime has nothing left to run, so that the report does not come in the middle of
 * things.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sched/fork.h"
#include "sched/sched.h"

struct wf_failure {
    struct wf_failure *next; /* noted before it */
    uint64_t task_id;
    int error;
    char name[WEFT_NAME_SIZE];
    char message[];
};

void weft_cleanup_push(weft_cleanup *cleanup, void (*fn)(void *arg), void *arg)
{
    struct weft_task *self = wf_task_self();
    WF_RULE(self != NULL && self->body != WF_BODY_POLL, "a cleanup outside a green thread");
    WEFT_CHECK(fn != NULL);
    *cleanup = (weft_cleanup){.fn = fn, .arg = arg, .next = self->cleanups};
    self->cleanups = cleanup;
    self->is_plain = false;
}

void weft_cleanup_pop(weft_cleanup *cleanup, int run)
{
    struct weft_task *self = wf_task_self();
    WF_RULE(self != NULL && self->body != WF_BODY_POLL, "a cleanup outside a green thread");
    WF_RULE(self->cleanups == cleanup, "weft_cleanup_pop of a cleanup that is not the newest");
    self->cleanups = cleanup->next;
    if (run != 0) {
        cleanup->fn(cleanup->arg);
    }
}

void wf_cleanups_run(struct weft_task *task)
{
    while (task->cleanups != NULL) { /* each is taken off before it runs: it may fail itself */
        weft_cleanup *cleanup = task->cleanups;
        task->cleanups = cleanup->next;
        cleanup->fn(cleanup->arg);
    }
}

/* [the task]  Keeps the message, if there is memory for it. */
__attribute__((format(printf, 2, 0))) static void
message_keep(struct weft_task *self, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    self->is_plain = false;
    struct wf_task_extra *extra = length > 0 ? wf_task_extra(self) : NULL;
    char *text = extra != NULL ? wf_alloc((size_t)length + 1) : NULL;
    if (text != NULL) {
        (void)vsnprintf(text, (size_t)length + 1, format, again); /* as long as before */
        wf_free(extra->message); /* of a cleanup that failed in turn: the last one counts */
        extra->message = text;
    }
    va_end(again);
}

void weft_fail(int error, const char *format, ...)
{
    struct weft_task *self = wf_task_self();
    WF_RULE(self != NULL && self->body != WF_BODY_POLL, "weft_fail outside a green thread");
    WF_RULE(error < 0, "weft_fail wants a negative error, as -EIO");
    if (format != NULL) {
        va_list arguments;
        va_start(arguments, format);
        message_keep(self, format, arguments);
        va_end(arguments);
    }
    (void)wf_state_shield(&self->state); /* cleanups may wait; -EOVERFLOW: it has 255 already */
    if (wf_has_forks(self)) {
        wf_forks_cut(self); /* first: they may use what the cleanups free */
    }
    wf_cleanups_run(self);
    wf_partings_forget(self); /* of futures that it polled, and now nobody polls any more */
    WEFT_CHECK(self->open_scopes == NULL);
    (void)wf_fetch_or_relaxed(&self->marks, WF_MARK_FAILED); /* relaxed: (T3) orders it */
    wf_task_exit(self, error);
}

size_t wf_message_copy(const struct weft_task *task, char *text, size_t text_size)
{
    const struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: complete */
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
    if (task == NULL || (text == NULL && text_size > 0)) {
        return -EINVAL;
    }
    if (!wf_state_is_complete(&task->state)) {
        return -EAGAIN;
    }
    return (int)wf_message_copy(task, text, text_size);
}

/* ---- failures that nobody saw -------------------------------------------------------------- */

/* [any]  Remembers it until nothing runs, or the monitor finds that this lasts. */
static void note(struct weft_task *task, int error, const char *message)
{
    struct wf_task_pool *pool = task->pool;
    const size_t size = strlen(message) + 1;
    struct wf_failure *failure = wf_alloc(sizeof(*failure) + size);
    if (failure == NULL) {
        WF_REACHED("fail.no_memory_to_note_it");
        wf_lock_acquire(&pool->lock);
        pool->failures_lost++;
        wf_lock_release(&pool->lock);
        wf_runtime_tell(pool);
        return;
    }
    *failure = (struct wf_failure){.task_id = wf_task_id(task), .error = error};
    wf_task_name(task, failure->name);
    memcpy(failure->message, message, size);
    wf_lock_acquire(&pool->lock);
    bool is_closed = pool->is_closed; /* a handle that outlived the runtime: nobody is to be told */
    if (!is_closed) {
        failure->next = pool->failures;
        pool->failures = failure;
    }
    wf_lock_release(&pool->lock);
    if (is_closed) {
        WF_REACHED("fail.after_its_runtime");
        wf_free(failure);
    } else {
        wf_runtime_tell(pool);
    }
}

void wf_failure_note(struct wf_task_pool *pool, struct weft_task *task)
{
    const struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: the last one */
    const char *message = extra != NULL && extra->message != NULL ? extra->message : "";
    WEFT_ASSERT(pool == task->pool);
    note(task, (int)task->result, message);
}

void wf_failure_note_held(struct weft_task *task, const void *object, size_t count)
{
    char message[128];
    (void)snprintf(message, sizeof(message), "ended and held %zu lock%s, the newest at %p", count,
                   count == 1 ? "" : "s", object); /* fits */
    note(task, -EOWNERDEAD, message);
}

void wf_failures_free(struct wf_failure *failures)
{
    while (failures != NULL) {
        struct wf_failure *next = failures->next;
        wf_free(failures);
        failures = next;
    }
}

/* What happens where the program did not say. */
static void print_failure(const weft_failure *failure)
{
    char line[512];
    int length =
        snprintf(line, sizeof(line), "weft: task %llu%s%s %s: %s%s%s\n",
                 (unsigned long long)failure->task_id, failure->name[0] != '\0' ? " " : "",
                 failure->name, failure->error == -EOWNERDEAD ? "left locks" : "failed, unobserved",
                 strerrorname_np(-failure->error), failure->message[0] != '\0' ? ": " : "",
                 failure->message);
    if (length > 0) {
        size_t size = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
        (void)wf_file_write(STDERR_FILENO, line, size); /* nobody to tell of an error */
    }
}

static void tell(weft_runtime *runtime, const weft_failure *failure)
{
    if (runtime->options.on_failure != NULL) {
        runtime->options.on_failure(runtime->options.hook_context, failure);
    } else {
        print_failure(failure);
    }
}

/* Of these only the number is known. */
static void tell_lost(weft_runtime *runtime, size_t count)
{
    char message[64];
    (void)snprintf(message, sizeof(message), "no memory to note %zu more that failed", count);
    tell(runtime, &(weft_failure){.name = "", .error = -ENOMEM, .message = message});
}

/* [who tells]  All that were noted so far. */
static void tell_all(weft_runtime *runtime, struct wf_failure *newest)
{
    struct wf_failure *oldest = NULL;
    while (newest != NULL) { /* turned over: they are told in the order they happened */
        struct wf_failure *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct wf_failure *next = oldest->next;
        const weft_failure told = {.task_id = oldest->task_id,
                                   .name = oldest->name,
                                   .error = oldest->error,
                                   .message = oldest->message};
        tell(runtime, &told);
        wf_free(oldest);
        oldest = next;
    }
}

bool wf_failures_are_noted(struct wf_task_pool *pool)
{
    wf_lock_acquire(&pool->lock);
    const bool are_noted = pool->failures != NULL || pool->failures_lost > 0;
    wf_lock_release(&pool->lock);
    return are_noted;
}

void wf_failures_report(weft_runtime *runtime)
{
    struct wf_task_pool *pool = runtime->pool;
    wf_lock_acquire(&pool->lock);
    const bool is_told = pool->is_telling; /* by another, who sees what comes meanwhile */
    pool->is_telling = true;
    while (!is_told && (pool->failures != NULL || pool->failures_lost > 0)) {
        struct wf_failure *newest = pool->failures;
        const size_t lost = pool->failures_lost;
        pool->failures = NULL;
        pool->failures_lost = 0;
        wf_lock_release(&pool->lock);
        tell_all(runtime, newest);
        if (lost > 0) {
            tell_lost(runtime, lost);
        }
        wf_lock_acquire(&pool->lock);
    }
    pool->is_telling = is_told;
    wf_lock_release(&pool->lock);
}
