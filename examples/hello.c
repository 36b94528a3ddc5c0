/* SPDX-License-Identifier: MIT */
/*
 * hello.c - ten thousand tasks that sleep for a second at the same time.  The README shows this
 * program from the first #include on.  Prints:
 *
 *     10000 tasks have slept for a second
 */
#include <stdio.h>
#include <weft/weft.h>

static intptr_t nap(void *arg) /* an ordinary function becomes a task */
{
    (void)arg;
    return weft_sleep(WEFT_SECOND); /* suspends this task; its thread runs the others */
}

static intptr_t start_tasks(void *arg)
{
    int count = *(int *)arg;
    int rc = 0;
    weft_scope scope; /* no task of a scope outlives it */
    weft_scope_open(&scope, NULL);
    for (int i = 0; i < count && rc == 0; i++) {
        rc = weft_scope_go(&scope, nap, NULL);
    }
    if (rc != 0) {
        weft_scope_cancel(&scope, rc); /* out of memory, for example */
    }
    return weft_scope_close(&scope); /* waits for all tasks: 0, or the first error */
}

int main(void)
{
    int count = 10000;
    intptr_t rc = weft_run(start_tasks, &count, NULL); /* errors are negative errno values */
    if (rc == 0) {
        printf("%d tasks have slept for a second\n", count);
    }
    return rc == 0 ? 0 : 1;
}
