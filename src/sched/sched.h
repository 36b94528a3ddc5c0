/* SPDX-License-Identifier: MIT */
/*
 * sched/sched.h - who runs where and when.
 *
 * Promises:      work that is queued while a worker sleeps wakes one, and no wake-up rests on a
 *                timeout.  A task runs on one thread at a time; what it did before it was suspended
 *                is seen by whoever resumes it, and what a waker did by the task.
 * Must not know: locks of users, I/O, processes.
 *
 *   worker    a seat: queues, slot, counters; one thread sits in it
 *   task      what is scheduled; its memory belongs to a pool and is only ever used for tasks, so
 *             that a wake that comes late wakes another task for no reason, and no more
 *   wait      every task that is suspended says in its wait record what it waits for
 *   place     to put a task that became ready where a worker will find it
 *   policy    who decides; `steal`: every worker for itself (steal.c); `reactor`: a control thread
 *             for all (reactor.c)
 *
 * Tags:  [owner] the thread in the worker's seat;  [any] any thread;  [task] inside a task, may
 *        suspend;  [loop] a worker outside of any task;  [the task] the task itself.
 *        Fields: [const] set before publication; [owner: write] [any: read]; [any: CAS]; [lock].
 *
 * Who synchronises with whom (the letters are the labels in the code):
 *
 *   edge  from                           to                            carries
 *   S1    idle.c notify: fence           sleep: fence                  one of both sees the other
 *   S2    idle.c end_search              the last one's fence          what was stolen before
 *   S3    idle.c arrive: fences, add     heed, pause: fence; arrivals  what came; one of both sees
 *   T1    state.c wake: CAS              park: CAS                     what the waker did before
 *   T2    state.c park: CAS              wake: CAS                     the suspended task
 *   T3    state.c complete, unref        the last unref, join          every use before the free
 *   T4    state.c join: add              complete: load, CAS           who waits
 *   T5    state.h init: store            state.c hold: CAS             that the old id is gone
 *   W1    fast.h put: store, exchange    take: exchange slot           the task in the slot
 *   D1    fast.h enter: store current    dump.c: load current          the memory of the task
 *   H1    reactor.c dispatch: store hand poll: exchange hand           the task handed over
 *   V1    trace.c start: store is_traced wf_trace_event: load          the ring of foreign threads
 *   Y1    worker.c run: store rounds     quiet.c: load rounds          what was done in the round
 *   Y2    task.c complete: store         runtime.c live: load          that it was spawned
 *   N1    pool.c enter: fence            shut: fence                   one of both sees the other
 *   N2    pool.c leave: sub              shut: load                    every use before the free
 *   M1    monitor.c grow: store seats    wf_seats: load                the new worker
 *   M2    fast.h alone: light fence      alone.c visit: barrier        one of both sees the other
 *   M3    monitor.c doze: fence          safepoint.c leave: fence      one of both sees the other
 *   M4    alone.c visit: add, fence      again: fence, load visits     one of both sees the other
 *   M5    alone.c visit, give_up: store  visit: load company           what the owner did alone
 *   B1    safepoint.c enter: fence       stop: fence                   one of both sees the other
 *   A1    timers.c set: fence            look: fence                   one of both sees the other
 *   A2    timers.c publish: fence        who watches: fence            one of both sees the other
 *   V2    driver.c attach: CAS, fence    of: load; who watches: fence  the driver
 */
#ifndef WF_SCHED_SCHED_H
#define WF_SCHED_SCHED_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/base.h"
#include "fiber/fiber.h"
#include "os/os.h"
#include "queue/queue.h"
#include "sched/blocking.h"
#include "sched/driver.h"
#include "sched/idle.h"
#include "sched/monitor.h"
#include "sched/state.h"
#include "sched/timers.h"
#include "trace/trace.h"

/* Hostile builds move every other task that becomes ready to another worker. */
#if defined(WF_HOSTILE) && !defined(WF_MODEL)
#define WF_MIGRATES() wf_jitter_coin()
#else
#define WF_MIGRATES() false
#endif

/* ---- safepoints ---------------------------------------------------------------------------- */

/* Whether a worker stands still; see safepoint.c. */
struct wf_safe {
    WF_ATOMIC(uint32_t) is_safe; /* [owner: write] [any: read] */
    struct wf_parker parker;     /* where it waits for the world to go on */
};

/* The world of one runtime. */
struct wf_world {
    WF_ATOMIC(uint32_t) is_stopped; /* [stopper: write] [any: read]  asked to stand still */
    struct wf_parker stopper;       /* where the one who asked waits for the others */
};

/* [owner]  From now on it counts as standing still: it touches no task. */
void wf_safe_enter(struct wf_world *world, struct wf_safe *safe);
/* [owner]  Goes on, as soon as the world may. */
void wf_safe_leave(struct wf_world *world, struct wf_safe *safe);
/* [stopper]  Asks everybody to stand still; waits until all of them do, but for `self`. */
void wf_world_stop(struct wf_world *world);
void wf_world_wait(struct wf_world *world, struct wf_safe *const *workers, unsigned count);
/* [stopper]  Lets them go on. */
void wf_world_start(struct wf_world *world, struct wf_safe *const *workers, unsigned count);

/* ---- tasks --------------------------------------------------------------------------------- */

