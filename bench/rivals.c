/* SPDX-License-Identifier: MIT */
/* rivals.c - the simplest structures that could do the work of a queue; see rivals.h. */
#include "rivals.h"

#include <errno.h>

void rival_stack_push(struct rival_stack *stack, struct wf_node *item)
{
    stack->slots[stack->count++] = item;
}

struct wf_node *rival_stack_pop(struct rival_stack *stack)
{
    return stack->count == 0 ? NULL : stack->slots[--stack->count];
}

void rival_fifo_push(struct rival_fifo *fifo, struct wf_node *item)
{
    fifo->slots[fifo->tail++ % RIVAL_CAPACITY] = item;
}

struct wf_node *rival_fifo_pop(struct rival_fifo *fifo)
{
    return fifo->head == fifo->tail ? NULL : fifo->slots[fifo->head++ % RIVAL_CAPACITY];
}

static void *return_at_once(void *arg)
{
    return arg;
}

/* glibc's mutex uses no locked instruction until the process has had a second thread.  A rival of a
 * shared queue must be measured with one. */
static void have_had_threads(void)
{
    pthread_t thread;
    WEFT_CHECK(pthread_create(&thread, NULL, return_at_once, NULL) == 0);
    WEFT_CHECK(pthread_join(thread, NULL) == 0);
}

void rival_locked_init(struct rival_locked *locked)
{
    have_had_threads();
    *locked = (struct rival_locked){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

void rival_locked_push(struct rival_locked *locked, struct wf_node *item)
{
    (void)rival_locked_push_many(locked, &item, 1);
}

struct wf_node *rival_locked_pop(struct rival_locked *locked)
{
    struct wf_node *item = NULL;
    (void)rival_locked_pop_many(locked, &item, 1);
    return item;
}

/* Locking and unlocking a default mutex cannot fail. */
size_t rival_locked_push_many(struct rival_locked *locked, struct wf_node **items, size_t count)
{
    size_t done = 0;
    (void)pthread_mutex_lock(&locked->mutex);
    while (done < count && locked->fifo.tail - locked->fifo.head < RIVAL_CAPACITY) {
        locked->fifo.slots[locked->fifo.tail++ % RIVAL_CAPACITY] = items[done++];
    }
    (void)pthread_mutex_unlock(&locked->mutex);
    return done;
}

size_t rival_locked_pop_many(struct rival_locked *locked, struct wf_node **items, size_t count)
{
    size_t done = 0;
    (void)pthread_mutex_lock(&locked->mutex);
    while (done < count && locked->fifo.tail != locked->fifo.head) {
        items[done++] = locked->fifo.slots[locked->fifo.head++ % RIVAL_CAPACITY];
    }
    (void)pthread_mutex_unlock(&locked->mutex);
    return done;
}

size_t rival_locked_count(struct rival_locked *locked)
{
    (void)pthread_mutex_lock(&locked->mutex);
    size_t count = locked->fifo.tail - locked->fifo.head;
    (void)pthread_mutex_unlock(&locked->mutex);
    return count;
}

void rival_list_init(struct rival_list *list)
{
    have_had_threads();
    *list = (struct rival_list){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

void rival_list_push(struct rival_list *list, struct wf_node *item)
{
    (void)pthread_mutex_lock(&list->mutex);
    wf_chain_push(&list->chain, item);
    (void)pthread_mutex_unlock(&list->mutex);
}

size_t rival_list_take(struct rival_list *list, struct wf_chain *out)
{
    (void)pthread_mutex_lock(&list->mutex);
    size_t count = list->chain.count;
    wf_chain_append(out, &list->chain);
    (void)pthread_mutex_unlock(&list->mutex);
    return count;
}

void rival_deque_init(struct rival_deque *deque, struct rival_deque_buffer *buffer)
{
    *deque = (struct rival_deque){0};
    buffer->capacity = RIVAL_CAPACITY;
    wf_atomic_init(&deque->buffer, buffer);
}

int rival_deque_push(struct rival_deque *deque, struct wf_node *item)
{
    wf_deque_pos bottom = wf_load_relaxed(&deque->bottom);
    struct rival_deque_buffer *buffer = wf_load_relaxed(&deque->buffer);
    if (bottom - wf_load_relaxed(&deque->top) >= buffer->capacity) {
        return -ENOMEM;
    }
    wf_store_relaxed(&buffer->slots[bottom & (buffer->capacity - 1)], item);
    wf_store_release(&deque->bottom, bottom + 1);
    wf_counter_add(&deque->counters.pushed, 1);
    return 0;
}

struct wf_node *rival_deque_pop(struct rival_deque *deque)
{
    wf_deque_pos bottom = wf_load_relaxed(&deque->bottom);
    wf_deque_pos top = wf_load_relaxed(&deque->top);
    if ((wf_deque_diff)(bottom - top) <= 0) {
        return NULL;
    }
    struct rival_deque_buffer *buffer = wf_load_relaxed(&deque->buffer);
    bottom--;
    wf_store_release(&deque->bottom, bottom);
    top = wf_load_relaxed(&deque->top); /* the real deque has a fence before this */
    struct wf_node *item = NULL;
    wf_deque_diff left = (wf_deque_diff)(bottom - top);
    if (left >= 0) {
        item = wf_load_relaxed(&buffer->slots[bottom & (buffer->capacity - 1)]);
    }
    if (left <= 0) {
        if (left == 0 && !wf_cas_relaxed(&deque->top, &top, top + 1)) {
            item = NULL;
        }
        wf_store_release(&deque->bottom, bottom + 1);
    }
    if (item != NULL) {
        wf_counter_add(&deque->counters.popped, 1);
    }
    return item;
}
