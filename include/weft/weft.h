/* SPDX-License-Identifier: MIT */
/*
 * weft/weft.h - includes every header of Weft except three.
 *
 * weft/net.h (addresses and connections) and weft/signals.h are left out.  They include
 * <sys/socket.h> and <signal.h>, whose names (send, listen, kill, ...) a program may use for its
 * own functions.  weft/par_fork_typed.h is left out because weft/par_fork.h is the usual way to
 *                 fork.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <weft/blocking.h>
#include <weft/buffer.h>
#include <weft/chan.h>
#include <weft/child.h>
#include <weft/event.h>
#include <weft/file.h>
#include <weft/future.h>
#include <weft/io.h>
#include <weft/obs.h>
#include <weft/par.h>
#include <weft/par_fork.h>
#include <weft/poll.h>
#include <weft/runtime.h>
#include <weft/scope.h>
#include <weft/sync.h>
#include <weft/task.h>
#include <weft/time.h>
#include <weft/types.h>
#include <weft/version.h>

#endif