struct wf_worker;
struct wf_parting;
struct wf_task_pool;
struct wf_joiner;
struct wf_scope;
struct wf_failure;

/* What few tasks have.  Allocated when first needed; it then stays with the memory of the task. */
struct wf_task_extra {
    WF_ATOMIC(uint64_t) name[WEFT_NAME_SIZE / sizeof(uint64_t)]; /* [spawner: write] [any: read] */
    void *arg_copy;                                              /* [owner]  NULL: none */
    void **locals;                                               /* [the task]  NULL: none yet */
    char *message;                                               /* of weft_fail; NULL: none */
    struct weft_forks *board;             /* [the task]  memory for its forks; NULL: none yet */
    WF_ATOMIC(struct weft_forks *) forks; /* [the task: write] [any: read]  the same; or NULL */
};

/* Something that is the task's until it lets go of it: a lock, in which this lies as its first
 * member.  A task that ends lets go of all. */
struct wf_held {
    struct wf_held *next; /* [the task]  what it held before */
    /* [the task, closer]  The task ends: it is not in the list any more. */
    void (*release)(struct wf_held *held, struct weft_task *task);
};

struct weft_task {
    /* Touched by every switch: one line of the cache. */
    struct wf_node node;         /* in at most one queue */
    struct wf_state state;       /* [any] */
    struct wf_fiber *fiber;      /* [owner]  NULL: has not run yet, or has ended */
    struct wf_task_pool *pool;   /* [const]  as long as the memory lives */
    uint8_t budget;              /* [the task]  operations until it has to yield */
    bool is_timed;               /* [the task]  its alarm is set for a wait */
    WF_ATOMIC(uint16_t) pins;    /* [the task: write] [any: read]  see weft_pin */
    WF_ATOMIC(uint8_t) wait;     /* [the task: write] [any: read]  enum weft_wait */
    bool is_plain;               /* [the task]  no options, scopes, cleanups, ...: see dress */
    bool is_special;             /* [the task]  pinned, or of another priority */
    uint8_t body;                /* [const]  enum wf_body */
    WF_ATOMIC(uint64_t) runs;    /* [owner: write] [any: read] */
    WF_ATOMIC(int64_t) deadline; /* [the task: write] [any: read] */

    /* By the beginning and the end. */
    WF_ATOMIC(weft_fn) fn; /* [spawner: write] [any: read] */
    union {
        void *arg;                    /* [const] */
        struct weft_task *next_batch; /* [lock of pool.c]  of a free one: see there */
    };
    union {
        intptr_t result;      /* [the task]  when it is complete */
        struct wf_held *held; /* [the task]  until then: what it holds, newest first; or NULL */
        unsigned batch_count; /* [lock of pool.c]  as next_batch */
    };

    WF_ATOMIC(uint64_t) id;         /* [spawner: write] [any: read]  0: this memory is free */
    WF_ATOMIC(uint64_t) parent_id;  /* [spawner: write] [any: read] */
    WF_ATOMIC(uintptr_t) site;      /* [spawner: write] [any: read] */
    WF_ATOMIC(int64_t) created;     /* [spawner: write] [any: read] */
    WF_ATOMIC(uint8_t) priority;    /* [spawner: write] [any: read]  enum weft_priority */
    WF_ATOMIC(uint8_t) marks;       /* [the task, joiner: or] [any: read]  enum wf_task_mark */
    uint16_t home;                  /* [the task]  the worker it is pinned to */
    WF_ATOMIC(uint32_t) stack_size; /* [spawner: write] [any: read]  KiB; 0: the default */

    /* Only by those that wait, or are not plain: two lines are all that most tasks touch. */
    WF_ATOMIC(uintptr_t) wait_object; /* [the task: write] [any: read] */
    WF_ATOMIC(int64_t) wait_since;    /* [the task: write] [any: read] */
    WF_ATOMIC(uint64_t) wait_task_id; /* [the task: write] [any: read]  if it is one task */

    struct wf_parting *partings;  /* [the task]  who else knows of its waits; NULL: nobody */
    struct wf_joiner *joiners;    /* [lock of join.c]  those who wait, by wf_state_share */
    struct wf_scope *scope;       /* [const]  it belongs to; NULL: none */
    struct wf_scope *open_scopes; /* [the task]  innermost first */
    WF_ATOMIC(struct wf_task_extra *) extra; /* [spawner, the task: write] [any: read]  or NULL */

    union {
        struct {                       /* of a green thread */
            struct wf_alarm alarm;     /* [the task]  ends its wait */
            struct wf_list scope_link; /* [lock of the scope] */
            weft_cleanup *cleanups;    /* [the task]  newest first */
        };
        unsigned char state_bytes[WEFT_POLL_STATE_INLINE]; /* [the task]  of a poll task */
    };
};

/* What a task is.  All but plain green threads are begun by the loop only. */
enum wf_body {
    WF_BODY_GREEN,    /* a function on a stack of its own */
    WF_BODY_GREEN_FP, /* with control words of floating point of its own */
    WF_BODY_POLL,     /* a function that is called again and again, on the worker's own stack */
};

#ifndef WF_MODEL
_Static_assert(offsetof(struct weft_task, fn) == WF_CACHE_LINE, "a switch needs one line of it");
_Static_assert(sizeof(struct weft_task) % WF_CACHE_LINE == 0, "the line is its own");
_Static_assert(offsetof(struct weft_task, wait_object) == 2 * WF_CACHE_LINE, "a short life two");
_Static_assert(WF_TASK_BUDGET <= UINT8_MAX, "the budget is a byte");
#endif

