/* SPDX-License-Identifier: MIT */
/*
 * par/pace.c - how large the pieces of a loop are.
 *
 * Between two pieces a loop looks at the clock and whether it is asked for work, 50 ns or so; so a
 * piece takes a hundred times as long, and whoever asks waits no longer than that.  The first piece
 * is one index, each next at most four times as large: one of a nanosecond has pieces of thousands
 * after six or seven.
 *
 * To call another worker costs microseconds.  So a range of many indices is split when what is left
 * of it is known to take longer than that, which the first pieces tell; one of a few indices at
 * once, since each may be as long as it likes.
 */
#include "par/par.h"
#include "sched/sched.h"

struct wf_pace wf_pace_of(size_t grain)
{
    return (struct wf_pace){
        .grain = grain > 0 ? grain : 1,
        .piece = grain > 0 ? grain : 1,
        .is_measured = grain == 0,
    };
}

void wf_pace_adapt(struct wf_pace *pace, size_t count, int64_t ns)
{
    pace->seen = count;
    pace->seen_ns = ns;
    if (ns < WF_PIECE_NS / 2) {
        const size_t factor = ns < WF_PIECE_NS / 8 ? 4 : 2;
        pace->piece = count < SIZE_MAX / factor ? factor * count : count;
    } else if (ns > 2 * WF_PIECE_NS) {
        pace->piece = (size_t)((double)count * (double)WF_PIECE_NS / (double)ns);
        pace->piece = pace->piece > 0 ? pace->piece : 1;
    }
}

bool wf_pace_is_worth(const struct wf_pace *pace, size_t count)
{
    if (!pace->is_measured || (pace->seen == 0 && count < WF_PIECES_FEW)) {
        return true;
    }
    /* A short time is mostly that of the clock itself. */
    return pace->seen_ns >= WF_PIECE_NS / 8 &&
           (double)count * (double)pace->seen_ns >= 2.0 * (double)WF_PIECE_NS * (double)pace->seen;
}

weft_forks *wf_par_forks(void)
{
    weft_forks *forks = weft_forks_self();
    return weft_forks_is_alone(forks) ? NULL : forks;
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
    const struct weft_task *self = wf_task_self();
    memory->bytes = wf_alloc(size);
    memory->has_cleanup = memory->bytes != NULL && self != NULL && self->body != WF_BODY_POLL;
    if (memory->has_cleanup) {
        weft_cleanup_push(&memory->cleanup, wf_free, memory->bytes);
    }
}

void wf_par_free(struct wf_par_memory *memory)
{
    if (memory->has_cleanup) {
        weft_cleanup_pop(&memory->cleanup, 0);
    }
    wf_free(memory->bytes);
}
