/* SPDX-License-Identifier: MIT */
/*
 * par/grain.c - the size of the chunks of a loop, and what the layer needs to know of the task.
 *
 * Between two chunks a loop reads the clock and checks for a request for forks: about 50 ns.  So a
 * chunk should take a hundred times as long (WF_CHUNK_NS), and a thief waits no longer than that.
 * The first chunk is one index, and each chunk is at most four times as large as the last one.  A
 * loop whose index takes a nanosecond reaches chunks of thousands after six or seven.
 *
 * To wake another worker costs microseconds.  So, unless the caller has set the grain, a range
 * is split only if its last timed chunk shows that the rest takes longer than that.  Before any
 * chunk was timed, a range of fewer than WF_CHUNK_FIRST indices is split all the same, because a
 * single index may take any time.
 */
#include "future/future.h"
#include "par/par.h"

struct wf_grain wf_grain_of(size_t grain)
{
    return (struct wf_grain){
        .grain = grain > 0 ? grain : 1,
        .chunk = grain > 0 ? grain : 1,
        .is_measured = grain == 0,
    };
}

void wf_grain_adapt(struct wf_grain *grain, size_t count, int64_t ns)
{
    grain->seen = count;
    grain->seen_ns = ns;
    if (ns < WF_CHUNK_NS / 2) {
        const size_t factor = ns < WF_CHUNK_NS / 8 ? 4 : 2;
        grain->chunk = count < SIZE_MAX / factor ? factor * count : count;
    } else if (ns > 2 * WF_CHUNK_NS) {
        grain->chunk = (size_t)((double)count * (double)WF_CHUNK_NS / (double)ns);
        grain->chunk = grain->chunk > 0 ? grain->chunk : 1;
    }
}

bool wf_grain_is_worth_forking(const struct wf_grain *grain, size_t count)
{
    if (!grain->is_measured || (grain->seen == 0 && count < WF_CHUNK_FIRST)) {
        return true;
    }
    /* The time of a short chunk is mostly that of reading the clock, so it shows nothing. */
    return grain->seen_ns >= WF_CHUNK_NS / 8 && (double)count * (double)grain->seen_ns >=
                                                    2.0 * (double)WF_CHUNK_NS * (double)grain->seen;
}

weft_par_forks *wf_par_forks(void)
{
    weft_par_forks *forks = weft_par_forks_self();
    return weft_par_forks_run_at_once(forks) ? NULL : forks;
}

bool wf_par_is_shielded(void)
{
    const struct weft_task *self = wf_task_self();
    struct wf_state_view view;
    if (self == NULL) {
        return false;
    }
    wf_state_read(&self->state, &view);
    return view.shields > 0;
}

void wf_par_alloc(struct wf_par_memory *memory, size_t size)
{
    memory->bytes = wf_alloc(size);
    if (memory->bytes != NULL) {
        wf_undo_hook_add(&memory->hook, wf_free, memory->bytes);
    }
}

void wf_par_free(struct wf_par_memory *memory)
{
    wf_undo_hook_remove(&memory->hook);
    wf_free(memory->bytes);
}