/* Marks of a task that are set once. */
enum wf_task_mark {
    WF_MARK_OBSERVED = 1,  /* somebody saw the result */
    WF_MARK_DETACHED = 2,  /* there never was a handle */
    WF_MARK_CANCELLED = 4, /* ended because it was asked to */
    WF_MARK_FAILED = 8,    /* ended by weft_fail */
};

/* The memory of the tasks of a runtime.  Outlives it while handles are out. */
struct wf_task_slab;
struct wf_task_pool {
    struct wf_lock lock;
    struct weft_task *batches;  /* [lock]  free tasks: lists by `node`, listed by `next_batch` */
    struct wf_node *free;       /* [lock]  those that came one by one, by `node` */
    struct wf_task_slab *slabs; /* [lock]  newest first */
    size_t count;               /* [lock]  tasks in all slabs */
    size_t free_count;          /* [lock] */
    bool is_closed;             /* [lock]  the runtime is gone: the last task back frees the pool */
    struct wf_failure *failures; /* [lock]  that nobody saw, newest first; none once it is closed */
    size_t failures_lost;        /* [lock]  more of them, for which there was no memory */
    bool is_telling;             /* [lock]  somebody calls the hook for them */

    /* Threads that are no worker of the runtime and are about to wake or to queue a task of it. */
    WF_ATOMIC(uint32_t) strangers; /* [any: add] */
    WF_ATOMIC(uint32_t) is_shut;   /* [closer: write] [any: read]  no more of them */
    weft_runtime *runtime;         /* [const]  until then */
};

/* A worker's own free tasks: those at hand, and a whole batch or none in reserve. */
struct wf_task_cache {
    struct wf_node *first;
    unsigned count;
    struct wf_node *reserve; /* WF_TASK_BATCH of them, or NULL */
};

int wf_task_pool_new(struct wf_task_pool **out, weft_runtime *runtime);
/* [any]  No task is alive; frees the pool, now or when the last handle is dropped. */
void wf_task_pool_close(struct wf_task_pool *pool);
/* [owner of cache; NULL: any]  Memory for a task, with a pool and perhaps an extra.  NULL: none. */
struct weft_task *wf_task_get(struct wf_task_pool *pool, struct wf_task_cache *cache);
void wf_task_put(struct wf_task_pool *pool, struct wf_task_cache *cache, struct weft_task *task);
/* [owner] */
void wf_task_cache_done(struct wf_task_pool *pool, struct wf_task_cache *cache);
/* [any]  Calls `visit` for every task that is alive, under the pool's lock: it must not wait or
 * take or give tasks. */
void wf_task_pool_visit(struct wf_task_pool *pool, void (*visit)(struct weft_task *, void *),
                        void *context);
/* task.c  [any, before the pool is closed]  A reference to the task with this id, which was seen in
 * this memory.  False: it has ended; nothing was done. */
bool wf_task_hold(struct weft_task *task, uint64_t id);

/* [any]  Whoever is no worker of the runtime keeps it from being freed until it leaves again.
 * False: it is too late, nothing of it may be touched. */
bool wf_pool_enter(struct wf_task_pool *pool);
void wf_pool_leave(struct wf_task_pool *pool);
/* [closer]  Lets nobody in any more, and waits until the last has left. */
void wf_pool_shut(struct wf_task_pool *pool);

/* The extra of a task, allocated if need be; NULL: out of memory. */
struct wf_task_extra *wf_task_extra(struct weft_task *task);

/* ---- workers ------------------------------------------------------------------------------- */

/* What a worker counts; each cell has one writer, its owner. */
struct wf_counters {
    WF_ATOMIC(uint64_t) spawned;
    WF_ATOMIC(uint64_t) completed;
    WF_ATOMIC(uint64_t) failed;
    WF_ATOMIC(uint64_t) cancelled;
    WF_ATOMIC(uint64_t) polled;
    WF_ATOMIC(uint64_t) yielded;
    WF_ATOMIC(uint64_t) steals_tried;
    WF_ATOMIC(uint64_t) slots_stolen;
    WF_ATOMIC(uint64_t) parked;
    WF_ATOMIC(uint64_t) woken;
    WF_ATOMIC(uint64_t) lifo_hits;
    WF_ATOMIC(uint64_t) global_fetches;
    WF_ATOMIC(uint64_t) forks_taken;      /* forks of others that it made tasks of */
    WF_ATOMIC(uint64_t) waits_for_task;   /* begun waits for tasks, or locks that tasks may have */
    WF_ATOMIC(uint64_t) waits_ended;      /* of them, those that ended */
    WF_ATOMIC(uint64_t) waits_in_sync;    /* begun waits in other objects of users */
    WF_ATOMIC(uint64_t) sync_waits_ended; /* of them, those that ended */
};

/* Threads that start together: all or none. */
struct wf_start {
    WF_ATOMIC(uint32_t) reports; /* [any: add]  threads that said how it went */
    WF_ATOMIC(int32_t) error;    /* [any: write]  of one that could not */
    wf_atomic_u32 verdict;       /* [opener: write]  0: wait; else see runtime.c */
    struct wf_parker opener;
};

