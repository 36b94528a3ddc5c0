/* SPDX-License-Identifier: MIT */
/*
 * os/file.c - complete writes, for reports to a descriptor of the program.  A report to a broken
 * pipe must not end the program by SIGPIPE.
 */
#include <errno.h>
#include <unistd.h>

#include "os/os.h"
#include "os/sys.h"

static ssize_t write_once(int fd, const char *bytes, size_t size)
{
    if (WF_FAULT("write")) {
        return -ENOSPC;
    }
    if (WF_FAULT("write_interrupted")) {
        return -EINTR;
    }
    if (WF_FAULT("write_nothing")) {
        return 0;
    }
    struct wf_sigpipe sigpipe;
    wf_sigpipe_begin(&sigpipe);
    ssize_t written = write(fd, bytes, WF_FAULT("write_short") ? 1 : size);
    written = written >= 0 ? written : -errno;
    wf_sigpipe_end(&sigpipe, written == (ssize_t)size);
    return written;
}

int wf_file_write(int fd, const void *bytes, size_t size)
{
    const char *rest = bytes;
    while (size > 0) { /* Ends: each iteration writes a byte, fails, or needs another signal. */
        ssize_t written = write_once(fd, rest, size);
        if (written == -EINTR) {
            continue;
        }
        if (written < 0) {
            return (int)written;
        }
        if (written == 0) {
            return -EIO; /* a broken driver wrote nothing: the loop would not end */
        }
        rest += written;
        size -= (size_t)written;
    }
    return 0;
}
