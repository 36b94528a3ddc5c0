/* SPDX-License-Identifier: MIT */
/*
 * ledger.h - the exactly-once ledger: real threads race over a queue, and in the end every item
 * that went in was taken once.
 *
 * The unit tests use it with a moderate number of items, the stress tests with very many.  A run
 * fails the test at once if an item is taken twice, or if its number did not arrive with it; a lost
 * item makes the run never end.  The return value is for the report.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include <stddef.h>
#include <stdint.h>

struct ledger_report {
    double seconds;
    uint64_t by_owner;  /* items taken by the thread that owns the queue or receives */
    uint64_t by_others; /* items taken by all other threads */
};

/* One owner pushes and pops its ring; thieves steal half from any ring; full rings overflow into an
 * inject queue from which all refill. */
struct ledger_report ledger_ring(size_t items, unsigned thieves);

/* One owner pushes and pops its deque; thieves steal one or half from any deque. */
struct ledger_report ledger_deque(size_t items, unsigned thieves);

/* `producers` producers and the same number of consumers over one inject queue with a capacity. */
struct ledger_report ledger_inject(size_t items, unsigned producers);

/* `senders` senders into one MPSC queue; order is checked for each. */
struct ledger_report ledger_mpsc(size_t items, unsigned senders);

/* An owner pushes one, two or three items and pops them while a thief steals, `rounds` times. */
struct ledger_report ledger_last_of_ring(size_t rounds);
struct ledger_report ledger_last_of_deque(size_t rounds);

#endif