struct wf_worker {
    /* Touched by the owner at every switch. */
    weft_runtime *runtime;                 /* [const] */
    struct wf_task_pool *pool;             /* [const]  of the runtime */
    WF_ATOMIC(struct weft_task *) current; /* [owner: write] [any: read]  NULL: in the loop */
    struct weft_forks *forks;              /* [owner]  of the current task: see fork.h */
    uint32_t index;                        /* [const] */
    uint32_t polls_left;                   /* [owner]  until it looks at the global queue */
    uint32_t lifo_runs;                    /* [owner]  tasks out of the slot in a row */
    bool is_fast;                          /* [const]  tasks may switch to tasks: fair stealing */
    bool is_lone;                          /* [const]  the only worker, but for spares */
    wf_atomic_u32 company;   /* [owner, visitor: write]  enum wf_company: see alone.h */
    wf_atomic_u32 is_inside; /* [owner: write] [visitor: read]  uses its queues as if it were */
    bool is_searching;       /* [owner] */
    bool has_given_up;       /* [owner]  its sleep, for something that it saw: see stop_search */
    struct wf_fiber loop;    /* [owner]  the thread's own stack */
    bool is_rested;          /* [owner]  it slept, and called no watcher since */
    bool is_watching;        /* [owner]  it is the watcher: see steal.c */
    bool is_looking;         /* [owner]  at the driver in passing: what that wakes stands behind */
    bool has_seen_closing;   /* [owner] */
    int64_t watch_until_ns;  /* [owner]  how long it sleeps, if it is the watcher */
    bool is_owing;      /* [owner]  the driver may have something to do for it: wf_driver_flush */
    int64_t flushed_ns; /* [owner]  when it last did so although it had tasks */
    struct wf_driver *watch_driver; /* [owner]  in whose berth; NULL: there is none */
    uint64_t round;                 /* [owner]  the same as `rounds`, but for its lowest bit */
    struct weft_task *handed;       /* [owner]  to be run next by the loop; NULL: none */
    int64_t now_ns;                 /* [owner]  the clock, as of the last look */
    uint64_t id_next;               /* [owner]  ids of tasks: a block of its own */
    uint64_t id_end;                /* [owner] */
    struct wf_task_cache tasks;     /* [owner] */
    struct wf_trace_ring *trace;    /* [owner]  changed while the world stands still; NULL: off */

    uint32_t clock_turns;    /* [owner]  polls from one look at the clock to the next */
    uint32_t interval;       /* [owner]  polls between looks at the global queue */
    uint32_t global_turns;   /* [owner]  polls since the last */
    uint32_t turns;          /* [owner]  of the loop */
    bool is_after_global;    /* [owner]  the turn before began there */
    uint64_t settled_at;     /* [owner]  of its ring's pops: all that came from there had a turn */
    int64_t gave_way_ns;     /* [owner]  when its ring last gave way to them */
    int64_t global_ns;       /* [owner]  when the last was */
    int64_t task_ns;         /* [owner]  moving average of a turn */
    struct wf_random random; /* [owner] */

    /* [owner]  Of a guest: see steal.c. */
    bool is_guest;
    uint32_t shyness;     /* visits in a row that were not worth it */
    int64_t visit_ns;     /* since when */
    uint64_t visit_turns; /* `polled` at that time */
    uint64_t visit_own;   /* own_work at that time */
    uint64_t visit_other; /* turns of all others at that time */
    uint32_t arrivals;    /* that it knew of when it last looked beyond its own queues */

    struct wf_stack_cache stacks; /* [owner] */

    /* [owner: write] [any: read]  A stack whose fiber waits for a task to run; NULL: none. */
    WF_ATOMIC(struct wf_stack *) spare;

    struct wf_counters counters; /* [owner: write] [any: read] */

    /* [owner: write] [any: read]  Odd: inside of tasks; grows when it goes in and comes back. */
    WF_ATOMIC(uint64_t) rounds;

    /* [owner: put] [any: take]  the task made ready last. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(struct weft_task *) slot;

    /* One of the two is in use, by the runtime's order. */
    struct wf_ring ring;
    struct wf_deque deque;

    /* Tasks that only this worker may run. */
    alignas(WF_CACHE_LINE) struct wf_mpsc inbox;
    struct wf_chain pinned; /* [owner]  what came out of the inbox */

    struct wf_parker parker;
    struct wf_safe safe;

    wf_atomic_u32 visits; /* [visitor: add]  to its queues: see alone.c */
    uint32_t visits_seen; /* [owner]  at its last look */
    int64_t visited_ns;   /* [owner]  when it last saw that there were more */

    WF_ATOMIC(uint64_t) polled_at_watch; /* [watcher: write]  see steal.c */
    WF_ATOMIC(uint32_t) is_asked; /* [any: write]  the task has had its share: see weft_check */

    /* Reactor policy. */
    WF_ATOMIC(struct weft_task *) hand; /* [control: put] [owner: take] */
    struct wf_node report;              /* in the box of results, when it wants work */
    bool has_reported;                  /* [owner]  it is there */
    int64_t turn_began_ns;              /* [control]  when it was handed its task */

    struct wf_timers timers;

