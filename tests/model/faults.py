#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Faults written by hand: each is put into a copy of the real source, the model program is built
from the copy, and the program must fail.  A checker that lets one pass is no checker.

    faults.py BUILD_DIR [NAME...]
    faults.py --texts               only checks that every fault still matches its source

A fault is a piece of source code and its replacement.  The piece is compared token by token:
comments and white space do not count, so a comment can be rewritten without losing a fault.  A
piece that is not found exactly once refers to code that has changed, and is an error."""
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["-std=c11", "-O2", "-D_GNU_SOURCE", "-DWF_MODEL", "-I", str(ROOT / "src"), "-I",
         str(ROOT / "tests"), "-I", str(ROOT / "include"), f"-fmacro-prefix-map={ROOT}/="]

# name, model program, source with the fault, (text, replacement)...
FAULTS = [
    ("bias: owner does not mark its section", "model_bias", "src/queue/bias.h",
     ("    wf_store_relaxed(&bias->is_in_section, 1);", "")),
    ("bias: thief does not check the owner's section mark", "model_bias", "src/queue/bias.c",
     ("is_unbiased && wf_load_acquire(&bias->is_in_section) == 0", "is_unbiased")),
    ("bias: revocation without a membarrier", "model_bias", "src/queue/bias.c",
     ("    if (wf_barrier_everywhere() != 0) {", "    if (false) {")),
    ("bias: second thief relies on an unfinished revocation", "model_bias", "src/queue/bias.c",
     ("wf_cas_relaxed(&bias->state, &biased, WF_REVOKING)",
      "wf_cas_relaxed(&bias->state, &biased, WF_UNBIASED)")),
    ("bias: regained without a check for remote accessors", "model_bias", "src/queue/bias.c",
     ("    if ((wf_load_acquire(&bias->remote) & ACCESSORS_MASK) != 0) {\n        WF_REACHED",
      "    if (false) {\n        WF_REACHED")),
    ("bias: regained with a stale ring head", "model_bias", "src/queue/runq.c",
     ("        wf_ring_refresh(&runq->ring);", "")),
    ("bias: remote accessor does not count itself", "model_bias", "src/queue/bias.c",
     ("    (void)wf_fetch_add_relaxed(&bias->remote, ACCESSOR);",
      "    (void)wf_fetch_add_relaxed(&bias->remote, ACCESS_ENDED + ACCESSOR);"),
     ("    (void)wf_fetch_add_release(&bias->remote, ACCESS_ENDED);", "    (void)bias;")),
    ("ring: first biased push does not wake a thief", "model_bias", "src/queue/ring.c",
     ("    if (count == 0 || count == WF_RING_CAPACITY) {",
      "    if (count == WF_RING_CAPACITY) {")),
    ("ring: count does not order head before tail", "model_bias", "src/queue/ring.c",
     ("    wf_ring_pos real = real_of(wf_load_acquire(&ring->head));\n"
      "    wf_ring_pos tail = wf_load_relaxed(&ring->tail);\n",
      "    wf_ring_pos real = real_of(wf_load_relaxed(&ring->head));\n"
      "    wf_ring_pos tail = wf_load_relaxed(&ring->tail);\n")),
    ("ring: count reads the tail before the head", "model_bias", "src/queue/ring.c",
     ("    wf_ring_pos real = real_of(wf_load_acquire(&ring->head));\n"
      "    wf_ring_pos tail = wf_load_relaxed(&ring->tail);\n",
      "    wf_ring_pos tail = wf_load_relaxed(&ring->tail);\n"
      "    wf_ring_pos real = real_of(wf_load_acquire(&ring->head));\n")),
    ("monitor: parks without a second check", "model_monitor", "src/runtime/monitor.c",
     ("    if (!is_any_worker_awake(runtime)) {", "    if (true) {")),
    ("monitor: waking worker does not wake it", "model_monitor", "src/sched/spare.c",
     ("    if (wf_load_relaxed(&runtime->monitor.is_asleep) != 0) { /* relaxed: (M3) */",
      "    if (false) {")),
    ("monitor: spare parks without a second check", "model_monitor", "src/sched/spare.c",
     ("wf_load_relaxed(&worker->health.is_spare_parked) != 0 && !spare_try_unpark(worker)) {",
      "wf_load_relaxed(&worker->health.is_spare_parked) != 0) {")),
    ("monitor: spare that parks last does not unpark itself", "model_monitor",
     "src/sched/spare.c",
     ("    const bool is_last = wf_idle_asleep(&runtime->idle) >= wf_workers_active(runtime);",
      "    const bool is_last = false;")),
    ("deque: steal of half by one CAS", "model_deque", "src/queue/deque.c",
     ("""    while (left > 0) {""",
      """    wf_deque_pos top_ = wf_load_acquire(&from->top);
    wf_fence_seq_cst();
    wf_deque_pos bottom_ = wf_load_acquire(&from->bottom);
    wf_deque_diff there = items_between(top_, bottom_);
    if (there > 1) {
        struct wf_deque_buffer *b = wf_load_acquire(&from->buffer);
        wf_deque_pos half = (wf_deque_pos)((there + 1) / 2);
        struct wf_node *items[8];
        for (wf_deque_pos i = 0; i < half; i++) {
            items[i] = wf_load_relaxed(deque_slot(b, (wf_deque_pos)(top_ + i)));
        }
        if (!wf_cas_seq_cst(&from->top, &top_, (wf_deque_pos)(top_ + half))) {
            return NULL;
        }
        for (wf_deque_pos i = 0; i + 1 < half; i++) {
            (void)wf_deque_push(into, items[i]);
        }
        return items[half - 1];
    }
    while (left > 0) {""")),
    ("deque: pop takes the last item without a CAS", "model_deque", "src/queue/deque.c",
     ("left == 0 && wf_cas_relaxed(&deque->top, &top, (wf_deque_pos)(top + 1));",
      "left == 0 && (wf_store_relaxed(&deque->top, (wf_deque_pos)(top + 1)), true);")),
    ("deque: growth omits the oldest item", "model_deque", "src/queue/deque.c",
     ("for (wf_deque_pos i = top; i != bottom; i++) {",
      "for (wf_deque_pos i = (wf_deque_pos)(top + 1); i != bottom; i++) {")),
    ("deque: growth frees the replaced buffer at once", "model_deque", "src/queue/deque.c",
     ("    wf_store_release(&deque->buffer, buffer);",
      "    wf_store_release(&deque->buffer, buffer);\n    buffer->older = old->older;\n"
      "    wf_free(old);")),
    ("deque: push stores one item too many before it grows", "model_deque", "src/queue/deque.c",
     ("if ((size_t)items_between(top, bottom) < buffer->capacity) {",
      "if ((size_t)items_between(top, bottom) <= buffer->capacity) {")),
    ("ring: capacity off by one", "model_ring", "src/queue/ring.c",
     ("if (distance(steal_of(wf_plain_load(&ring->known)), tail) < WF_RING_CAPACITY) {",
      "if (distance(steal_of(wf_plain_load(&ring->known)), tail) <= WF_RING_CAPACITY) {")),
    ("ring: capacity off by one after a refresh of the head", "model_ring", "src/queue/ring.c",
     ("        if (distance(steal_of(head), tail) < WF_RING_CAPACITY) {",
      "        if (distance(steal_of(head), tail) <= WF_RING_CAPACITY) {")),
    ("ring: capacity counted from real instead of steal", "model_ring", "src/queue/ring.c",
     ("if (distance(steal_of(wf_plain_load(&ring->known)), tail) < WF_RING_CAPACITY) {",
      "if (distance(real_of(wf_plain_load(&ring->known)), tail) < WF_RING_CAPACITY) {")),
    ("ring: capacity counted from real after a refresh", "model_ring", "src/queue/ring.c",
     ("        if (distance(steal_of(head), tail) < WF_RING_CAPACITY) {",
      "        if (distance(real_of(head), tail) < WF_RING_CAPACITY) {")),
    ("ring: try_push stores one item too many", "model_ring", "src/queue/ring.c",
     ("        distance(steal_of(ring_refresh_head(ring)), tail) >= WF_RING_CAPACITY) {",
      "        distance(steal_of(ring_refresh_head(ring)), tail) > WF_RING_CAPACITY) {")),
    ("ring: try_push counts free slots from real", "model_ring", "src/queue/ring.c",
     ("        distance(steal_of(ring_refresh_head(ring)), tail) >= WF_RING_CAPACITY) {",
      "        distance(real_of(ring_refresh_head(ring)), tail) >= WF_RING_CAPACITY) {")),
    ("ring: take_all takes items that a thief has claimed", "model_ring", "src/queue/ring.c",
     ("    if (steal_of(head) != real_of(head) || count == 0 ||", "    if (count == 0 ||")),
    ("ring: steal releases slots before it copies them", "model_ring", "src/queue/ring.c",
     ("    for (wf_ring_pos i = 0; i + 1 < count; i++) {",
      "    ring_release(from);\n    for (wf_ring_pos i = 0; i + 1 < count; i++) {")),
    ("ring: second thief is admitted", "model_ring", "src/queue/ring.c",
     ("        if (steal_of(head) != real) {", "        if (false) {")),
    ("ring: pop moves steal of an active thief", "model_ring", "src/queue/ring.c",
     ("pair(is_stolen_from ? steal_of(head) : next, next)", "pair(next, next)")),
    ("ring: pop does not move steal", "model_ring", "src/queue/ring.c",
     ("pair(is_stolen_from ? steal_of(head) : next, next)", "pair(steal_of(head), next)")),
    ("ring: pop forgets an active thief in its copy of the head", "model_ring", "src/queue/ring.c",
     ("            wf_plain_store(&ring->known, popped);",
      "            wf_plain_store(&ring->known, pair(next, next));")),
    ("ring: pop stores the head instead of a CAS", "model_ring", "src/queue/ring.c",
     ("        if (wf_cas_release(&ring->head, &head, popped)) {",
      "        if ((wf_store_release(&ring->head, popped), true)) {")),
    ("ring: thief reads the owner's copy of the head", "model_ring", "src/queue/ring.c",
     ("    wf_ring_pair head = wf_load_acquire(&from->head); /* pairs with (R3) */",
      "    wf_ring_pair head = ring_refresh_head(from);")),
    ("ring: overflow ignores an active thief", "model_ring", "src/queue/ring.c",
     ("        if (steal_of(head) != real_of(head)) {", "        if (false) {")),
    ("mpsc: take by load and store", "model_mpsc", "src/queue/mpsc.c",
     ("wf_exchange_acquire(&mpsc->head, NULL);",
      "wf_load_acquire(&mpsc->head);\n    wf_store_relaxed(&mpsc->head, NULL);")),
    ("mpsc: was_empty from before the CAS loop", "model_mpsc", "src/queue/mpsc.c",
     ("    do {", "    bool was_empty = head == NULL;\n    do {"),
     ("    return head == NULL;", "    return was_empty;")),
    ("mpsc: take does not reverse the order", "model_mpsc", "src/queue/mpsc.c",
     ("        wf_plain_store(&newest->next, taken.first);\n        taken.first = newest;\n",
      "        wf_plain_store(&newest->next, (struct wf_node *)NULL);\n"
      "        if (taken.first == NULL) { taken.first = newest; } else {"
      " taken.last->next = newest; }\n        taken.last = newest;\n")),
    ("inject: pop ignores a failed try of the lock", "model_inject", "src/queue/inject.c",
     ("    wf_lock_acquire(&inject->lock);\n    size_t taken =",
      "    (void)wf_lock_try(&inject->lock);\n    size_t taken =")),
    ("inject: pop without the lock", "model_inject", "src/queue/inject.c",
     ("    wf_lock_acquire(&inject->lock);\n    size_t taken =", "    size_t taken ="),
     ("    wf_counter_add(&inject->counters.popped, taken);\n    wf_lock_release(&inject->lock);",
      "    wf_counter_add(&inject->counters.popped, taken);")),
    ("inject: capacity check ignores the size of the batch", "model_inject", "src/queue/inject.c",
     ("chain->count > inject_free_locked(inject)", "inject_free_locked(inject) == SIZE_MAX")),
    ("waitq: waiter may free the queue while the granter holds its lock", "model_waitq",
     "src/sync/waitq.h",
     ("        wf_lock_drain(&node->queue->lock);\n", "")),
    ("waitq: node granted by two queues", "model_waitq", "src/sync/waitq.c",
     ("    return wf_cas_relaxed(&node->selection->winner, &unclaimed, node->index);",
      "    (void)wf_cas_relaxed(&node->selection->winner, &unclaimed, node->index);\n"
      "    return true;")),
    ("waitq: cancelled waiter forgets its grant", "model_waitq", "src/sync/waitq.h",
     ("            rc = wf_waitq_leave(node) ? 0 : rc;",
      "            (void)wf_waitq_leave(node);")),
    ("waitq: cancelled waiter stays in the queue", "model_waitq", "src/sync/waitq.c",
     ("    if (wf_plain_load(&node->is_queued)) {", "    if (false) {")),
    ("waitq: abandoned grant is not passed on", "model_waitq", "src/sync/waitq.c",
     ("        node->pass_on(node);", "        (void)node;")),
    ("waitq: thread leaves without the lock", "model_waitq", "src/sync/waitq.c",
     ("    } while (rc == 0 && !wf_node_is_granted(node));\n"
      "    return wf_waitq_leave(node) ? 0 : rc;",
      "    } while (rc == 0 && wf_load_acquire(&node->is_granted) == 0);\n"
      "    return wf_load_acquire(&node->is_granted) != 0 ? 0 : wf_waitq_leave(node) ? 0 : rc;")),
    ("waitq: waiter woken but not granted", "model_waitq", "src/sync/waitq.h",
     ("    WF_JITTER();\n    wf_store_release(&node->is_granted, 1);", "    WF_JITTER();\n   ")),
    ("sem: permits checked before the waiters bit is set", "model_sem", "src/sync/sem.c",
     ("    } while (!wf_cas_acquire(&sem->word, &word, next)); /* (E1) */",
      "    } while (is_enough && !wf_cas_acquire(&sem->word, &word, next));\n"
      "    if (!is_enough) {\n"
      "        (void)wf_fetch_or_relaxed(&sem->word, WAITERS);\n    }")),
    ("sem: waiter that leaves does not serve the next", "model_sem", "src/sync/sem.c",
     ("        if (rc != 0) {\n            sem_serve_next(sem);\n        }\n", "")),
    ("sem: abandoned waiter does not serve the next", "model_sem", "src/sync/sem.c",
     ("    wf_waitq_abandon(node);\n    sem_serve_next(sem);", "    wf_waitq_abandon(node);")),
    ("sem: acquirer may free it while the releaser holds its lock", "model_sem", "src/sync/sem.c",
     ("            wf_lock_drain(&sem->queue.lock); /* whoever released may be inside still */\n",
      "")),
    ("sem: release serves only the first waiter", "model_sem", "src/sync/sem.c",
     ("    while ((first = wf_plain_load(&sem->queue.first)) != NULL && first->count <= permits) {",
      "    if ((first = wf_plain_load(&sem->queue.first)) != NULL && first->count <= permits) {"),
     ("            wf_wakes_add(wakes, first);",
      "            wf_wakes_add(wakes, first);\n            first = sem->queue.first;")),
    ("mutex: unused wake-up is not passed on", "model_mutex", "src/sync/mutex.c",
     ("        mutex_pass_retry_on(mutex);", "        (void)mutex;")),
    ("mutex: unused wake-up of a free mutex wakes no waiter", "model_mutex",
     "src/sync/mutex.c",
     ("mutex_holder(word) == 0 ? wf_waitq_claim(&mutex->queue) : NULL;", "NULL;")),
    ("mutex: abandoned hand-off is lost", "model_mutex", "src/sync/mutex.c",
     ("        mutex_release(mutex, (uintptr_t)node->item);", "        (void)mutex;")),
    ("mutex: woken waiter leaves the WOKEN bit set", "model_mutex", "src/sync/mutex.c",
     ("    const uintptr_t cleared = is_woken ? WOKEN : 0;",
      "    const uintptr_t cleared = 0;"),
     ("mutex_spin(mutex, (uintptr_t)node->item, WOKEN)",
      "mutex_spin(mutex, (uintptr_t)node->item, 0)")),
    ("mutex: waiter does not set the WAITERS bit", "model_mutex", "src/sync/mutex.c",
     ("(is_taken ? holder : WAITERS | ", "(is_taken ? holder : word & WAITERS | ")),
    ("state: wake-up skips its CAS if NOTIFIED is set", "model_state", "src/task/state.c",
     ("        if (lifecycle_of(word) == WF_IDLE) {\n            next = with_lifecycle(word,",
      "        if (lifecycle_of(word) == WF_ACTIVE && (word & NOTIFIED) != 0) {\n"
      "            return WF_WAKE_NOTED;\n        }\n"
      "        if (lifecycle_of(word) == WF_IDLE) {\n            next = with_lifecycle(word,")),
    ("state: park by load and store", "model_state", "src/task/state.c",
     ("        if (wf_cas_acq_rel(&state->word, &word, next)) {\n            return !is_notified;",
      "        if ((wf_store_release(&state->word, next), true)) {\n"
      "            return !is_notified;")),
    ("state: cancel does not wake", "model_state", "src/task/state.c",
     ("        bool is_woken = (word & SHIELD_MASK) == 0;", "        bool is_woken = false;")),
    ("state: cancel ignores the shield", "model_state", "src/task/state.c",
     ("return (word & CANCELLED) != 0 && (word & SHIELD_MASK) == 0;",
      "return (word & CANCELLED) != 0;")),
    ("state: JOINED set before the joiner is stored", "model_state", "src/task/state.c",
     ("    wf_store_relaxed(&state->joiner, joiner); /* relaxed: published by the word */\n", ""),
     ("    WEFT_CHECK((before & JOINED) == 0); /* one at a time */",
      "    wf_store_relaxed(&state->joiner, joiner);")),
    ("state: completion drops its reference before it wakes a list", "model_state",
     "src/task/state.c",
     ("with_lifecycle(word, WF_COMPLETE) - (is_shared ? 0 : REFERENCE_ONE);",
      "with_lifecycle(word, WF_COMPLETE) - REFERENCE_ONE;")),
    ("state: completion does not check again for a joiner", "model_state", "src/task/state.c",
     ("        bool is_shared = (word & SHARED) != 0;\n",
      "        bool is_shared = (word & SHARED) != 0;\n        uint64_t first = word;\n"),
     ("        if (wf_cas_acq_rel_both(&state->word, &word, next)) {\n"
      "            return (is_shared ?",
      "        bool is_done = wf_cas_acq_rel_both(&state->word, &word, next);\n"
      "        if (!is_done && ((word ^ first) & JOINED) != 0) {\n"
      "            is_done = wf_cas_acq_rel_both(&state->word, &word,\n"
      "                with_lifecycle(word, WF_COMPLETE) - (is_shared ? 0 : REFERENCE_ONE));\n"
      "            next = with_lifecycle(word, WF_COMPLETE) - (is_shared ? 0 : REFERENCE_ONE);\n"
      "        }\n        if (is_done) {\n            return (is_shared ?")),
    ("state: try_ref of a completed task", "model_state", "src/task/state.c",
     ("        if (lifecycle_of(word) == WF_COMPLETE || references_of(word) == 0 ||",
      "        if (references_of(word) == 0 ||")),
    ("state: try_ref of a task without references", "model_state", "src/task/state.c",
     ("        if (lifecycle_of(word) == WF_COMPLETE || references_of(word) == 0 ||",
      "        if (")),
    ("state: reused task stores its word without release", "model_state", "src/task/state.h",
     ("    wf_store_release(\n        &state->word,",
      "    wf_store_relaxed(\n        &state->word,")),
    ("state: sole reference check accepts two references", "model_state",
     "src/task/state.h",
     ("    return wf_state_references(wf_load_acquire(&state->word)) == 1;",
      "    return wf_state_references(wf_load_acquire(&state->word)) <= 2;")),
    ("state: two handles of an ended task count as one", "model_join", "src/task/state.h",
     ("wf_state_references(word) == 2 && wf_state_lifecycle(word) != WF_COMPLETE;",
      "wf_state_references(word) == 2;")),
    ("timers: check does not publish the next deadline", "model_timers", "src/sched/timers.c",
     ("    if (least_ns != WF_FOREVER) {\n        timers_publish(runtime, least_ns);\n    }", "")),
    ("timers: check stores the next deadline unconditionally", "model_timers", "src/sched/timers.c",
     ("        timers_publish(runtime, least_ns);",
      "        wf_store_relaxed(&timer_summary->next_ns, least_ns);")),
    ("timers: leader is not woken for an earlier timer", "model_timers", "src/sched/timers.c",
     ("        runtime->policy->wake_leader(runtime);", "")),
    ("timers: check claims the deadline after it has read the wheels", "model_timers",
     "src/sched/timers.c",
     ("    if (next_ns > now_ns ||"
      " !wf_cas_relaxed(&timer_summary->next_ns, &next_ns, WF_FOREVER)) {",
      "    if (next_ns > now_ns) {"),
     ("    if (least_ns != WF_FOREVER) {\n        timers_publish",
      "    wf_store_relaxed(&timer_summary->next_ns, WF_FOREVER);\n"
      "    if (least_ns != WF_FOREVER) {\n        timers_publish")),
    ("join: SHARED set before the lock is taken", "model_join",
     "src/life/join.c",
     ("    wf_lock_acquire(lock);\n    const bool is_listed = wf_state_share(&task->state);",
      "    const bool is_listed = wf_state_share(&task->state);\n    wf_lock_acquire(lock);")),
    ("join: joiner that saw the end leaves without the lock", "model_join", "src/life/join.c",
     ("        wf_wait_end(self);\n    }\n    wf_joiner_leave(task, &joiner);",
      "        wf_wait_end(self);\n    }\n    if (rc != 0) {\n"
      "        wf_joiner_leave(task, &joiner);\n    }")),
    ("join: older joiner that leaves cuts off the newer one", "model_join", "src/life/join.c",
     ("        wf_plain_store(prev != NULL ? &prev->next : &task->joiners, next);",
      "        wf_plain_store(&task->joiners, next);")),
    ("join: newer joiner that leaves stays the older one's neighbour", "model_join",
     "src/life/join.c",
     ("        if (next != NULL) {\n            wf_plain_store(&next->prev, prev);\n        }",
      "")),
    ("join: race leaves only the winner's list", "model_join", "src/life/join.c",
     ("        wf_joiner_leave(race->tasks[i], &race->joiners[i]);",
      "        if ((int)i == wf_load_relaxed(&race->winner)) {\n"
      "            wf_joiner_leave(race->tasks[i], &race->joiners[i]);\n        }")),
    ("join: main gets the deadlock although it has ended", "model_join", "src/life/join.c",
     ("        rc = !is_complete && is_stuck ? -EDEADLK : 0;",
      "        rc = is_stuck ? -EDEADLK : 0;")),
    ("task: end reads the task after its completion", "model_join", "src/life/end.c",
     ("    if (joiner != NULL) {\n        wf_task_wake_on(worker, joiner);",
      "    if (joiner != NULL && wf_load_relaxed(&task->marks) == 0) {\n"
      "        wf_task_wake_on(worker, joiner);")),
    ("task: end wakes the list before it completes", "model_join", "src/life/end.c",
     ("    unsigned ended = wf_state_complete(&task->state, &joiner);",
      "    wf_joiners_wake(task);\n"
      "    unsigned ended = wf_state_complete(&task->state, &joiner);"),
     ("        wf_joiners_wake(task);\n        if (wf_state_unref(&task->state)) {",
      "        if (wf_state_unref(&task->state)) {")),
    ("idle: backoff wait is not counted", "model_idle", "src/sched/idle.c",
     ("    (void)wf_fetch_add_relaxed(&idle->backing_off, 1);\n", ""),
     ("    (void)wf_fetch_sub_relaxed(&idle->backing_off, 1);", "")),
    ("fd: close does not end waits", "model_fd", "src/io/fd.c",
     ("    end_waits(record, -EBADF);\n    wf_fd_put", "    wf_fd_put")),
    ("fd: closer drops its reference before it ends waits", "model_fd", "src/io/fd.c",
     ("(keeps_open ? WF_FD_KEEP_OPEN : 0)) + WF_FD_REF;", "(keeps_open ? WF_FD_KEEP_OPEN : 0));"),
     ("    end_waits(record, -EBADF);\n    wf_fd_put(record);\n",
      "    end_waits(record, -EBADF);\n")),
    ("fd: wait does not check ready_seq", "model_fd", "src/io/fd.c",
     ("    const bool is_ready = wf_load_relaxed(&record->ready_seq[dir]) != ready_seq;",
      "    const bool is_ready = false && ready_seq != 0;")),
    ("fd: record reset before the descriptor is closed", "model_fd", "src/io/fd.c",
     ("        rc = wf_sys_close(record->fd);\n    }\n    fd_reset(record);\n    return rc;",
      "        fd_reset(record);\n        rc = wf_sys_close(record->fd);\n    }\n    return rc;")),
    ("driver: attach wakes the leader without a fence", "model_driver", "src/sched/driver.c",
     ("    wf_fence_seq_cst();\n    runtime->policy->wake_leader(runtime);",
      "    runtime->policy->wake_leader(runtime);")),
    ("driver: attach wakes no worker", "model_driver", "src/sched/driver.c",
     ("    runtime->policy->wake_leader(runtime); /* both begin with the fence */\n", ""),
     ("    runtime->policy->wake_any(runtime);", "")),
    ("park: unpark does not wake a worker parked in the driver", "model_driver",
     "src/sched/driver.c",
     ("        driver->unpark(driver);", "        (void)driver;")),
    ("idle: no second check before the park", "model_idle", "src/sched/idle.c",
     ("    if (sleep->has_work(sleep->context) && clear_own_bit(idle, worker)) {",
      "    if (false) {")),
    ("idle: withdrawal does not check whether the bit was set", "model_idle", "src/sched/idle.c",
     ("    return (wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit) & bit) != 0;",
      "    (void)wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit);\n    return true;")),
    ("idle: last searcher does not notify", "model_idle", "src/sched/idle.c",
     ("    return before == 1;", "    return false;")),
    ("lifo: take by load and store", "model_lifo", "src/queue/runq.h",
     ("    return item != NULL ? wf_exchange_acquire(&runq->lifo, NULL) : NULL;",
      "    if (item != NULL) {\n        item = wf_load_acquire(&runq->lifo);\n"
      "        wf_store_relaxed(&runq->lifo, NULL);\n    }\n    return item;")),
    ("lifo: put by store", "model_lifo", "src/queue/runq.h",
     ("    return wf_exchange_release(&runq->lifo, item);",
      "    wf_store_release(&runq->lifo, item);\n    return old;")),
    ("lifo: displaced task is lost", "model_lifo", "src/queue/runq.h",
     ("    if (old == NULL) {\n        wf_store_release(&runq->lifo, item);",
      "    if (true) {\n        wf_store_release(&runq->lifo, item);")),
    ("limit: waiter does not check again", "model_limit", "src/life/limit.c",
     ("    if (must_retry(runtime, kind)) {", "    if (false) {")),
    ("limit: release of two wakes one waiter", "model_limit", "src/life/limit.c",
     ("        count--;\n    }\n    wf_lock_release(&limits->lock);",
      "        break;\n    }\n    wf_lock_release(&limits->lock);")),
    ("limit: cancelled waiter does not pass its wake-up on", "model_limit", "src/life/limit.c",
     ("    if (rc != 0 && is_woken) {", "    if (false) {")),
    ("limit: waiter does not see the close", "model_limit", "src/life/limit.c",
     (" /* all relaxed: the fences order them */\n        return true;",
      "\n        return false;")),
    ("close: late pin succeeds", "model_close", "src/task/pool.c",
     ("    wf_pool_unpin(pool);\n    return false;", "    return true;")),
    ("close: shut does not wait for pinned threads", "model_close", "src/task/pool.c",
     ("while (wf_load_acquire(&pool->external_refs) != 0) {", "while (false) {")),
    ("close: closer is not woken", "model_close", "src/obs/quiescence.c",
     ("        wf_parker_unpark(&runtime->shutdown.closer);\n", "")),
    ("close: reported_at cleared after the wake-up", "model_close", "src/obs/quiescence.c",
     ("""        wf_store_relaxed(&pool->runtime->quiescence.reported_at, 0);
        pool->runtime->policy->wake_any(pool->runtime);""",
      """        pool->runtime->policy->wake_any(pool->runtime);
        wf_store_relaxed(&pool->runtime->quiescence.reported_at, 0);""")),
    ("close: failures reported before reported_at is set", "model_close", "src/obs/quiescence.c",
     ("""    wf_store_relaxed(&runtime->quiescence.reported_at, activity(runtime));
    wf_failures_report(runtime);""",
      """    wf_failures_report(runtime);
    wf_store_relaxed(&runtime->quiescence.reported_at, activity(runtime));""")),
    ("world: waking worker does not check for a stop", "model_world", "src/sched/safepoint.c",
     ("        if (wf_load_acquire(&world->is_stopped) == 0) {\n            return;\n        }",
      "        if (wf_load_acquire(&world->is_stopped) <= 1) {\n            return;\n        }")),
    ("world: waking worker checks before it clears is_safe", "model_world", "src/sched/safepoint.c",
     ("        wf_store_relaxed(&safe->is_safe, 0); /* relaxed: the fence orders it */\n",
      "        uint32_t is_stopped = wf_load_acquire(&world->is_stopped);\n"
      "        wf_store_relaxed(&safe->is_safe, 0);\n"),
     ("        if (wf_load_acquire(&world->is_stopped) == 0) {", "        if (is_stopped == 0) {")),
    ("world: safe worker does not wake the stopper", "model_world", "src/sched/safepoint.c",
     ("        wf_parker_unpark(&world->stopper);", "        (void)world;")),
    ("world: resume does not wake the workers", "model_world", "src/sched/safepoint.c",
     ("            wf_parker_unpark(&workers[i]->parker);", "            (void)workers;")),
    ("world: stopper does not wait for the last worker", "model_world", "src/sched/safepoint.c",
     ("    for (unsigned i = 0; i < count; i++) {\n        while (",
      "    for (unsigned i = 0; i + 1 < count; i++) {\n        while (")),
    ("world: next stopper in turn is not woken", "model_world", "src/sched/safepoint.c",
     ("        wf_waiter_wake(&turn->waiter);", "        (void)turn;")),
    ("idle: claimed worker is claimed twice", "model_idle", "src/sched/idle.c",
     ("    if ((wf_fetch_and_acquire(&idle->asleep[worker / 64], ~bit) & bit) == 0) {",
      "    if (wf_fetch_and_acquire(&idle->asleep[worker / 64], ~bit) == UINT64_MAX) {")),
    ("idle: claimed worker does not count as searching", "model_idle", "src/sched/idle.c",
     ("~bit) & bit) == 0) {\n        return false;\n    }\n"
      "    (void)wf_fetch_add_relaxed(&idle->searching, 1);",
      "~bit) & bit) == 0) {\n        return false;\n    }")),
    ("idle: pinned task relies on a searching worker", "model_idle",
     "src/sched/idle.c",
     ("    uint64_t bit = idle_bit(worker);\n"
      "    if ((wf_load_relaxed(&idle->asleep[worker / 64]) & bit) == 0) {",
      "    uint64_t bit = idle_bit(worker);\n    if (wf_load_relaxed(&idle->searching) > 0 ||\n"
      "        (wf_load_relaxed(&idle->asleep[worker / 64]) & bit) == 0) {")),
    ("registry: slab freed while readers use it", "model_registry", "src/fiber/registry.c",
     ("while (wf_load_acquire(&all->readers) != 0) {", "while (false) {")),
    ("lock: release wakes no sleeper", "model_lock", "src/os/lock.c",
     ("(void)wf_futex_wake(&lock->word, 1)", "(void)0")),
    ("lock: woken sleeper sets HELD instead of SLEEPERS", "model_lock", "src/os/lock.c",
     ("    while (wf_exchange_acquire(&lock->word, SLEEPERS) != OPEN) {",
      "    bool slept = false;\n    while (!(slept && lock_take_open(lock)) &&"
      " wf_exchange_acquire(&lock->word, SLEEPERS) != OPEN) {\n        slept = true;")),
    ("registry: removal does not wait for readers", "model_registry", "src/fiber/registry.c",
     ("while (wf_load_acquire(&all->readers) != 0) {", "while (false) {")),
    ("registry: removal waits for readers before it unlinks", "model_registry",
     "src/fiber/registry.c",
     ("while (wf_load_acquire(&all->readers) != 0) {", "while (false) {"),
     ("    struct wf_slab *next = wf_load_relaxed(&slab->next);",
      "    while (wf_load_acquire(&all->readers) != 0) {\n        wf_spin_hint();\n    }\n"
      "    struct wf_slab *next = wf_load_relaxed(&slab->next);")),
    ("registry: reader leaves before it has read the slab", "model_registry",
     "src/fiber/registry.c",
     ("        if (is_found) {",
      "        (void)wf_fetch_sub_release(&all->readers, is_found ? 1 : 0);\n"
      "        if (is_found) {"),
     ("    (void)wf_fetch_sub_release(&all->readers, 1); /* (F3) */",
      "    (void)wf_fetch_sub_release(&all->readers, is_found ? 0 : 1);")),
    ("fork: expose overwrites a slot in use", "model_fork", "src/fork/fork_shared.c",
     ("    if (is_exposed(word)) {\n        WF_REACHED", "    if (false) {\n        WF_REACHED")),
    ("fork: retract without a CAS", "model_fork", "src/fork/fork_shared.c",
     ("if (wf_cas_relaxed(&forks->exposed[slot], &word, 0)) {",
      "if (wf_load_relaxed(&forks->exposed[slot]) == word) {\n"
      "        wf_store_relaxed(&forks->exposed[slot], 0);")),
    ("fork: steal without a CAS", "model_fork", "src/fork/fork_shared.c",
     ("if (!wf_cas_acq_rel(&forks->exposed[slot], &word, (uintptr_t)taker + 1)) {",
      "if (wf_load_acquire(&forks->exposed[slot]) == word) {\n"
      "        wf_store_release(&forks->exposed[slot], (uintptr_t)taker + 1);\n"
      "    } else {")),
    ("fork: thief forgotten when its slot is reused", "model_fork",
     "src/fork/fork_shared.c",
     ("        forks->records[slot]->task = thief_task_of(word);\n", "")),
    ("fork: join leaves the thief in the slot", "model_fork",
     "src/fork/fork_shared.c",
     ("    wf_store_relaxed(&forks->exposed[slot], 0);\n    return thief_task_of(word);",
      "    return thief_task_of(word);")),
    ("fork: stolen slot counts as exposed", "model_fork", "src/fork/fork_shared.c",
     ("    return word != 0 && word % 2 == 0;", "    return word != 0;")),
    ("trace: read does not check the head again", "model_trace", "src/trace/ring.c",
     ("    uint64_t now = wf_load_relaxed(&ring->head);", "    uint64_t now = head;")),
    ("trace: read trusts the slot that is being written", "model_trace", "src/trace/ring.c",
     ("now < slot_count(ring) ? 0 : now - ring->events;",
      "now < slot_count(ring) ? 0 : now - ring->events - 1;")),
    ("trace: ring without a spare slot", "model_trace", "src/trace/ring.c",
     ("    return ring->events + 1;", "    return ring->events;"),
     ("    return slot == ring->events ? 0 : slot + 1;",
      "    return slot + 1 == ring->events ? 0 : slot + 1;")),
    ("trace: head advanced before the event is complete", "model_trace", "src/trace/ring.c",
     ("    wf_store_release(&ring->head, head + 1); /* (E1) release: the event is whole. */\n", ""),
     ("    wf_store_release(&slot->arg, arg);",
      "    wf_store_release(&ring->head, head + 1);\n    wf_store_release(&slot->arg, arg);")),
    ("trace: non-worker threads write without the lock", "model_trace", "src/trace/ring.c",
     ("    wf_lock_acquire(&shared->lock);\n    wf_trace_put(",
      "    (void)wf_lock_try(&shared->lock);\n    wf_trace_put(")),
    ("scope: the last child does not wake the owner", "model_scope", "src/life/scope.c",
     ("        wf_task_wake(wf_plain_load(&scope->owner));", "")),
    ("scope: a child reads the scope after it has released the lock", "model_scope",
     "src/life/scope.c",
     ("    if (wf_list_is_empty(&scope->tasks) && wf_plain_load(&scope->is_awaited)) {\n"
      "        wf_task_wake(wf_plain_load(&scope->owner));\n    }\n"
      "    wf_lock_release(&scope->lock);",
      "    const bool is_empty = wf_list_is_empty(&scope->tasks);\n"
      "    wf_lock_release(&scope->lock);\n"
      "    if (is_empty && wf_plain_load(&scope->is_awaited)) {\n"
      "        wf_task_wake(wf_plain_load(&scope->owner));\n    }")),
    ("scope: the owner releases the lock before it says that it waits", "model_scope",
     "src/life/scope.c",
     ("        wf_plain_store(&scope->is_awaited, true);\n        int rc",
      "        wf_lock_release(&scope->lock);\n        wf_lock_acquire(&scope->lock);\n"
      "        wf_plain_store(&scope->is_awaited, true);\n        int rc")),
    ("scope: the owner leaves after any wake-up", "model_scope", "src/life/scope.c",
     ("        wf_task_suspend(self);\n", "        wf_task_suspend(self);\n        break;\n")),
    ("scope: a later error replaces the first", "model_scope", "src/life/scope.c",
     ("    if (result < 0 && !wf_plain_load(&scope->is_cancelled)) {", "    if (result < 0) {"),
     ("    if (wf_plain_load(&scope->error) == 0) {", "    if (true) {")),
    ("scope: a failed child cancels no sibling", "model_scope", "src/life/scope.c",
     ("        wf_task_cancel(wf_container_of(link, struct weft_task, scope_link));", "        ;")),
    ("scope: a failed child cancels its siblings without the lock", "model_scope",
     "src/life/scope.c",
     ("        cancel_locked(scope, (int)result);\n    }",
      "        wf_lock_release(&scope->lock);\n        cancel_locked(scope, (int)result);\n"
      "        wf_lock_acquire(&scope->lock);\n    }")),
    ("scope: a cancelled scope takes a new child", "model_scope", "src/life/scope.c",
     ("    bool is_refused = wf_plain_load(&scope->is_cancelled);",
      "    bool is_refused = false;")),
    ("scope: a cancelled owner cancels no child", "model_scope", "src/life/scope.c",
     ("            passed_on = rc;\n            cancel_locked(scope, rc);",
      "            passed_on = rc;")),
    ("blocking: a thread at its deadline ignores the job that it was given", "model_blocking",
     "src/life/blocking.c",
     ("    struct wf_job *job = self->job;\n    self->job = NULL;\n"
      "    wf_lock_release(&pool->lock);\n    if (!is_unassigned",
      "    struct wf_job *job = rc == 0 ? self->job : NULL;\n    self->job = NULL;\n"
      "    wf_lock_release(&pool->lock);\n    if (!is_unassigned")),
    ("blocking: a thread at its deadline does not wait for the wake-up", "model_blocking",
     "src/life/blocking.c",
     ("        (void)wf_parker_park(&self->parker, WF_FOREVER); /* the wake is certain */", "")),
    ("blocking: a thread ends beside a queued job", "model_blocking", "src/life/blocking.c",
     ("        job = job_pop_locked(pool); /* who brought it has counted on this one, up to now */",
      "        job = NULL;")),
    ("blocking: a thread rests beside a queued job", "model_blocking", "src/life/blocking.c",
     ("    struct wf_job *next = job_pop_locked(pool);", "    struct wf_job *next = NULL;")),
    ("blocking: the job is read after it is done", "model_blocking", "src/life/blocking.c",
     ("        wf_trace_event(runtime, NULL, WF_TRACE_UNBLOCK, id, 0);\n"
      "        wf_task_wake(task);",
      "        wf_trace_event(runtime, NULL, WF_TRACE_UNBLOCK, id, 0);\n"
      "        wf_task_wake(wf_plain_load(&job->task));")),
    ("blocking: a task leaves after any wake-up", "model_blocking", "src/life/blocking.c",
     ("        } while (!wf_blocking_is_over(pool, &job, rc));",
      "        } while (!wf_blocking_is_over(pool, &job, rc) && false);")),
    ("blocking: a dropped job stays in the queue", "model_blocking", "src/life/blocking.c",
     ("        job_unqueue_locked(pool, job);\n    }\n"
      "    wf_plain_store(&job->unwanted, -ECANCELED);",
      "    }\n    wf_plain_store(&job->unwanted, -ECANCELED);")),
    ("blocking: a dropped job that is done is freed by no thread", "model_blocking",
     "src/life/blocking.c",
     ("    const bool is_ours = job->state == WF_JOB_DONE || job->state == WF_JOB_QUEUED;",
      "    const bool is_ours = job->state == WF_JOB_QUEUED;")),
    ("blocking: a dropped job is freed while it runs", "model_blocking", "src/life/blocking.c",
     ("    const bool is_ours = job->state == WF_JOB_DONE || job->state == WF_JOB_QUEUED;",
      "    const bool is_ours = true;")),
    ("blocking: a job stays queued where no thread can be started", "model_blocking",
     "src/life/blocking.c",
     ("        jobs_fail_locked(pool, rc);", "        (void)jobs_fail_locked;")),
    ("blocking: the last thread does not wake the closer", "model_blocking",
     "src/life/blocking.c",
     ("        wf_parker_unpark(&pool->closer); /* under the lock, which the closer takes */", "")),
    ("blocking: an unwanted job is begun", "model_blocking", "src/life/blocking.c",
     ("    const int unwanted = wf_plain_load(&job->unwanted);", "    const int unwanted = 0;")),
    ("once: failing caller does not pass the turn on", "model_once", "src/sync/once.c",
     ("    } else if ((node = wf_waitq_claim(&once->queue)) != NULL) {\n",
      "    } else if (false) {\n")),
    ("once: abandoned turn is lost", "model_once", "src/sync/once.c",
     ("    if (wf_plain_load(&node->result) == IS_RUNNER) {", "    if (false) {")),
    ("once: end does not check for waiters", "model_once", "src/sync/once.c",
     ("    if (!wf_cas_release(&once->word, &word, is_done ? DONE : NEW)) { /* (O1) */",
      "    (void)word;\n    wf_store_release(&once->word, is_done ? DONE : NEW);\n"
      "    if (false) {")),
    ("rwlock: waiter that leaves does not serve the next", "model_rwlock", "src/sync/rwlock.c",
     ("            rwlock_serve_next(rwlock);\n            return rc;", "            return rc;")),
    ("rwlock: abandoned waiter does not serve the next", "model_rwlock", "src/sync/rwlock.c",
     ("    wf_waitq_abandon(node);\n    rwlock_serve_next(rwlock);\n",
      "    (void)rwlock;\n    wf_waitq_abandon(node);\n")),
    ("rwlock: abandoned granted waiter keeps the lock", "model_rwlock",
     "src/sync/rwlock.c",
     ("    rwlock_release(wf_container_of(node->queue, struct wf_rwlock, queue),\n"
      "          node->count == TO_WRITE ? rwlock_writer_word((uintptr_t)node->item) : READER);",
      "    (void)node;")),
    ("rwlock: readers overtake waiters", "model_rwlock", "src/sync/rwlock.c",
     ("(word & (WAITERS | WRITER)) == 0 ? word + READER : 0;",
      "(word & WRITER) == 0 ? word + READER : 0;")),
    ("rwlock: unlock clears WAITERS without serving", "model_rwlock",
     "src/sync/rwlock.c",
     ("    if (!rwlock_unlock_fast(rwlock, &word)) {\n        word &= ~WAITERS;",
      "    {\n        word &= ~WAITERS;")),
    ("rwlock: writer admitted beside readers", "model_rwlock", "src/sync/rwlock.c",
     ("    return word == 0 ? rwlock_writer_word(holder) : 0;",
      "    return (word & (WAITERS | WRITER)) == 0 ? rwlock_writer_word(holder) : 0;")),
    ("rwlock: waiter does not set the WAITERS bit", "model_rwlock", "src/sync/rwlock.c",
     ("        next = is_taken ? next : word | WAITERS;",
      "        next = is_taken ? next : word;")),
    ("cond: wait unlocks before it is queued", "model_cond", "src/sync/cond.c",
     ("    wf_cond_begin(cond_of(out), &node);\n"
      "    (void)weft_mutex_unlock(mutex); /* it is ours */\n",
      "    (void)weft_mutex_unlock(mutex);\n    wf_cond_begin(cond_of(out), &node);\n")),
    ("cond: abandoned waiter keeps the signal", "model_cond", "src/sync/cond.c",
     ("    cond_wake(wf_container_of(node->queue, struct wf_cond, queue), 1);", "    (void)node;")),
    ("cond: signal clears the waiting flag of other waiters", "model_cond", "src/sync/cond.c",
     ("wf_store_relaxed(&cond->waiting, has_waiters ? 1 : 0);",
      "(void)has_waiters;\n    wf_store_relaxed(&cond->waiting, 0);")),
    ("cond: broadcast wakes one waiter", "model_cond", "src/sync/cond.c",
     ("    return cond_wake_some(out, UINT32_MAX);", "    return cond_wake_some(out, 1);")),
    ("cond: cancelled wait does not shield the lock of the mutex", "model_cond", "src/sync/cond.c",
     ("self != NULL && wf_state_shield(&self->state) == 0; /* else it is */", "false;")),
    ("oneshot: cancelled receiver leaves its waiter behind", "model_oneshot", "src/sync/oneshot.c",
     ("    oneshot_unlock(oneshot, state == WAITED ? EMPTY : state);",
      "    oneshot_unlock(oneshot, state);")),
    ("oneshot: receiver woken before the state is stored", "model_oneshot", "src/sync/oneshot.c",
     ("        oneshot_unlock(oneshot, state);\n        WF_JITTER();\n"
      "        wf_task_wake_on(worker, task);",
      "        wf_task_wake_on(worker, task);\n        oneshot_unlock(oneshot, WAITED);\n"
      "        (void)oneshot_lock(oneshot);\n        oneshot_unlock(oneshot, state);")),
    ("broadcast: send wakes no subscriber", "model_broadcast",
     "src/sync/broadcast.c",
     ("        wf_waitq_grant_all(&broadcast->subscribers, &broadcast->lock, 0);\n        rc = 0;",
      "        rc = 0;")),
    ("broadcast: close wakes no subscriber", "model_broadcast",
     "src/sync/broadcast.c",
     ("true);\n    wf_waitq_grant_all(&broadcast->subscribers, &broadcast->lock, 0);\n",
      "true);\n")),
    ("broadcast: lock released before the node is queued", "model_broadcast",
     "src/sync/broadcast.c",
     ("    node->spin = &subscription->broadcast->lock;\n",
      "    node->spin = &subscription->broadcast->lock;\n    wf_spin_release(node->spin);\n"
      "    wf_spin_acquire(node->spin);\n")),
    ("broadcast: missed items are not counted", "model_broadcast", "src/sync/broadcast.c",
     ("behind > broadcast->capacity ? behind - broadcast->capacity : 0;\n"
      "    const uint64_t number", "0;\n    const uint64_t number")),
    ("watch: set overwrites a borrowed value", "model_watch", "src/sync/watch.c",
     ("    if (block->borrows > 0) {", "    if (false) {")),
    ("watch: modify loses a concurrent change", "model_watch", "src/sync/watch.c",
     ("        if (rc == 1 && watch->version == version && !watch->is_closed) {",
      "        (void)version;\n        if (rc == 1 && !watch->is_closed) {")),
    ("watch: lock released before the node is queued", "model_watch",
     "src/sync/watch.c",
     ("    node->spin = &watch->lock;\n",
      "    node->spin = &watch->lock;\n    wf_spin_release(node->spin);\n"
      "    wf_spin_acquire(node->spin);\n")),
    ("watch: close wakes no waiter", "model_watch", "src/sync/watch.c",
     ("true);\n    wf_waitq_grant_all(&watch->waiters, &watch->lock, 0);\n", "true);\n")),
    ("notify: notification without waiter is lost", "model_event", "src/sync/notify.c",
     ("wf_store_release(&notify->word, node != NULL ? NOTHING : PERMIT);",
      "wf_store_release(&notify->word, NOTHING);")),
    ("notify: permit taken without draining the lock", "model_event", "src/sync/notify.c",
     ("    wf_lock_drain(&notify->queue.lock); /* whoever notified may be inside still */\n", "")),
    ("notify: abandoned waiter keeps the notification", "model_event", "src/sync/notify.c",
     ("    notify_one(wf_container_of(node->queue, struct wf_notify, queue));", "    (void)node;")),
    ("group: wait trusts the value of a failed exchange", "model_event", "src/sync/group.c",
     ("    uint64_t word;\n    bool is_waiting = false;",
      "    uint64_t word = wf_load_acquire(&group->word);\n    bool is_waiting = false;"),
     ("count_of(word = wf_load_acquire(&group->word)) != 0) {", "count_of(word) != 0) {")),
    ("group: last done does not check for waiters", "model_event", "src/sync/group.c",
     ("        if (*is_last && !is_locked) {\n            return -EAGAIN;\n        }\n", "")),
    ("chan: close wakes no receiver", "model_chan", "src/sync/chan.c",
     ("    wf_waitq_grant_all(&chan->receivers, &chan->lock, -EPIPE);\n", "")),
    ("chan: lock released before the node is queued", "model_chan", "src/sync/chan.c",
     ("    chan_push(chan, queue, &node);\n    wf_spin_release(&chan->lock);",
      "    wf_spin_release(&chan->lock);\n    chan_push(chan, queue, &node);")),
    ("chan: receiver granted before the item is copied", "model_chan", "src/sync/chan.c",
     ("        wf_item_copy(receiver->item, item, chan->item_size);\n"
      "        *task = wf_waitq_grant_on(worker, receiver);",
      "        *task = wf_waitq_grant_on(worker, receiver);\n"
      "        wf_item_copy(receiver->item, item, chan->item_size);")),
    ("chan: closed channel accepts items", "model_chan", "src/sync/chan.c",
     ("    if (wf_plain_load(&chan->is_closed)) {\n        return -EPIPE;\n    }\n"
      "    if (wf_plain_load(&chan->count) < chan->limit) {",
      "    if (wf_plain_load(&chan->count) < chan->limit) {")),
    ("chan: cancelled waiter forgets its grant", "model_chan", "src/sync/waitq.h",
     ("            rc = wf_waitq_leave(node) ? 0 : rc;",
      "            (void)wf_waitq_leave(node);")),
    ("chan: abandoned grant does not return the item", "model_chan", "src/sync/chan.c",
     ("    if (node->count == RECEIVES && node->result == 0) {", "    if (false) {")),
    ("select: nodes queued after the locks are released", "model_chan", "src/sync/select.c",
     ("    select_enter_chans(select);\n    select_unlock(select);",
      "    select_unlock(select);\n    select_enter_chans(select);")),
    ("select: leaves only the winner's queue", "model_chan", "src/sync/select.c",
     ("            if ((int32_t)i != winner || select->self == NULL ||"
      " !wf_waitq_is_granted(&arm->node)) {",
      "            if ((int32_t)i == winner) {")),
    ("select: leaves the winner's queue without its lock", "model_chan", "src/sync/select.c",
     ("            if ((int32_t)i != winner || select->self == NULL ||"
      " !wf_waitq_is_granted(&arm->node)) {",
      "            if ((int32_t)i != winner) {")),
    ("select: cancel does not claim the selection", "model_chan", "src/sync/select.c",
     ("            (void)select_win(select, NO_CASE);\n        }",
      "            wf_store_relaxed(&select->selection.winner, NO_CASE);\n        }")),
    ("select: event since the registration does not win", "model_fd", "src/sync/select.c",
     ("            if (rc != -EINPROGRESS && select_win(select, (int32_t)i) == (int32_t)i) {",
      "            if (rc != -EINPROGRESS && false) {")),
    ("select: event case is not checked after the registration", "model_fd", "src/io/select.c",
     ("    return it->value != 0 ? 0 : io_case_poll(it, io_case_fd(it), io_case_events(it));",
      "    return 0;")),
    ("select: stale event counts as ready", "model_fd", "src/sync/select.c",
     ("        return it->result == -EAGAIN ? RESTART : index;", "        return index;")),
    ("select: event case leaves its node queued", "model_fd", "src/io/select.c",
     ("        (void)wf_waitq_leave(node);", "        (void)node;")),
    ("waitq: node granted without a claim", "model_chan", "src/sync/waitq.c",
     ("    return wf_cas_relaxed(&node->selection->winner, &unclaimed, node->index);",
      "    (void)wf_cas_relaxed(&node->selection->winner, &unclaimed, node->index);\n"
      "    return true;")),
]

# Such a failure is a limit of the checker, not an error of the code.
LIMITS = ("for the model", "is too small", "not deterministic", "does not end")


def run(command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def read_programs():
    """The files of each model program {name: [file]}, as CMake has them."""
    text = (ROOT / "cmake" / "model.cmake").read_text()
    return {name: files.split()
            for name, files in re.findall(r"^weft_model\((\w+)\s+([^)]*)\)", text, re.M)}


PROGRAMS = read_programs()


# A comment, or white space; else a string, a character, a word or number, or one other character.
TOKEN = re.compile(r"""(?P<blank>/\*.*?\*/|\s+)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|.""", re.S)


def tokens(text):
    """The tokens of C code as (text, begin, end), without comments and white space."""
    return [(match[0], *match.span()) for match in TOKEN.finditer(text) if not match["blank"]]


def find_code(text, piece):
    """All places [(begin, end)] of the text whose tokens are those of the piece."""
    have, want = tokens(text), [token for token, _, _ in tokens(piece)]
    words = [token for token, _, _ in have]
    return [(have[i][1], have[i + len(want) - 1][2]) for i in range(len(words) - len(want) + 1)
            if words[i:i + len(want)] == want]


def put_in(fault):
    """The source with the fault in it, or None, and what is wrong."""
    _, _, source, *edits = fault
    text = (ROOT / source).read_text()
    for old, new in edits:
        places = find_code(text, old)
        if len(places) != 1:
            return None, f"{source} does not hold this once: {old.strip()}"
        begin, end = places[0]
        text = text[:begin] + new + text[end:]
    return text, None


def check_texts():
    """Prints the faults that no longer match their sources, without building or running any."""
    wrong = [f"{fault[0]}: {why}" for fault in FAULTS for why in [put_in(fault)[1]] if why]
    for line in wrong:
        print(f"tests/model/faults.py: {line}")
    return 1 if wrong else 0


def try_fault(build, number, fault):
    """Returns None if the fault was found, else what is wrong."""
    _, program, source, *_ = fault
    text, wrong = put_in(fault)
    if wrong:
        return wrong
    folder = build / "faults" / str(number)
    copy = folder / pathlib.Path(source).relative_to("src")
    shutil.rmtree(folder, ignore_errors=True)  # left by a fault that had this number before
    copy.parent.mkdir(parents=True)
    copy.write_text(text)
    files = [file for file in PROGRAMS[program] if file != source]
    if source.endswith(".c"):
        files.append(str(copy))
    binary = folder / program
    # The folder goes first: a header with a fault is found before the one without.
    built = run(["cc", "-I", str(folder), *FLAGS, "-o", str(binary), *files,
                 str(build / "libmodel_engine.a")])
    if built.returncode != 0:
        return "does not compile:\n" + built.stdout
    ran = run(["timeout", "300", str(binary), "--stop"])
    if ran.returncode == 0:
        return "no test saw it"
    if ran.returncode == 124:
        return "not found within five minutes"
    reason = next((line for line in ran.stdout.splitlines() if line.startswith("  => ")), None)
    if ran.returncode != 1 or reason is None:
        return f"ended with status {ran.returncode}, not by a failed run"
    if any(limit in reason for limit in LIMITS):
        return f"stopped by a limit of the checker, which is no proof: {reason.strip()}"
    return None


def main(arguments):
    if arguments == ["--texts"]:
        return check_texts()
    if not arguments or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(arguments[0]).resolve()
    wanted = [(i, f) for i, f in enumerate(FAULTS)
              if not arguments[1:] or any(word in f[0] for word in arguments[1:])]
    found = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        tries = [(fault, pool.submit(try_fault, build, number, fault)) for number, fault in wanted]
        for fault, future in tries:
            wrong = future.result()
            found += wrong is None
            print(f"  found: {fault[0]}" if wrong is None else f"  WRONG: {fault[0]}: {wrong}",
                  flush=True)
    print(f"faults: {found} of {len(wanted)} found")
    return 0 if found == len(wanted) > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
