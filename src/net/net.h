/* SPDX-License-Identifier: MIT */
/*
 * net/net.h - connections: addresses, name lookup, dialing, listening, buffers, graceful drain.
 *
 * Promises:      a call that waits suspends its task, not its thread.  A call that fails, is
 *                cancelled, or is abandoned by a forced close leaves no descriptor, no memory
 *                and no task behind.  weft_address_parse reads what weft_address_print wrote.
 * Must not know: how readiness is reported (epoll, io_uring), the state word of an fd record,
 *                processes.
 *
 *   address.c   addresses as text
 *   resolve.c   host names to addresses
 *   dial.c      a connection to an address or to a host name
 *   listen.c    listening sockets, and options of any socket
 *   drain.c     the graceful end of a server
 *   buffer.c    buffered readers and writers
 *
 * Tags:  as in sched.h, sync.h and io.h.
 *
 * Synchronisation: no edges.  Tasks and threads share data here by the layers below only.
 */
#ifndef WF_NET_NET_H
#define WF_NET_NET_H

#include <stddef.h>
#include <stdint.h>

#include <weft/net.h>

#include "io/io.h"

/* dial.c  [green thread, non-worker thread]  Connects to the first address that answers and returns
 * the descriptor, which the caller owns.  The attempt at the next address begins when an attempt
 * has failed or `delay_ns` have passed.  Suspends.  Errors: -EINVAL: `count` is 0; -ECANCELED,
 * -ETIMEDOUT; what epoll_create gives; the error of the first attempt that failed, if all fail. */
int wf_dial_addresses(const weft_address *addresses, size_t count, int64_t delay_ns);
/* dial.c  [any]  Reorders the addresses so that the families alternate as long as several are left.
 * The addresses of one family keep their order. */
void wf_interleave(weft_address *addresses, size_t count);

#endif
