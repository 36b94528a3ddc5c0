/* SPDX-License-Identifier: MIT */
/*
 * model/access.c - the functions that the code under test calls: each access becomes a published
 * step, or happens at once while setup() and check() run without threads.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "model/memory.h"
#include "os/os.h"

bool engine_is_alone(void)
{
    return !engine.is_concurrent || engine.current < 0;
}

unsigned model_thread(void)
{
    return (unsigned)engine.current;
}

/* A store under tso enters the thread's buffer: no other thread can see it, so it is no step. */
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
    trace_step("store    %s = %#" PRIx64 " enters its buffer   [%s:%d %s]", cell->text, value,
               site->file, site->line, site->function);
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
        heap_mark_stored(address, size);
    }
    return old;
}

uint64_t model_access(struct model_site *site, void *address, unsigned size, uint64_t operand)
{
    if (engine_is_alone()) {
        return access_alone(site, address, size, operand);
    }
    site->is_reached = 1;
    if (site->order_now == MODEL_DROPPED) {
        return 0;
    }
    if (is_buffered(site)) {
        enter_buffer(site, address, size, truncate_word(operand, size));
        return 0;
    }
    struct step step = {.site = site,
                        .address = address,
                        .operand = size == 0 ? 0 : truncate_word(operand, size),
                        .kind = site->kind,
                        .size = (uint8_t)size};
    fiber_publish(&step);
    return step.result;
}

bool model_cas(struct model_site *site, void *address, unsigned size, uint64_t *expected,
               uint64_t desired)
{
    if (engine_is_alone()) {
        uint64_t old = access_alone(site, address, size, read_memory(address, size));
        if (old != truncate_word(*expected, size)) {
            *expected = old;
            return false;
        }
        memcpy(address, &desired, size);
        return true;
    }
    site->is_reached = 1;
    struct step step = {.site = site,
                        .address = address,
                        .operand = truncate_word(desired, size),
                        .expected = truncate_word(*expected, size),
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
    heap_mark_stored(address, size);
    if (engine_is_alone()) {
        memcpy(address, &value, size);
        return;
    }
    initialise_cell((unsigned)engine.current, address, size, truncate_word(value, size));
}

int wf_futex_wait(wf_atomic_u32 *word, uint32_t expected, int64_t deadline_ns)
{
    struct step step = {.address = &word->value,
                        .expected = expected,
                        .kind = MODEL_FUTEX_WAIT,
                        .size = sizeof(word->value),
                        .deadline_ns = deadline_ns};
    if (engine_is_alone()) {
        model_fail("a wait outside of the threads");
    }
    fiber_publish(&step);
    return (int)(int64_t)step.result;
}

int wf_barrier_everywhere(void)
{
    if (engine_is_alone()) {
        return 0;
    }
    const unsigned self = (unsigned)engine.current;
    uint32_t left = ((1u << engine.thread_count) - 1) & ~(1u << self);
    struct step step = {.kind = MODEL_BARRIER, .operand = self};
    fiber_publish(&step);
    while (left != 0) { /* each of the other threads, one at a time, in any order */
        uint32_t others = left;
        for (unsigned skip = search_choose((unsigned)__builtin_popcount(left)); skip > 0; skip--) {
            others &= others - 1;
        }
        step = (struct step){.kind = MODEL_BARRIER, .operand = (uint64_t)__builtin_ctz(others)};
        left &= ~(1u << step.operand);
        fiber_publish(&step);
    }
    step = (struct step){.kind = MODEL_BARRIER, .operand = self};
    fiber_publish(&step);
    return 0;
}

int wf_futex_wake(wf_atomic_u32 *word, int count)
{
    struct step step = {
        .address = &word->value, .operand = (uint64_t)count, .kind = MODEL_FUTEX_WAKE};
    if (engine_is_alone()) {
        return 0;
    }
    fiber_publish(&step);
    return (int)step.result;
}
