/* SPDX-License-Identifier: MIT */
/*
 * io/resolve.c - names of hosts: weft_resolve.
 *
 * getaddrinfo asks files and servers, for seconds if it must, and cannot be interrupted.  It runs
 * among the calls that block, and what it works on belongs to two: the task that asked, and the
 * lookup.  A task that is cancelled leaves at once; whoever is last frees it.
 *
 *   task     a reference, until it has the answer or does not want it any more
 *   errand   a task without a name that waits for the thread, and has the other reference
 *
 * c-ares was considered, and left out: it knows neither all of nsswitch.conf nor what a machine
 * has added to it, and would be the only library that Weft needs.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>

#include "io/io.h"
#include "sched/fast.h"
#include "weft/blocking.h"
#include "weft/net.h"

struct lookup {
    wf_atomic_u32 references; /* [any] */
    int rc;                   /* [errand, until it is done] */
    weft_addrs *found;        /* the same; then [the task] */
    weft_oneshot done;
    const char *service; /* NULL: none */
    char host[];         /* and the service behind it */
};

/* ---- asking ---------------------------------------------------------------------------------- */

static int error_of(int code, int error)
{
    switch (code) {
    case EAI_NONAME:
    case EAI_NODATA:
    case EAI_SERVICE:
        return -ENOENT;
    case EAI_AGAIN:
    case EAI_FAIL:
        return -EREMOTEIO;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_FAMILY:
    case EAI_ADDRFAMILY:
        return -EAFNOSUPPORT;
    case EAI_SYSTEM:
        return error != 0 ? -error : -EIO;
    default:
        return -EINVAL;
    }
}

/* Room for so many. */
static weft_addrs *addrs_new(size_t count)
{
    weft_addrs *addrs = wf_alloc_zeroed(1, sizeof(*addrs) + count * sizeof(addrs->list[0]));
    if (addrs != NULL) {
        addrs->list = (weft_address *)(void *)(addrs + 1);
    }
    return addrs;
}

static int copy_list(const struct addrinfo *list, weft_addrs **out)
{
    size_t count = 0;
    for (const struct addrinfo *info = list; info != NULL; info = info->ai_next) {
        count++;
    }
    weft_addrs *addrs = addrs_new(count);
    if (addrs == NULL) {
        return -ENOMEM;
    }
    for (const struct addrinfo *info = list; info != NULL; info = info->ai_next) {
        if (info->ai_addrlen <= sizeof(addrs->list[0].as)) {
            addrs->list[addrs->count].size = info->ai_addrlen;
            memcpy(&addrs->list[addrs->count].as, info->ai_addr, info->ai_addrlen);
            addrs->count++;
        }
    }
    *out = addrs;
    return 0;
}

/* [a thread that may block] */
static int ask(const char *host, const char *service, weft_addrs **out)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    if (WF_FAULT("getaddrinfo")) {
        return -EREMOTEIO;
    }
    int code = getaddrinfo(host, service, &hints, &list);
    if (code != 0) {
        return error_of(code, errno);
    }
    int rc = copy_list(list, out);
    freeaddrinfo(list);
    return rc;
}

/* Numbers are known without asking: 1.  0: it is a name.  -EINVAL: what libc would read as a number
 * in some way or other: a port with zeros in front, 0x7f.1. */
static int read_numbers(const char *host, const char *service, weft_address *out)
{
    uint64_t port = 0;
    struct in_addr odd;
    int rc = service != NULL ? wf_parse_u64(service, 0, 65535, &port) : 0;
    if (rc == 0 && service != NULL && service[0] == '0' && service[1] != '\0') {
        return -EINVAL;
    }
    if (rc != 0) {
        return rc == -ERANGE || isalnum((unsigned char)service[0]) == 0 ? -EINVAL : 0;
    }
    *out = (weft_address){.size = 0};
    if (inet_pton(AF_INET, host, &out->as.ip4.sin_addr) == 1) {
        out->size = sizeof(out->as.ip4);
        out->as.ip4.sin_family = AF_INET;
        out->as.ip4.sin_port = htons((uint16_t)port);
    } else if (inet_pton(AF_INET6, host, &out->as.ip6.sin6_addr) == 1) {
        out->size = sizeof(out->as.ip6);
        out->as.ip6.sin6_family = AF_INET6;
        out->as.ip6.sin6_port = htons((uint16_t)port);
    } else if (inet_aton(host, &odd) != 0) {
        return -EINVAL;
    }
    return out->size != 0 ? 1 : 0;
}

/* ---- in a task ------------------------------------------------------------------------------- */

static void lookup_put(struct lookup *lookup)
{
    if (wf_fetch_sub_acq_rel(&lookup->references, 1) == 1) { /* (I5) */
        weft_addrs_free(lookup->found);
        wf_free(lookup);
    }
}

/* [closer] */
static void put_lookup(void *lookup)
{
    lookup_put(lookup);
}

/* [a thread that may block] */
static intptr_t run_lookup(void *arg)
{
    struct lookup *lookup = arg;
    return ask(lookup->host, lookup->service, &lookup->found);
}

/* [errand]  Ends without an error in any case: nobody looks at it. */
static intptr_t run_errand(void *arg)
{
    struct lookup *lookup = arg;
    lookup->rc = (int)weft_blocking(run_lookup, lookup);
    (void)weft_oneshot_send(&lookup->done, NULL); /* carries rc and found */
    lookup_put(lookup);
    return 0;
}

static struct lookup *lookup_new(const char *host, const char *service)
{
    const size_t host_size = strlen(host) + 1;
    const size_t service_size = service != NULL ? strlen(service) + 1 : 0;
    struct lookup *lookup = wf_alloc_zeroed(1, sizeof(*lookup) + host_size + service_size);
    if (lookup == NULL) {
        return NULL;
    }
    memcpy(lookup->host, host, host_size);
    if (service != NULL) {
        lookup->service = memcpy(lookup->host + host_size, service, service_size);
    }
    wf_store_relaxed(&lookup->references, 2); /* relaxed: nobody else knows it */
    return lookup;
}

/* [task] */
static int ask_in_task(const char *host, const char *service, weft_addrs **out)
{
    static const weft_task_options options = {.name = "lookup", .is_detached = true};
    struct lookup *lookup = lookup_new(host, service);
    if (lookup == NULL) {
        return -ENOMEM;
    }
    int rc = weft_spawn(NULL, run_errand, lookup, &options);
    if (rc != 0) {
        wf_free(lookup);
        return rc;
    }
    struct wf_belonging belonging;
    wf_belonging_begin(&belonging, put_lookup, lookup);
    rc = weft_oneshot_recv(&lookup->done, NULL);
    wf_belonging_end(&belonging);
    if (rc == 0) {
        rc = lookup->rc;
        if (rc == 0) {
            *out = lookup->found;
            lookup->found = NULL;
        }
    }
    lookup_put(lookup);
    return rc;
}

int weft_resolve(const char *host, const char *service, weft_addrs **out)
{
    weft_address address;
    if (host == NULL || out == NULL || host[0] == '\0') {
        return -EINVAL;
    }
    int rc = read_numbers(host, service, &address);
    if (rc < 0) {
        return rc;
    }
    if (rc == 1) {
        weft_addrs *addrs = addrs_new(1);
        if (addrs == NULL) {
            return -ENOMEM;
        }
        addrs->list[addrs->count++] = address;
        *out = addrs;
        return 0;
    }
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return ask(host, service, out);
    }
    return self->body == WF_BODY_POLL ? -EAGAIN : ask_in_task(host, service, out);
}

void weft_addrs_free(weft_addrs *addrs)
{
    wf_free(addrs);
}
