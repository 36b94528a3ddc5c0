/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/oneshot.c a sent value is received once or kept, a waiting receiver is
 *         woken by the value or by the close, and no thread touches a freed oneshot or wait, in
 *         every order of steps under every memory model.
 * Method: the value points to plain data that the sender wrote.  The oneshot comes from the
 *         checker's heap and is freed as soon as the receiver has its result: a late access is a
 *         use after free.  A lost wake-up is a deadlock.
 */
#include "model/sync_helpers.h"
#include "sync/chan.h"

static weft_oneshot *oneshot;
static int payloads[MODEL_THREADS_MAX]; /* plain: written by thread i before it sends */
static unsigned sent;                   /* not a step of the model: read after all threads */
static unsigned received;

void wf_task_wake_on(struct wf_worker *worker, struct weft_task *task)
{
    (void)worker;
    wf_task_wake(task);
}

void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object)
{
    wf_wait_begin_until(self, wait, object, WEFT_NEVER);
}

static void start(void)
{
    start_tasks();
    oneshot = wf_alloc_zeroed(1, sizeof(*oneshot));
    sent = 0;
    received = 0;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        payloads[i] = 0;
    }
}

static void start_thread_receiver(void)
{
    start();
    is_thread[0] = true;
}

static void start_thread_sender(void)
{
    start();
    is_thread[1] = true;
}

/* A value that was sent and not received is still there. */
static void check(void)
{
    if (oneshot != NULL) {
        void *value = NULL;
        received += weft_oneshot_try_recv(oneshot, &value) == 0 ? 1 : 0;
    }
    MODEL_REQUIRE(sent == received);
    wf_free(oneshot);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* [thread 1 or 2] */
static int send(void)
{
    int *letter = &payloads[model_thread()];
    wf_plain_store(letter, 1);
    const int rc = weft_oneshot_send(oneshot, letter);
    sent += rc == 0 ? 1 : 0;
    return rc;
}

static void send_it(void)
{
    MODEL_REQUIRE(send() == 0);
}

static void send_or_not(void)
{
    const int rc = send();
    MODEL_REQUIRE(rc == 0 || rc == -EALREADY || rc == -EPIPE);
}

static int receive(void)
{
    void *value = NULL;
    const int rc = weft_oneshot_recv(oneshot, &value);
    if (rc == 0) {
        received++;
        MODEL_REQUIRE(wf_plain_load((int *)value) == 1);
    }
    return rc;
}

static void receive_it(void)
{
    MODEL_REQUIRE(receive() == 0);
}

static void receive_and_free(void)
{
    weft_oneshot *old = oneshot;
    receive_it();
    oneshot = NULL;
    wf_free(old);
}

/* A close ends the wait, and no thread sends afterwards. */
static void receive_close_and_free(void)
{
    weft_oneshot *old = oneshot;
    MODEL_REQUIRE(receive() == -EPIPE);
    oneshot = NULL;
    wf_free(old);
}

/* As a future does: it polls and is woken; the waiter is freed as soon as the result is known. */
static int receive_by_polling(void)
{
    struct weft_task *self = wf_task_self();
    struct wf_waiter *waiter = wf_alloc_zeroed(1, sizeof(*waiter));
    void *value = NULL;
    wf_waiter_init(waiter, self);
    int rc = wf_oneshot_begin(oneshot, waiter, &value);
    while (rc == -EINPROGRESS) { /* each iteration except the last was woken */
        if (wf_task_interrupted(self) != 0) {
            wf_oneshot_abandon(oneshot);
            rc = -ECANCELED;
            break;
        }
        wf_task_suspend(self);
        rc = wf_oneshot_granted(oneshot, &value);
    }
    wf_free(waiter);
    if (rc == 0) {
        received++;
        MODEL_REQUIRE(wf_plain_load((int *)value) == 1);
    }
    return rc;
}

static void poll_and_free(void)
{
    weft_oneshot *old = oneshot;
    MODEL_REQUIRE(receive_by_polling() == 0);
    oneshot = NULL;
    wf_free(old);
}

static void poll_cancelled(void)
{
    const int rc = receive_by_polling();
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
}

static void receive_closed(void)
{
    const int rc = receive();
    MODEL_REQUIRE(rc == 0 || rc == -EPIPE);
}

static void try_it(void)
{
    void *value = NULL;
    const int rc = weft_oneshot_try_recv(oneshot, &value);
    MODEL_REQUIRE(rc == 0 || rc == -EAGAIN);
    if (rc == 0) {
        received++;
        MODEL_REQUIRE(wf_plain_load((int *)value) == 1);
    }
}

/* A cancelled receiver does not wait. */
static void receive_cancelled(void)
{
    const int rc = receive();
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc != 0) {
        try_it();
    }
}

/* Another receiver waits, or has the value. */
static void receive_too(void)
{
    const int rc = receive();
    MODEL_REQUIRE(rc == 0 || rc == -EBUSY || rc == -EALREADY);
}

static void close_it(void)
{
    MODEL_REQUIRE(weft_oneshot_close(oneshot) == 0);
}

static void cancel_first(void)
{
    cancel(0);
}

static const struct model_test tests[] = {
    {.name = "send races recv",
     .setup = start,
     .threads = {receive_it, send_it},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "send races try_recv",
     .setup = start,
     .threads = {try_it, send_it},
     .names = {"tries", "sender"},
     .check = check},
    {.name = "send races recv, the receiver frees it",
     .setup = start,
     .threads = {receive_and_free, send_it},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "send races recv of a thread that frees it",
     .setup = start_thread_receiver,
     .threads = {receive_and_free, send_it},
     .names = {"thread", "sender"},
     .check = check},
    {.name = "send of a thread races recv that frees it",
     .setup = start_thread_sender,
     .threads = {receive_and_free, send_it},
     .names = {"receiver", "thread"},
     .check = check},
    {.name = "send races a future that frees it",
     .setup = start,
     .threads = {poll_and_free, send_it},
     .names = {"future", "sender"},
     .check = check},
    {.name = "send of a thread races a future that frees it",
     .setup = start_thread_sender,
     .threads = {poll_and_free, send_it},
     .names = {"future", "thread"},
     .check = check},
    {.name = "send races a future that is dropped",
     .setup = start,
     .threads = {poll_cancelled, send_it, cancel_first},
     .names = {"future", "sender", "canceller"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "close races recv, the receiver frees it",
     .setup = start,
     .threads = {receive_close_and_free, close_it},
     .names = {"receiver", "closer"},
     .check = check},
    {.name = "close by a thread races recv",
     .setup = start_thread_sender,
     .threads = {receive_close_and_free, close_it},
     .names = {"receiver", "closer"},
     .check = check},
    {.name = "close races send and recv",
     .setup = start,
     .threads = {receive_closed, send_or_not, close_it},
     .names = {"receiver", "sender", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "cancel races send and recv",
     .setup = start,
     .threads = {receive_cancelled, send_it, cancel_first},
     .names = {"receiver", "sender", "canceller"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "two sends race recv",
     .setup = start,
     .threads = {receive_it, send_or_not, send_or_not},
     .names = {"receiver", "sender 1", "sender 2"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "two recvs race send",
     .setup = start,
     .threads = {receive_too, send_it, receive_too},
     .names = {"receiver 1", "sender", "receiver 2"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"oneshot", tests, MODEL_COUNT(tests),
                                             NULL,      0,     "src/sync/oneshot.c"};
    return model_main(argc, argv, &suite);
}
