/* SPDX-License-Identifier: MIT */
/* queue/stats.c - reads the counters of a queue. */
#include "queue/queue.h"

void wf_queue_stats_read(const struct wf_queue_counters *counters, struct wf_queue_stats *out)
{
    out->pushed = wf_counter_read(&counters->pushed);
    out->popped = wf_counter_read(&counters->popped);
    out->stolen = wf_counter_read(&counters->stolen);
    out->overflowed = wf_counter_read(&counters->overflowed);
}
