/* SPDX-License-Identifier: MIT */
/*
 * io/table.c - what is known of each descriptor, by its number.
 *
 * One table for the process, because the numbers are the process's: a descriptor may be used by
 * tasks of several runtimes, and by threads.  Two levels, of which the second comes page by page:
 * descriptors are small numbers.  What is there stays, so that finding an entry takes two loads and
 * no lock.
 */
#include "io/io.h"

_Static_assert(sizeof(struct wf_entry) <= 2 * WF_CACHE_LINE, "what an idle connection costs");

wf_table_page wf_table_pages[WF_TABLE_PAGES];

/* [any]  NULL: no memory. */
static struct wf_entry *grow(int number)
{
    struct wf_entry *page = wf_alloc_zeroed(WF_TABLE_PAGE, sizeof(*page));
    if (page == NULL) {
        return NULL;
    }
    for (int i = 0; i < WF_TABLE_PAGE; i++) {
        page[i].fd = number * WF_TABLE_PAGE + i;
        for (unsigned side = 0; side < WF_SIDES; side++) {
            wf_store_relaxed(&page[i].drained[side], WF_NEWS_NONE); /* relaxed: (I3) */
        }
    }
    struct wf_entry *other = NULL;
    if (!wf_cas_acq_rel_both(&wf_table_pages[number], &other, page)) { /* (I3) */
        wf_free(page);
        return other;
    }
    return page;
}

struct wf_entry *wf_table_entry(int fd)
{
    struct wf_entry *entry = wf_table_find(fd);
    if (entry == NULL && fd >= 0 && fd / WF_TABLE_PAGE < WF_TABLE_PAGES) {
        struct wf_entry *page = grow(fd / WF_TABLE_PAGE);
        entry = page != NULL ? &page[fd % WF_TABLE_PAGE] : NULL;
    }
    return entry;
}

void wf_table_visit(void (*visit)(struct wf_entry *entry, void *context), void *context)
{
    for (int number = 0; number < WF_TABLE_PAGES; number++) {
        struct wf_entry *page = wf_load_acquire(&wf_table_pages[number]); /* (I3) */
        for (int i = 0; page != NULL && i < WF_TABLE_PAGE; i++) {
            visit(&page[i], context);
        }
    }
}
