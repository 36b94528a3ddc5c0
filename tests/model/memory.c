/* SPDX-License-Identifier: MIT */
/* model/memory.c - what each step does under each memory model, and which actions are possible
 * next. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/memory.h"
#include "os/os.h"

static unsigned performed; /* the current action */

const char *order_name(unsigned order)
{
    switch (order) {
    case MODEL_ACQUIRE:
        return "acquire";
    case MODEL_RELEASE:
        return "release";
    case MODEL_ACQ_REL:
        return "acq_rel";
    case MODEL_SEQ_CST:
        return "seq_cst";
    case MODEL_DROPPED:
        return "dropped";
    default:
        return "relaxed";
    }
}

/* ---- the steps ----------------------------------------------------------------------------- */

static const struct buffered *newest_buffered(const struct thread *self, unsigned cell)
{
    for (unsigned i = self->buffer_count; i > 0; i--) {
        const struct buffered *entry = &self->buffer[(self->buffer_first + i - 1) % BUFFER_MAX];
        if (entry->cell == cell) {
            return entry;
        }
    }
    return NULL;
}

static void perform_load(unsigned thread, struct step *step)
{
    struct cell *cell = touch(thread, step->address, step->size, step->site->cell);
    engine.threads[thread].has_loaded[index_of(cell)] = true;
    unsigned order = step->site->order_now;
    const struct buffered *own = newest_buffered(&engine.threads[thread], index_of(cell));
    unsigned newest = cell->count - 1u;
    unsigned index = newest;
    if (own != NULL) {
        step->result = own->value;
    } else {
        if (engine.memory == MODEL_VIEW) {
            index = newest - search_choose(newest - oldest_readable(thread, cell, order) + 1);
        }
        step->result = take_value(thread, cell, index, order);
    }
    trace_step("load     %s -> %#" PRIx64 "  (%s%s%s)", cell->text, step->result, order_name(order),
               own != NULL ? ", from its own buffer" : "", index != newest ? ", stale" : "");
}

static void perform_store(unsigned thread, struct step *step)
{
    struct cell *cell = touch(thread, step->address, step->size, step->site->cell);
    unsigned order = step->site->order_now;
    put_value(cell, step->operand, message_of(thread, order), NULL, thread);
    if (order == MODEL_SEQ_CST) {
        sc_view.seen[index_of(cell)] = (uint8_t)(cell->count - 1);
    }
    trace_step("store    %s = %#" PRIx64 "  (%s)", cell->text, step->operand, order_name(order));
}

static void perform_modify(unsigned thread, struct step *step)
{
    struct cell *cell = touch(thread, step->address, step->size, step->site->cell);
    unsigned order = step->site->order_now;
    uint64_t old = take_value(thread, cell, cell->count - 1u, order);
    uint64_t value = combine(step->kind, old, step->operand, step->size);
    struct store read = *store_at(cell, cell->count - 1u);
    put_value(cell, value, message_of(thread, order), &read, thread);
    if (order == MODEL_SEQ_CST) {
        sc_view.seen[index_of(cell)] = (uint8_t)(cell->count - 1);
    }
    step->result = old;
    trace_step("%s %s: %#" PRIx64 " -> %#" PRIx64 "  (%s)", step->site->name + 3, cell->text, old,
               value, order_name(order));
}

/* A compare-and-exchange succeeds on the newest store only, but may fail on any readable one that
 * differs from what it expects: a failed one is a load. */
static void perform_cas(unsigned thread, struct step *step)
{
    struct cell *cell = touch(thread, step->address, step->size, step->site->cell);
    engine.threads[thread].has_loaded[index_of(cell)] = true;
    unsigned newest = cell->count - 1u;
    unsigned oldest = oldest_readable(thread, cell, step->site->failure_now);
    unsigned options[HISTORY_MAX];
    unsigned count = 0;
    for (unsigned i = newest + 1; i > oldest; i--) {
        bool is_equal = store_at(cell, i - 1)->value == step->expected;
        if (is_equal ? i - 1 == newest : true) {
            options[count++] = i - 1;
        }
    }
    unsigned index = options[search_choose(count)];
    step->is_done = index == newest && store_at(cell, index)->value == step->expected;
    if (step->is_done) {
        step->kind = MODEL_EXCHANGE;
        perform_modify(thread, step);
        return;
    }
    step->expected = take_value(thread, cell, index, step->site->failure_now);
    trace_step("%s %s failed, found %#" PRIx64 "  (%s%s)", step->site->name + 3, cell->text,
               step->expected, order_name(step->site->failure_now),
               index != newest ? ", stale" : "");
}

