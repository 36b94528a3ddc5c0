/* SPDX-License-Identifier: MIT */
/*
 * model/memory.c - what a step does, under each of the three memory models.
 *
 * Real memory always holds the newest store of each cell, so that setup() and check(), which run
 * alone, use it directly.  While threads run, a cell has a history of stores.  Under sc and tso only
 * the newest matters; under view a load may choose among those that its thread's view allows.
 *
 * View, as in the operational form of RC11: `now` bounds what a thread may still read, cell by
 * cell.  A store carries a view: the storing thread's `now` if it releases, else the view of that
 * thread's last SC fence.  A load that acquires joins the view of the store it reads; one that does
 * not keeps it in `acquire` for the next fence.  `sc` is the view that SC fences exchange; SC stores
 * raise it for their own cell, and SC loads read no older than it.
 *
 * Races: views also carry vector clocks.  A plain access, an initialisation and a free must be
 * ordered with every conflicting access by them; sc and tso count every atomic as release/acquire.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/engine.h"
#include "os/os.h"

enum { TABLE_SIZE = 512, NOBODY = 255 };

struct store {
    uint64_t value;
    struct view view;
    bool is_garbage; /* what the heap held before anything was stored */
};

struct cell {
    char *address;
    const char *text;
    uint16_t history[HISTORY_MAX];
    uint16_t last_access[MODEL_THREADS_MAX];
    uint16_t init_clock;
    uint8_t init_thread; /* NOBODY: before the threads */
    uint8_t size;
    uint8_t count;
};

struct plain {
    const volatile void *address;
    uint16_t read_clock[MODEL_THREADS_MAX];
    uint16_t write_clock;
    uint8_t writer;
};

static struct cell cells[CELLS_MAX];
static unsigned cell_count;
static struct store stores[STORES_MAX];
static unsigned store_count;
static struct plain plains[PLAINS_MAX];
static unsigned plain_count;
static uint8_t cell_table[TABLE_SIZE]; /* address -> index + 1 */
static uint8_t plain_table[TABLE_SIZE];
static struct view sc;

void memory_reset(void)
{
    cell_count = 0;
    store_count = 0;
    plain_count = 0;
    memset(cell_table, 0, sizeof(cell_table));
    memset(plain_table, 0, sizeof(plain_table));
    memset(&sc, 0, sizeof(sc));
    for (unsigned i = 0; i < engine.thread_count; i++) {
        struct thread *thread = &engine.threads[i];
        memset(&thread->now, 0, sizeof(thread->now));
        memset(&thread->acquire, 0, sizeof(thread->acquire));
        memset(&thread->release, 0, sizeof(thread->release));
        thread->now.clock[i] = 1;
        thread->buffer_first = 0;
        thread->buffer_count = 0;
        thread->own_writes = 0;
        thread->spin_seen = 0;
        thread->last_event = NO_EVENT;
        thread->woken_by = NO_EVENT;
        thread->spurious_left = engine.test->spurious_wakes;
    }
}

static unsigned slot_of(const volatile void *address)
{
    return (unsigned)(((uintptr_t)address * 0x9e3779b97f4a7c15u) >> 55);
}

static void join(struct view *into, const struct view *from)
{
    for (unsigned i = 0; i < cell_count; i++) {
        into->seen[i] = into->seen[i] > from->seen[i] ? into->seen[i] : from->seen[i];
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        into->clock[i] = into->clock[i] > from->clock[i] ? into->clock[i] : from->clock[i];
    }
}

/* ---- cells --------------------------------------------------------------------------------- */

static uint64_t read_memory(const void *address, unsigned size)
{
    uint64_t value = 0;
    memcpy(&value, address, size);
    return value;
}

static struct store *add_store(struct cell *cell)
{
    if (cell->count == HISTORY_MAX || store_count == STORES_MAX) {
        model_fail("too many stores for the model");
    }
    cell->history[cell->count++] = (uint16_t)store_count;
    return &stores[store_count++];
}

