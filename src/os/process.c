/* SPDX-License-Identifier: MIT */
/*
 * os/process.c - the system calls about signals and processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "os/os.h"
#include "os/sys.h"

/* ---- signals ------------------------------------------------------------------------------- */

int wf_sys_signalfd(const sigset_t *set)
{
    if (WF_FAULT("signalfd")) {
        return -EMFILE;
    }
    const int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : -errno;
}

int wf_sys_signal_take(const sigset_t *set, siginfo_t *info)
{
    static const struct timespec now;
    for (;;) { /* ends with the first call that no handler cuts short */
        const int number = sigtimedwait(set, info, &now);
        if (number > 0) {
            return number;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

int wf_sys_signal_wait(const sigset_t *set, siginfo_t *info)
{
    for (;;) { /* ends with a signal; a handler of another one begins it again */
        const int number = sigwaitinfo(set, info);
        if (number > 0) {
            return number;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

int wf_sys_replace(int by, int fd)
{
    if (WF_FAULT("dup3")) {
        return -EBUSY;
    }
    return dup3(by, fd, O_CLOEXEC) >= 0 ? 0 : -errno;
}

void wf_sys_signals_block(const sigset_t *set)
{
    WEFT_CHECK(pthread_sigmask(SIG_BLOCK, set, NULL) == 0); /* fails for no set */
}

void wf_sys_signals_blocked(sigset_t *out)
{
    WEFT_CHECK(pthread_sigmask(SIG_BLOCK, NULL, out) == 0); /* fails for no set */
}
