/* SPDX-License-Identifier: MIT */
/*
 * os/mem.c - pages from the kernel: for stacks, which need guard pages and whose memory is returned
 * while they are free, and for blocks too large for the heap.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13: missing in the headers of most C libraries */
#endif
#ifndef PIDFD_SELF
#define PIDFD_SELF (-10000) /* missing in the headers of most C libraries */
#endif

size_t wf_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE); /* never fails: the kernel passes it at exec */
}

int wf_memory_map(void **out, size_t size)
{
    if (size == 0) {
        return -EINVAL;
    }
    if (WF_FAULT("mmap")) {
        return -ENOMEM;
    }
    /* The kernel rounds up to pages, and rejects a size that would wrap around. */
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return -errno;
    }
    *out = memory;
    return 0;
}

int wf_memory_unmap(void *memory, size_t size)
{
    if (WF_FAULT("munmap")) {
        return -ENOMEM; /* as the kernel does when a split exceeds the limit of mappings */
    }
    return munmap(memory, size) == 0 ? 0 : -errno;
}

int wf_memory_discard(void *memory, size_t size)
{
    if (WF_FAULT("madvise")) {
        return -EINVAL; /* as the kernel does for pages locked into memory */
    }
    return madvise(memory, size, MADV_DONTNEED) == 0 ? 0 : -errno;
}

int wf_memory_discard_ranges(const struct iovec *ranges, size_t count)
{
    static wf_atomic_u32 is_refused; /* [any: write]  this kernel or a filter refuses the call */
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += ranges[i].iov_len;
    }
    /* relaxed, here and below: a thread that does not see the flag makes one more futile call. */
    if (WF_FAULT("process_madvise") || wf_load_relaxed(&is_refused) != 0) {
        return -ENOSYS;
    }
    const long done = syscall(SYS_process_madvise, PIDFD_SELF, ranges, count, MADV_DONTNEED, 0);
    const int rc = done < 0 ? -errno : (size_t)done == size ? 0 : -EAGAIN;
    if (rc == -ENOSYS || rc == -EBADF || rc == -EPERM) {
        wf_store_relaxed(&is_refused, 1);
    }
    return rc;
}

int wf_memory_protect(void *memory, size_t size)
{
    if (WF_FAULT("mprotect")) {
        return -ENOMEM;
    }
    return mprotect(memory, size, PROT_NONE) == 0 ? 0 : -errno;
}

int wf_memory_guard(void *memory, size_t size)
{
    if (WF_FAULT("madvise_guard")) {
        return -EINVAL;
    }
    return madvise(memory, size, MADV_GUARD_INSTALL) == 0 ? 0 : -errno;
}

/* Lets the kernel write to `memory`: it returns -EFAULT where an access would raise a signal. */
static bool is_writable(void *memory)
{
    return syscall(SYS_rt_sigpending, memory, sizeof(uint64_t)) == 0;
}

bool wf_memory_can_guard(void)
{
    const size_t size = wf_page_size();
    void *page = NULL;
    if (wf_memory_map(&page, size) != 0) {
        return false;
    }
    bool is_guarded = wf_memory_guard(page, size) == 0 && !is_writable(page);
    (void)wf_memory_unmap(page, size); /* a whole mapping; on error it leaks */
    return is_guarded;
}

int wf_memory_no_huge_pages(void *memory, size_t size)
{
    if (WF_FAULT("madvise_nohugepage")) {
        return -EINVAL;
    }
    return madvise(memory, size, MADV_NOHUGEPAGE) == 0 ? 0 : -errno;
}

int wf_memory_resident(const void *memory, size_t size, unsigned char *pages)
{
    if (WF_FAULT("mincore")) {
        return -EAGAIN;
    }
    /* The kernel does not write to the range; the C library's prototype lacks the const. */
    if (mincore((void *)(uintptr_t)memory, size, pages) != 0) {
        return -errno;
    }
    const size_t count = (size + wf_page_size() - 1) / wf_page_size();
    for (size_t i = 0; i < count; i++) {
        pages[i] &= 1; /* the other bits are reserved */
    }
    return 0;
}

size_t wf_mapping_count_max(void)
{
    enum { LIMIT_DEFAULT = 65530 };
    char text[32];
    int fd = WF_FAULT("open") ? -1 : open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return LIMIT_DEFAULT;
    }
    ssize_t length = WF_FAULT("read") ? -1 : read(fd, text, sizeof(text) - 1);
    (void)close(fd); /* nothing was written */
    uint64_t number = 0;
    if (length > 0) {
        text[text[length - 1] == '\n' ? length - 1 : length] = '\0';
        if (wf_parse_u64(text, 1, SIZE_MAX, &number) == 0) {
            return (size_t)number;
        }
    }
    return LIMIT_DEFAULT;
}