static struct cell *find_cell(void *address, unsigned size, const char *text)
{
    unsigned slot = slot_of(address);
    for (; cell_table[slot] != 0; slot = (slot + 1) % TABLE_SIZE) {
        struct cell *found = &cells[cell_table[slot] - 1];
        if (found->address == address) {
            if (found->size != size) {
                model_fail("one cell accessed in two sizes");
            }
            return found;
        }
    }
    if (cell_count == CELLS_MAX) {
        model_fail("too many cells for the model");
    }
    struct cell *cell = &cells[cell_count++];
    cell_table[slot] = (uint8_t)cell_count;
    *cell = (struct cell){.address = address,
                          .text = text[0] == '&' ? text + 1 : text,
                          .size = (uint8_t)size,
                          .init_thread = NOBODY};
    struct store *first = add_store(cell);
    memset(&first->view, 0, sizeof(first->view));
    first->value = read_memory(address, size);
    first->is_garbage = heap_is_garbage(address, size);
    return cell;
}

const char *memory_cell_name(const void *address)
{
    for (unsigned i = 0; i < cell_count; i++) {
        if (cells[i].address == address) {
            return cells[i].text;
        }
    }
    return "a cell";
}

static unsigned index_of(const struct cell *cell)
{
    return (unsigned)(cell - cells);
}

static struct store *store_at(const struct cell *cell, unsigned index)
{
    return &stores[cell->history[index]];
}

/* Every access of a thread to a cell passes here. */
static struct cell *touch(unsigned thread, void *address, unsigned size, const char *text)
{
    heap_check_access(address, text);
    struct cell *cell = find_cell(address, size, text);
    const struct view *now = &engine.threads[thread].now;
    if (cell->init_thread != NOBODY && cell->init_clock > now->clock[cell->init_thread]) {
        model_fail("race: %s is used while it is being initialised", cell->text);
    }
    cell->last_access[thread] = now->clock[thread];
    return cell;
}

void memory_forget(const char *start, size_t size, const struct view *by, unsigned thread)
{
    for (unsigned i = 0; i < cell_count; i++) {
        const struct cell *cell = &cells[i];
        if (cell->address < start || cell->address >= start + size) {
            continue;
        }
        for (unsigned other = 0; other < engine.thread_count; other++) {
            if (other != thread && cell->last_access[other] > by->clock[other]) {
                model_fail("race: memory is freed while another thread uses %s", cell->text);
            }
        }
    }
}

/* ---- reading and writing ------------------------------------------------------------------- */

/* sc and tso do not depend on orders: there, everything synchronises. */
static unsigned effective(unsigned order)
{
    return engine.memory == MODEL_VIEW ? order : (order | MODEL_ACQ_REL);
}

static uint64_t take_value(unsigned thread, const struct cell *cell, unsigned index, unsigned order)
{
    struct thread *self = &engine.threads[thread];
    const struct store *store = store_at(cell, index);
    if (store->is_garbage) {
        model_fail("read of uninitialised memory: %s", cell->text);
    }
    unsigned at = index_of(cell);
    self->now.seen[at] = self->now.seen[at] > index ? self->now.seen[at] : (uint8_t)index;
    join(&self->acquire, &store->view);
    if (effective(order) & MODEL_ACQUIRE) {
        join(&self->now, &store->view);
    }
    return store->value;
}

/* The oldest store of the cell that a load of this order may still return. */
static unsigned oldest_readable(unsigned thread, const struct cell *cell, unsigned order)
{
    unsigned at = index_of(cell);
    unsigned oldest = engine.threads[thread].now.seen[at];
    if (order == MODEL_SEQ_CST && sc.seen[at] > oldest) {
        oldest = sc.seen[at];
    }
    return oldest;
}

/* Makes `value` the newest store.  `read`: the store that a read-modify-write read, whose message
 * it carries on (a release sequence); NULL for a plain store. */
