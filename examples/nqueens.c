/* SPDX-License-Identifier: MIT */
/*
 * nqueens.c - counts the ways to place ten queens on a board without conflict: each safe square is
 * tried in a fork of its own.  Prints:
 *
 *     10 queens: 724 ways
 */
#include <stdio.h>
#include <weft/weft.h>

enum { SIZE = 10 };

/* The occupied columns and diagonals, one bit each. */
struct board {
    unsigned columns;
    unsigned up;
    unsigned down;
    int row;
};

static intptr_t place(void *arg)
{
    const struct board *board = arg;
    struct board next[SIZE];
    weft_par_fork forks[SIZE];
    int count = 0;
    intptr_t ways = board->row == SIZE ? 1 : 0;
    for (unsigned column = 1; board->row < SIZE && column < 1u << SIZE; column *= 2) {
        if (((board->columns | board->up | board->down) & column) == 0) {
            next[count] = (struct board){board->columns | column, (board->up | column) << 1,
                                         (board->down | column) >> 1, board->row + 1};
            weft_par_fork_go(&forks[count], place, &next[count]);
            count++;
        }
    }
    while (count-- > 0) { /* joins in reverse order */
        ways += weft_par_fork_join(&forks[count]);
    }
    return ways;
}

int main(void)
{
    struct board empty = {0, 0, 0, 0};
    const intptr_t ways = weft_run(place, &empty, NULL);
    printf("%d queens: %ld ways\n", SIZE, (long)ways);
    return ways > 0 ? 0 : 1;
}
