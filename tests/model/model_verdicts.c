/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the mutant driver distinguishes its verdicts: killed, crashed, survived, still running,
 *         and each of these against the suite's list.
 * Method: messages through a flag, where a reader that sees the flag without the message fails,
 *         crashes, runs for ever or ignores it.  As written no reader is ever in that state; each
 *         mutant of a release or an acquire gets there.  run.sh compares the output of --mutants
 *         with verdicts.txt.
 */
#include <stdlib.h>

#include "model/model.h"

static wf_atomic_u32 message;
static wf_atomic_u32 flag;

static void clear(void)
{
    wf_store_relaxed(&message, 0);
    wf_store_relaxed(&flag, 0);
}

static void send_to_failing(void)
{
    wf_store_relaxed(&message, 1);
    wf_store_release(&flag, 1);
}

static void failing(void)
{
    if (wf_load_acquire(&flag) == 1) {
        MODEL_REQUIRE(wf_load_relaxed(&message) == 1);
    }
}

static void send_to_crashing(void)
{
    wf_store_relaxed(&message, 1);
    wf_store_release(&flag, 1);
}

static void crashing(void)
{
    if (wf_load_acquire(&flag) == 1 && wf_load_relaxed(&message) == 0) {
        abort();
    }
}

static void send_to_endless(void)
{
    wf_store_relaxed(&message, 1);
    wf_store_release(&flag, 1);
}

static void endless(void)
{
    if (wf_load_acquire(&flag) == 1 && wf_load_relaxed(&message) == 0) {
        for (volatile unsigned i = 0;; i++) {
        }
    }
}

static void send_to_indifferent(void)
{
    wf_store_relaxed(&message, 1);
    wf_store_release(&flag, 1);
}

static void indifferent(void)
{
    (void)wf_load_acquire(&flag);
}

static const struct model_test tests[] = {
    {.name = "failing", .setup = clear, .threads = {send_to_failing, failing}},
    {.name = "crashing", .setup = clear, .threads = {send_to_crashing, crashing}},
    {.name = "endless", .setup = clear, .threads = {send_to_endless, endless}},
    {.name = "indifferent", .setup = clear, .threads = {send_to_indifferent, indifferent}},
};

static const struct model_equivalent equivalents[] = {
    {"send_to_failing: wf_store_release(&flag) -> relaxed", "a lie"},
    {"indifferent: wf_load_acquire(&flag) -> relaxed",
     "nothing is read behind it; a reason so long that it does not fit into one line of a hundred "
     "columns and is folded"},
    {"indifferent: wf_load_acquire(&gone) -> relaxed", "has outlived its code"},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"verdicts",
                                             tests,
                                             MODEL_COUNT(tests),
                                             equivalents,
                                             MODEL_COUNT(equivalents),
                                             "tests/model/model_verdicts.c"};
    return model_main(argc, argv, &suite);
}