static void put_value(struct cell *cell, uint64_t value, const struct view *view,
                      const struct store *read, unsigned thread)
{
    struct view carried = *view;
    if (read != NULL) {
        join(&carried, &read->view);
    }
    if (engine.memory == MODEL_VIEW) {
        struct store *store = add_store(cell);
        store->view = carried;
        store->view.seen[index_of(cell)] = (uint8_t)(cell->count - 1);
        store->value = value;
        store->is_garbage = false;
        engine.threads[thread].now.seen[index_of(cell)] = (uint8_t)(cell->count - 1);
    } else {
        struct store *store = store_at(cell, 0);
        store->view = carried;
        store->value = value;
        store->is_garbage = false;
    }
    memcpy(cell->address, &value, cell->size);
    engine.writes++;
    engine.threads[thread].own_writes++;
}

/* What a store of this order carries. */
static const struct view *message_of(unsigned thread, unsigned order)
{
    const struct thread *self = &engine.threads[thread];
    return effective(order) & MODEL_RELEASE ? &self->now : &self->release;
}

static uint64_t truncate(uint64_t value, unsigned size)
{
    return size == sizeof(uint64_t) ? value : value & ((UINT64_C(1) << (8 * size)) - 1);
}

static uint64_t combine(enum model_kind kind, uint64_t old, uint64_t operand, unsigned size)
{
    switch (kind) {
    case MODEL_ADD:
        return truncate(old + operand, size);
    case MODEL_SUB:
        return truncate(old - operand, size);
    case MODEL_OR:
        return old | operand;
    case MODEL_AND:
        return old & operand;
    default:
        return operand;
    }
}

static const char *order_name(unsigned order)
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
    default:
        return "relaxed";
    }
}

static unsigned performed; /* the action under way */

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
    trace_step("load     %s -> %#" PRIx64 "  (%s%s%s)", cell->text, step->result,
               order_name(order), own != NULL ? ", from its own buffer" : "",
               index != newest ? ", stale" : "");
}

static void perform_store(unsigned thread, struct step *step)
{
    struct cell *cell = touch(thread, step->address, step->size, step->site->cell);
    unsigned order = step->site->order_now;
    put_value(cell, step->operand, message_of(thread, order), NULL, thread);
    if (order == MODEL_SEQ_CST) {
        sc.seen[index_of(cell)] = (uint8_t)(cell->count - 1);
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
        sc.seen[index_of(cell)] = (uint8_t)(cell->count - 1);
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
            *mine = *mine > sc.seen[i] ? *mine : sc.seen[i];
            sc.seen[i] = *mine;
        }
        self->release = self->now;
    }
    trace_step("fence    (seq_cst)");
}

static unsigned others_writes(const struct thread *self)
{
    return engine.writes - self->own_writes;
}

