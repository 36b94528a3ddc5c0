/* SPDX-License-Identifier: MIT */
/*
 * pool.c - a pool of tasks: a few tasks take numbers from a shared counter and add their squares to
 * a sum under a mutex; a wait group counts the running tasks.  Prints:
 *
 *     4 workers, 1000 numbers, sum of squares 333833500
 */
#include <stdio.h>
#include <weft/weft.h>

enum { WORKERS = 4, NUMBERS = 1000 };

struct pool {
    weft_group running;
    weft_mutex mutex;
    int next;      /* under the mutex */
    long long sum; /* under the mutex */
};

static intptr_t work(void *arg)
{
    struct pool *pool = arg;
    int number = 0;
    do {
        if (weft_mutex_lock(&pool->mutex) != 0) {
            break; /* cancelled: the mutex is not held */
        }
        pool->sum += (long long)number * number;
        number = pool->next < NUMBERS ? ++pool->next : 0;
        weft_mutex_unlock(&pool->mutex);
    } while (number != 0);
    return weft_group_finish(&pool->running);
}

static intptr_t run_pool(void *arg)
{
    struct pool pool = {.next = 0}; /* all zeros is initialised */
    (void)arg;
    weft_group_add(&pool.running, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        weft_spawn(NULL, work, &pool, NULL); /* detached */
    }
    weft_group_wait(&pool.running); /* after it returns no task uses the pool */
    printf("%d workers, %d numbers, sum of squares %lld\n", WORKERS, pool.next, pool.sum);
    return 0;
}

int main(void)
{
    return (int)weft_run(run_pool, NULL, NULL);
}
