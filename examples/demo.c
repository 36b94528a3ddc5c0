/* SPDX-License-Identifier: MIT */
/*
 * demo.c - what `make run` shows: a million tasks in a tree, a million hops of a token, a hundred
 * thousand tasks that wait, and what plain threads need for a small part of the same.
 *
 * Tasks do the work.  The main thread is not a task: it reads the runtime's statistics while the
 * workers run, and draws a progress bar on a terminal.  Every result is checked.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft/weft.h>

enum {
    CHILDREN = 10,
    LEAVES = 1000 * 1000,
    THREAD_LEAVES = 1000,
    RING = 503,
    ROUNDS = 2000,
    THREAD_ROUNDS = 4,
    WAITERS = 100 * 1000,
    THREAD_STACK = 64 * 1024,
    BAR = 40,
    BAR_NS = 20 * 1000 * 1000, /* between two updates */
};

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

_Noreturn static void give_up(const char *what, intptr_t result)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "demo: %s: %s\n", what,
                  result < 0 ? strerror((int)-result) : "a wrong result");
    exit(EXIT_FAILURE);
}

/* The resident memory of the process in bytes. */
static double memory_bytes(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    /* NOLINTNEXTLINE(cert-err34-c): the kernel wrote it */
    if (statm == NULL || fscanf(statm, "%*d %ld", &pages) != 1) {
        give_up("/proc/self/statm", -EIO);
    }
    (void)fclose(statm);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* ---- progress ------------------------------------------------------------------------------- */

static weft_runtime *open_runtime(unsigned workers)
{
    weft_runtime *runtime = NULL;
    const weft_runtime_options options = {.workers = workers};
    int rc = weft_runtime_open(&runtime, &options);
    if (rc != 0) {
        give_up("cannot open a runtime", rc);
    }
    return runtime;
}

static void draw_bar(uint64_t done, uint64_t all)
{
    static const char full[] = "########################################";
    int filled = done < all ? (int)(done * BAR / all) : BAR;
    printf("\r  [%-*.*s] %9" PRIu64 " tasks", BAR, filled, full, done);
    (void)fflush(stdout);
}

/* Runs fn(arg) as a task that creates `all` tasks; returns the seconds it took. */
static double watch(weft_runtime *runtime, weft_fn fn, void *arg, uint64_t all, intptr_t wanted)
{
    static const struct timespec span = {.tv_nsec = BAR_NS};
    const bool has_leader = isatty(STDOUT_FILENO) != 0;
    weft_task *task = NULL;
    intptr_t result = 0;
    double start_s = now_s();
    int rc = weft_runtime_spawn(runtime, &task, fn, arg, NULL);
    while (has_leader && rc == 0 && weft_try_join(task, NULL) == -EAGAIN) {
        weft_runtime_stats stats;
        (void)weft_runtime_get_stats(runtime, &stats); /* fails for NULL only */
        draw_bar(stats.total.completed, all);
        (void)nanosleep(&span, NULL);
    }
    result = rc == 0 ? weft_await(task) : rc;
    double took_s = now_s() - start_s;
    if (has_leader) {
        printf("\r%*s\r", BAR + 24, "");
    }
    if (result != wanted) {
        give_up("a task", result);
    }
    return took_s;
}

static void close_runtime(weft_runtime *runtime)
{
    int rc = weft_runtime_close(runtime, -1);
    if (rc != 0) {
        give_up("cannot close the runtime", rc);
    }
}

static void show_workers(weft_runtime *runtime)
{
    weft_worker_stats counters;
    printf("\n  worker   tasks ended     resumed   stolen       steals tried  parked\n");
    for (unsigned i = 0; weft_runtime_get_worker_stats(runtime, &counters, i) == 0; i++) {
        printf("  %6u  %12" PRIu64 "  %10" PRIu64 "  %7" PRIu64 "  %17" PRIu64 "  %6" PRIu64 "\n",
               i, counters.completed, counters.polled, counters.stolen, counters.steals_tried,
               counters.parked);
    }
}

/* ---- a tree of a million tasks -------------------------------------------------------------- */

struct node {
    intptr_t first; /* the number of its first leaf */
    intptr_t size;  /* leaves below it */
};

/* The children of a node lie in its frame, which outlives their tasks. */
static void divide(const struct node *node, struct node *children)
{
    for (int i = 0; i < CHILDREN; i++) {
        children[i].size = node->size / CHILDREN;
        children[i].first = node->first + i * children[i].size;
    }
}

static intptr_t sum_leaves(void *arg)
{
    const struct node *node = arg;
    struct node children[CHILDREN];
    weft_task *tasks[CHILDREN];
    if (node->size == 1) {
        return node->first;
    }
    divide(node, children);
    for (int i = 0; i < CHILDREN; i++) {
        tasks[i] = weft_go(sum_leaves, &children[i]);
    }
    intptr_t sum = 0;
    for (int i = 0; i < CHILDREN; i++) {
        intptr_t part = weft_await(tasks[i]);
        sum = part < 0 || sum < 0 ? -ECANCELED : sum + part;
    }
    return sum;
}

static intptr_t sum_below(intptr_t count)
{
    return count * (count - 1) / 2;
}

/* The number of nodes of a tree with `leaves` leaves. */
static uint64_t nodes_of(uint64_t leaves)
{
    uint64_t nodes = 0;
    for (; leaves > 0; leaves /= CHILDREN) {
        nodes += leaves;
    }
    return nodes;
}

/* Returns nanoseconds per task. */
static double show_tree(unsigned workers, bool is_last)
{
    const uint64_t tasks = nodes_of(LEAVES);
    struct node root = {.first = 0, .size = LEAVES};
    weft_runtime *runtime = open_runtime(workers);
    double took_s = watch(runtime, sum_leaves, &root, tasks, sum_below(LEAVES));
    printf("  %2u worker%s %" PRIu64 " tasks in %.2f s, %.1f million a second; the sum is right\n",
           workers, workers == 1 ? ": " : "s:", tasks, took_s, (double)tasks / took_s / 1e6);
    if (is_last) {
        show_workers(runtime);
    }
    close_runtime(runtime);
    return took_s * 1e9 / (double)tasks;
}

/* ---- a ring of 503 tasks -------------------------------------------------------------------- */

/* Lets all tasks of the round await their predecessors, then starts the token. */
static intptr_t begin_round(void *arg)
{
    (void)arg;
    return weft_yield();
}

static intptr_t pass_on(void *before)
{
    intptr_t token = weft_await(before);
    return token < 0 ? token : token + 1;
}

static intptr_t run_ring(void *arg)
{
    intptr_t token = 0;
    (void)arg;
    for (int round = 0; round < ROUNDS && token >= 0; round++) {
        weft_task *last = weft_go(begin_round, NULL);
        for (int i = 0; i < RING && last != NULL; i++) {
            last = weft_go(pass_on, last);
        }
        intptr_t hops = weft_await(last);
        token = hops < 0 ? hops : token + hops;
    }
    return token;
}

/* Returns nanoseconds per hop. */
static double show_ring(unsigned workers)
{
    const intptr_t hops = RING * ROUNDS;
    weft_runtime *runtime = open_runtime(workers);
    double took_s = watch(runtime, run_ring, NULL, (uint64_t)hops + ROUNDS, hops);
    printf("  %2u worker%s %" PRIdPTR " hops in %.2f s, %.0f ns a hop\n", workers,
           workers == 1 ? ": " : "s:", hops, took_s, took_s * 1e9 / (double)hops);
    close_runtime(runtime);
    return took_s * 1e9 / (double)hops;
}

/* ---- a hundred thousand waiting tasks ------------------------------------------------------- */

static double waiting_bytes; /* written by the task, read after its end */

/* The gate: waits for a task that does not end before it, so until it is cancelled. */
static intptr_t stay_shut(void *opener)
{
    return weft_await(opener);
}

static intptr_t wait_at_gate(void *gate)
{
    return weft_join(gate, NULL);
}

static intptr_t gather(void *arg)
{
    weft_task **tasks = arg;
    double before = memory_bytes();
    weft_task *gate = weft_go(stay_shut, weft_task_ref(weft_self()));
    for (int i = 0; i < WAITERS; i++) {
        tasks[i] = weft_go(wait_at_gate, gate);
    }
    for (int waiting = 0; waiting < WAITERS;) {
        weft_task_info info;
        if (weft_task_get_info(tasks[waiting], &info) != 0) {
            return -ENOMEM;
        }
        if (info.state == WEFT_TASK_BLOCKED) {
            waiting++;
        } else {
            weft_yield();
        }
    }
    waiting_bytes = (memory_bytes() - before) / WAITERS;
    weft_cancel(gate);
    int rc = weft_await_all(tasks, WAITERS, NULL);
    return weft_await(gate) == -ECANCELED ? rc : -EPROTO;
}

static void show_waiting(unsigned workers)
{
    weft_task **tasks = calloc(WAITERS, sizeof(weft_task *));
    weft_runtime *runtime = open_runtime(workers);
    if (tasks == NULL) {
        give_up("memory", -ENOMEM);
    }
    double took_s = watch(runtime, gather, tasks, WAITERS, 0);
    printf("  %d tasks waited at a gate, %.0f bytes each; created, woken and ended in %.2f s\n",
           WAITERS, waiting_bytes, took_s);
    close_runtime(runtime);
    free(tasks);
}

/* ---- the same with threads ------------------------------------------------------------------ */

static pthread_attr_t small_stack;

static void *sum_leaves_by_threads(void *arg)
{
    const struct node *node = arg;
    struct node children[CHILDREN];
    pthread_t threads[CHILDREN];
    if (node->size == 1) {
        return (void *)node->first;
    }
    divide(node, children);
    for (int i = 0; i < CHILDREN; i++) {
        int rc = pthread_create(&threads[i], &small_stack, sum_leaves_by_threads, &children[i]);
        if (rc != 0) {
            give_up("a thread", -rc);
        }
    }
    intptr_t sum = 0;
    for (int i = 0; i < CHILDREN; i++) {
        void *part = NULL;
        (void)pthread_join(threads[i], &part); /* fails only for an invalid thread */
        sum += (intptr_t)part;
    }
    return (void *)sum;
}

static double tree_by_threads(void)
{
    struct node root = {.first = 0, .size = THREAD_LEAVES};
    double start_s = now_s();
    intptr_t sum = (intptr_t)sum_leaves_by_threads(&root);
    if (sum != sum_below(THREAD_LEAVES)) {
        give_up("threads", sum);
    }
    return (now_s() - start_s) * 1e9 / (double)nodes_of(THREAD_LEAVES);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *pass_on_by_thread(void *arg)
{
    void *token = NULL;
    if (arg == NULL) { /* the first: waits until all others wait */
        (void)pthread_mutex_lock(&gate);
        (void)pthread_mutex_unlock(&gate);
        return NULL;
    }
    (void)pthread_join(*(pthread_t *)arg, &token); /* created before this one */
    return (void *)((intptr_t)token + 1);
}

static double ring_by_threads(void)
{
    static pthread_t threads[RING + 1];
    intptr_t hops = 0;
    double start_s = now_s();
    for (int round = 0; round < THREAD_ROUNDS; round++) {
        void *token = NULL;
        (void)pthread_mutex_lock(&gate);
        for (int i = 0; i <= RING; i++) {
            int rc = pthread_create(&threads[i], &small_stack, pass_on_by_thread,
                                    i == 0 ? NULL : &threads[i - 1]);
            if (rc != 0) {
                give_up("a thread", -rc);
            }
        }
        (void)pthread_mutex_unlock(&gate);
        (void)pthread_join(threads[RING], &token);
        hops += (intptr_t)token;
    }
    if (hops != RING * THREAD_ROUNDS) {
        give_up("threads", hops);
    }
    return (now_s() - start_s) * 1e9 / (double)hops;
}

static void show_threads(double tree_ns, double ring_ns)
{
    (void)pthread_attr_init(&small_stack); /* cannot fail on Linux, and the size is in range */
    (void)pthread_attr_setstacksize(&small_stack, THREAD_STACK);
    double threads_ns = tree_by_threads();
    printf("  tree of %4" PRIu64 ":   %6.1f us a thread, %5.2f us a task: %4.0f times as fast\n",
           nodes_of(THREAD_LEAVES), threads_ns / 1e3, tree_ns / 1e3, threads_ns / tree_ns);
    threads_ns = ring_by_threads();
    printf("  ring of %4d:   %6.1f us a hop,    %5.2f us a hop:  %4.0f times as fast\n", RING,
           threads_ns / 1e3, ring_ns / 1e3, threads_ns / ring_ns);
}

int main(void)
{
    weft_runtime *runtime = open_runtime(0);
    const unsigned workers = weft_runtime_workers(runtime);
    close_runtime(runtime);

    printf(
        "A tree: every task starts ten, down to a million leaves, and adds up their results\n\n");
    if (workers > 1) {
        (void)show_tree(1, false);
    }
    double tree_ns = show_tree(workers, true);
    printf("\nA ring: %d tasks await each other, and a token travels around\n\n", RING);
    if (workers > 1) {
        (void)show_ring(1);
    }
    double ring_ns = show_ring(workers);
    printf("\nA crowd: all tasks wait for the same task\n\n");
    show_waiting(workers);
    printf("\nOS threads: the same, scaled down\n\n");
    show_threads(tree_ns, ring_ns);
    return EXIT_SUCCESS;
}
