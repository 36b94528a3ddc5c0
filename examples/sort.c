/* SPDX-License-Identifier: MIT */
/*
 * sort.c - fills and sorts ten million numbers on all workers.  `sort N` sorts N numbers.  Prints:
 *
 *     10000000 numbers are in order
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

struct numbers {
    uint32_t *items;
    size_t count;
};

static int compare(const void *a, const void *b, void *arg)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    (void)arg;
    return (x > y) - (x < y);
}

static void fill(size_t lo, size_t hi, void *arg)
{
    uint32_t *items = arg;
    for (size_t i = lo; i < hi; i++) {
        items[i] = (uint32_t)(i * 2654435761u); /* in no order */
    }
}

static intptr_t fill_and_sort(void *arg)
{
    const struct numbers *numbers = arg;
    const int rc = weft_par_for(0, numbers->count, 0, fill, numbers->items);
    return rc < 0 ? rc
                  : weft_par_sort(numbers->items, numbers->count, sizeof(uint32_t), compare, NULL);
}

int main(int argc, char **argv)
{
    struct numbers numbers = {NULL, argc > 1 ? strtoul(argv[1], NULL, 10) : 10000000};
    numbers.items = malloc((numbers.count + 1) * sizeof(uint32_t));
    int is_wrong = numbers.items == NULL || weft_run(fill_and_sort, &numbers, NULL) != 0;
    for (size_t i = 1; i < numbers.count && !is_wrong; i++) {
        is_wrong = numbers.items[i - 1] > numbers.items[i];
    }
    printf("%zu numbers are %s\n", numbers.count, is_wrong ? "not in order" : "in order");
    free(numbers.items);
    return is_wrong;
}
