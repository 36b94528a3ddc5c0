#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Faults written by hand: each is put into a copy of the real source, the model program is built
from the copy, and the program must fail.  A checker that lets one pass is no checker.

    faults.py BUILD_DIR [NAME...]
    faults.py --texts               only looks whether every fault still has its place

A fault is a piece of text of the source and what it becomes; a text that is not found exactly once
has outlived its code and is an error."""
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
    ("alone: an operation is not marked", "model_alone", "src/sched/alone.h",
     ("    wf_store_relaxed(&worker->is_inside, 1); /* relaxed: (M2) */\n", "")),
    ("alone: the mark is not looked at", "model_alone", "src/sched/alone.c",
     ("is_shared && wf_load_acquire(&host->is_inside) == 0", "is_shared")),
    ("alone: the owner hears of nothing", "model_alone", "src/sched/alone.c",
     ("    if (wf_barrier_everywhere() != 0) {", "    if (false) {")),
    ("alone: a visitor goes by what another has begun", "model_alone", "src/sched/alone.c",
     ("wf_cas_relaxed(&host->company, &alone, WF_ASKED)",
      "wf_cas_relaxed(&host->company, &alone, WF_SHARED)")),
    ("alone: again, without a look at who is there", "model_alone", "src/sched/alone.c",
     ("    if ((wf_load_acquire(&worker->visits) & VISITORS_MASK) != 0) {", "    if (false) {")),
    ("alone: again, with an old head", "model_alone", "src/sched/alone.c",
     ("    wf_ring_settle(&worker->ring);\n", "")),
    ("alone: a visitor does not count itself", "model_alone", "src/sched/alone.c",
     ("    (void)wf_fetch_add_relaxed(&host->visits, VISITOR);  ",
      "    (void)wf_fetch_add_relaxed(&host->visits, VISIT_ENDED + VISITOR);  "),
     ("    (void)wf_fetch_add_release(&host->visits, VISIT_ENDED); ", "    (void)host;")),
    ("ring: the first calls nobody either", "model_alone", "src/queue/ring.c",
     ("    if (count == 0 || count == WF_RING_CAPACITY) {",
      "    if (count == WF_RING_CAPACITY) {")),
    ("ring: counts by any tail", "model_alone", "src/queue/ring.c",
     ("    wf_ring_pos real = real_of(wf_load_acquire(&ring->head));\n"
      "    wf_ring_pos tail = wf_load_relaxed(&ring->tail);\n",
      "    wf_ring_pos real = real_of(wf_load_relaxed(&ring->head));\n"
      "    wf_ring_pos tail = wf_load_relaxed(&ring->tail);\n")),
    ("ring: counts by an old tail", "model_alone", "src/queue/ring.c",
     ("    wf_ring_pos real = real_of(wf_load_acquire(&ring->head));\n"
      "    wf_ring_pos tail = wf_load_relaxed(&ring->tail);\n",
      "    wf_ring_pos tail = wf_load_relaxed(&ring->tail);\n"
      "    wf_ring_pos real = real_of(wf_load_acquire(&ring->head));\n")),
    ("monitor: dozes without a second look", "model_monitor", "src/sched/monitor.c",
     ("    if (!is_anybody_awake(runtime)) {", "    if (true) {")),
    ("monitor: nobody wakes it", "model_monitor", "src/sched/monitor.c",
     ("    if (wf_load_relaxed(&runtime->monitor.is_dozing) != 0) { /* relaxed: (M3) */",
      "    if (false) {")),
    ("monitor: a spare sits down without a look", "model_monitor", "src/sched/monitor.c",
     ("wf_load_relaxed(&worker->post.is_benched) != 0 && !get_up(worker)) {",
      "wf_load_relaxed(&worker->post.is_benched) != 0) {")),
    ("monitor: a spare that is the last does not get up", "model_monitor", "src/sched/monitor.c",
     ("    const bool is_last = wf_idle_asleep(&runtime->idle) >= wf_in_play(runtime);",
      "    const bool is_last = false;")),
    ("deque: half in one CAS", "model_deque", "src/queue/deque.c",
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
            items[i] = wf_load_relaxed(slot_at(b, (wf_deque_pos)(top_ + i)));
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
    ("deque: the last item is popped without a CAS", "model_deque", "src/queue/deque.c",
     ("left == 0 && wf_cas_relaxed(&deque->top, &top, (wf_deque_pos)(top + 1));",
      "left == 0 && (wf_store_relaxed(&deque->top, (wf_deque_pos)(top + 1)), true);")),
    ("deque: growth forgets the oldest item", "model_deque", "src/queue/deque.c",
     ("for (wf_deque_pos i = top; i != bottom; i++) {",
      "for (wf_deque_pos i = (wf_deque_pos)(top + 1); i != bottom; i++) {")),
    ("deque: the replaced buffer is freed at once", "model_deque", "src/queue/deque.c",
     ("    wf_store_release(&deque->buffer, buffer);",
      "    wf_store_release(&deque->buffer, buffer);\n    buffer->older = old->older;\n"
      "    wf_free(old);")),
    ("deque: one item too many before it grows", "model_deque", "src/queue/deque.c",
     ("if ((size_t)items_between(top, bottom) < buffer->capacity) {",
      "if ((size_t)items_between(top, bottom) <= buffer->capacity) {")),
    ("ring: capacity off by one", "model_ring", "src/queue/ring.c",
     ("if (distance(steal_of(wf_plain_load(&ring->known)), tail) < WF_RING_CAPACITY) {",
      "if (distance(steal_of(wf_plain_load(&ring->known)), tail) <= WF_RING_CAPACITY) {")),
    ("ring: capacity off by one at a second look", "model_ring", "src/queue/ring.c",
     ("        if (distance(steal_of(head), tail) < WF_RING_CAPACITY) {",
      "        if (distance(steal_of(head), tail) <= WF_RING_CAPACITY) {")),
    ("ring: capacity counted from real instead of steal", "model_ring", "src/queue/ring.c",
     ("if (distance(steal_of(wf_plain_load(&ring->known)), tail) < WF_RING_CAPACITY) {",
      "if (distance(real_of(wf_plain_load(&ring->known)), tail) < WF_RING_CAPACITY) {")),
    ("ring: capacity counted from real at a second look", "model_ring", "src/queue/ring.c",
     ("        if (distance(steal_of(head), tail) < WF_RING_CAPACITY) {",
      "        if (distance(real_of(head), tail) < WF_RING_CAPACITY) {")),
    ("ring: one too many pushed if there is room", "model_ring", "src/queue/ring.c",
     ("        distance(steal_of(look(ring)), tail) >= WF_RING_CAPACITY) {",
      "        distance(steal_of(look(ring)), tail) > WF_RING_CAPACITY) {")),
    ("ring: room counted from real, if there is any", "model_ring", "src/queue/ring.c",
     ("        distance(steal_of(look(ring)), tail) >= WF_RING_CAPACITY) {",
      "        distance(real_of(look(ring)), tail) >= WF_RING_CAPACITY) {")),
    ("ring: all are taken beside a thief", "model_ring", "src/queue/ring.c",
     ("    if (steal_of(head) != real_of(head) || count == 0 ||", "    if (count == 0 ||")),
    ("ring: slots released before they are copied", "model_ring", "src/queue/ring.c",
     ("    for (wf_ring_pos i = 0; i + 1 < count; i++) {",
      "    release(from);\n    for (wf_ring_pos i = 0; i + 1 < count; i++) {")),
    ("ring: a second thief is let in", "model_ring", "src/queue/ring.c",
     ("        if (steal_of(head) != real) {", "        if (false) {")),
    ("ring: pop drags steal along", "model_ring", "src/queue/ring.c",
     ("pair(is_stolen_from ? steal_of(head) : next, next)", "pair(next, next)")),
    ("ring: pop leaves steal behind", "model_ring", "src/queue/ring.c",
     ("pair(is_stolen_from ? steal_of(head) : next, next)", "pair(steal_of(head), next)")),
    ("ring: a pop forgets the thief at work", "model_ring", "src/queue/ring.c",
     ("            wf_plain_store(&ring->known, popped);",
      "            wf_plain_store(&ring->known, pair(next, next));")),
    ("ring: a pop takes what it knows for what is", "model_ring", "src/queue/ring.c",
     ("        if (wf_cas_release(&ring->head, &head, popped)) {",
      "        if ((wf_store_release(&ring->head, popped), true)) {")),
    ("ring: a thief goes by what the owner knows", "model_ring", "src/queue/ring.c",
     ("    wf_ring_pair head = wf_load_acquire(&from->head); /* pairs with (R3) */",
      "    wf_ring_pair head = look(from);")),
    ("ring: overflow ignores a thief at work", "model_ring", "src/queue/ring.c",
     ("        if (steal_of(head) != real_of(head)) {", "        if (false) {")),
    ("mpsc: take by load and store", "model_mpsc", "src/queue/mpsc.c",
     ("wf_exchange_acquire(&mpsc->head, NULL);",
      "wf_load_acquire(&mpsc->head);\n    wf_store_relaxed(&mpsc->head, NULL);")),
    ("mpsc: was_empty from before the CAS loop", "model_mpsc", "src/queue/mpsc.c",
     ("    do {", "    bool was_empty = head == NULL;\n    do {"),
     ("    return head == NULL;", "    return was_empty;")),
    ("mpsc: the order is not turned over", "model_mpsc", "src/queue/mpsc.c",
     ("        wf_plain_store(&newest->next, taken.first);\n        taken.first = newest;\n",
      "        wf_plain_store(&newest->next, (struct wf_node *)NULL);\n"
      "        if (taken.first == NULL) { taken.first = newest; } else {"
      " taken.last->next = newest; }\n        taken.last = newest;\n")),
    ("inject: pop without the lock", "model_inject", "src/queue/inject.c",
     ("    wf_lock_acquire(&inject->lock);\n    size_t taken =",
      "    (void)wf_lock_try(&inject->lock);\n    size_t taken =")),
    ("inject: pop without the lock's two ends", "model_inject", "src/queue/inject.c",
     ("    wf_lock_acquire(&inject->lock);\n    size_t taken =", "    size_t taken ="),
     ("    wf_counter_add(&inject->counters.popped, taken);\n    wf_lock_release(&inject->lock);",
      "    wf_counter_add(&inject->counters.popped, taken);")),
    ("inject: capacity is not counted with the batch", "model_inject", "src/queue/inject.c",
     ("chain->count > room_locked(inject)", "room_locked(inject) == SIZE_MAX")),
    ("waitq: the queue may go while the granter has its lock", "model_waitq", "src/sync/waitq.c",
     ("    wf_lock_pass(&node->queue->lock);\n", "")),
    ("waitq: a node is granted by two queues", "model_waitq", "src/sync/waitq.c",
     ("    return wf_cas_relaxed(&node->selection->winner, &nobody, node->index);",
      "    (void)wf_cas_relaxed(&node->selection->winner, &nobody, node->index);\n"
      "    return true;")),
    ("waitq: who is cancelled forgets what it was granted", "model_waitq", "src/sync/waitq.c",
     ("            rc = wf_waitq_leave(node) ? 0 : rc;",
      "            (void)wf_waitq_leave(node);")),
    ("waitq: who is cancelled stays in the queue", "model_waitq", "src/sync/waitq.c",
     ("    if (wf_plain_load(&node->is_queued)) {", "    if (false) {")),
    ("waitq: nothing is passed on", "model_waitq", "src/sync/waitq.c",
     ("        node->pass_on(node);", "        (void)node;")),
    ("waitq: a thread leaves without the lock", "model_waitq", "src/sync/waitq.c",
     ("    return wf_waitq_leave(node) ? 0 : rc;",
      "    return wf_load_acquire(&node->is_granted) != 0 ? 0 : wf_waitq_leave(node) ? 0 : rc;"),
     ("    wf_lock_pass(&node->queue->lock);\n", "")),
    ("waitq: a waiter is woken and not granted", "model_waitq", "src/sync/waitq.c",
     ("    WF_JITTER();\n    wf_store_release(&node->is_granted, 1);", "    WF_JITTER();\n   ")),
    ("sem: permits are looked at before the bit is set", "model_sem", "src/sync/sem.c",
     ("    } while (!wf_cas_acquire(&sem->word, &word, next)); /* (E1) */",
      "    } while (is_enough && !wf_cas_acquire(&sem->word, &word, next));\n"
      "    if (!is_enough) {\n"
      "        (void)wf_fetch_or_relaxed(&sem->word, WAITERS);\n    }")),
    ("sem: who leaves keeps those behind from what is there", "model_sem", "src/sync/sem.c",
     ("        if (rc != 0) {\n            serve_those_behind(sem);\n        }\n", "")),
    ("sem: one that never runs again stays in the way", "model_sem", "src/sync/sem.c",
     ("    wf_waitq_abandon(node);\n    serve_those_behind(sem);", "    wf_waitq_abandon(node);")),
    ("sem: it may go while the releaser has its lock", "model_sem", "src/sync/sem.c",
     ("            wf_lock_pass(&sem->queue.lock); /* whoever released may be inside still */\n",
      "")),
    ("sem: the first is served alone", "model_sem", "src/sync/sem.c",
     ("    while ((first = wf_plain_load(&sem->queue.first)) != NULL && first->count <= permits) {",
      "    if ((first = wf_plain_load(&sem->queue.first)) != NULL && first->count <= permits) {"),
     ("            wf_wakes_add(wakes, first);",
      "            wf_wakes_add(wakes, first);\n            first = sem->queue.first;")),
    ("mutex: a chance that is not taken is lost", "model_mutex", "src/sync/mutex.c",
     ("        pass_chance_on(mutex);", "        (void)mutex;")),
    ("mutex: who is told to try while it is free is told by nobody", "model_mutex",
     "src/sync/mutex.c",
     ("holder_in(word) == 0 ? wf_waitq_claim(&mutex->queue) : NULL;", "NULL;")),
    ("mutex: what was handed over is lost", "model_mutex", "src/sync/mutex.c",
     ("        unlock_slowly(mutex, (uintptr_t)node->item);", "        (void)mutex;")),
    ("mutex: who was woken leaves its mark", "model_mutex", "src/sync/mutex.c",
     ("    const uintptr_t taken_off = is_woken ? WOKEN : 0;",
      "    const uintptr_t taken_off = 0;"),
     ("take_spinning(mutex, (uintptr_t)node->item, WOKEN)",
      "take_spinning(mutex, (uintptr_t)node->item, 0)")),
    ("mutex: who waits sets no flag", "model_mutex", "src/sync/mutex.c",
     ("(is_taken ? holder : WAITERS | ", "(is_taken ? holder : word & WAITERS | ")),
    ("state: a wake leaves a notice that is set alone", "model_state", "src/sched/state.c",
     ("        if (lifecycle_of(word) == WF_IDLE) {\n            next = with_lifecycle(word,",
      "        if (lifecycle_of(word) == WF_ACTIVE && (word & NOTIFIED) != 0) {\n"
      "            return WF_WAKE_NOTED;\n        }\n"
      "        if (lifecycle_of(word) == WF_IDLE) {\n            next = with_lifecycle(word,")),
    ("state: park by load and store", "model_state", "src/sched/state.c",
     ("        if (wf_cas_acq_rel(&state->word, &word, next)) {\n            return !is_notified;",
      "        if ((wf_store_release(&state->word, next), true)) {\n"
      "            return !is_notified;")),
    ("state: a cancel does not wake", "model_state", "src/sched/state.c",
     ("        bool is_woken = (word & SHIELD_MASK) == 0;", "        bool is_woken = false;")),
    ("state: a cancel breaks a shield", "model_state", "src/sched/state.c",
     ("return (word & CANCELLED) != 0 && (word & SHIELD_MASK) == 0;",
      "return (word & CANCELLED) != 0;")),
    ("state: the flag that somebody joined comes before who", "model_state", "src/sched/state.c",
     ("    wf_store_relaxed(&state->joiner, joiner); /* relaxed: published by the word */\n", ""),
     ("    WEFT_CHECK((before & JOINED) == 0); /* one at a time */",
      "    wf_store_relaxed(&state->joiner, joiner);")),
    ("state: the end gives the run's reference back before it wakes a list", "model_state",
     "src/sched/state.c",
     ("with_lifecycle(word, WF_COMPLETE) - (is_shared ? 0 : REFERENCE_ONE);",
      "with_lifecycle(word, WF_COMPLETE) - REFERENCE_ONE;")),
    ("state: the end does not look again who joined", "model_state", "src/sched/state.c",
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
    ("state: one is held whose last reference goes by a store", "model_state", "src/sched/state.c",
     ("        if (lifecycle_of(word) == WF_COMPLETE || references_of(word) == 0 ||",
      "        if (references_of(word) == 0 ||")),
    ("state: one is held that had no reference left", "model_state", "src/sched/state.c",
     ("        if (lifecycle_of(word) == WF_COMPLETE || references_of(word) == 0 ||",
      "        if (")),
    ("state: a task begins in memory whose old id may be seen", "model_state", "src/sched/state.h",
     ("    wf_store_release(\n        &state->word,",
      "    wf_store_relaxed(\n        &state->word,")),
    ("state: a sole reference is told by a count that may fall", "model_state",
     "src/sched/state.h",
     ("    return wf_state_references(wf_load_acquire(&state->word)) == 1;",
      "    return wf_state_references(wf_load_acquire(&state->word)) <= 2;")),
    ("state: two handles of a task that ended count as one", "model_join", "src/sched/state.h",
     ("wf_state_references(word) == 2 && wf_state_lifecycle(word) != WF_COMPLETE;",
      "wf_state_references(word) == 2;")),
    ("timers: a look puts nothing back", "model_timers", "src/sched/timers.c",
     ("    if (least_ns != WF_FOREVER) {\n        publish(runtime, least_ns);\n    }", "")),
    ("timers: a look stores the number without looking at it", "model_timers", "src/sched/timers.c",
     ("        publish(runtime, least_ns);",
      "        wf_store_relaxed(&hours->next_ns, least_ns);")),
    ("timers: the watcher is not called", "model_timers", "src/sched/timers.c",
     ("        runtime->policy->hurry(runtime);", "")),
    ("timers: a look takes the number after it has looked", "model_timers", "src/sched/timers.c",
     ("    if (next_ns > now_ns || !wf_cas_relaxed(&hours->next_ns, &next_ns, WF_FOREVER)) {",
      "    if (next_ns > now_ns) {"),
     ("    if (least_ns != WF_FOREVER) {\n        publish",
      "    wf_store_relaxed(&hours->next_ns, WF_FOREVER);\n"
      "    if (least_ns != WF_FOREVER) {\n        publish")),
    ("join: the flag of the list is set before the lock is taken", "model_join",
     "src/sched/join.c",
     ("    wf_lock_acquire(lock);\n    const bool is_listed = wf_state_share(&task->state);",
      "    const bool is_listed = wf_state_share(&task->state);\n    wf_lock_acquire(lock);")),
    ("join: who has seen the end goes without the lock", "model_join", "src/sched/join.c",
     ("        wf_wait_end(self);\n    }\n    wf_joiner_leave(task, &joiner);\n    return rc;",
      "        wf_wait_end(self);\n    }\n    if (rc != 0) {\n"
      "        wf_joiner_leave(task, &joiner);\n    }\n    return rc;")),
    ("join: a race leaves only the list of the winner", "model_join", "src/sched/join.c",
     ("        wf_joiner_leave(tasks[i], &joiners[i]);",
      "        if ((int)i == rc) {\n"
      "            wf_joiner_leave(tasks[i], &joiners[i]);\n        }")),
    ("join: main is told of the deadlock first", "model_join", "src/sched/join.c",
     ("        rc = !is_complete && is_stuck ? -EDEADLK : 0;",
      "        rc = is_stuck ? -EDEADLK : 0;")),
    ("task: the end looks at the task once more", "model_join", "src/sched/task.c",
     ("    if (joiner != NULL) {\n        wf_task_wake_on(worker, joiner);",
      "    if (joiner != NULL && wf_load_relaxed(&task->marks) == 0) {\n"
      "        wf_task_wake_on(worker, joiner);")),
    ("task: the list is looked at before the end", "model_join", "src/sched/task.c",
     ("    unsigned ended = wf_state_complete(&task->state, &joiner);",
      "    wf_joiners_wake(task);\n"
      "    unsigned ended = wf_state_complete(&task->state, &joiner);"),
     ("        wf_joiners_wake(task);\n        if (wf_state_unref(&task->state)) {",
      "        if (wf_state_unref(&task->state)) {")),
    ("idle: a pause that nobody hears of", "model_idle", "src/sched/idle.c",
     ("    (void)wf_fetch_add_relaxed(&idle->paused, 1); /* relaxed: the fence orders it */\n", ""),
     ("    (void)wf_fetch_sub_relaxed(&idle->paused, 1);", "")),
    ("fd: a close that ends no wait", "model_fd", "src/io/fd.c",
     ("    end_waits(entry, -EBADF);\n    wf_entry_leave", "    wf_entry_leave")),
    ("fd: who closes it has left when it ends the waits", "model_fd", "src/io/fd.c",
     ("(is_kept ? WF_ENTRY_KEPT : 0)) + WF_ENTRY_USER;", "(is_kept ? WF_ENTRY_KEPT : 0));"),
     ("    end_waits(entry, -EBADF);\n    wf_entry_leave(entry);\n",
      "    end_waits(entry, -EBADF);\n")),
    ("fd: waits without a look at the news", "model_fd", "src/io/fd.c",
     ("    const bool is_new = wf_load_relaxed(&entry->news[side]) != news;",
      "    const bool is_new = false && news != 0;")),
    ("fd: as new before it is closed", "model_fd", "src/io/fd.c",
     ("        rc = wf_sys_close(entry->fd);\n    }\n    renew(entry);\n    return rc;",
      "        renew(entry);\n        rc = wf_sys_close(entry->fd);\n    }\n    return rc;")),
    ("driver: nobody is called", "model_driver", "src/sched/driver.c",
     ("    runtime->policy->hurry(runtime); /* both begin with the fence */\n", ""),
     ("    runtime->policy->rouse(runtime);", "")),
    ("park: who is away is not called", "model_driver", "src/sched/driver.c",
     ("        driver->berth.call(&driver->berth);", "        (void)driver;")),
    ("idle: no second look", "model_idle", "src/sched/idle.c",
     ("    if (sleep->has_work(sleep->context) && withdraw(idle, worker)) {",
      "    if (false) {")),
    ("idle: the bit is cleared without a look", "model_idle", "src/sched/idle.c",
     ("    return (wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit) & bit) != 0;",
      "    (void)wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit);\n    return true;")),
    ("idle: the last searcher tells nobody", "model_idle", "src/sched/idle.c",
     ("    return before == 1;", "    return false;")),
    ("slot: take by load and store", "model_slot", "src/sched/fast.h",
     ("    return task != NULL ? wf_exchange_acquire(&worker->slot, NULL) : NULL; /* (W1) */",
      "    task = wf_load_acquire(&worker->slot);\n"
      "    wf_store_relaxed(&worker->slot, NULL);\n    return task;")),
    ("slot: put by store", "model_slot", "src/sched/fast.h",
     ("    return wf_exchange_release(&worker->slot, task);",
      "    old = wf_load_relaxed(&worker->slot);\n"
      "    wf_store_release(&worker->slot, task);\n    return old;")),
    ("slot: what is displaced is lost", "model_slot", "src/sched/fast.h",
     ("    if (old == NULL) {\n        wf_store_release",
      "    if (true) {\n        wf_store_release")),
    ("room: who waits does not look again", "model_room", "src/sched/room.c",
     ("    if (has_room(runtime, kind)) {", "    if (false) {")),
    ("room: one is woken where there is room for two", "model_room", "src/sched/room.c",
     ("        count--;\n    }\n    wf_lock_release(&room->lock);",
      "        break;\n    }\n    wf_lock_release(&room->lock);")),
    ("room: who gives up keeps it to itself", "model_room", "src/sched/room.c",
     ("    if (rc != 0 && is_woken) {", "    if (false) {")),
    ("room: a close is not seen by who waits", "model_room", "src/sched/room.c",
     (" /* all relaxed: the fences order them */\n        return true;",
      "\n        return false;")),
    ("close: who comes late gets in", "model_close", "src/sched/pool.c",
     ("    wf_pool_leave(pool);\n    return false;", "    return true;")),
    ("close: nobody waits for strangers", "model_close", "src/sched/pool.c",
     ("while (wf_load_acquire(&pool->strangers) != 0) {", "while (false) {")),
    ("close: the closer is not told", "model_close", "src/sched/quiet.c",
     ("        wf_parker_unpark(&runtime->closer);\n", "")),
    ("close: news is said after somebody was roused", "model_close", "src/sched/quiet.c",
     ("""        wf_store_relaxed(&pool->runtime->quiet_at, 0);
        pool->runtime->policy->rouse(pool->runtime);""",
      """        pool->runtime->policy->rouse(pool->runtime);
        wf_store_relaxed(&pool->runtime->quiet_at, 0);""")),
    ("close: the report comes before it is dated", "model_close", "src/sched/quiet.c",
     ("""    wf_store_relaxed(&runtime->quiet_at, activity(runtime)); /* relaxed: a hint */
    wf_failures_report(runtime);""",
      """    wf_failures_report(runtime);
    wf_store_relaxed(&runtime->quiet_at, activity(runtime));""")),
    ("world: who wakes does not ask", "model_world", "src/sched/safepoint.c",
     ("        if (wf_load_acquire(&world->is_stopped) == 0) {\n            return;\n        }",
      "        if (wf_load_acquire(&world->is_stopped) <= 1) {\n            return;\n        }")),
    ("world: who wakes asks before it says so", "model_world", "src/sched/safepoint.c",
     ("        wf_store_relaxed(&safe->is_safe, 0); /* relaxed: the fence orders it */\n",
      "        uint32_t is_stopped = wf_load_acquire(&world->is_stopped);\n"
      "        wf_store_relaxed(&safe->is_safe, 0);\n"),
     ("        if (wf_load_acquire(&world->is_stopped) == 0) {", "        if (is_stopped == 0) {")),
    ("world: who stands still tells nobody", "model_world", "src/sched/safepoint.c",
     ("        wf_parker_unpark(&world->stopper);", "        (void)world;")),
    ("world: nobody is told that it goes on", "model_world", "src/sched/safepoint.c",
     ("            wf_parker_unpark(&workers[i]->parker);", "            (void)workers;")),
    ("world: the stopper does not wait for the last", "model_world", "src/sched/safepoint.c",
     ("    for (unsigned i = 0; i < count; i++) {\n        /* acquire: what",
      "    for (unsigned i = 0; i + 1 < count; i++) {\n        /* acquire: what")),
    ("world: who has the turn next is not told", "model_world", "src/sched/safepoint.c",
     ("        wf_waiter_wake(&turn->waiter);", "        (void)turn;")),
    ("idle: who is called by name is called twice", "model_idle", "src/sched/idle.c",
     ("    if ((wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit) & bit) == 0) {",
      "    if (wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit) == UINT64_MAX) {")),
    ("idle: who is called by name does not count as searching", "model_idle", "src/sched/idle.c",
     ("        return false; /* another was faster: it is being woken */\n    }\n"
      "    (void)wf_fetch_add_relaxed(&idle->searching, 1); /* in the sleeper's name: I2 */",
      "        return false; /* another was faster: it is being woken */\n    }")),
    ("idle: somebody who searches will do for a piece that is pinned", "model_idle",
     "src/sched/idle.c",
     ("    uint64_t bit = bit_of(worker);\n"
      "    if ((wf_load_relaxed(&idle->asleep[worker / 64]) & bit) == 0) {",
      "    uint64_t bit = bit_of(worker);\n    if (wf_load_relaxed(&idle->searching) > 0 ||\n"
      "        (wf_load_relaxed(&idle->asleep[worker / 64]) & bit) == 0) {")),
    ("registry: a slab is freed under its readers", "model_registry", "src/fiber/registry.c",
     ("while (wf_load_acquire(&all->readers) != 0) {", "while (false) {")),
    ("lock: release wakes nobody", "model_lock", "src/os/lock.c",
     ("(void)wf_futex_wake(&lock->word, 1)", "(void)0")),
    ("lock: who slept takes it as held, not as slept on", "model_lock", "src/os/lock.c",
     ("    while (wf_exchange_acquire(&lock->word, SLEEPERS) != OPEN) {",
      "    bool slept = false;\n    while (!(slept && take_open(lock)) &&"
      " wf_exchange_acquire(&lock->word, SLEEPERS) != OPEN) {\n        slept = true;")),
    ("registry: a slab that goes waits for nobody", "model_registry", "src/fiber/registry.c",
     ("while (wf_load_acquire(&all->readers) != 0) {", "while (false) {")),
    ("registry: a slab waits before it is unlinked", "model_registry", "src/fiber/registry.c",
     ("while (wf_load_acquire(&all->readers) != 0) {", "while (false) {"),
     ("    struct wf_slab *next = wf_load_relaxed(&slab->next);",
      "    while (wf_load_acquire(&all->readers) != 0) {\n        wf_spin_hint();\n    }\n"
      "    struct wf_slab *next = wf_load_relaxed(&slab->next);")),
    ("registry: a reader leaves before it has looked", "model_registry", "src/fiber/registry.c",
     ("        if (is_found) {",
      "        (void)wf_fetch_sub_release(&all->readers, is_found ? 1 : 0);\n"
      "        if (is_found) {"),
     ("    (void)wf_fetch_sub_release(&all->readers, 1); /* (F3) */",
      "    (void)wf_fetch_sub_release(&all->readers, is_found ? 0 : 1);")),
    ("fork: a place is filled that is not free", "model_fork", "src/sched/board.c",
     ("    if (is_open(word)) {\n        WF_REACHED", "    if (false) {\n        WF_REACHED")),
    ("fork: taken back without a CAS", "model_fork", "src/sched/board.c",
     ("if (wf_cas_relaxed(&forks->places[place], &word, 0)) {",
      "if (wf_load_relaxed(&forks->places[place]) == word) {\n"
      "        wf_store_relaxed(&forks->places[place], 0);")),
    ("fork: taken without a CAS", "model_fork", "src/sched/board.c",
     ("if (!wf_cas_acq_rel(&forks->places[place], &word, (uintptr_t)taker + 1)) {",
      "if (wf_load_acquire(&forks->places[place]) == word) {\n"
      "        wf_store_release(&forks->places[place], (uintptr_t)taker + 1);\n"
      "    } else {")),
    ("fork: who took it is forgotten when its place is used again", "model_fork",
     "src/sched/board.c",
     ("        forks->records[place]->task = taker_of(word);\n", "")),
    ("fork: a joined record is told of its taker once more", "model_fork", "src/sched/board.c",
     ("    wf_store_relaxed(&forks->places[place], 0);    /* relaxed: nobody", "    /* nobody")),
    ("fork: a place that was taken counts as open", "model_fork", "src/sched/board.c",
     ("    return word != 0 && word % 2 == 0;", "    return word != 0;")),
    ("trace: no second look at the head", "model_trace", "src/trace/ring.c",
     ("    uint64_t now = wf_load_relaxed(&ring->head);", "    uint64_t now = head;")),
    ("trace: the slot that is being written is trusted", "model_trace", "src/trace/ring.c",
     ("now < slot_count(ring) ? 0 : now - ring->events;",
      "now < slot_count(ring) ? 0 : now - ring->events - 1;")),
    ("trace: no slot to spare", "model_trace", "src/trace/ring.c",
     ("    return ring->events + 1;", "    return ring->events;"),
     ("    return slot == ring->events ? 0 : slot + 1;",
      "    return slot + 1 == ring->events ? 0 : slot + 1;")),
    ("trace: the head moves before the event is whole", "model_trace", "src/trace/ring.c",
     ("    wf_store_release(&ring->head, head + 1); /* (E1) release: the event is whole. */\n", ""),
     ("    wf_store_release(&slot->arg, arg);",
      "    wf_store_release(&ring->head, head + 1);\n    wf_store_release(&slot->arg, arg);")),
    ("trace: foreign threads without the lock", "model_trace", "src/trace/ring.c",
     ("    wf_lock_acquire(&shared->lock);\n    wf_trace_put(",
      "    (void)wf_lock_try(&shared->lock);\n    wf_trace_put(")),
    ("once: who fails hands it to nobody", "model_once", "src/sync/once.c",
     ("    } else if ((node = wf_waitq_claim(&once->queue)) != NULL) {\n",
      "    } else if (false) {\n")),
    ("once: a turn of one that never runs again is lost", "model_once", "src/sync/once.c",
     ("    if (wf_plain_load(&node->result) == YOUR_TURN) {", "    if (false) {")),
    ("once: who does it does not look for those who wait", "model_once", "src/sync/once.c",
     ("    if (!wf_cas_release(&once->word, &word, is_done ? DONE : NEW)) { /* (O1) */",
      "    (void)word;\n    wf_store_release(&once->word, is_done ? DONE : NEW);\n"
      "    if (false) {")),
    ("rwlock: who leaves the queue serves nobody behind", "model_rwlock", "src/sync/rwlock.c",
     ("            serve_those_behind(rwlock);\n            return rc;", "            return rc;")),
    ("rwlock: one that never runs again stays in the way", "model_rwlock", "src/sync/rwlock.c",
     ("    wf_waitq_abandon(node);\n    serve_those_behind(rwlock);\n",
      "    (void)rwlock;\n    wf_waitq_abandon(node);\n")),
    ("rwlock: one that was let in and never runs again keeps it", "model_rwlock",
     "src/sync/rwlock.c",
     ("    leave(wf_container_of(node->queue, struct wf_rwlock, queue),\n"
      "          node->count == TO_WRITE ? writer_word((uintptr_t)node->item) : READER);",
      "    (void)node;")),
    ("rwlock: readers pass those who wait, without the lock", "model_rwlock", "src/sync/rwlock.c",
     ("(word & (WAITERS | WRITER)) == 0 ? word + READER : 0;",
      "(word & WRITER) == 0 ? word + READER : 0;")),
    ("rwlock: who lets go under the lock takes the bit for granted", "model_rwlock",
     "src/sync/rwlock.c", ("    if (!go(rwlock, &word)) {\n        word &= ~WAITERS;",
                           "    {\n        word &= ~WAITERS;")),
    ("rwlock: a writer is let in beside readers", "model_rwlock", "src/sync/rwlock.c",
     ("    return word == 0 ? writer_word(holder) : 0;",
      "    return (word & (WAITERS | WRITER)) == 0 ? writer_word(holder) : 0;")),
    ("rwlock: who finds it taken does not say that it waits", "model_rwlock", "src/sync/rwlock.c",
     ("        next = is_taken ? next : word | WAITERS;",
      "        next = is_taken ? next : word;")),
    ("cond: who waits is in the queue after it has unlocked", "model_cond", "src/sync/cond.c",
     ("    wf_cond_begin(cond_of(out), &node);\n"
      "    (void)weft_mutex_unlock(mutex); /* it is ours */\n",
      "    (void)weft_mutex_unlock(mutex);\n    wf_cond_begin(cond_of(out), &node);\n")),
    ("cond: one that never runs again keeps the signal", "model_cond", "src/sync/cond.c",
     ("    wake(wf_container_of(node->queue, struct wf_cond, queue), 1);", "    (void)node;")),
    ("cond: after a signal nobody is said to wait", "model_cond", "src/sync/cond.c",
     ("wf_store_relaxed(&cond->waiting, is_anybody ? 1 : 0);",
      "(void)is_anybody;\n    wf_store_relaxed(&cond->waiting, 0);")),
    ("cond: a broadcast tells one", "model_cond", "src/sync/cond.c",
     ("    return wake_some(out, UINT32_MAX);", "    return wake_some(out, 1);")),
    ("cond: a cancel keeps the mutex from being locked again", "model_cond", "src/sync/cond.c",
     ("self != NULL && wf_state_shield(&self->state) == 0; /* else it is */", "false;")),
    ("oneshot: who is cancelled leaves itself behind", "model_oneshot", "src/sync/oneshot.c",
     ("    put(oneshot, state == WAITED ? EMPTY : state);", "    put(oneshot, state);")),
    ("oneshot: a task is woken before the state is there", "model_oneshot", "src/sync/oneshot.c",
     ("        put(oneshot, state);\n        WF_JITTER();\n        wf_task_wake_on(worker, task);",
      "        wf_task_wake_on(worker, task);\n        put(oneshot, WAITED);\n"
      "        (void)hold(oneshot);\n        put(oneshot, state);")),
    ("broadcast: an item that nobody who waits hears of", "model_broadcast",
     "src/sync/broadcast.c",
     ("        wf_waitq_grant_all(&broadcast->subscribers, &broadcast->lock, 0);\n", "")),
    ("broadcast: a close that nobody who waits hears of", "model_broadcast",
     "src/sync/broadcast.c",
     ("true);\n    wf_waitq_grant_all(&broadcast->subscribers, &broadcast->lock, 0);\n",
      "true);\n")),
    ("broadcast: the lock is open before the node is in the queue", "model_broadcast",
     "src/sync/broadcast.c",
     ("    node->spin = &subscription->broadcast->lock;\n",
      "    node->spin = &subscription->broadcast->lock;\n    wf_spin_release(node->spin);\n"
      "    wf_spin_acquire(node->spin);\n")),
    ("broadcast: what was missed is not counted", "model_broadcast", "src/sync/broadcast.c",
     ("behind > broadcast->capacity ? behind - broadcast->capacity : 0;\n"
      "    const uint64_t number", "0;\n    const uint64_t number")),
    ("watch: a value that is borrowed is written over", "model_watch", "src/sync/watch.c",
     ("    if (block->borrows > 0) {", "    if (false) {")),
    ("watch: a change of another is lost", "model_watch", "src/sync/watch.c",
     ("        if (rc == 1 && watch->version == version && !watch->is_closed) {",
      "        (void)version;\n        if (rc == 1 && !watch->is_closed) {")),
    ("watch: the lock is open before the node is in the queue", "model_watch",
     "src/sync/watch.c",
     ("    node->spin = &watch->lock;\n",
      "    node->spin = &watch->lock;\n    wf_spin_release(node->spin);\n"
      "    wf_spin_acquire(node->spin);\n")),
    ("watch: a close that nobody who waits hears of", "model_watch", "src/sync/watch.c",
     ("true);\n    wf_waitq_grant_all(&watch->watchers, &watch->lock, 0);\n", "true);\n")),
    ("notify: a notice where nobody waits any more is lost", "model_event", "src/sync/notify.c",
     ("wf_store_release(&notify->word, node != NULL ? NOTHING : PERMIT);",
      "wf_store_release(&notify->word, NOTHING);")),
    ("notify: who takes the permit lets no lock pass", "model_event", "src/sync/notify.c",
     ("    wf_lock_pass(&notify->queue.lock); /* whoever notified may be inside still */\n", "")),
    ("notify: one that never runs again keeps the notice", "model_event", "src/sync/notify.c",
     ("    notify_one(wf_container_of(node->queue, struct wf_notify, queue));", "    (void)node;")),
    ("group: what a failed exchange finds is trusted", "model_event", "src/sync/group.c",
     ("    uint64_t word;\n    bool is_waiting = false;",
      "    uint64_t word = wf_load_acquire(&group->word);\n    bool is_waiting = false;"),
     ("count_of(word = wf_load_acquire(&group->word)) != 0) {", "count_of(word) != 0) {")),
    ("group: the last does not look for those who wait", "model_event", "src/sync/group.c",
     ("        if (*is_last && !is_locked) {\n            return -EAGAIN;\n        }\n", "")),
    ("chan: a close that nobody who waits hears of", "model_chan", "src/sync/chan.c",
     ("    wf_waitq_grant_all(&chan->receivers, &chan->lock, -EPIPE);\n", "")),
    ("chan: the lock is open before the node is in the queue", "model_chan", "src/sync/chan.c",
     ("    push(chan, queue, &node);\n    wf_spin_release(&chan->lock);",
      "    wf_spin_release(&chan->lock);\n    push(chan, queue, &node);")),
    ("chan: the receiver is told before it has the item", "model_chan", "src/sync/chan.c",
     ("        wf_item_copy(receiver->item, item, chan->item_size);\n"
      "        *task = grant(worker, receiver);",
      "        *task = grant(worker, receiver);\n"
      "        wf_item_copy(receiver->item, item, chan->item_size);")),
    ("chan: a closed one takes items", "model_chan", "src/sync/chan.c",
     ("    if (wf_plain_load(&chan->is_closed)) {\n        return -EPIPE;\n    }\n"
      "    if (wf_plain_load(&chan->count) < chan->limit) {",
      "    if (wf_plain_load(&chan->count) < chan->limit) {")),
    ("chan: who is cancelled looks at nothing", "model_chan", "src/sync/chan.c",
     ("            rc = wf_waitq_leave(&node) ? 0 : rc;",
      "            (void)wf_waitq_leave(&node);")),
    ("chan: an item that was handed over is not given back", "model_chan", "src/sync/chan.c",
     ("    if (node->count == RECEIVES && node->result == 0) {", "    if (false) {")),
    ("select: the nodes go in after the locks are open", "model_chan", "src/sync/select.c",
     ("    enter_chans(select);\n    unlock_all(select);",
      "    unlock_all(select);\n    enter_chans(select);")),
    ("select: it leaves only the queue of the winner", "model_chan", "src/sync/select.c",
     ("            if ((int32_t)i != winner || select->self == NULL ||"
      " !wf_waitq_is_granted(&arm->node)) {",
      "            if ((int32_t)i == winner) {")),
    ("select: who has seen the winner goes without the lock", "model_chan", "src/sync/select.c",
     ("            if ((int32_t)i != winner || select->self == NULL ||"
      " !wf_waitq_is_granted(&arm->node)) {",
      "            if ((int32_t)i != winner) {")),
    ("select: a cancel does not win", "model_chan", "src/sync/select.c",
     ("            (void)win(select, NOBODY);\n        }",
      "            wf_store_relaxed(&select->selection.winner, NOBODY);\n        }")),
    ("select: an event that has come since does not win", "model_fd", "src/sync/select.c",
     ("            if (rc != -EINPROGRESS && win(select, (int32_t)i) == (int32_t)i) {",
      "            if (rc != -EINPROGRESS && false) {")),
    ("select: the kernel is not asked for the event", "model_fd", "src/io/select.c",
     ("    return it->value != 0 ? 0 : ask(it, fd_of(it), events_of(it));", "    return 0;")),
    ("select: an event that is gone counts", "model_fd", "src/sync/select.c",
     ("        return it->result == -EAGAIN ? ANEW : index;", "        return index;")),
    ("select: an event leaves its node behind", "model_fd", "src/io/select.c",
     ("        (void)wf_waitq_leave(node);", "        (void)node;")),
    ("waitq: a node is granted without a claim", "model_chan", "src/sync/waitq.c",
     ("    return wf_cas_relaxed(&node->selection->winner, &nobody, node->index);",
      "    (void)wf_cas_relaxed(&node->selection->winner, &nobody, node->index);\n"
      "    return true;")),
]

# Such an end says that the checker could not go on, not that the code is wrong.
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


def put_in(fault):
    """The source with the fault in it, or None, and what is wrong."""
    _, _, source, *edits = fault
    text = (ROOT / source).read_text()
    for old, new in edits:
        if text.count(old) != 1:
            return None, f"{source} does not hold this once: {old.strip()}"
        text = text.replace(old, new)
    return text, None


def check_texts():
    """Says which faults have no place in the sources any more; a moment, where a run is minutes."""
    wrong = [f"{fault[0]}: {why}" for fault in FAULTS for why in [put_in(fault)[1]] if why]
    for line in wrong:
        print(f"tests/model/faults.py: {line}")
    return 1 if wrong else 0


def try_fault(build, number, fault):
    """Gives None when the fault was found, else what is wrong."""
    _, program, source, *_ = fault
    text, wrong = put_in(fault)
    if wrong:
        return wrong
    folder = build / "faults" / str(number)
    copy = folder / pathlib.Path(source).relative_to("src")
    shutil.rmtree(folder, ignore_errors=True)  # of a fault that had this number before
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
