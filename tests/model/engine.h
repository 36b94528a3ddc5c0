/* SPDX-License-Identifier: MIT */
/*
 * model/engine.h - the parts of the checker and their interfaces.
 *
 *   fiber.c   threads of the test as fibers: run one until it publishes its next step
 *   cell.c    cells, histories, views, races
 *   memory.c  what a step does under the three memory models, and what may happen next
 *   access.c  the functions that the code under test calls
 *   heap.c    allocation inside a run: use after free, leaks
 *   search.c  which step comes next: dfs, pct, random
 *   race.c    which other orders of a run's steps are worth a run of their own
 *   mutant.c  weakening the code one site at a time
 *   main.c    command line, traces, reports
 *
 * A run goes: reset everything, setup(), start the threads up to their first step, then repeat
 * { ask the search for an enabled action, perform it, let that thread run on to its next step },
 * until no thread is left; then check().  A run is determined by the choices alone.
 */
#ifndef MODEL_ENGINE_H
#define MODEL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

enum {
    CELLS_MAX = 96,    /* atomic cells of one run */
    HISTORY_MAX = 48,  /* stores to one cell in one run */
    STORES_MAX = 1024, /* stores of one run */
    PLAINS_MAX = 128,  /* plain locations of one run */
    BUFFER_MAX = 16,   /* stores waiting in one thread's buffer */
    BLOCKS_MAX = 64,   /* heap blocks of one run */
    STEPS_MAX = 2000,  /* steps of one run; more counts as a run without end */
    STACK_SIZE = 128 * 1024,
    NO_EVENT = UINT16_MAX,
};

/* The knowledge of a thread or a message: the newest store it has seen of each cell, and (for
 * races) how far each thread's past is known. */
struct view {
    uint8_t seen[CELLS_MAX];
    uint16_t clock[MODEL_THREADS_MAX];
};

/* One published step: lives on the publishing thread's stack until it is performed. */
struct step {
    struct model_site *site;
    void *address;
    uint64_t operand;
    uint64_t expected; /* of a CAS or a futex wait; afterwards the value that was found */
    uint64_t result;
    int64_t deadline_ns;
    uint8_t kind;
    uint8_t size;
    bool is_done; /* of a CAS: replaced */
};

struct buffered {
    uint64_t value;
    struct view view;
    uint16_t issued_after; /* the storing thread's last event */
    uint8_t cell;
};

enum thread_state { THREAD_READY, THREAD_ASLEEP, THREAD_DONE };

/* A point to jump back to, on any stack.  The compiler's own form saves three words where libc's
 * saves, mangles and checks all registers: a third of a run's time. */
#if defined(__x86_64__)
typedef void *jump_point[5];
#define JUMP_HERE(point) __builtin_setjmp(point)
#define JUMP_TO(point) __builtin_longjmp((point), 1)
#else
#include <setjmp.h>
typedef jmp_buf jump_point;
#define JUMP_HERE(point) _setjmp(point)
#define JUMP_TO(point) _longjmp((point), 1)
#endif

struct thread {
    jump_point home;    /* at the start of its loop */
    jump_point context; /* where it published its step */
    enum thread_state state;
    struct step *step;
    struct view now;     /* lower bound of what its next access may read */
    struct view acquire; /* what a fence would add: messages read without acquire */
    struct view release; /* what relaxed stores carry: the view at the last fence */
    struct buffered buffer[BUFFER_MAX];
    unsigned buffer_first;
    unsigned buffer_count;
    unsigned own_writes;
    unsigned spin_seen;         /* others' writes at the last spin hint */
    bool has_loaded[CELLS_MAX]; /* since then */
    unsigned spurious_left;
    uint16_t last_event; /* its newest event of this run */
    uint16_t woken_by;   /* the event that ended its last sleep */
};

/* An action of the scheduler: RUN + t, DRAIN + t, TIMEOUT + t, SPURIOUS + t; each is a bit in a
 * set. */
enum {
    ACTION_RUN = 0,
    ACTION_DRAIN = MODEL_THREADS_MAX,
    ACTION_TIMEOUT = 2 * MODEL_THREADS_MAX,
    ACTION_SPURIOUS = 3 * MODEL_THREADS_MAX,
    ACTIONS_MAX = 4 * MODEL_THREADS_MAX,
    ACTION_NONE = 255,
};

