/* SPDX-License-Identifier: MIT */
/*
 * model/heap.c - allocation inside a run: the same addresses in every run; freed blocks are never
 * reused, so that any access to one is a use after free and any block left over is a leak.
 */
#include <string.h>

#include "model/engine.h"

enum { ARENA_SIZE = 64 * 1024, GRAIN = 64, GARBAGE = 0xa5 };

struct block {
    size_t start;
    size_t size;
    bool is_freed;
    bool is_zeroed;
    int thread; /* the thread that allocated it; -1: setup() */
    uint16_t clock;
};

static char arena[ARENA_SIZE] __attribute__((aligned(GRAIN)));
static bool is_stored[ARENA_SIZE]; /* per byte: something was stored since the allocation */
static struct block blocks[BLOCKS_MAX];
static unsigned block_count;
static size_t used;

void heap_reset(void)
{
    block_count = 0;
    used = 0;
}

static struct block *block_of(const void *address)
{
    if ((const char *)address < arena || (const char *)address >= arena + ARENA_SIZE) {
        return NULL;
    }
    size_t offset = (size_t)((const char *)address - arena);
    for (unsigned i = 0; i < block_count; i++) {
        if (offset >= blocks[i].start && offset < blocks[i].start + blocks[i].size) {
            return &blocks[i];
        }
    }
    model_fail("access outside of every block of the heap");
}

void heap_check_access(const void *address, const char *what)
{
    const struct block *block = block_of(address);
    if (block != NULL && block->is_freed) {
        model_fail("use after free: %s", what);
    }
}

bool heap_is_garbage(const void *address, size_t size)
{
    const struct block *block = block_of(address);
    if (block == NULL || block->is_zeroed) {
        return false;
    }
    size_t offset = (size_t)((const char *)address - arena);
    for (size_t i = 0; i < size; i++) {
        if (!is_stored[offset + i]) {
            return true;
        }
    }
    return false;
}

void heap_mark_stored(const void *address, size_t size)
{
    if (block_of(address) != NULL) {
        memset(is_stored + ((const char *)address - arena), true, size);
    }
}

bool heap_zeroed_by(const void *address, uint8_t *thread, uint16_t *clock)
{
    const struct block *block = block_of(address);
    if (block == NULL || !block->is_zeroed || block->thread < 0) {
        return false;
    }
    *thread = (uint8_t)block->thread;
    *clock = block->clock;
    return true;
}

void heap_check_leaks(void)
{
    for (unsigned i = 0; i < block_count; i++) {
        if (!blocks[i].is_freed) {
            model_fail("leak: block %u of %zu bytes", i, blocks[i].size);
        }
    }
}

void *wf_alloc_aligned(size_t alignment, size_t size)
{
    size_t padded = (size + GRAIN - 1) / GRAIN * GRAIN;
    if (alignment > GRAIN || used + padded > ARENA_SIZE || block_count == BLOCKS_MAX) {
        model_fail("the model's heap is too small for this test");
    }
    char *memory = arena + used;
    uint16_t clock = 0;
    if (engine.current >= 0) {
        clock = engine.threads[engine.current].now.clock[engine.current];
    }
    blocks[block_count++] =
        (struct block){.start = used, .size = size, .thread = engine.current, .clock = clock};
    memset(is_stored + used, false, size);
    used += padded;
    memset(memory, GARBAGE, size);
    return memory;
}

void *wf_alloc(size_t size)
{
    return wf_alloc_aligned(GRAIN, size);
}

void *wf_alloc_zeroed(size_t count, size_t size)
{
    void *memory = wf_alloc(count * size);
    memset(memory, 0, count * size);
    blocks[block_count - 1].is_zeroed = true;
    return memory;
}

void wf_free(void *memory)
{
    if (memory == NULL) {
        return;
    }
    struct block *block = block_of(memory);
    if (block == NULL || memory != arena + block->start) {
        model_fail("free of memory that was not allocated");
    }
    if (block->is_freed) {
        model_fail("double free");
    }
    block->is_freed = true;
    if (engine.current >= 0) {
        memory_forget(memory, block->size, (unsigned)engine.current);
    }
}
