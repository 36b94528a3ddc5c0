/* SPDX-License-Identifier: MIT */
/*
 * par/pace.c - how large the pieces of a loop are.
 *
 * Between two pieces a loop looks at the clock and whether it is asked for work, 40 ns or so; so a
 * piece takes a hundred times as long, and whoever asks waits no longer than that.  The first piece
 * is one index, each next at most twice as large: a body of a millisecond is never done twice in a
 * row, and one of a nanosecond has pieces of thousands after a dozen.
 */
#include "par/par.h"

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
    if (ns < WF_PIECE_NS / 2) {
        pace->piece = count < SIZE_MAX / 2 ? 2 * count : count;
    } else if (ns > 2 * WF_PIECE_NS) {
        pace->piece = (size_t)((double)count * (double)WF_PIECE_NS / (double)ns);
        pace->piece = pace->piece > 0 ? pace->piece : 1;
    }
}

weft_forks *wf_par_forks(void)
{
    weft_forks *forks = weft_forks_self();
    return weft_forks_is_alone(forks) ? NULL : forks;
}