/* What an action touches: this alone decides whether two actions commute. */
struct effect {
    const void *address;
    /* an event of another process that it follows: a wake-up, a store's issue */
    uint16_t after_event;
    uint8_t thread;
    bool is_drain;
    bool is_flushed; /* needs an empty buffer */
    bool is_write;
    bool is_futex;
    bool is_ordered; /* takes part in the single SC order */
    bool is_everywhere;
    bool is_spin;
};

enum run_end { RUN_OK, RUN_FAILED, RUN_BLOCKED /* only sleeping actions left: seen before */ };

struct engine {
    const struct model_test *test;
    enum model_memory memory;
    struct thread threads[MODEL_THREADS_MAX];
    unsigned thread_count;
    int current; /* the running thread; -1: setup or check */
    bool is_concurrent;
    bool is_tracing;
    bool is_failed;
    char failure[512];
    unsigned steps;
    unsigned writes;
};

extern struct engine engine;

/* fiber.c */
void fiber_prepare(void);              /* once per process */
void fiber_start(unsigned thread);     /* runs it from its beginning to its first step or its end */
void fiber_resume(unsigned thread);    /* runs it on to its next step or its end */
void fiber_publish(struct step *step); /* [fiber]  waits until the step was performed */
_Noreturn void fiber_abandon(void);    /* back to the scheduler, from anywhere in a run */
bool fiber_guard(void (*fn)(void));    /* runs setup or check; false: it failed */

/* access.c */
bool engine_is_alone(void); /* setup() or check() is running, no thread */

/* cell.c, memory.c */
void memory_reset(void);
uint32_t memory_enabled(void);
void memory_perform(unsigned action);
unsigned memory_acting_thread(void); /* of the action under way */
/* Its site in the code; NULL: an action without a site (a buffer drains, a deadline passes). */
const struct model_site *memory_acting_site(void);
struct effect memory_effect(unsigned action);
bool memory_are_dependent(const struct effect *a, const struct effect *b);
const char *order_name(unsigned order);
const char *memory_cell_name(const void *address);
void memory_forget(const char *start, size_t size, unsigned thread);

/* heap.c */
void heap_reset(void);
void heap_check_access(const void *address, const char *what);
/* True for memory of a block to which nothing was stored; false outside of the heap. */
bool heap_is_garbage(const void *address, size_t size);
void heap_mark_stored(const void *address, size_t size);
/* The thread that zeroed the block, and when; false: no thread, or before the threads. */
bool heap_zeroed_by(const void *address, uint8_t *thread, uint16_t *clock);
void heap_check_leaks(void);

/* race.c: the events of the run under way, and which orders of them to try next */
void race_begin(void);
void race_add(unsigned action, unsigned node, bool is_new);
/* For each reversible race of a new event, requests an action that leads to the other order:
 * `want(node)` returns the set of actions to try at a path node, `enabled(node)` the possible
 * ones. */
void race_reverse(uint32_t *(*want)(unsigned node), uint32_t (*enabled)(unsigned node));

/* search.c */
struct search {
    enum { SEARCH_DFS, SEARCH_PCT, SEARCH_RANDOM } kind;
    bool is_bare;   /* dfs by sleep sets alone, to check the reduction by races */
    unsigned depth; /* of PCT */
    unsigned bound; /* preemptions plus 1; 0: none */
    uint64_t seed;
    uint64_t runs; /* of PCT and random; a limit for dfs, 0: none */
};

struct search_result {
    uint64_t executions; /* complete ones */
    uint64_t blocked;
    uint64_t steps;
    uint64_t failing_seed;
    bool is_exhausted;
    bool is_failed;
    double seconds;
};

void search_run(const struct model_test *test, enum model_memory memory,
                const struct search *search, struct search_result *out);
/* Repeats the failing run of the last search, with a trace. */
void search_replay(void);
unsigned search_choose(unsigned count);

/* mutant.c */
int mutant_run_all(const struct model_suite *suite, bool is_verbose, unsigned limit_s);

/* main.c */
void trace_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The search that a suite is executing. */
struct suite_place {
    const struct model_test *test;
    enum model_memory memory;
};
/* Runs every test except the slow ones in every memory model, until one does not end as expected;
 * `place` then names it. */
bool suite_holds(const struct model_suite *suite, struct suite_place *place);
const char *memory_name(enum model_memory memory);
const char *thread_name(unsigned thread);

#endif
