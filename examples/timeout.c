/* SPDX-License-Identifier: MIT */
/*
 * timeout.c - a request with a timeout.  A select waits for the answer, the end of the serving task
 * and the timeout at once; the first of the three decides.  Prints:
 *
 *     quick: answer 42
 *     slow: no answer in time
 *     broken: ended with -5
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

struct request {
    const char *name;
    int64_t takes; /* nanoseconds */
    int error;
    weft_chan *answers;
};

static intptr_t serve(void *arg)
{
    const struct request *request = arg;
    int answer = 42;
    int rc = weft_sleep(request->takes);
    if (rc != 0 || request->error != 0) {
        return rc != 0 ? rc : request->error;
    }
    return weft_chan_send(request->answers, &answer);
}

static void ask(struct request *request)
{
    int answer = 0;
    weft_task *server = weft_go(serve, request);
    weft_case cases[] = {
        weft_case_recv(request->answers, &answer),
        weft_case_task(server),
        weft_case_time(weft_time_after(WEFT_SECOND / 2)),
    };
    switch (weft_select(cases, 3)) {
    case 0:
        printf("%s: answer %d\n", request->name, answer);
        break;
    case 1:
        printf("%s: ended with %d\n", request->name, (int)cases[1].value);
        break;
    default:
        printf("%s: no answer in time\n", request->name);
        weft_cancel(server);
        break;
    }
    (void)weft_await(server);
}

static intptr_t run(void *arg)
{
    weft_chan *answers;
    (void)arg;
    if (weft_chan_new(&answers, sizeof(int), 0) != 0) {
        return -1;
    }
    ask(&(struct request){"quick", 0, 0, answers});
    ask(&(struct request){"slow", WEFT_SECOND * 3600, 0, answers});
    ask(&(struct request){"broken", 0, -EIO, answers});
    weft_chan_unref(answers);
    return 0;
}

int main(void)
{
    return weft_run(run, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