    struct wf_post post;
    struct wf_start *start;    /* [owner]  until it has started */
    struct wf_start own_start; /* of a spare */
    pthread_t thread;
    struct wf_signal_stack signal_stack; /* [owner] */
};

/* worker.c  Of the calling thread; see wf_task_here. */
extern _Thread_local struct wf_worker *wf_seat;

/* forked.c  [any]  This process was made by fork from one that had runtimes, whose threads are not
 * here. */
bool wf_is_forked(void);
/* forked.c  [any]  A runtime is about to be opened.  -EPERM: not here; -ENOMEM. */
int wf_forked_enter(void);
/* forked.c  [any]  The reverse. */
void wf_forked_leave(void);

/* [any]  The worker in whose seat the calling thread sits; NULL: a foreign thread. */
struct wf_worker *wf_worker_self(void);
/* [any]  The calling task; NULL outside. */
struct weft_task *wf_task_self(void);

/* runtime.c  [a new thread]  Says how it went; waits for the verdict.  0: go; else end. */
int wf_start_report(struct wf_start *start, int rc);

/* steal.c  [owner]  Into the worker's own queue, behind the others; calls a sleeper. */
void wf_steal_push(struct wf_worker *worker, struct weft_task *task);
/* [owner, fair]  The same of one that has had its turn: nobody loses a place to it. */
void wf_steal_push_back(struct wf_worker *worker, struct weft_task *task);
/* steal.c  [any]  Calls a sleeper for what was queued; the worker at hand, or NULL. */
void wf_steal_notify(weft_runtime *runtime, struct wf_worker *worker);

/* fetch.c  [owner]  One of the global queue, with a fair share of others for the worker's own;
 * NULL: there is none.  And one of a queue of another priority. */
struct weft_task *wf_fetch(struct wf_worker *worker);
struct weft_task *wf_fetch_one(struct wf_worker *worker, struct wf_inject *inject);
/* fetch.c  [owner]  About to be in the kernel for a while: what the next task needs to go on comes
 * into the cache meanwhile. */
void wf_fetch_next(struct wf_worker *worker);

/* steal.c  [owner]  Since it rested, it has something to be watched for the first time: a task in
 * its slot, or an alarm. */
void wf_steal_need_watcher(struct wf_worker *worker);
/* steal.c  [owner]  Whether the loop has to look although there is nothing in these. */
bool wf_steal_is_due(struct wf_worker *worker);
/* steal.c  [owner]  About to block: somebody else has to see to what it has queued. */
void wf_steal_leave_behind(struct wf_worker *worker);
/* steal.c  [monitor]  What a worker that is stuck has queued, oldest first; not all of it, if it is
 * much.  Its queues must be open to others. */
void wf_steal_take_over(struct wf_worker *worker, struct wf_chain *chain);
/* steal.c  [monitor]  To the global queue, where those who work look too. */
void wf_steal_hand_on(weft_runtime *runtime, struct wf_chain *chain);
/* steal.c  Polls between two looks at the global queue, if one takes so long. */
uint32_t wf_steal_interval(int64_t task_ns);

/* guest.c  [owner]  A worker that ran out of tasks has found some of others. */
void wf_guest_begin(struct wf_worker *worker, int64_t now);
/* guest.c  [owner]  A guest has run out of tasks: was it worth it? */
void wf_guest_judge(struct wf_worker *worker);
/* guest.c  [owner]  0: it takes what it finds; more: a few, and later on it looks away. */
void wf_guest_be_shy(struct wf_worker *worker, uint32_t shyness);

/* trace.c  [any]  Records an event; `worker` is the caller's, NULL: a foreign thread. */
void wf_trace_foreign(weft_runtime *runtime, enum wf_trace_event event, uint64_t id, uint64_t arg);
static inline void wf_trace_event(weft_runtime *runtime, struct wf_worker *worker,
                                  enum wf_trace_event event, uint64_t id, uint64_t arg);
/* trace.c  [closer] */
void wf_runtime_trace_done(weft_runtime *runtime);

/* worker.c  [owner]  Gives the task a fiber.  -ENOMEM: no stack. */
int wf_task_begin(struct wf_worker *worker, struct weft_task *task);
/* worker.c  [owner]  Does what the one before left to be done: the message of the switch. */
void wf_arrive(struct wf_worker *worker, void *message);
/* worker.c  [the task]  Ends it from any depth. */
_Noreturn void wf_task_exit(struct weft_task *self, intptr_t result);
/* worker.c  A thread's life in the seat. */
void *wf_worker_main(void *arg);

/* [task]  Suspends the task until somebody wakes it; may return without a reason.  The wait record
 * is filled. */
void wf_task_suspend(struct weft_task *self);
/* [task]  Lets others run. */
void wf_task_yield(struct weft_task *self);
/* [any]  Something happened that the task may wait for.  Never too late: see `task` above. */
void wf_task_wake(struct weft_task *task);
/* [any]  The same for who knows its worker; NULL: a foreign thread. */
void wf_task_wake_on(struct wf_worker *worker, struct weft_task *task);
/* [any]  Asks the task to end. */
void wf_task_cancel(struct weft_task *task);
/* [any, inside the pool]  Queues a new task. */
void wf_task_place(struct weft_task *task);
void wf_task_place_on(struct wf_worker *worker, struct weft_task *task);
/* [the task]  Counts one operation; yields when it has had its share. */
void wf_task_spend(struct weft_task *self);

