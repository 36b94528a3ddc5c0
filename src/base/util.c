/* SPDX-License-Identifier: MIT */
/* base/util.c - random numbers, parsing of numbers, chains of nodes. */
#include <errno.h>
#include <string.h>

#include "base/base.h"

/* ---- random numbers ------------------------------------------------------------------------ */

/* splitmix64: expands a seed with few set bits to the whole state, which must not be all zero. */
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void wf_random_init(struct wf_random *random, uint64_t seed)
{
    random->state[0] = splitmix64(&seed);
    random->state[1] = splitmix64(&seed) | 1;
}

uint64_t wf_random_next(struct wf_random *random)
{
    /* Vigna's xorshift128+ with the shifts 23, 18, 5; the sum masks the linear low bits. */
    uint64_t s1 = random->state[0];
    const uint64_t s0 = random->state[1];
    const uint64_t result = s0 + s1;
    random->state[0] = s0;
    s1 ^= s1 << 23;
    random->state[1] = s1 ^ s0 ^ (s1 >> 18) ^ (s0 >> 5);
    return result;
}

uint32_t wf_random_below(struct wf_random *random, uint32_t bound)
{
    WEFT_ASSERT(bound > 0);
    /* The high half of a 32 by 32 bit product; the bias is at most bound / 2^32. */
    return (uint32_t)(((wf_random_next(random) >> 32) * bound) >> 32);
}

/* ---- parsing of numbers -------------------------------------------------------------------- */

int wf_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t number = 0;
    if (text == NULL || *text == '\0') {
        return -EINVAL;
    }
    bool is_too_large = false;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9') {
            return -EINVAL;
        }
        uint64_t digit = (uint64_t)(*c - '0');
        is_too_large = is_too_large || number > (UINT64_MAX - digit) / 10;
        number = number * 10 + digit;
    }
    if (is_too_large || number < min || number > max) {
        return -ERANGE;
    }
    *out = number;
    return 0;
}

/* ---- chains -------------------------------------------------------------------------------- */

/* A chain inside a queue is shared under the queue's lock.  Through wf_plain_load and
 * wf_plain_store the model checks it for races. */

void wf_chain_push(struct wf_chain *chain, struct wf_node *node)
{
    struct wf_node *last = wf_plain_load(&chain->last);
    wf_plain_store(&node->next, (struct wf_node *)NULL);
    if (last != NULL) {
        wf_plain_store(&last->next, node);
    } else {
        wf_plain_store(&chain->first, node);
    }
    wf_plain_store(&chain->last, node);
    wf_plain_store(&chain->count, chain->count + 1);
}

struct wf_node *wf_chain_pop(struct wf_chain *chain)
{
    struct wf_node *node = wf_plain_load(&chain->first);
    if (node == NULL) {
        return NULL;
    }
    struct wf_node *next = wf_plain_load(&node->next);
    wf_plain_store(&chain->first, next);
    if (next == NULL) {
        wf_plain_store(&chain->last, (struct wf_node *)NULL);
    }
    wf_plain_store(&chain->count, chain->count - 1);
    wf_plain_store(&node->next, (struct wf_node *)NULL);
    return node;
}

void wf_chain_move(struct wf_chain *to, struct wf_chain *from, size_t count)
{
    if (count == 0) {
        return;
    }
    struct wf_chain part = {.first = wf_plain_load(&from->first), .count = count};
    part.last = part.first;
    for (size_t i = 1; i < count; i++) {
        part.last = wf_plain_load(&part.last->next);
    }
    wf_plain_store(&from->first, wf_plain_load(&part.last->next));
    if (wf_plain_load(&from->first) == NULL) {
        wf_plain_store(&from->last, (struct wf_node *)NULL);
    }
    wf_plain_store(&from->count, from->count - count);
    wf_plain_store(&part.last->next, (struct wf_node *)NULL);
    wf_chain_append(to, &part);
}

void wf_chain_append(struct wf_chain *to, struct wf_chain *from)
{
    if (from->first == NULL) {
        return;
    }
    struct wf_node *last = wf_plain_load(&to->last);
    if (last != NULL) {
        wf_plain_store(&last->next, from->first);
    } else {
        wf_plain_store(&to->first, from->first);
    }
    wf_plain_store(&to->last, from->last);
    wf_plain_store(&to->count, to->count + from->count);
    *from = (struct wf_chain){0};
}
