/* SPDX-License-Identifier: MIT */
/* base/util.c - random numbers, numbers from text, chains of nodes. */
#include <errno.h>
#include <string.h>

#include "base/base.h"

/* ---- random numbers ------------------------------------------------------------------------ */

/* splitmix64: spreads a seed of few bits over the whole state, which must not be all zero. */
static uint64_t spread(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void wf_random_init(struct wf_random *random, uint64_t seed)
{
    random->state[0] = spread(&seed);
    random->state[1] = spread(&seed) | 1;
}

uint64_t wf_random_next(struct wf_random *random)
{
    /* Vigna's xorshift128+ with shifts 23, 18, 5; the sum hides the linear low bits. */
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
    /* The high half of a 32 by 32 product; biased by at most bound / 2^32. */
    return (uint32_t)(((wf_random_next(random) >> 32) * bound) >> 32);
}

/* ---- numbers from text --------------------------------------------------------------------- */

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

void wf_chain_push(struct wf_chain *chain, struct wf_node *node)
{
    node->next = NULL;
    if (chain->last != NULL) {
        chain->last->next = node;
    } else {
        chain->first = node;
    }
    chain->last = node;
    chain->count++;
}

struct wf_node *wf_chain_pop(struct wf_chain *chain)
{
    struct wf_node *node = chain->first;
    if (node == NULL) {
        return NULL;
    }
    chain->first = node->next;
    if (chain->first == NULL) {
        chain->last = NULL;
    }
    chain->count--;
    node->next = NULL;
    return node;
}

void wf_chain_append(struct wf_chain *to, struct wf_chain *from)
{
    if (from->first == NULL) {
        return;
    }
    if (to->last != NULL) {
        to->last->next = from->first;
    } else {
        to->first = from->first;
    }
    to->last = from->last;
    to->count += from->count;
    *from = (struct wf_chain){0};
}