/* [the task]  Fills the wait record.  The task is woken when its deadline comes, too. */
void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object);
/* [the task]  The same; it is also woken at this point in time. */
void wf_wait_begin_until(struct weft_task *self, enum weft_wait wait, const void *object,
                         int64_t until_ns);
void wf_wait_end(struct weft_task *self);

/* [any]  Whether nothing but a task of the same runtime can end such a wait: if all are in one, it
 * is a deadlock. */
bool wf_wait_is_for_task(uint32_t wait);
/* [any]  Whether what is waited for is a lock that a task, or a foreign thread, has. */
bool wf_wait_is_for_lock(uint32_t wait);
/* [any]  Whether it is in an object of the layer above: any task or thread of the process may end
 * it. */
bool wf_wait_is_in_sync(uint32_t wait);

/* [the task]  0, -ECANCELED or -ETIMEDOUT: whether it may go on waiting. */
int wf_task_interrupted(struct weft_task *self);

/* [the task]  When a wait until then has to end: its deadline may come first. */
int64_t wf_wait_end_of(struct weft_task *self, int64_t until_ns);

/* Somebody who waits: a task, or a foreign thread on its own stack. */
struct wf_waiter {
    struct weft_task *task; /* NULL: the thread */
    struct wf_parker parker;
};
void wf_waiter_init(struct wf_waiter *waiter, struct weft_task *self);
/* [the waiter]  Until woken; a task perhaps without a reason. */
void wf_waiter_wait(struct wf_waiter *waiter);
/* [any]  Under a lock that the waiter takes before it leaves. */
void wf_waiter_wake(struct wf_waiter *waiter);

/* ---- the life of a task -------------------------------------------------------------------- */

/* What a spawn was asked for. */
struct wf_spawn {
    weft_fn fn;
    void *arg;
    const weft_task_options *options; /* NULL: defaults */
    const void *site;
    struct wf_scope *scope; /* NULL: none */
    bool has_handle;
    bool is_poll;      /* `fn` is a weft_poll_fn, `arg` its state */
    size_t state_size; /* of it */
};

/* [any, holding the task] */
static inline uint64_t wf_task_id(const struct weft_task *task)
{
    return wf_load_relaxed(&task->id); /* relaxed: constant while there is a reference */
}

/* info.c  [any]  The name; "" for none. */
void wf_task_name(const struct weft_task *task, char name[WEFT_NAME_SIZE]);
/* info.c  [any]  Of any task that is or was there.  `runtime` is the task's; NULL: it may be gone.
 * `is_held`: the caller has a reference; else another task may begin in this memory any time. */
void wf_task_describe(const weft_runtime *runtime, const struct weft_task *task, bool is_held,
                      weft_info *out);

/* task.c  [any]  Makes a task and places it. */
int wf_task_spawn(weft_runtime *runtime, const struct wf_spawn *spawn, struct weft_task **out);
/* task.c  [any]  The same for whoever wants a handle perhaps. */
int wf_task_spawn_out(weft_runtime *runtime, struct weft_task **out, const struct wf_spawn *spawn);
/* task.c  [the task]  Everything that is due at the end; the task must not be touched after.  Gives
 * the worker on which it ended. */
struct wf_worker *wf_task_finish(struct weft_task *task, intptr_t result);
/* task.c  [any]  Makes the memory of a task with options, deadline or pins as that of one without.
 */
void wf_task_reset(struct weft_task *task);
/* task.c  [any]  Ends a task that cannot begin to run, or is suspended and is never resumed. */
void wf_task_abandon(struct weft_task *task, intptr_t result);
/* [any]  For checks: memory of a task that is gone is no handle, as long as no new one is in it. */
static inline bool wf_is_live_handle(const struct weft_task *task)
{
    return wf_load_relaxed(&task->id) != 0; /* relaxed: constant while there is a reference */
}

/* task.c  [any]  Gives a handle back. */
void wf_task_unref(struct weft_task *task);
/* task.c  [any]  The same for who knows its worker; NULL: a foreign thread. */
void wf_task_unref_on(struct wf_worker *worker, struct weft_task *task);

/* join.c  [weft_run]  Waits for the first task.  -EDEADLK: it was found that this has no end. */
int wf_join_main(weft_runtime *runtime, struct weft_task *task);
void wf_join_main_break(weft_runtime *runtime);
/* join.c  Of the lists of those who wait for a task, which is chosen by its address. */
extern struct wf_lock wf_join_locks[WF_JOIN_LOCKS];
/* join.c  [owner]  Wakes those who wait by way of wf_state_share. */
void wf_joiners_wake(struct weft_task *task);

/* held.c  [the task, closer]  The task ends: lets go of all that it holds, and notes it. */
void wf_held_release(struct weft_task *task);
/* fail.c  [any]  Remembers that a task ended and held this, as one of so many. */
void wf_failure_note_held(struct weft_task *task, const void *object, size_t count);

/* local.c  [the task]  Destroys its task-local values. */
void wf_locals_done(struct weft_task *task);

/* scope.c  [the task]  One of its tasks has ended. */
void wf_scope_leave(struct weft_task *task, intptr_t result);
/* scope.c  [any]  One of its tasks; NULL: none. */
const struct weft_task *wf_scope_first(struct wf_scope *scope);

