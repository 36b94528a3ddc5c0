/* SPDX-License-Identifier: MIT */
/*
 * sum.c - tasks sum up a long array: a task with a long part starts another task for the left half
 * and does the right half itself.  Prints:
 *
 *     the sum of 10000000 numbers is 49999995000000
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { COUNT = 10 * 1000 * 1000, ALONE = 10 * 1000 };

struct part {
    const int32_t *numbers;
    size_t count;
};

static intptr_t sum(void *arg)
{
    const struct part *part = arg;
    if (part->count > ALONE) {
        size_t half = part->count / 2;
        struct part left = {part->numbers,
                            half}; /* in this frame, because the task is awaited below */
        struct part right = {part->numbers + half, part->count - half};
        weft_task *task = weft_go(sum, &left);
        intptr_t total = sum(&right);
        return total + weft_await(task);
    }
    intptr_t total = 0;
    for (size_t i = 0; i < part->count; i++) {
        total += part->numbers[i];
    }
    return total;
}

int main(void)
{
    int32_t *numbers = malloc(COUNT * sizeof(int32_t));
    if (numbers == NULL) {
        return EXIT_FAILURE;
    }
    for (int32_t i = 0; i < COUNT; i++) {
        numbers[i] = i;
    }
    struct part all = {numbers, COUNT};
    intptr_t total = weft_run(sum, &all, NULL);
    printf("the sum of %d numbers is %" PRIdPTR "\n", COUNT, total);
    free(numbers);
    return total == INT64_C(49999995000000) ? EXIT_SUCCESS : EXIT_FAILURE;
}
