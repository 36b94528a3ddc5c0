/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/waitq.c nothing that is given is lost or given twice, no taker waits while
 *         something is available, a taker sees the giver's writes, and no thread touches a freed
 *         node or queue, in every order of steps under every memory model.
 * Method: the object is the simplest one with a queue: a number of things.  To give is to grant one
 *         to the first waiter, or to add it to the stock.  Nodes, and the object in one test, come
 *         from the checker's heap and are freed as soon as the wait is over: a late access is a use
 *         after free.  A thing that was neither taken nor kept fails the check; a lost wake-up is a
 *         deadlock; the giver's data is plain, so that a missing edge is a race.
 *         Keeps behaviour 53, in part.
 */
#include "model/sync_helpers.h"

struct shelf {
    struct wf_waitq queue;
    unsigned stock; /* [locked] */
};

static struct shelf *shelves[2];
static unsigned given;
static unsigned taken[MODEL_THREADS_MAX];
static int payloads[2];                          /* plain: written by the giver of shelf i */
static struct wf_wait_node *abandoned_node;      /* of a task that never runs again */
static struct wf_selection *abandoned_selection; /* NULL: none */

/* ---- the object ---------------------------------------------------------------------------- */

static void grant_or_stock(struct shelf *shelf)
{
    struct weft_task *task = NULL;
    wf_lock_acquire(&shelf->queue.lock);
    struct wf_wait_node *node = wf_waitq_claim(&shelf->queue);
    if (node != NULL) {
        task = wf_waitq_grant(node);
    } else {
        wf_plain_store(&shelf->stock, wf_plain_load(&shelf->stock) + 1);
    }
    wf_lock_release(&shelf->queue.lock);
    if (task != NULL) {
        wf_task_wake(task);
    }
}

static void pass_on(struct wf_wait_node *node)
{
    grant_or_stock(wf_container_of(node->queue, struct shelf, queue));
}

/* 0: taken.  -EINPROGRESS: the node waits. */
static int begin(struct shelf *shelf, struct wf_wait_node *node)
{
    int rc = 0;
    wf_lock_acquire(&shelf->queue.lock);
    const unsigned stock = wf_plain_load(&shelf->stock);
    if (stock > 0) {
        wf_plain_store(&shelf->stock, stock - 1);
    } else {
        wf_waitq_push(&shelf->queue, node);
        rc = -EINPROGRESS;
    }
    wf_lock_release(&shelf->queue.lock);
    return rc;
}

static struct wf_wait_node *new_node(struct weft_task *self)
{
    struct wf_wait_node *node = wf_alloc_zeroed(1, sizeof(*node));
    wf_node_init(node, self);
    node->pass_on = pass_on;
    return node;
}

static int take(struct shelf *shelf, int64_t until_ns)
{
    struct wf_wait_node *node = new_node(wf_task_self());
    int rc = begin(shelf, node);
    if (rc == -EINPROGRESS) {
        rc = wf_waitq_wait(node, WEFT_WAIT_SEMAPHORE, shelf, until_ns);
    }
    taken[model_thread()] += rc == 0 ? 1 : 0;
    wf_free(node);
    return rc;
}

/* ---- setup and check ----------------------------------------------------------------------- */

static void start(void)
{
    start_tasks();
    for (unsigned i = 0; i < 2; i++) {
        shelves[i] = wf_alloc_zeroed(1, sizeof(*shelves[i]));
        payloads[i] = 0;
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        taken[i] = 0;
    }
    given = 1;
    abandoned_node = NULL;
    abandoned_selection = NULL;
}

static void start_two_given(void)
{
    start();
    given = 2;
}

static void start_thread_taker(void)
{
    start();
    is_thread[0] = true;
}

static void start_thread_giver(void)
{
    start();
    is_thread[1] = true;
}

/* Thread 3, which does not exist, waits in shelf 0 already. */
static void start_with_abandoned(void)
{
    start();
    abandoned_node = new_node(&selves[3]);
    (void)begin(shelves[0], abandoned_node);
}

static void check(void)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        sum += taken[i];
    }
    for (unsigned i = 0; i < 2; i++) {
        if (shelves[i] != NULL) {
            sum += shelves[i]->stock;
            MODEL_REQUIRE(shelves[i]->queue.first == NULL);
            MODEL_REQUIRE(shelves[i]->queue.last == NULL);
        }
        wf_free(shelves[i]);
    }
    MODEL_REQUIRE(sum == given);
    wf_free(abandoned_node);
    wf_free(abandoned_selection);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void give_first(void)
{
    wf_plain_store(&payloads[0], 1);
    grant_or_stock(shelves[0]);
}

static void give_second(void)
{
    wf_plain_store(&payloads[1], 1);
    grant_or_stock(shelves[1]);
}

static void give_another(void)
{
    grant_or_stock(shelves[0]);
}

static void give_two(void)
{
    give_first();
    give_another();
}

static void take_one(void)
{
    MODEL_REQUIRE(take(shelves[0], WEFT_NEVER) == 0);
    MODEL_REQUIRE(wf_plain_load(&payloads[0]) == 1);
}

static void take_any(void)
{
    MODEL_REQUIRE(take(shelves[0], WEFT_NEVER) == 0);
}

static void take_cancelled(void)
{
    int rc = take(shelves[0], WEFT_NEVER);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        MODEL_REQUIRE(wf_plain_load(&payloads[0]) == 1);
    }
}