/* Waiting by spinning ends some time: after a hint the thread sees what is there now. */
static void perform_spin(unsigned thread)
{
    struct thread *self = &engine.threads[thread];
    self->spin_seen = others_writes(self);
    for (unsigned i = 0; i < cell_count; i++) {
        self->now.seen[i] = (uint8_t)(cells[i].count - 1);
    }
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
        trace_step("futex    %s is %#" PRIx64 ", not %#" PRIx64 ": does not wait", cell->text, value,
                   step->expected);
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
        trace_step("futex    wakes thread %u", chosen);
        wake(chosen, 0);
    }
    if (woken == 0) {
        trace_step("futex    wakes nobody");
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

static void memory_guarded(void)
{
    unsigned thread = performed % MODEL_THREADS_MAX;
    switch (performed - thread) {
    case ACTION_RUN:
        perform_step(thread);
        break;
    case ACTION_DRAIN:
        drain(thread);
        break;
    case ACTION_TIMEOUT:
        trace_step("futex    the deadline passes");
        break;
    default:
        engine.threads[thread].spurious_left--;
        trace_step("futex    wakes for no reason");
        break;
    }
}

unsigned memory_acting_thread(void)
{
    return performed % MODEL_THREADS_MAX;
}

void memory_perform(unsigned action)
{
    unsigned thread = action % MODEL_THREADS_MAX;
    performed = action;
    /* Guarded: a step may find a fault and leave by model_fail. */
    if (!fiber_guard(memory_guarded)) {
        return;
    }
    if (action >= ACTION_TIMEOUT) {
        wake(thread, action >= ACTION_SPURIOUS ? 0 : -ETIMEDOUT);
    } else if (action < ACTION_DRAIN && engine.threads[thread].state == THREAD_READY) {
        fiber_resume(thread);
    }
}

/* ---- what may happen next ------------------------------------------------------------------ */

static bool is_enabled(const struct thread *thread)
{
    const struct step *step = thread->step;
    if (thread->state != THREAD_READY) {
        return false;
    }
    if (step->kind == MODEL_SPIN) {
        return others_writes(thread) > thread->spin_seen;
    }
    /* Under tso all but a load waits for the buffer; relaxed stores are never published. */
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
    effect.is_ordered = engine.memory == MODEL_VIEW && step->site != NULL && !effect.is_spin &&
                        step->site->order_now == MODEL_SEQ_CST;
    effect.is_flushed = step->kind != MODEL_LOAD && !effect.is_spin;
    effect.after_event = thread->woken_by;
    return effect;
}

bool memory_are_dependent(const struct effect *a, const struct effect *b)
{
    if (a->thread == b->thread) {
        /* A thread's own buffer drains in order whatever it loads meanwhile: forwarding gives the
         * same value before and after.  What needs an empty buffer comes after the draining. */
        return a->is_drain == b->is_drain || a->is_flushed || b->is_flushed;
    }
    if ((a->is_spin && b->is_write) || (b->is_spin && a->is_write)) {
        return true;
    }
    if (a->is_ordered && b->is_ordered) {
        return true;
    }
    return a->address != NULL && a->address == b->address &&
           (a->is_write || b->is_write || (a->is_futex && b->is_futex));
}

/* ---- what the code under test calls -------------------------------------------------------- */

static bool is_alone(void)
{
    return !engine.is_concurrent || engine.current < 0;
}

/* A store under tso enters the thread's buffer: nobody else can tell, so it is no step. */
static bool is_buffered(const struct model_site *site)
{
    return engine.memory == MODEL_TSO && site->kind == MODEL_STORE &&
           site->order_now != MODEL_SEQ_CST;
}

static void enter_buffer(struct model_site *site, void *address, unsigned size, uint64_t value)
{
    unsigned thread = (unsigned)engine.current;
    struct thread *self = &engine.threads[thread];
    struct cell *cell = touch(thread, address, size, site->cell);
    if (self->buffer_count == BUFFER_MAX) {
        model_fail("too many stores in one buffer for the model");
    }
    struct buffered *entry =
        &self->buffer[(self->buffer_first + self->buffer_count++) % BUFFER_MAX];
    entry->value = value;
    entry->view = self->now;
    entry->cell = (uint8_t)index_of(cell);
    entry->issued_after = self->last_event;
    trace_step("store    %s = %#" PRIx64 " enters its buffer", cell->text, value);
    self->now.clock[thread]++;
}

static uint64_t access_alone(const struct model_site *site, void *address, unsigned size,
                             uint64_t operand)
{
    if (address == NULL) {
        return 0;
    }
    heap_check_access(address, site->cell);
    uint64_t old = read_memory(address, size);
    if (site->kind != MODEL_LOAD) {
        uint64_t value = combine(site->kind, old, operand, size);
        memcpy(address, &value, size);
    }
    return old;
}

uint64_t model_access(struct model_site *site, void *address, unsigned size, uint64_t operand)
{
    if (is_alone()) {
        return access_alone(site, address, size, operand);
    }
    site->is_reached = 1;
    if (site->order_now == MODEL_DROPPED) {
        return 0;
    }
    if (is_buffered(site)) {
        enter_buffer(site, address, size, truncate(operand, size));
        return 0;
    }
    struct step step = {.site = site,
                        .address = address,
                        .operand = size == 0 ? 0 : truncate(operand, size),
                        .kind = site->kind,
                        .size = (uint8_t)size};
    fiber_publish(&step);
    return step.result;
}

bool model_cas(struct model_site *site, void *address, unsigned size, uint64_t *expected,
               uint64_t desired)
{
    if (is_alone()) {
        uint64_t old = access_alone(site, address, size, read_memory(address, size));
        if (old != truncate(*expected, size)) {
            *expected = old;
            return false;
        }
        memcpy(address, &desired, size);
        return true;
    }
    site->is_reached = 1;
    struct step step = {.site = site,
                        .address = address,
                        .operand = truncate(desired, size),
                        .expected = truncate(*expected, size),
                        .kind = MODEL_CAS,
                        .size = (uint8_t)size};
    fiber_publish(&step);
    if (!step.is_done) {
        *expected = step.expected;
    }
    return step.is_done;
}

void model_init(void *address, unsigned size, uint64_t value)
{
    memcpy(address, &value, size);
    if (is_alone()) {
        return;
    }
    unsigned thread = (unsigned)engine.current;
    struct cell *cell = find_cell(address, size, "a new cell");
    cell->init_thread = (uint8_t)thread;
    cell->init_clock = engine.threads[thread].now.clock[thread];
    struct store *first = store_at(cell, 0);
    first->value = truncate(value, size);
    first->is_garbage = false;
}

static struct plain *find_plain(const volatile void *address)
{
    unsigned slot = slot_of(address);
    for (; plain_table[slot] != 0; slot = (slot + 1) % TABLE_SIZE) {
        if (plains[plain_table[slot] - 1].address == address) {
            return &plains[plain_table[slot] - 1];
        }
    }
    if (plain_count == PLAINS_MAX) {
        model_fail("too many plain places for the model");
    }
    struct plain *plain = &plains[plain_count++];
    plain_table[slot] = (uint8_t)plain_count;
    *plain = (struct plain){.address = address, .writer = NOBODY};
    return plain;
}

void model_plain(const volatile void *address, unsigned size, bool is_write, const char *text,
                 const char *file, int line)
{
    (void)size; /* places are told apart by where they begin */
    if (is_alone()) {
        return;
    }
    heap_check_access((const void *)(uintptr_t)address, text);
    unsigned thread = (unsigned)engine.current;
    const struct view *now = &engine.threads[thread].now;
    struct plain *plain = find_plain(address);
    if (plain->writer != NOBODY && plain->write_clock > now->clock[plain->writer]) {
        model_fail("race: %s:%d: %s is %s while thread %u writes it", file, line, text,
                   is_write ? "written" : "read", plain->writer);
    }
    for (unsigned i = 0; is_write && i < engine.thread_count; i++) {
        if (i != thread && plain->read_clock[i] > now->clock[i]) {
            model_fail("race: %s:%d: %s is written while thread %u reads it", file, line, text, i);
        }
    }
    trace_step("%s    %s", is_write ? "writes" : "reads ", text);
    if (is_write) {
        plain->writer = (uint8_t)thread;
        plain->write_clock = now->clock[thread];
    } else {
        plain->read_clock[thread] = now->clock[thread];
    }
}

int wf_futex_wait(wf_atomic_u32 *word, uint32_t expected, int64_t deadline_ns)
{
    struct step step = {.address = &word->value,
                        .expected = expected,
                        .kind = MODEL_FUTEX_WAIT,
                        .size = sizeof(word->value),
                        .deadline_ns = deadline_ns};
    if (is_alone()) {
        model_fail("a wait where nobody could wake");
    }
    fiber_publish(&step);
    return (int)(int64_t)step.result;
}

int wf_futex_wake(wf_atomic_u32 *word, int count)
{
    struct step step = {
        .address = &word->value, .operand = (uint64_t)count, .kind = MODEL_FUTEX_WAKE};
    if (is_alone()) {
        return 0;
    }
    fiber_publish(&step);
    return (int)step.result;
}
