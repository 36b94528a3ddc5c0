/* SPDX-License-Identifier: MIT */
/*
 * examples/queues.c - one worker makes work, three others live off it.
 *
 * The owner pushes numbered items into its ring; what does not fit overflows to the global queue.
 * Thieves take half of the ring at a time into rings of their own, or a share of the global queue.
 * Every item carries a plain payload, and a ledger counts who took which: at the end each of them
 * must have been taken exactly once, whoever raced with whom.
 *
 * Until the runtime stands on them, this is what the queues look like from above.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "queue/queue.h"

enum { WORKERS = 4, ITEMS = 8 * 1000 * 1000, BAR = 40, PROGRESS_EVERY = ITEMS / 50 };

struct item {
    struct wf_node node;
    uint32_t payload; /* plain: whoever holds the item may read it */
    uint32_t taken;   /* plain: one taker each, or the ledger shows it */
};

struct worker {
    struct wf_ring ring;
    pthread_t thread;
    unsigned index;
    uint64_t ran;     /* items this worker took */
    uint64_t steals;  /* times it took half of another's ring */
    uint64_t fetches; /* times it took a share of the global queue */
};

static struct item *items;
static struct worker workers[WORKERS];
static struct wf_inject global;
static wf_atomic_u64 done; /* items taken by all */

static void overflow(void *context, struct wf_chain *batch)
{
    wf_inject_push_overflow(context, batch);
}

static void run(struct worker *self, struct wf_node *node)
{
    struct item *item = wf_container_of(node, struct item, node);
    if (item->payload != (uint32_t)(item - items)) {
        printf("\nitem %td came with the payload of %u\n", item - items, item->payload);
        exit(EXIT_FAILURE);
    }
    item->taken++;
    self->ran++;
    (void)wf_fetch_add_relaxed(&done, 1); /* relaxed: a count, read again after the threads end */
}

static struct wf_node *find(struct worker *self)
{
    struct wf_node *node = wf_ring_pop(&self->ring);
    if (node != NULL) {
        return node;
    }
    struct wf_chain share = {0};
    if (wf_inject_pop(&global, WORKERS, WF_RING_CAPACITY / 2, &share) > 0) {
        self->fetches++;
        node = wf_chain_pop(&share);
        (void)wf_ring_push_chain(&self->ring, &share);
        if (share.count > 0) { /* a thief that was preempted in its steal still holds the room */
            wf_inject_push_overflow(&global, &share);
        }
        return node;
    }
    for (unsigned i = 1; i < WORKERS; i++) {
        node = wf_ring_steal(&workers[(self->index + i) % WORKERS].ring, &self->ring);
        if (node != NULL) {
            self->steals++;
            return node;
        }
    }
    return NULL;
}

static void show_progress(uint64_t count)
{
    if (!isatty(STDOUT_FILENO)) {
        return;
    }
    int filled = (int)(count * BAR / ITEMS);
    printf("\r  [%-*.*s] %3" PRIu64 " %%", BAR, filled, "########################################",
           count * 100 / ITEMS);
    (void)fflush(stdout);
}

static void *live(void *arg)
{
    struct worker *self = arg;
    bool is_owner = self->index == 0;
    for (uint32_t made = 0; wf_load_relaxed(&done) < ITEMS;) {
        /* Bursts of a few hundred: the ring overflows now and then, as it does in life. */
        for (int burst = 0; is_owner && burst < 300 && made < ITEMS; burst++, made++) {
            items[made].payload = made;
            wf_ring_push(&self->ring, &items[made].node, overflow, &global);
            if (made % PROGRESS_EVERY == 0) {
                show_progress(wf_load_relaxed(&done));
            }
        }
        struct wf_node *node = find(self);
        for (int left = 150; node != NULL && left > 0; left--, node = find(self)) {
            run(self, node);
        }
        if (node != NULL) {
            run(self, node);
        } else {
            (void)sched_yield(); /* nothing to be had: let somebody make some */
        }
    }
    return NULL;
}

static uint64_t count_wrong(void)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        wrong += items[i].taken != 1;
    }
    return wrong;
}

static void report(int64_t took_ns)
{
    uint64_t moved = 0;
    show_progress(ITEMS);
    printf("%s  worker       items     share   steals   fetches\n",
           isatty(STDOUT_FILENO) ? "\n\n" : "");
    for (unsigned i = 0; i < WORKERS; i++) {
        const struct worker *worker = &workers[i];
        struct wf_queue_stats stats;
        wf_queue_stats_read(&worker->ring.counters, &stats);
        moved += stats.stolen;
        printf("  %u %-6s %9" PRIu64 "   %5.1f %% %8" PRIu64 "  %8" PRIu64 "\n", i,
               i == 0 ? "owner" : "thief", worker->ran, 100.0 * (double)worker->ran / ITEMS,
               worker->steals, worker->fetches);
    }
    struct wf_queue_stats own;
    wf_queue_stats_read(&workers[0].ring.counters, &own);
    printf("\n  %d items in %.2f s, %.1f million a second on %u CPUs; %" PRIu64 " stolen, %" PRIu64
           " overflowed\n",
           ITEMS, (double)took_ns / 1e9, ITEMS * 1e3 / (double)took_ns, wf_cpu_count(), moved,
           own.overflowed);
}

int main(void)
{
    items = wf_alloc_zeroed(ITEMS, sizeof(*items));
    if (items == NULL || wf_inject_init(&global, NULL) != 0) {
        (void)fprintf(stderr, "not enough memory\n");
        return EXIT_FAILURE;
    }
    printf("One worker makes %d items, %d others steal them.\n\n", ITEMS, WORKERS - 1);
    int64_t begin_ns = wf_clock_now();
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].index = i;
        wf_ring_init(&workers[i].ring);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        struct wf_thread_options options = {.name = i == 0 ? "owner" : "thief"};
        int rc = wf_thread_start(&workers[i].thread, live, &workers[i], &options);
        if (rc != 0) {
            (void)fprintf(stderr, "cannot start a thread: %s\n", strerror(-rc));
            return EXIT_FAILURE;
        }
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        (void)wf_thread_join(workers[i].thread);
    }
    report(wf_clock_now() - begin_ns);
    uint64_t wrong = count_wrong();
    printf("  ledger: %" PRIu64 " items lost or taken twice\n", wrong);
    wf_free(items);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
