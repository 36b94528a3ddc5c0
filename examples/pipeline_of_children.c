/* SPDX-License-Identifier: MIT */
/*
 * pipeline_of_children.c - what a shell does for `printf ... | sort | uniq -c`: three child
 * processes connected by pipes; one task waits for all three.  Prints:
 *
 *     1 apple
 *     1 fig
 *     3 pear
 *     printf ended with 0
 *     sort ended with 0
 *     uniq ended with 0
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { STAGES = 3 };

static const char *const stages[STAGES][4] = {
    {"printf", "pear\\nfig\\npear\\napple\\npear\\n", NULL},
    {"sort", NULL},
    {"uniq", "-c", NULL},
};

/* Starts the stages one after the other; each reads what the previous one writes.  Returns the last
 * pipe. */
static int start(weft_child **children)
{
    int pipe = -1;
    for (int i = 0; i < STAGES; i++) {
        weft_child_options options = {.argv = stages[i], .out.kind = WEFT_CHILD_PIPE};
        options.in.kind = i == 0 ? WEFT_CHILD_NULL : WEFT_CHILD_FD;
        options.in.fd = pipe;
        int rc = weft_child_spawn(&children[i], &options);
        if (pipe >= 0) {
            weft_close(pipe); /* only the child may hold this end */
        }
        if (rc != 0) {
            return rc;
        }
        pipe = weft_child_take(children[i], 1);
    }
    return pipe;
}

static intptr_t run(void *arg)
{
    weft_child *children[STAGES] = {NULL};
    weft_reader reader;
    weft_view line;
    (void)arg;
    int fd = start(children);
    if (fd >= 0 && weft_reader_init(&reader, fd, NULL, 0) == 0) {
        while (weft_reader_read_line(&reader, &line, 0) == 1) {
            for (; line.size > 0 && line.bytes[0] == ' '; line.size--) {
                line.bytes++; /* uniq pads its numbers */
            }
            printf("%.*s\n", (int)line.size, line.bytes);
        }
        weft_reader_done(&reader);
        weft_close(fd);
    }
    for (int i = 0; i < STAGES; i++) {
        weft_child_end end;
        if (children[i] != NULL && weft_child_wait(children[i], &end) == 0) {
            printf("%s ended with %d\n", stages[i][0], end.code);
        }
        weft_child_close(children[i]);
    }
    return fd < 0 ? fd : 0;
}

int main(void)
{
    return weft_run(run, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
