/* SPDX-License-Identifier: MIT */
/*
 * hello.c - tasks that start tasks, 65536 in all, and wait for them.  The README shows this program
 * from the first #include on.  Prints:
 *
 *     hello from 65536 tasks
 */
#include <stdio.h>
#include <weft/weft.h>
static intptr_t hello(void *arg)
{
    intptr_t n = (intptr_t)arg;
    weft_task *twin = n > 0 ? weft_go(hello, (void *)(n - 1)) : NULL;
    return n > 0 ? hello((void *)(n - 1)) + weft_await(twin) : 1;
}
int main(void)
{
    return printf("hello from %d tasks\n", (int)weft_run(hello, (void *)16, NULL)) < 0;
}
