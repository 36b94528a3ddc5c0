/* SPDX-License-Identifier: MIT */
/*
 * os/mem.c - whole pages from the kernel: for stacks, which need guard pages and are given back
 * while they rest in a cache, and for everything too large for the heap.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/os.h"

size_t wf_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE); /* never fails: the kernel tells it at exec */
}

int wf_memory_map(void **out, size_t size)
{
    if (size == 0) {
        return -EINVAL;
    }
    if (WF_FAULT("mmap")) {
        return -ENOMEM;
    }
    /* The kernel rounds up to pages; a size that would wrap around is refused there too. */
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
        return -ENOMEM; /* the kernel's answer when cutting a mapping in two needs one too many */
    }
    return munmap(memory, size) == 0 ? 0 : -errno;
}

int wf_memory_discard(void *memory, size_t size)
{
    if (WF_FAULT("madvise")) {
        return -EINVAL; /* as for pages locked into memory */
    }
    return madvise(memory, size, MADV_DONTNEED) == 0 ? 0 : -errno;
}

int wf_memory_protect(void *memory, size_t size)
{
    if (WF_FAULT("mprotect")) {
        return -ENOMEM;
    }
    return mprotect(memory, size, PROT_NONE) == 0 ? 0 : -errno;
}
