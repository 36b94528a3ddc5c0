/* SPDX-License-Identifier: MIT */
/*
 * philosophers.c - each philosopher takes the left fork and then waits for the right one, for ever.
 * The runtime detects the deadlock and reports which task waits for which.  Prints:
 *
 *     4 tasks wait for each other
 *     Hume waits for Kant
 *     Kant waits for Mill
 *     Mill waits for Hume
 *     weft_run: -EDEADLK
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { SEATS = 3 };
static const char *const names[SEATS] = {"Hume", "Kant", "Mill"};
static weft_mutex forks[SEATS];
static weft_barrier seated = WEFT_BARRIER_INIT(SEATS);

static intptr_t dine(void *arg)
{
    const size_t seat = (size_t)arg;
    weft_mutex *left = &forks[seat];
    weft_mutex *right = &forks[(seat + 1) % SEATS]; /* the fix: lock the lower number first */
    int rc = weft_mutex_lock(left);
    if (rc != 0) {
        return rc;
    }
    weft_barrier_wait(&seated); /* each has taken one fork */
    if (weft_mutex_lock(right) == 0) {
        weft_mutex_unlock(right);
    }
    return weft_mutex_unlock(left);
}

static intptr_t serve(void *arg)
{
    weft_task *guests[SEATS];
    for (size_t i = 0; i < SEATS; i++) {
        weft_spawn(&guests[i], dine, (void *)i, &(weft_task_options){.name = names[i]});
    }
    (void)arg;
    return weft_await_all(guests, SEATS, NULL);
}

static void explain(void *context, const weft_deadlock *deadlock)
{
    weft_task_info infos[SEATS] = {{0}};
    size_t first = 0;
    (void)context;
    printf("%zu tasks wait for each other\n", deadlock->count);
    for (size_t i = 0; i < deadlock->cycle_count; i++) {
        weft_task_get_info(deadlock->cycle[i], &infos[i]);
        first = strcmp(infos[i].name, names[0]) == 0 ? i : first;
    }
    for (size_t i = first; i < first + SEATS; i++) {
        printf("%s waits for %s\n", infos[i % SEATS].name, infos[(i + 1) % SEATS].name);
    }
}

int main(void)
{
    intptr_t rc = weft_run(serve, NULL, &(weft_runtime_options){.on_deadlock = explain});
    printf("weft_run: %s\n", rc == -EDEADLK ? "-EDEADLK" : "all have eaten");
    return rc == -EDEADLK ? 0 : 1;
}