/* fail.c  [the task]  Runs the cleanups that are left. */
void wf_cleanups_run(struct weft_task *task);
/* fail.c  [any]  The message of a task that has ended or is about to; its length without the end.
 */
size_t wf_message_copy(const struct weft_task *task, char *text, size_t text_size);
/* fail.c  [any]  Remembers a failure that nobody saw; the task is about to be freed. */
void wf_failure_note(struct wf_task_pool *pool, struct weft_task *task);
/* fail.c  [loop, monitor, closer]  Tells the hook of all that were noted, if nobody else does. */
void wf_failures_report(weft_runtime *runtime);
/* fail.c  [any]  Whether there are any. */
bool wf_failures_are_noted(struct wf_task_pool *pool);
/* fail.c  [any]  Of those that are not reported any more. */
void wf_failures_free(struct wf_failure *failures);

/* ---- runtimes ------------------------------------------------------------------------------ */

/* Who decides.  [const] */
struct wf_policy {
    /* [any]  Takes a task that is ready.  `worker` is the caller's, if it is of this runtime. */
    void (*place)(weft_runtime *runtime, struct wf_worker *worker, struct weft_task *task);
    /* [loop]  Takes one that let others run. */
    void (*requeue)(struct wf_worker *worker, struct weft_task *task);
    /* [loop]  The next task, without waiting; NULL: none. */
    struct weft_task *(*poll)(struct wf_worker *worker);
    /* [loop]  No task was found: waits until it is worth to look again. */
    void (*rest)(struct wf_worker *worker);
    /* [any]  Something is to happen before the time until which the watcher sleeps. */
    void (*hurry)(weft_runtime *runtime);
    /* [any, inside the pool]  There is news: if nobody is awake, somebody has to look. */
    void (*rouse)(weft_runtime *runtime);
};
extern const struct wf_policy wf_policy_steal;
extern const struct wf_policy wf_policy_reactor;

struct wf_reactor;
/* reactor.c  Starts the control thread.  -ENOMEM, -EAGAIN. */
int wf_reactor_new(weft_runtime *runtime);
/* reactor.c  The workers have left: ends the control thread.  NULL is allowed, and twice. */
void wf_reactor_stop(struct wf_reactor *reactor);
void wf_reactor_free(struct wf_reactor *reactor);
/* reactor.c  [any]  The caller is the control thread: a hook.  NULL is allowed. */
bool wf_reactor_is_self(const struct wf_reactor *reactor);
/* reactor.c  [any]  Workers that want work; tasks that want a worker.  Hints. */
unsigned wf_reactor_idle(const struct wf_reactor *reactor);
uint64_t wf_reactor_queued(const struct wf_reactor *reactor);

/* What there can be too little of. */
enum wf_room_kind {
    WF_ROOM_TASKS, /* tasks_max */
    WF_ROOM_QUEUE, /* global_capacity */
    WF_ROOM_KINDS,
};

/* Threads and tasks that wait for room, and those who give it. */
struct wf_room {
    struct wf_lock lock;
    struct wf_list waiters[WF_ROOM_KINDS];      /* [lock] */
    WF_ATOMIC(uint32_t) waiting[WF_ROOM_KINDS]; /* [lock: write] [any: read] */
    WF_ATOMIC(uint64_t) live; /* [any: add]  tasks alive; only if there is a limit */
};

/* When workers leave their loop. */
enum wf_leave {
    WF_LEAVE_NOT,
    WF_LEAVE_WHEN_DONE, /* as soon as there is nothing to run */
    WF_LEAVE_NOW,       /* between two tasks */
};

struct weft_runtime {
    struct wf_start start;
    weft_options options; /* [const]  without zeros */
    const struct wf_policy *policy;
    unsigned worker_count;     /* [const]  that are to run tasks at once: options.workers */
    unsigned seats_max;        /* [const]  with all spares that there may be */
    wf_atomic_u32 seats;       /* [monitor: write] [any: read]  workers that exist */
    wf_atomic_u32 in_play;     /* [monitor.lock: write] [any: read]  of them, not on the bench */
    struct wf_worker *workers; /* [const] */
    struct wf_safe **safes;    /* [const]  of all workers */
    struct wf_task_pool *pool; /* [const] */
    struct wf_stack_pool stacks;
    struct wf_reactor *reactor; /* [const]  NULL in the steal policy */
    struct wf_blocking blocking;
    struct wf_monitor monitor;

    struct wf_inject global; /* normal tasks: from outside, or too many for a ring */
    struct wf_inject high;
    struct wf_inject low;
    struct wf_idle idle;
    struct wf_world world;

