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

enum {
    PAGE = 256,    /* entries */
    PAGES = 16384, /* more descriptors than a process gets by default settings of any kernel */
};

_Static_assert(sizeof(struct wf_entry) <= 2 * WF_CACHE_LINE, "what an idle connection costs");

static WF_ATOMIC(struct wf_entry *) pages[PAGES]; /* [any: CAS] */

struct wf_entry *wf_table_find(int fd)
{
    if (fd < 0 || fd / PAGE >= PAGES) {
        return NULL;
    }
    struct wf_entry *page = wf_load_acquire(&pages[fd / PAGE]); /* (I3) */
    return page != NULL ? &page[fd % PAGE] : NULL;
}

/* [any]  NULL: no memory. */
static struct wf_entry *grow(int number)
{
    struct wf_entry *page = wf_alloc_zeroed(PAGE, sizeof(*page));
    if (page == NULL) {
        return NULL;
    }
    for (int i = 0; i < PAGE; i++) {
        page[i].fd = number * PAGE + i;
        for (unsigned side = 0; side < WF_SIDES; side++) {
            wf_store_relaxed(&page[i].drained[side], WF_NEWS_NONE); /* relaxed: (I3) */
        }
    }
    struct wf_entry *other = NULL;
    if (!wf_cas_acq_rel_both(&pages[number], &other, page)) { /* (I3) */
        wf_free(page);
        return other;
    }
    return page;
}

struct wf_entry *wf_table_entry(int fd)
{
    struct wf_entry *entry = wf_table_find(fd);
    if (entry == NULL && fd >= 0 && fd / PAGE < PAGES) {
        struct wf_entry *page = grow(fd / PAGE);
        entry = page != NULL ? &page[fd % PAGE] : NULL;
    }
    return entry;
}

void wf_table_visit(void (*visit)(struct wf_entry *entry, void *context), void *context)
{
    for (int number = 0; number < PAGES; number++) {
        struct wf_entry *page = wf_load_acquire(&pages[number]); /* (I3) */
        for (int i = 0; page != NULL && i < PAGE; i++) {
            visit(&page[i], context);
        }
    }
}
