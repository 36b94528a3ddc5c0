/* SPDX-License-Identifier: MIT */
/*
 * obs/dump.c - weft_runtime_dump: a line for every worker and every live task of a runtime.
 *
 * Works while tasks run.  It takes only the lock of the task pool, and only copies numbers under
 * it.  The text is written afterwards, so a slow reader of the text delays no worker.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "obs/obs.h"

struct snapshot {
    weft_task_info *infos;
    size_t count;
    size_t max;
    const weft_runtime *runtime;
};

static void dump_visit(struct weft_task *task, void *context)
{
    struct snapshot *snapshot = context;
    if (snapshot->count < snapshot->max && !wf_state_is_complete(&task->state)) {
        wf_task_describe(snapshot->runtime, task, false, &snapshot->infos[snapshot->count]);
        snapshot->count++;
    }
}

/* An address as addr2line takes it: module+offset, and the function if it is known. */
static void describe_address(char *text, size_t size, const void *address)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        (void)snprintf(text, size, "%p", address);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *module = slash != NULL ? slash + 1 : info.dli_fname;
    const size_t offset = (size_t)((const char *)address - (const char *)info.dli_fbase);
    const char *name = info.dli_sname != NULL ? info.dli_sname : "";
    (void)snprintf(text, size, "%s+%#zx%s%s", module, offset, name[0] != '\0' ? " " : "", name);
}

/* What the task waits for, with its number or address if it has one, and for how long. */
static void describe_wait(char *text, size_t size, const weft_task_info *info, weft_time now)
{
    char object[32] = "";
    if (info->wait_task_id != 0) {
        (void)snprintf(object, sizeof(object), " %" PRIu64, info->wait_task_id);
    } else if (info->wait == WEFT_WAIT_READABLE || info->wait == WEFT_WAIT_WRITABLE) {
        (void)snprintf(object, sizeof(object), " %d", (int)(intptr_t)info->wait_object);
    } else if (info->wait_object != NULL) {
        (void)snprintf(object, sizeof(object), " %p", info->wait_object);
    }
    (void)snprintf(text, size, " on %s%s for %" PRId64 " ms", weft_wait_name(info->wait), object,
                   (now - info->wait_since) / 1000000);
}

static int dump_task(int fd, const weft_task_info *info, weft_time now)
{
    char line[512];
    char wait[96] = "";
    char fn[128];
    char site[128];
    describe_address(fn, sizeof(fn), (const void *)(uintptr_t)info->fn);
    describe_address(site, sizeof(site), info->site);
    if (info->state == WEFT_TASK_BLOCKED) {
        describe_wait(wait, sizeof(wait), info, now);
    }
    int length =
        snprintf(line, sizeof(line),
                 "task %" PRIu64 " \"%s\" %s%s, age %" PRId64 " ms, runs %" PRIu64
                 ", parent %" PRIu64 ", fn %s, spawned at %s%s%s\n",
                 info->id, info->name, weft_task_state_name(info->state), wait,
                 (now - info->created) / 1000000, info->runs, info->parent_id, fn, site,
                 info->is_cancelled ? ", cancelled" : "", info->is_pinned ? ", pinned" : "");
    size_t size = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
    return wf_file_write(fd, line, size);
}

static int dump_worker(int fd, struct wf_worker *worker)
{
    char line[256];
    weft_worker_stats counters;
    (void)weft_runtime_get_worker_stats(worker->runtime, &counters,
                                        worker->index);            /* cannot fail */
    struct weft_task *current = wf_load_acquire(&worker->current); /* (sched.D1) */
    const bool is_spare_parked =
        wf_load_relaxed(&worker->health.is_spare_parked) != 0; /* relaxed: a hint */
    const char *kind = is_spare_parked           ? " (parked spare)"
                       : worker->health.is_spare ? " (spare)"
                                                 : "";
    char task[40] = "no task";
    if (current != NULL) {
        (void)snprintf(task, sizeof(task), "task %" PRIu64, wf_task_id(current)); /* fits */
    }
    /* relaxed: a hint */
    const int64_t hog_since_ns = wf_load_relaxed(&worker->health.hog_since_ns);
    char stuck[48] = "";
    if (hog_since_ns != 0) {
        (void)snprintf(stuck, sizeof(stuck), ", stuck for %" PRId64 " ms",
                       (wf_clock_now() - hog_since_ns) / 1000000); /* fits */
    }
    int length = snprintf(line, sizeof(line),
                          "worker %u%s: %s%s, queued %" PRIu64 ", polled %" PRIu64
                          ", stolen %" PRIu64 ", parked %" PRIu64 "\n",
                          worker->index, kind, task, stuck, counters.queue_depth, counters.polled,
                          counters.stolen, counters.parked);
    size_t size = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
    return wf_file_write(fd, line, size);
}

int weft_runtime_dump(weft_runtime *runtime, int fd)
{
    WF_NOT_NULL(runtime, "weft_runtime_dump: runtime is NULL");
    struct snapshot snapshot = {.max = (size_t)wf_runtime_live(runtime) + 64 /* new tasks */,
                                .runtime = runtime};
    snapshot.infos = wf_alloc_zeroed(snapshot.max, sizeof(*snapshot.infos));
    if (snapshot.infos == NULL) {
        return -ENOMEM;
    }
    wf_task_pool_visit(runtime->pool, dump_visit, &snapshot);
    int rc = 0;
    weft_time now = wf_clock_now();
    for (unsigned i = 0; i < wf_worker_total(runtime) && rc == 0; i++) {
        rc = dump_worker(fd, &runtime->workers[i]);
    }
    for (size_t i = 0; i < snapshot.count && rc == 0; i++) {
        rc = dump_task(fd, &snapshot.infos[i], now);
    }
    wf_free(snapshot.infos);
    return rc == 0 ? (int)snapshot.count : rc;
}