static void perform_fence(unsigned thread)
{
    struct thread *self = &engine.threads[thread];
    if (engine.memory == MODEL_VIEW) {
        join(&self->now, &self->acquire);
        /* Cell by cell only: fences order accesses, they do not by themselves synchronise. */
        for (unsigned i = 0; i < cell_count; i++) {
            uint8_t *mine = &self->now.seen[i];
            *mine = *mine > sc_view.seen[i] ? *mine : sc_view.seen[i];
            sc_view.seen[i] = *mine;
        }
        self->release = self->now;
    }
    trace_step("fence    (seq_cst)");
}

static unsigned others_writes(const struct thread *self)
{
    return engine.writes - self->own_writes;
}

/* A thread that spins eventually sees new stores: after a hint it sees the newest stores to the
 * cells that it has loaded since its last hint.  (A loop that ends after a number of iterations
 * cannot be modelled: the hint waits until another thread stores.) */
static void perform_spin(unsigned thread)
{
    struct thread *self = &engine.threads[thread];
    self->spin_seen = others_writes(self);
    for (unsigned i = 0; i < cell_count; i++) {
        if (self->has_loaded[i]) {
            self->now.seen[i] = (uint8_t)(cells[i].count - 1);
        }
    }
    memset(self->has_loaded, false, sizeof(self->has_loaded));
    trace_step("spins");
}

/* The kernel compares and queues under its own lock: it reads the newest store. */
static void perform_futex_wait(unsigned thread, struct step *step)
{
    struct cell *cell = touch(thread, step->address, step->size, "futex word");
    uint64_t value = store_at(cell, cell->count - 1u)->value;
    engine.threads[thread].now.seen[index_of(cell)] = (uint8_t)(cell->count - 1);
    if (value != step->expected) {
        step->result = (uint64_t)-EAGAIN;
        trace_step("futex    %s is %#" PRIx64 ", not %#" PRIx64 ": does not wait", cell->text,
                   value, step->expected);
        return;
    }
    engine.threads[thread].state = THREAD_ASLEEP;
    trace_step("futex    waits on %s == %#" PRIx64, cell->text, value);
}

static void wake(unsigned thread, int result)
{
    engine.threads[thread].state = THREAD_READY;
    engine.threads[thread].woken_by = engine.threads[performed % MODEL_THREADS_MAX].last_event;
    engine.threads[thread].step->result = (uint64_t)(int64_t)result;
    fiber_resume(thread);
}

static void perform_futex_wake(struct step *step)
{
    uint64_t woken = 0;
    for (; woken < step->operand; woken++) {
        unsigned sleepers[MODEL_THREADS_MAX];
        unsigned count = 0;
        for (unsigned i = 0; i < engine.thread_count; i++) {
            const struct thread *thread = &engine.threads[i];
            if (thread->state == THREAD_ASLEEP && thread->step->address == step->address) {
                sleepers[count++] = i;
            }
        }
        if (count == 0 || engine.is_failed) {
            break;
        }
        unsigned chosen = sleepers[search_choose(count)];
        trace_step("futex    wakes %s", thread_name(chosen));
        wake(chosen, 0);
    }
    if (woken == 0) {
        trace_step("futex    wakes no thread");
    }
    step->result = woken;
}

static void drain(unsigned thread)
{
    struct thread *self = &engine.threads[thread];
    const struct buffered *entry = &self->buffer[self->buffer_first];
    put_value(&cells[entry->cell], entry->value, &entry->view, NULL, thread);
    trace_step("buffer   %s = %#" PRIx64 " reaches memory", cells[entry->cell].text, entry->value);
    self->buffer_first = (self->buffer_first + 1) % BUFFER_MAX;
    self->buffer_count--;
}

/* The part of a barrier that another thread executes.  Its stores before its last step reach
 * memory; its later stores may as well not have happened yet. */
static void perform_barrier(unsigned whose)
{
    const struct thread *other = &engine.threads[whose];
    trace_step("barrier  in %s", thread_name(whose));
    while (other->buffer_count > 0 &&
           other->buffer[other->buffer_first].issued_after != other->last_event) {
        drain(whose);
    }
    perform_fence(whose);
}

static void perform_step(unsigned thread)
{
    struct step *step = engine.threads[thread].step;
    switch ((enum model_kind)step->kind) {
    case MODEL_LOAD:
        perform_load(thread, step);
        break;
    case MODEL_STORE:
        perform_store(thread, step);
        break;
    case MODEL_CAS:
        perform_cas(thread, step);
        break;
    case MODEL_FENCE:
        perform_fence(thread);
        break;
    case MODEL_BARRIER:
        perform_barrier((unsigned)step->operand);
        break;
    case MODEL_SPIN:
        perform_spin(thread);
        break;
    case MODEL_FUTEX_WAIT:
        perform_futex_wait(thread, step);
        break;
    case MODEL_FUTEX_WAKE:
        perform_futex_wake(step);
        break;
    default:
        perform_modify(thread, step);
        break;
    }
    engine.threads[thread].now.clock[thread]++;
}

