/* SPDX-License-Identifier: MIT */
/*
 * fib.c - the thirtieth Fibonacci number by the slow way: a fork at every call, 1.3 million forks.
 * The join runs a fork that no thief took as a plain call.  Prints:
 *
 *     fib(30) = 832040
 */
#include <stdio.h>
#include <weft/weft.h>

static intptr_t fib(void *arg)
{
    const intptr_t n = (intptr_t)arg;
    if (n < 2) {
        return n;
    }
    weft_par_fork first;
    weft_par_fork_go(&first, fib, (void *)(n - 1));
    const intptr_t second = fib((void *)(n - 2));
    return weft_par_fork_join(&first) + second;
}

int main(void)
{
    const intptr_t result = weft_run(fib, (void *)30, NULL);
    printf("fib(30) = %ld\n", (long)result);
    return result > 0 ? 0 : 1;
}
