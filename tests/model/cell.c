/* SPDX-License-Identifier: MIT */
/*
 * model/cell.c - cells and their histories, the views of threads, and races.
 *
 * Real memory always holds the newest store of each cell, so that setup() and check(), which run
 * alone, use it directly.  While threads run, a cell has a history of stores.  Under sc and tso
 * only the newest matters; under view a load may choose among those that its thread's view allows.
 *
 * View, as in the operational form of RC11: `now` bounds what a thread may still read, cell by
 * cell.  A store carries a view: the storing thread's `now` if it releases, else the view of that
 * thread's last SC fence.  A load that acquires joins the view of the store it reads; one that does
 * not keeps it in `acquire` for the next fence.  `sc_view` is what SC fences exchange; SC stores
 * raise it for their own cell, and SC loads read no older than it.
 *
 * Races: views also carry vector clocks.  A plain access, an initialisation and a free must be
 * ordered with every conflicting access by them; sc and tso count every atomic as release/acquire.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/memory.h"

enum { TABLE_SIZE = 512 };

struct plain {
    const volatile char *address;
    uint16_t read_clock[MODEL_THREADS_MAX];
    uint16_t write_clock;
    uint8_t writer;
    uint8_t size;
};

struct cell cells[CELLS_MAX];
unsigned cell_count;
struct view sc_view;
static struct store stores[STORES_MAX];
static unsigned store_count;
static struct plain plains[PLAINS_MAX];
static unsigned plain_count;
static uint8_t cell_table[TABLE_SIZE]; /* address -> index + 1 */
static uint8_t plain_table[TABLE_SIZE];

void memory_reset(void)
{
    cell_count = 0;
    store_count = 0;
    plain_count = 0;
    memset(cell_table, 0, sizeof(cell_table));
    memset(plain_table, 0, sizeof(plain_table));
    memset(&sc_view, 0, sizeof(sc_view));
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
        memset(thread->has_loaded, false, sizeof(thread->has_loaded));
        thread->last_event = NO_EVENT;
        thread->woken_by = NO_EVENT;
        thread->spurious_left = engine.test->spurious_wakes;
    }
}

static unsigned slot_of(const volatile void *address)
{
    return (unsigned)(((uintptr_t)address * 0x9e3779b97f4a7c15u) >> 55);
}

void join(struct view *into, const struct view *from)
{
    for (unsigned i = 0; i < cell_count; i++) {
        into->seen[i] = into->seen[i] > from->seen[i] ? into->seen[i] : from->seen[i];
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        into->clock[i] = into->clock[i] > from->clock[i] ? into->clock[i] : from->clock[i];
    }
}
/* ---- cells --------------------------------------------------------------------------------- */

uint64_t read_memory(const void *address, unsigned size)
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

static bool do_overlap(const volatile char *a, unsigned a_size, const volatile char *b,
                       unsigned b_size)
{
    return a < b + b_size && b < a + a_size;
}

static bool is_plain_used_elsewhere(const struct plain *plain, unsigned thread, bool reads_too)
{
    const struct view *now = &engine.threads[thread].now;
    if (plain->writer != NO_THREAD && plain->write_clock > now->clock[plain->writer]) {
        return true;
    }
    for (unsigned other = 0; reads_too && other < engine.thread_count; other++) {
        if (other != thread && plain->read_clock[other] > now->clock[other]) {
            return true;
        }
    }
    return false;
}

struct cell *find_cell(void *address, unsigned size, const char *text)
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
                          .init_thread = NO_THREAD};
    struct store *first = add_store(cell);
    memset(&first->view, 0, sizeof(first->view));
    first->value = read_memory(address, size);
    first->is_garbage = heap_is_garbage(address, size);
    (void)heap_zeroed_by(address, &cell->init_thread, &cell->init_clock);
    for (unsigned i = 0; i < plain_count && !cell->is_mixed; i++) {
        cell->is_mixed = do_overlap(address, size, plains[i].address, plains[i].size);
    }
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