unsigned memory_acting_thread(void)
{
    return performed % MODEL_THREADS_MAX;
}

const struct model_site *memory_acting_site(void)
{
    const struct step *step = engine.threads[memory_acting_thread()].step;
    return performed < ACTION_DRAIN && step != NULL ? step->site : NULL;
}

void memory_perform(unsigned action)
{
    unsigned thread = action % MODEL_THREADS_MAX;
    performed = action;
    switch (action - thread) {
    case ACTION_RUN:
        perform_step(thread);
        if (!engine.is_failed && engine.threads[thread].state == THREAD_READY) {
            fiber_resume(thread);
        }
        break;
    case ACTION_DRAIN:
        drain(thread);
        break;
    case ACTION_TIMEOUT:
        trace_step("futex    the deadline passes");
        wake(thread, -ETIMEDOUT);
        break;
    default:
        engine.threads[thread].spurious_left--;
        trace_step("futex    wakes spuriously");
        wake(thread, 0);
        break;
    }
}

/* ---- possible actions ---------------------------------------------------------------------- */

static bool is_enabled(const struct thread *thread)
{
    const struct step *step = thread->step;
    if (thread->state != THREAD_READY) {
        return false;
    }
    if (step->kind == MODEL_SPIN) {
        return others_writes(thread) > thread->spin_seen;
    }
    /* Under tso every step except a load waits for the buffer; relaxed stores are never
     * published. */
    return step->kind == MODEL_LOAD || thread->buffer_count == 0;
}

uint32_t memory_enabled(void)
{
    uint32_t actions = 0;
    for (unsigned i = 0; i < engine.thread_count; i++) {
        const struct thread *thread = &engine.threads[i];
        if (is_enabled(thread)) {
            actions |= 1u << (ACTION_RUN + i);
        }
        if (thread->buffer_count > 0) {
            actions |= 1u << (ACTION_DRAIN + i);
        }
        if (thread->state == THREAD_ASLEEP && thread->step->deadline_ns != WF_FOREVER) {
            actions |= 1u << (ACTION_TIMEOUT + i);
        }
        if (thread->state == THREAD_ASLEEP && thread->spurious_left > 0) {
            actions |= 1u << (ACTION_SPURIOUS + i);
        }
    }
    return actions;
}

/* A compare-and-exchange that is about to fail only reads. */
static bool will_write(const struct step *step)
{
    switch ((enum model_kind)step->kind) {
    case MODEL_LOAD:
    case MODEL_FENCE:
    case MODEL_BARRIER:
    case MODEL_SPIN:
    case MODEL_FUTEX_WAIT:
    case MODEL_FUTEX_WAKE:
        return false;
    case MODEL_CAS:
        return read_memory(step->address, step->size) == step->expected;
    default:
        return true;
    }
}

struct effect memory_effect(unsigned action)
{
    unsigned index = action % MODEL_THREADS_MAX;
    const struct thread *thread = &engine.threads[index];
    struct effect effect = {.thread = (uint8_t)index, .after_event = NO_EVENT};
    if (action >= ACTION_TIMEOUT) {
        effect.address = thread->step->address;
        effect.is_futex = true;
        return effect;
    }
    if (action >= ACTION_DRAIN) {
        const struct buffered *entry = &thread->buffer[thread->buffer_first];
        effect.address = cells[entry->cell].address;
        effect.is_write = true;
        effect.is_drain = true;
        effect.after_event = entry->issued_after;
        return effect;
    }
    const struct step *step = thread->step;
    effect.address = step->address;
    effect.is_write = will_write(step);
    effect.is_futex = step->kind == MODEL_FUTEX_WAIT || step->kind == MODEL_FUTEX_WAKE;
    effect.is_spin = step->kind == MODEL_SPIN;
    effect.is_everywhere = step->kind == MODEL_BARRIER;
    effect.is_ordered = engine.memory == MODEL_VIEW && step->site != NULL && !effect.is_spin &&
                        step->site->order_now == MODEL_SEQ_CST;
    effect.is_flushed = step->kind != MODEL_LOAD && !effect.is_spin;
    effect.after_event = thread->woken_by;
    return effect;
}

bool memory_are_dependent(const struct effect *a, const struct effect *b)
{
    if (a->thread == b->thread) {
        /* A thread's own buffer drains in order whatever it loads meanwhile: forwarding gives
         * the same value before and after.  A step that needs an empty buffer comes after the
         * draining. */
        return a->is_drain == b->is_drain || a->is_flushed || b->is_flushed;
    }
    if ((a->is_spin && b->is_write) || (b->is_spin && a->is_write)) {
        return true;
    }
    if ((a->is_ordered && b->is_ordered) || a->is_everywhere || b->is_everywhere) {
        return true;
    }
    return a->address != NULL && a->address == b->address &&
           (a->is_write || b->is_write || (a->is_futex && b->is_futex));
}
