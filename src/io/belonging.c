/* SPDX-License-Identifier: MIT */
/*
 * io/belonging.c - what a call has opened or allocated for itself while its task waits.
 *
 * A runtime that is closed by force takes the stack of a task that waits, and the call never
 * returns to give back what it has.  So it says what that is, and how it goes.  What was said last
 * goes first: the wait, before the descriptor that is waited for.
 */
#include "io/io.h"

static void forget(struct wf_parting *parting)
{
    const struct wf_belonging *belonging = wf_container_of(parting, struct wf_belonging, parting);
    belonging->end(belonging->what);
}

void wf_belonging_begin(struct wf_belonging *belonging, void (*end)(void *what), void *what)
{
    struct weft_task *self = wf_task_self();
    *belonging = (struct wf_belonging){
        .parting = {.forget = forget},
        .self = self != NULL && self->body != WF_BODY_POLL ? self : NULL,
        .end = end,
        .what = what,
    };
    if (belonging->self != NULL) {
        wf_parting_add(belonging->self, &belonging->parting);
    }
}

void wf_belonging_end(struct wf_belonging *belonging)
{
    if (belonging->self != NULL) {
        wf_parting_remove(belonging->self, &belonging->parting);
    }
}

/* [closer] */
static void close_descriptor(void *what)
{
    (void)weft_close((int)(intptr_t)what); /* nothing is lost with it */
}

void wf_belonging_begin_fd(struct wf_belonging *belonging, int fd)
{
    wf_belonging_begin(belonging, close_descriptor, (void *)(intptr_t)fd);
}