struct store *store_at(const struct cell *cell, unsigned index)
{
    return &stores[cell->history[index]];
}

struct cell *touch(unsigned thread, void *address, unsigned size, const char *text)
{
    heap_check_access(address, text);
    struct cell *cell = find_cell(address, size, text);
    const struct view *now = &engine.threads[thread].now;
    if (cell->init_thread != NO_THREAD && cell->init_clock > now->clock[cell->init_thread]) {
        model_fail("race: %s is used while it is being initialised", cell->text);
    }
    for (unsigned i = 0; cell->is_mixed && i < plain_count; i++) {
        if (do_overlap(address, size, plains[i].address, plains[i].size) &&
            is_plain_used_elsewhere(&plains[i], thread, true)) {
            model_fail("race: %s is atomic here and plain in another thread", cell->text);
        }
    }
    cell->last_access[thread] = now->clock[thread];
    return cell;
}

/* True if another thread has accessed the cell without being ordered before `thread`. */
static bool is_used_elsewhere(const struct cell *cell, unsigned thread)
{
    const struct view *now = &engine.threads[thread].now;
    for (unsigned other = 0; other < engine.thread_count; other++) {
        if (other != thread && cell->last_access[other] > now->clock[other]) {
            return true;
        }
    }
    return false;
}

void memory_forget(const char *start, size_t size, unsigned thread)
{
    for (unsigned i = 0; i < cell_count; i++) {
        bool is_in_section = cells[i].address >= start && cells[i].address < start + size;
        if (is_in_section && is_used_elsewhere(&cells[i], thread)) {
            model_fail("race: memory is freed while another thread uses %s", cells[i].text);
        }
    }
    for (unsigned i = 0; i < plain_count; i++) {
        bool is_in_section = plains[i].address >= start && plains[i].address < start + size;
        if (is_in_section && is_plain_used_elsewhere(&plains[i], thread, true)) {
            model_fail("race: memory is freed while another thread uses it");
        }
    }
}

/* Drops the thread's buffered stores to a cell that is overwritten by an initialisation. */
static void drop_buffered(struct thread *self, unsigned cell)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < self->buffer_count; i++) {
        struct buffered *entry = &self->buffer[(self->buffer_first + i) % BUFFER_MAX];
        if (entry->cell != cell) {
            self->buffer[(self->buffer_first + kept++) % BUFFER_MAX] = *entry;
        }
    }
    self->buffer_count = kept;
}

void initialise_cell(unsigned thread, void *address, unsigned size, uint64_t value)
{
    struct thread *self = &engine.threads[thread];
    heap_check_access(address, "a new cell");
    struct cell *cell = find_cell(address, size, "a new cell");
    if (is_used_elsewhere(cell, thread)) {
        model_fail("race: %s is initialised while another thread uses it", cell->text);
    }
    drop_buffered(self, index_of(cell));
    put_value(cell, value, &self->now, NULL, thread);
    cell->init_thread = (uint8_t)thread;
    cell->init_clock = self->now.clock[thread];
    cell->last_access[thread] = cell->init_clock;
}

/* ---- reading and writing ------------------------------------------------------------------- */

/* sc and tso do not depend on orders: there, everything synchronises. */
static unsigned effective(unsigned order)
{
    return engine.memory == MODEL_VIEW ? order : (order | MODEL_ACQ_REL);
}

uint64_t take_value(unsigned thread, const struct cell *cell, unsigned index, unsigned order)
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

unsigned oldest_readable(unsigned thread, const struct cell *cell, unsigned order)
{
    unsigned at = index_of(cell);
    unsigned oldest = engine.threads[thread].now.seen[at];
    if (order == MODEL_SEQ_CST && sc_view.seen[at] > oldest) {
        oldest = sc_view.seen[at];
    }
    return oldest;
}

void put_value(struct cell *cell, uint64_t value, const struct view *view, const struct store *read,
               unsigned thread)
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

