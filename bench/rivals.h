/* SPDX-License-Identifier: MIT */
/*
 * rivals.h - what the queues are measured against: the simplest structures that do the same work.
 *
 * They are in a file of their own, as the library's queues are, so that none is inlined into the
 * loop that measures it.  The capacity is fixed, and the rows never exceed it.
 */
#ifndef BENCH_RIVALS_H
#define BENCH_RIVALS_H

#include <pthread.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/queue.h"

enum { RIVAL_CAPACITY = 256 }; /* a power of two */

/* An array and a count, for one thread only. */
struct rival_stack {
    size_t count;
    struct wf_node *slots[RIVAL_CAPACITY];
};
void rival_stack_push(struct rival_stack *stack, struct wf_node *item);
struct wf_node *rival_stack_pop(struct rival_stack *stack);

/* A FIFO ring, for one thread only. */
struct rival_fifo {
    size_t head;
    size_t tail;
    struct wf_node *slots[RIVAL_CAPACITY];
};
void rival_fifo_push(struct rival_fifo *fifo, struct wf_node *item);
struct wf_node *rival_fifo_pop(struct rival_fifo *fifo);

/* The FIFO ring under a pthread mutex, as most programs would write it. */
struct rival_locked {
    pthread_mutex_t mutex;
    struct rival_fifo fifo;
};
void rival_locked_init(struct rival_locked *locked);
void rival_locked_push(struct rival_locked *locked, struct wf_node *item);
struct wf_node *rival_locked_pop(struct rival_locked *locked);
/* Pushes as many as fit; returns their number. */
size_t rival_locked_push_many(struct rival_locked *locked, struct wf_node **items, size_t count);
size_t rival_locked_pop_many(struct rival_locked *locked, struct wf_node **items, size_t count);
size_t rival_locked_count(struct rival_locked *locked);

/* An unbounded list under a pthread mutex. */
struct rival_list {
    pthread_mutex_t mutex;
    struct wf_chain chain;
};
void rival_list_init(struct rival_list *list);
void rival_list_push(struct rival_list *list, struct wf_node *item);
size_t rival_list_take(struct rival_list *list, struct wf_chain *out);

/*
 * The deque of queue/deque.c without the fence of its pop, and otherwise complete: the difference
 * is the price of the fence.  Incorrect as soon as there is a thief.
 */
struct rival_deque {
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_deque_pos) top;
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_deque_pos) bottom;
    WF_ATOMIC(struct rival_deque_buffer *) buffer;
    struct wf_queue_counters counters;
};
struct rival_deque_buffer {
    size_t capacity;
    WF_ATOMIC(struct wf_node *) slots[RIVAL_CAPACITY];
};
void rival_deque_init(struct rival_deque *deque, struct rival_deque_buffer *buffer);
int rival_deque_push(struct rival_deque *deque, struct wf_node *item);
struct wf_node *rival_deque_pop(struct rival_deque *deque);

#endif
