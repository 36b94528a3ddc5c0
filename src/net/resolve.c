/* SPDX-License-Identifier: MIT */
/*
 * net/resolve.c - host names to addresses: weft_net_resolve.
 *
 * getaddrinfo reads files and asks servers, for seconds if it must, and cannot be interrupted.  It
 * runs on a thread of the blocking pool.  The task waits for a future of that call, in a race with
 * a sleep that never ends: so a task that is cancelled or out of time leaves at once.  What the
 * call works on belongs to its future until the future is ready.  If the race or a forced close
 * drops the future before, the dropped future frees the lookup once the pool thread is done.
 *
 * Rejected: a detached task that waits for the thread and shares the lookup with the caller by a
 * reference count (it takes a stack, and a forced close could keep it from ever running); c-ares
 * (it knows neither all of nsswitch.conf nor what a machine has added to it, and would be the only
 * required library).
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>

#include "future/future.h"
#include "net/net.h"
#include "weft/blocking.h"
#include "weft/poll.h"

/* What a thread of the blocking pool works on. */
struct lookup {
    weft_address_list *found;
    const char *service; /* NULL: none */
    char host[];         /* and the service behind it */
};

/* ---- libc ------------------------------------------------------------------------------------ */

/* `code` is of getaddrinfo, `error` is errno. */
static int resolve_error(int code, int error)
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

/* A list without addresses, with space for `capacity`. */
static weft_address_list *addrs_new(size_t capacity)
{
    weft_address_list *addrs =
        wf_alloc_zeroed(1, sizeof(*addrs) + capacity * sizeof(addrs->list[0]));
    if (addrs != NULL) {
        addrs->list = (weft_address *)(void *)(addrs + 1);
    }
    return addrs;
}

static int copy_addresses(const struct addrinfo *list, weft_address_list **out)
{
    size_t count = 0;
    for (const struct addrinfo *info = list; info != NULL; info = info->ai_next) {
        count++;
    }
    weft_address_list *addrs = addrs_new(count);
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

/* [non-worker thread]  Blocks. */
static int ask_libc(const char *host, const char *service, weft_address_list **out)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    if (WF_FAULT("getaddrinfo")) {
        return -EREMOTEIO;
    }
    int code = getaddrinfo(host, service, &hints, &list);
    if (code != 0) {
        return resolve_error(code, errno);
    }
    int rc = copy_addresses(list, out);
    freeaddrinfo(list);
    return rc;
}

/* A numeric host needs no lookup.  1: *out is the address; 0: a lookup is needed; -EINVAL: libc
 * would accept it as a number in an unusual form, such as a port with leading zeros or 0x7f.1. */
static int resolve_numeric(const char *host, const char *service, weft_address *out)
{
    uint64_t port = 0;
    struct in_addr unusual;
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
    } else if (inet_aton(host, &unusual) != 0) {
        return -EINVAL;
    }
    return out->size != 0 ? 1 : 0;
}

/* ---- in a task ------------------------------------------------------------------------------- */

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
    return lookup;
}

/* [the owner of the lookup] */
static void lookup_free(void *arg)
{
    struct lookup *lookup = arg;
    weft_address_list_free(lookup->found);
    wf_free(lookup);
}

/* [a thread of the blocking pool] */
static intptr_t lookup_run(void *arg)
{
    struct lookup *lookup = arg;
    return ask_libc(lookup->host, lookup->service, &lookup->found);
}

/* [green thread]  Suspends until the lookup has an answer, or the task is cancelled or out of
 * time. */
static int ask_in_task(const char *host, const char *service, weft_address_list **out)
{
    enum { ANSWER, INTERRUPTION };
    weft_wait_future answer;
    weft_sleep_future interruption;
    weft_join_future race;
    weft_branch branches[] = {
        [ANSWER] = {.future = &answer.future}, [INTERRUPTION] = {.future = &interruption.future}};
    struct lookup *lookup = lookup_new(host, service);
    if (lookup == NULL) {
        return -ENOMEM;
    }
    weft_blocking_call_future(&answer, lookup_run, lookup, lookup_free);
    weft_sleep_future_init(&interruption, WEFT_NEVER);
    weft_join_future_init(&race, WEFT_JOIN_RACE, branches, sizeof(branches) / sizeof(branches[0]));
    const intptr_t winner = weft_future_await(&race.future);
    WEFT_CHECK(winner == ANSWER || winner == INTERRUPTION);
    if (winner == INTERRUPTION) {
        return (int)branches[winner].result; /* the lookup belongs to the dropped future */
    }
    const int rc = (int)branches[ANSWER].result;
    if (rc == 0) {
        *out = lookup->found;
        lookup->found = NULL;
    }
    lookup_free(lookup);
    return rc;
}

int weft_net_resolve(weft_address_list **out, const char *host, const char *service)
{
    weft_address address;
    WF_NOT_NULL(host, "weft_net_resolve: host is NULL");
    WF_NOT_NULL(out, "weft_net_resolve: out is NULL");
    if (host[0] == '\0') {
        return -EINVAL;
    }
    int rc = resolve_numeric(host, service, &address);
    if (rc < 0) {
        return rc;
    }
    if (rc == 1) {
        weft_address_list *addrs = addrs_new(1);
        if (addrs == NULL) {
            return -ENOMEM;
        }
        addrs->list[addrs->count++] = address;
        *out = addrs;
        return 0;
    }
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return ask_libc(host, service, out);
    }
    return self->body == WF_BODY_POLL ? -EAGAIN : ask_in_task(host, service, out);
}

void weft_address_list_free(weft_address_list *addrs)
{
    wf_free(addrs);
}
