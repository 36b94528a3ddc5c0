/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/waitq.c nothing that is given is lost or given twice, nobody waits beside
 *         something that is there, what the giver did before is seen by who takes it, and nobody
 *         touches a node or a queue that is gone, in every order of steps under every memory model.
 * Method: the object is the least that has a queue: a number of things.  To give is to grant one to
 *         the first who waits, or to add it to the stock.  Nodes, and the object in one test, come
 *         from the checker's heap and are freed as soon as the wait is over: a late touch is a use
 *         after free.  A thing that was neither taken nor kept fails the check; a lost wake-up is a
 *         deadlock; what a giver wrote is plain, so that a missing edge is a race.
 *         Keeps behaviour 53, in part.
 */
#include "model/sync_aids.h"

struct shelf {
    struct wf_waitq queue;
    unsigned stock; /* [locked] */
};

static struct shelf *shelves[2];
static unsigned given;
static unsigned taken[MODEL_THREADS_MAX];
static int letters[2];                      /* plain: written by who gives from shelf i */
static struct wf_wait_node *left_node;      /* of a task that never runs again */
static struct wf_selection *left_selection; /* NULL: none */

/* ---- the object ---------------------------------------------------------------------------- */

static void give_quietly(struct shelf *shelf)
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
    give_quietly(wf_container_of(node->queue, struct shelf, queue));
}

/* 0: it is taken.  -EINPROGRESS: the node waits. */
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

/* ---- the beginning and the end of a test --------------------------------------------------- */

static void start(void)
{
    start_tasks();
    for (unsigned i = 0; i < 2; i++) {
        shelves[i] = wf_alloc_zeroed(1, sizeof(*shelves[i]));
        letters[i] = 0;
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        taken[i] = 0;
    }
    given = 1;
    left_node = NULL;
    left_selection = NULL;
}

static void start_two_given(void)
{
    start();
    given = 2;
}

static void start_foreign_taker(void)
{
    start();
    is_foreign[0] = true;
}

static void start_foreign_giver(void)
{
    start();
    is_foreign[1] = true;
}

/* Thread 3, which does not exist, waits in shelf 0 already. */
static void start_with_one_left(void)
{
    start();
    left_node = new_node(&selves[3]);
    (void)begin(shelves[0], left_node);
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
    wf_free(left_node);
    wf_free(left_selection);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void give_first(void)
{
    wf_plain_store(&letters[0], 1);
    give_quietly(shelves[0]);
}

static void give_second(void)
{
    wf_plain_store(&letters[1], 1);
    give_quietly(shelves[1]);
}

static void give_another(void)
{
    give_quietly(shelves[0]);
}

static void give_two(void)
{
    give_first();
    give_another();
}

static void take_one(void)
{
    MODEL_REQUIRE(take(shelves[0], WEFT_NEVER) == 0);
    MODEL_REQUIRE(wf_plain_load(&letters[0]) == 1);
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
        MODEL_REQUIRE(wf_plain_load(&letters[0]) == 1);
    }
}

/* [foreign]  Its time may come at any moment. */
static void take_for_some_time(void)
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

static void wake_first_for_nothing(void)
{
    wf_task_wake(&selves[0]);
}

/* As a forced close does, or a future that is dropped. */
static void abandon_left(void)
{
    left_node->parting.forget(&left_node->parting);
    struct wf_wait_node *node = left_node;
    left_node = NULL;
    wf_free(node);
}

/* From either shelf, what comes first; the other is left. */
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
        int32_t nobody = -1;
        /* It claims itself before it takes anything: the first shelf may have granted by now. */
        if (stock > 0 && wf_cas_relaxed(&selection->winner, &nobody, i)) {
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
    MODEL_REQUIRE(wf_plain_load(&letters[winner]) == 1);
}

static const struct model_test tests[] = {
    {.name = "a wait",
     .setup = start,
     .threads = {take_one, give_first},
     .names = {"taker", "giver"},
     .check = check},
    {.name = "a wait, woken for nothing",
     .setup = start,
     .threads = {take_one, give_first, wake_first_for_nothing},
     .names = {"taker", "giver", "waker"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check,
     .is_slow = 1},
    {.name = "a wait, cancelled",
     .setup = start,
     .threads = {take_cancelled, give_first, cancel_first},
     .names = {"taker", "giver", "canceller"},
     .check = check},
    {.name = "the object is freed by who was granted it",
     .setup = start,
     .threads = {take_and_free, give_first},
     .names = {"taker", "giver"},
     .check = check},
    {.name = "a foreign thread waits",
     .setup = start_foreign_taker,
     .threads = {take_one, give_first},
     .names = {"thread", "giver"},
     .check = check},
    {.name = "a foreign thread waits for some time",
     .setup = start_foreign_taker,
     .threads = {take_for_some_time, give_first},
     .names = {"thread", "giver"},
     .check = check},
    {.name = "a foreign thread gives",
     .setup = start_foreign_giver,
     .threads = {take_one, give_first},
     .names = {"taker", "thread"},
     .check = check},
    {.name = "two wait for two",
     .setup = start_two_given,
     .threads = {take_any, take_any, give_first, give_another},
     .names = {"taker 1", "taker 2", "giver 1", "giver 2"},
     .bound = {2, 2, 1}, /* one preemption, none under view: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "one of two is cancelled",
     .setup = start_two_given,
     .threads = {take_cancelled, give_two, cancel_first, take_any},
     .names = {"taker 1", "giver", "canceller", "taker 2"},
     .bound = {2, 2, 1}, /* as above */
     .check = check,
     .is_slow = 1},
    {.name = "a grant to one that never runs again",
     .setup = start_with_one_left,
     .threads = {give_first, abandon_left},
     .names = {"giver", "closer"},
     .check = check},
    {.name = "a grant to one that never runs again is another's",
     .setup = start_with_one_left,
     .threads = {take_one, give_first, abandon_left},
     .names = {"taker", "giver", "closer"},
     .bound = {3, 3, 3}, /* two preemptions */
     .check = check,
     .is_slow = 1},
    {.name = "a selection",
     .setup = start,
     .threads = {select_one, give_first},
     .names = {"selector", "giver"},
     .check = check},
    {.name = "a selection from two that give",
     .setup = start_two_given,
     .threads = {select_one, give_first, give_second},
     .names = {"selector", "giver 1", "giver 2"},
     .bound = {3, 3, 2}, /* two preemptions, one under view */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"waitq", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/sync/waitq.c"};
    return model_main(argc, argv, &suite);
}