    /* [closer: write] [any: read] */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint32_t) is_closing; /* no more spawns */
    WF_ATOMIC(uint32_t) is_leaving;                        /* enum wf_leave */

    WF_ATOMIC(uint32_t) is_watched; /* [any: exchange]  somebody is the watcher: steal.c */
    struct wf_hours hours;
    WF_ATOMIC(struct wf_driver *) driver; /* [any: CAS]  NULL: none yet */

    struct wf_lock gate;        /* spawns from outside against close */
    struct wf_counters foreign; /* [gate: write] [any: read]  what foreign threads did */
    struct wf_room room;

    struct wf_lock world_lock;
    struct wf_list world_waiters; /* [world_lock]  those who want to stop it next */
    /* [world owner: write] [any: read]  The worker whose task has stopped the world; or NULL. */
    WF_ATOMIC(struct wf_worker *) stopper;
    const void *world_owner;   /* [world_lock]  task or worker or thread; NULL: it runs */
    unsigned world_depth;      /* [world_lock] */
    WF_ATOMIC(uint64_t) stops; /* [world owner: write] [any: read] */
    WF_ATOMIC(uint64_t) stop_ns_max;
    WF_ATOMIC(uint64_t) stop_ns_total;

    WF_ATOMIC(uint32_t) is_traced;  /* [stopper: write] [any: read] */
    struct wf_trace_shared outside; /* what foreign threads do, if it is traced */

    struct wf_parker closer;           /* where weft_runtime_close waits */
    WF_ATOMIC(uint64_t) quiet_at;      /* [loop: write]  activity as of the last report */
    uint64_t told_at;                  /* [world stopped]  turns as of the last deadlock */
    WF_ATOMIC(uint32_t) is_deadlocked; /* [loop: write] [any: read] */
    struct wf_waiter main_waiter;      /* where weft_run waits */
    WF_ATOMIC(uint32_t) has_main;      /* [weft_run: write] [any: read]  it does */
};

static inline void wf_trace_event(weft_runtime *runtime, struct wf_worker *worker,
                                  enum wf_trace_event event, uint64_t id, uint64_t arg)
{
    if (worker != NULL) {
        wf_trace(worker->trace, event, id, arg);
    } else if (wf_load_acquire(&runtime->is_traced) != 0) { /* (V1) */
        wf_trace_foreign(runtime, event, id, arg);
    }
}

/* [any]  Workers that exist, spares included.  Who sees one through its work sees it here. */
static inline unsigned wf_seats(const weft_runtime *runtime)
{
#ifdef WF_MODEL
    return runtime->worker_count; /* no kernel lets it grow */
#else
    return wf_load_acquire(&runtime->seats); /* (M1) */
#endif
}

/* [any]  Of them, those that are not on the bench. */
static inline unsigned wf_in_play(const weft_runtime *runtime)
{
    return wf_load_relaxed(&runtime->in_play); /* relaxed: a hint, or behind a fence (S1) */
}

/* runtime.c  [monitor]  Makes a worker.  -ENOMEM. */
int wf_worker_init(weft_runtime *runtime, unsigned index);
/* runtime.c  [monitor]  Starts its thread.  -EAGAIN, -ENOMEM. */
int wf_worker_start(struct wf_worker *worker);

/* runtime.c  [any]  Tasks alive; exact when nothing runs. */
uint64_t wf_runtime_live(const weft_runtime *runtime);

/* runtime.c  [any]  Tasks that wait in no worker's own queue.  A hint. */
uint64_t wf_runtime_queued(weft_runtime *runtime);

/* options.c  [any]  Options with defaults and environment filled in; `text` as weft_options_check.
 */
int wf_options_fill(weft_options *out, const weft_options *options, char *text, size_t text_size);

/* quiet.c  [loop]  Nothing runs and nothing is queued: reports what is to be reported then. */
void wf_runtime_quiet(weft_runtime *runtime);
/* quiet.c  [any]  True when something happened since the last report. */
bool wf_runtime_is_news(weft_runtime *runtime);
/* quiet.c  [any]  Something is to be reported that happened outside of the runtime's tasks; before
 * the call it is where the report finds it. */
void wf_runtime_tell(struct wf_task_pool *pool);

/* safepoint.c  [loop]  Stops the world if all but the caller stand still already and nobody else
 * has stopped it.  False: nothing happened. */
bool wf_world_try_stop(weft_runtime *runtime);
/* safepoint.c  [loop]  Lets it go on. */
void wf_world_resume(weft_runtime *runtime);

/* room.c  [any]  Counts a task more, or waits until it may, or -EAGAIN, by the runtime's options.
 */
int wf_room_enter(weft_runtime *runtime);
void wf_room_leave(weft_runtime *runtime);
/* room.c  [any]  Until there may be room of this kind. */
int wf_room_wait(weft_runtime *runtime, enum wf_room_kind kind);
/* room.c  [any]  There is room for so many more. */
void wf_room_wake(weft_runtime *runtime, enum wf_room_kind kind, size_t count);
/* room.c  [closer]  Nobody waits any longer. */
void wf_room_close(weft_runtime *runtime);

/* join.c, room.c, safepoint.c  [closer]  The task waits, and will never run again: takes it out of
 * lists of other runtimes. */
void wf_join_forget(struct weft_task *task);
void wf_room_forget(struct weft_task *task);
void wf_world_forget(struct weft_task *task);

/* report.c  [signal]  Says which task ran into the guard of its stack. */
void wf_overflow_print(const struct wf_overflow *overflow);
/* report.c  [weft_run]  That it waits for this task, on stderr. */
void wf_left_print(const struct weft_task *task);

/* report.c  [any]  The program broke a rule: says who, and which; ends the process. */
_Noreturn void wf_misuse(const char *what);
#ifdef WF_MODEL
#define WF_RULE(is_kept, what) WEFT_CHECK(is_kept)
#else
#define WF_RULE(is_kept, what) (__builtin_expect(!!(is_kept), 1) ? (void)0 : wf_misuse(what))
#endif

#include "sched/poll.h"

#endif
