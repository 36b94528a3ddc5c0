/* SPDX-License-Identifier: MIT */
/*
 * model/memory.h - cells and their histories, shared by the three files that implement memory:
 *
 *   cell.c    cells, histories, views, plain locations, races
 *   memory.c  what each step does under each model, and which actions are possible next
 *   access.c  the functions that the code under test calls
 */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include "model/engine.h"

enum { NO_THREAD = 255 };

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
    uint8_t init_thread; /* NO_THREAD: before the threads */
    uint8_t size;
    uint8_t count;
    bool is_mixed; /* some thread accesses bytes of it plainly */
};

extern struct cell cells[CELLS_MAX];
extern unsigned cell_count;
extern struct view sc_view;

static inline unsigned index_of(const struct cell *cell)
{
    return (unsigned)(cell - cells);
}

struct store *store_at(const struct cell *cell, unsigned index);
struct cell *find_cell(void *address, unsigned size, const char *text);
/* [thread]  Registers an access to a cell; every access calls it first. */
struct cell *touch(unsigned thread, void *address, unsigned size, const char *text);
/* A store before the cell is shared: every earlier use must be ordered before it. */
void initialise_cell(unsigned thread, void *address, unsigned size, uint64_t value);
uint64_t read_memory(const void *address, unsigned size);
uint64_t truncate_word(uint64_t value, unsigned size);
void join(struct view *into, const struct view *from);

/* The oldest store of the cell that a load of this order may still return. */
unsigned oldest_readable(unsigned thread, const struct cell *cell, unsigned order);
uint64_t take_value(unsigned thread, const struct cell *cell, unsigned index, unsigned order);
/* The view that a store of this order carries. */
const struct view *message_of(unsigned thread, unsigned order);
/* Makes `value` the newest store.  `read`: the store that a read-modify-write read, whose message
 * it carries on (a release sequence); NULL for a plain store. */
void put_value(struct cell *cell, uint64_t value, const struct view *view, const struct store *read,
               unsigned thread);
uint64_t combine(enum model_kind kind, uint64_t old, uint64_t operand, unsigned size);

#endif
