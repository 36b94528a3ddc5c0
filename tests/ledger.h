/* SPDX-License-Identifier: MIT */
/*
 * ledger.h - the exactly-once ledger: real threads race over a queue, and in the end every item
 * that went in was taken once, by whoever.
 *
 * One run serves the unit tests (a moderate number of items) and the stress tests (very many).
 * Each run fails the test by itself: an item taken twice, or whose number did not arrive with it,
 * at once; an item lost by never ending.  What it returns is for the report.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include <stddef.h>
#include <stdint.h>

struct ledger_report {
    double seconds;
    uint64_t by_owner;  /* items taken by the thread that owns the queue or receives */
    uint64_t by_others; /* items taken by all the others */
};

/* One owner pushes and pops its ring; thieves steal half from anybody; full rings overflow into an
 * inject queue from which all refill. */
struct ledger_report ledger_ring(size_t items, unsigned thieves);

/* One owner pushes and pops its deque; thieves steal one or half from anybody. */
struct ledger_report ledger_deque(size_t items, unsigned thieves);

/* So many producers and as many consumers over one capped inject queue. */
struct ledger_report ledger_inject(size_t items, unsigned producers);

/* So many senders into one mpsc queue; order is checked for each. */
struct ledger_report ledger_mpsc(size_t items, unsigned senders);

/* An owner pushes one, two or three items and pops them while a thief steals, `rounds` times. */
struct ledger_report ledger_last_of_ring(size_t rounds);
struct ledger_report ledger_last_of_deque(size_t rounds);

#endif
