/* SPDX-License-Identifier: MIT */
/*
 * io/fd_table.c - the fd records, by number.
 *
 * One table for the process, because descriptor numbers belong to the process: tasks of several
 * runtimes and non-worker threads may use the same descriptor.  Two levels, the second allocated
 * page by page: descriptors are small numbers.  A page is never freed, so finding a record takes
 * two loads and no lock.
 */
#include "io/io.h"

_Static_assert(sizeof(struct wf_fd) <= 2 * WF_CACHE_LINE, "what an idle connection costs");

wf_fd_table_page wf_fd_table_pages[WF_FD_TABLE_PAGES];

/* [any]  NULL: no memory. */
static struct wf_fd *fd_table_grow(int number)
{
    struct wf_fd *page = wf_alloc_zeroed(WF_FD_TABLE_PAGE, sizeof(*page));
    if (page == NULL) {
        return NULL;
    }
    for (int i = 0; i < WF_FD_TABLE_PAGE; i++) {
        page[i].fd = number * WF_FD_TABLE_PAGE + i;
        for (unsigned dir = 0; dir < WF_DIRS; dir++) {
            /* relaxed: (io.I3) below publishes it */
            wf_store_relaxed(&page[i].empty_at[dir], WF_READY_NONE);
        }
    }
    struct wf_fd *other = NULL;
    if (!wf_cas_acq_rel_both(&wf_fd_table_pages[number], &other, page)) { /* (io.I3) */
        wf_free(page);
        return other;
    }
    return page;
}

struct wf_fd *wf_fd_table_get(int fd)
{
    struct wf_fd *record = wf_fd_table_find(fd);
    if (record == NULL && fd >= 0 && fd / WF_FD_TABLE_PAGE < WF_FD_TABLE_PAGES) {
        struct wf_fd *page = fd_table_grow(fd / WF_FD_TABLE_PAGE);
        record = page != NULL ? &page[fd % WF_FD_TABLE_PAGE] : NULL;
    }
    return record;
}

void wf_fd_table_visit(void (*visit)(struct wf_fd *record, void *context), void *context)
{
    for (int number = 0; number < WF_FD_TABLE_PAGES; number++) {
        struct wf_fd *page = wf_load_acquire(&wf_fd_table_pages[number]); /* (io.I3) */
        for (int i = 0; page != NULL && i < WF_FD_TABLE_PAGE; i++) {
            visit(&page[i], context);
        }
    }
}
