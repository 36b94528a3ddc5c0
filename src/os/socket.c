/* SPDX-License-Identifier: MIT */
/*
 * os/socket.c - the system calls that create and configure sockets: see os/sys.h.  None blocks, so
 * none returns EINTR.
 */
#include <errno.h>
#include <unistd.h>

#include "base/base.h"
#include "os/sys.h"

int wf_sys_socket(int domain, int type)
{
    if (WF_FAULT("socket")) {
        return -EMFILE;
    }
    if (domain == AF_INET6 && WF_FAULT("socket_ip6")) {
        return -EAFNOSUPPORT;
    }
    int fd = socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 ? fd : -errno;
}

int wf_sys_bind(int fd, const struct sockaddr *address, socklen_t address_size)
{
    if (WF_FAULT("bind")) {
        return -EACCES;
    }
    return bind(fd, address, address_size) == 0 ? 0 : -errno;
}

int wf_sys_listen(int fd, int backlog)
{
    if (WF_FAULT("listen")) {
        return -ENOBUFS;
    }
    return listen(fd, backlog) == 0 ? 0 : -errno;
}

int wf_sys_setsockopt(int fd, int level, int name, int value)
{
    if (WF_FAULT("setsockopt")) {
        return -ENOBUFS;
    }
    return setsockopt(fd, level, name, &value, sizeof(value)) == 0 ? 0 : -errno;
}

int wf_sys_getsockname(int fd, struct sockaddr *address, socklen_t *address_size)
{
    if (WF_FAULT("getsockname")) {
        return -ENOBUFS;
    }
    return getsockname(fd, address, address_size) == 0 ? 0 : -errno;
}

int wf_sys_getpeername(int fd, struct sockaddr *address, socklen_t *address_size)
{
    if (WF_FAULT("getpeername")) {
        return -ENOBUFS;
    }
    return getpeername(fd, address, address_size) == 0 ? 0 : -errno;
}

int wf_sys_lstat(const char *path, struct stat *out)
{
    if (WF_FAULT("lstat")) {
        return -EIO;
    }
    return lstat(path, out) == 0 ? 0 : -errno;
}

int wf_sys_unlink(const char *path)
{
    if (WF_FAULT("unlink")) {
        return -EACCES;
    }
    return unlink(path) == 0 ? 0 : -errno;
}
