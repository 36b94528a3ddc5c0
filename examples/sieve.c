/* SPDX-License-Identifier: MIT */
/*
 * sieve.c - prime numbers by a chain of filter tasks.  Each passes on the numbers that its prime
 * does not divide; the first number at the end of the chain is the next prime and gets a task.
 * Prints:
 *
 *     the 200th prime is 1223
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { PRIMES = 200 };

struct filter {
    int prime;
    weft_chan *in;
    weft_chan *out;
};

static intptr_t count(void *arg)
{
    weft_chan *out = arg;
    int rc = 0;
    for (int n = 2; rc == 0; n++) {
        rc = weft_chan_send(out, &n);
    }
    weft_chan_unref(out);
    return 0; /* the channel was closed: there are enough primes */
}

static intptr_t sift(void *arg)
{
    struct filter *filter = arg;
    int n;
    int rc = 0;
    while (rc == 0 && weft_chan_recv(filter->in, &n) == 0) {
        rc = n % filter->prime != 0 ? weft_chan_send(filter->out, &n) : 0;
    }
    (void)weft_chan_close(filter->in); /* the previous filter may end */
    weft_chan_unref(filter->in);
    weft_chan_unref(filter->out);
    return 0;
}

static intptr_t run(void *arg)
{
    static struct filter filters[PRIMES];
    weft_chan *in;
    weft_scope scope;
    int rc = weft_chan_new(&in, sizeof(int), 0);
    (void)arg;
    weft_scope_open(&scope, NULL);
    weft_scope_go(&scope, count, weft_chan_ref(in));
    int prime = 0;
    for (int i = 0; i < PRIMES && rc == 0; i++) {
        rc = weft_chan_recv(in, &prime);
        filters[i] = (struct filter){.prime = prime, .in = in};
        if (rc == 0) {
            rc = weft_chan_new(&filters[i].out, sizeof(int), 0);
            in = weft_chan_ref(filters[i].out);
            weft_scope_go(&scope, sift, &filters[i]);
        }
    }
    printf("the %dth prime is %d\n", PRIMES, prime);
    (void)weft_chan_close(in);
    weft_chan_unref(in);
    return weft_scope_close(&scope);
}

int main(void)
{
    return weft_run(run, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