/* [non-worker thread]  Its deadline may pass at any moment. */
static void take_until_deadline(void)
{
    int rc = take(shelves[0], 1);
    MODEL_REQUIRE(rc == 0 || rc == -ETIMEDOUT);
}

static void take_and_free(void)
{
    take_one();
    struct shelf *shelf = shelves[0];
    shelves[0] = NULL;
    wf_free(shelf);
}

static void cancel_first(void)
{
    cancel(0);
}

static void wake_first_spuriously(void)
{
    wf_task_wake(&selves[0]);
}

/* As a forced close does, or a dropped future. */
static void abandon_node(void)
{
    abandoned_node->hook.abandon(&abandoned_node->hook);
    struct wf_wait_node *node = abandoned_node;
    abandoned_node = NULL;
    wf_free(node);
}

/* Takes from either shelf, whichever grants first; leaves the other. */
static void select_one(void)
{
    struct weft_task *self = wf_task_self();
    struct wf_selection *selection = wf_alloc_zeroed(1, sizeof(*selection));
    struct wf_wait_node *nodes[2];
    int winner = -1;
    wf_atomic_init(&selection->winner, -1);
    unsigned pushed = 0;
    for (int32_t i = 0; i < 2 && winner < 0; i++) {
        nodes[i] = new_node(self);
        nodes[i]->selection = selection;
        nodes[i]->index = i;
        pushed++;
        struct shelf *shelf = shelves[i];
        wf_lock_acquire(&shelf->queue.lock);
        const unsigned stock = wf_plain_load(&shelf->stock);
        int32_t none = -1;
        /* It claims itself before it takes anything: the first shelf may have granted by now. */
        if (stock > 0 && wf_cas_relaxed(&selection->winner, &none, i)) {
            wf_plain_store(&shelf->stock, stock - 1);
            winner = i;
        } else if (stock == 0) {
            wf_waitq_push(&shelf->queue, nodes[i]);
        }
        wf_lock_release(&shelf->queue.lock);
        nodes[i]->queue = &shelf->queue;
    }
    while (winner < 0) {
        for (unsigned i = 0; i < pushed; i++) {
            winner = wf_waitq_is_granted(nodes[i]) ? (int)i : winner;
        }
        if (winner < 0) {
            wf_task_suspend(self);
        }
    }
    for (unsigned i = 0; i < pushed; i++) {
        const bool is_granted = wf_waitq_leave(nodes[i]);
        MODEL_REQUIRE(!is_granted || (int)i == winner);
        wf_free(nodes[i]);
    }
    wf_free(selection);
    taken[model_thread()]++;
    MODEL_REQUIRE(wf_plain_load(&payloads[winner]) == 1);
}

static const struct model_test tests[] = {
    {.name = "grant races wait",
     .setup = start,
     .threads = {take_one, give_first},
     .names = {"taker", "giver"},
     .check = check},
    {.name = "spurious wake-up races grant and wait",
     .setup = start,
     .threads = {take_one, give_first, wake_first_spuriously},
     .names = {"taker", "giver", "waker"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check,
     .is_slow = 1},
    {.name = "cancel races grant and wait",
     .setup = start,
     .threads = {take_cancelled, give_first, cancel_first},
     .names = {"taker", "giver", "canceller"},
     .check = check},
    {.name = "granted waiter frees the queue",
     .setup = start,
     .threads = {take_and_free, give_first},
     .names = {"taker", "giver"},
     .check = check},
    {.name = "grant races wait of a thread",
     .setup = start_thread_taker,
     .threads = {take_one, give_first},
     .names = {"thread", "giver"},
     .check = check},
    {.name = "grant races a deadline of a thread",
     .setup = start_thread_taker,
     .threads = {take_until_deadline, give_first},
     .names = {"thread", "giver"},
     .check = check},
    {.name = "grant by a thread races wait",
     .setup = start_thread_giver,
     .threads = {take_one, give_first},
     .names = {"taker", "thread"},
     .check = check},
    {.name = "two grants race two waits",
     .setup = start_two_given,
     .threads = {take_any, take_any, give_first, give_another},
     .names = {"taker 1", "taker 2", "giver 1", "giver 2"},
     .bound = {2, 2, 1}, /* one preemption, none under view: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "cancel races grants to two waiters",
     .setup = start_two_given,
     .threads = {take_cancelled, give_two, cancel_first, take_any},
     .names = {"taker 1", "giver", "canceller", "taker 2"},
     .bound = {2, 2, 1}, /* one preemption, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "grant races abandon",
     .setup = start_with_abandoned,
     .threads = {give_first, abandon_node},
     .names = {"giver", "closer"},
     .check = check},
    {.name = "abandoned grant is passed on",
     .setup = start_with_abandoned,
     .threads = {take_one, give_first, abandon_node},
     .names = {"taker", "giver", "closer"},
     .bound = {3, 3, 3}, /* two preemptions */
     .check = check,
     .is_slow = 1},
    {.name = "selection races one grant",
     .setup = start,
     .threads = {select_one, give_first},
     .names = {"selector", "giver"},
     .check = check},
    {.name = "selection races two grants",
     .setup = start_two_given,
     .threads = {select_one, give_first, give_second},
     .names = {"selector", "giver 1", "giver 2"},
     .bound = {3, 3, 2}, /* two preemptions, one under view */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"waitq", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/sync/waitq"};
    return model_main(argc, argv, &suite);
}