const struct view *message_of(unsigned thread, unsigned order)
{
    const struct thread *self = &engine.threads[thread];
    return effective(order) & MODEL_RELEASE ? &self->now : &self->release;
}

uint64_t truncate_word(uint64_t value, unsigned size)
{
    return size == sizeof(uint64_t) ? value : value & ((UINT64_C(1) << (8 * size)) - 1);
}

uint64_t combine(enum model_kind kind, uint64_t old, uint64_t operand, unsigned size)
{
    switch (kind) {
    case MODEL_ADD:
        return truncate_word(old + operand, size);
    case MODEL_SUB:
        return truncate_word(old - operand, size);
    case MODEL_OR:
        return old | operand;
    case MODEL_AND:
        return old & operand;
    default:
        return operand;
    }
}

/* ---- plain locations ----------------------------------------------------------------------- */

static struct plain *find_plain(const volatile char *address, unsigned size)
{
    unsigned slot = slot_of(address);
    for (; plain_table[slot] != 0; slot = (slot + 1) % TABLE_SIZE) {
        if (plains[plain_table[slot] - 1].address == address) {
            struct plain *found = &plains[plain_table[slot] - 1];
            found->size = found->size > size ? found->size : (uint8_t)size;
            return found;
        }
    }
    if (plain_count == PLAINS_MAX) {
        model_fail("too many plain locations for the model");
    }
    struct plain *plain = &plains[plain_count++];
    plain_table[slot] = (uint8_t)plain_count;
    *plain = (struct plain){.address = address, .writer = NO_THREAD, .size = (uint8_t)size};
    return plain;
}

/* Checks every location that shares a byte with the access, whatever its name or width. */
static void check_overlaps(const struct model_place *place, bool is_write,
                           const volatile char *address, unsigned size)
{
    unsigned thread = (unsigned)engine.current;
    for (unsigned i = 0; i < plain_count; i++) {
        if (do_overlap(address, size, plains[i].address, plains[i].size) &&
            is_plain_used_elsewhere(&plains[i], thread, is_write)) {
            model_fail("race: %s:%d: %s is %s while another thread uses it", place->file,
                       place->line, place->text, is_write ? "written" : "read");
        }
    }
    for (unsigned i = 0; i < cell_count; i++) {
        if (!do_overlap(address, size, cells[i].address, cells[i].size)) {
            continue;
        }
        cells[i].is_mixed = true;
        if (is_used_elsewhere(&cells[i], thread)) {
            model_fail("race: %s:%d: %s is plain here and atomic in another thread", place->file,
                       place->line, place->text);
        }
    }
}

static void trace_plain(const struct model_place *place, bool is_write, const volatile void *value,
                        unsigned size)
{
    char text[24] = "...";
    if (size <= sizeof(uint64_t)) {
        uint64_t word = read_memory((const void *)(uintptr_t)value, size);
        (void)snprintf(text, sizeof(text), "%#" PRIx64, word);
    }
    trace_step("%s %s %s %s  (plain)   [%s:%d %s]", is_write ? "writes  " : "reads   ",
               place->text[0] == '&' ? place->text + 1 : place->text, is_write ? "=" : "->", text,
               place->file, place->line, place->function);
}

void model_plain(const struct model_place *place, bool is_write, const volatile void *address,
                 const volatile void *value, unsigned size)
{
    if (engine_is_alone()) {
        return;
    }
    heap_check_access((const void *)(uintptr_t)address, place->text);
    unsigned thread = (unsigned)engine.current;
    const struct view *now = &engine.threads[thread].now;
    check_overlaps(place, is_write, address, size);
    struct plain *plain = find_plain(address, size);
    if (engine.is_tracing) {
        trace_plain(place, is_write, value, size);
    }
    if (is_write) {
        plain->writer = (uint8_t)thread;
        plain->write_clock = now->clock[thread];
    } else {
        plain->read_clock[thread] = now->clock[thread];
    }
}
