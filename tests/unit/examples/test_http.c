/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the request parser of the example http satisfies its fuzz target.
 * Method: the corpus, and requests made of the words that matter, some of these corrupted.
 */
#include "base/base.h"
#include "fuzz/corpus.h"
#include "fuzz/fuzz.h"
#include "tap.h"
#include <examples/http.h>

static const char *const targets[] = {"/",   "/", "..",  "%2e",  "%2F",
                                      "%0a", "?", "a b", "%7F%", "http://a"};
static const char *const headers[] = {
    "Host: a\r\n",
    "Host:",
    "content-length: 0\r\n",
    "Content-Length: 7\r\n",
    "Content-Length",
    ":",
    " ",
    "\t",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close, keep-alive\r\n",
    "\r\n",
    "\n",
    "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
};

struct text {
    size_t size;
    uint8_t bytes[2048]; /* larger than any twenty of the words */
};

static void append(struct text *text, const char *word)
{
    memcpy(text->bytes + text->size, word, strlen(word));
    text->size += strlen(word);
}

static void append_some(struct text *text, struct wf_random *random, const char *const *words,
                        size_t count)
{
    for (uint64_t left = wf_random_below(random, 9); left > 0; left--) {
        append(text, words[wf_random_below(random, (uint32_t)count)]);
    }
}

static void http_fuzz_requests_made_of_its_words_pass(void)
{
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    for (unsigned i = 0; i < 50000; i++) {
        struct text text = {.size = 1, .bytes = {(uint8_t)wf_random_next(&random)}};
        append(&text, i % 3 == 0 ? "HEAD /" : "GET /");
        append_some(&text, &random, targets, sizeof(targets) / sizeof(targets[0]));
        append(&text, i % 5 == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\nHost: a\r\n");
        append_some(&text, &random, headers, sizeof(headers) / sizeof(headers[0]));
        append(&text, "\r\n");
        if (i % 4 == 0) {
            text.bytes[1 + wf_random_below(&random, (uint32_t)text.size - 1)] =
                (uint8_t)wf_random_next(&random);
        }
        CHECK_EQ(LLVMFuzzerTestOneInput(text.bytes, text.size), 0);
    }
}

static void http_fuzz_corpus_passes(void)
{
    CHECK(corpus_run(WEFT_CORPUS) >= 8);
}

static const struct tap_test tests[] = {
    TAP_TEST(http_fuzz_requests_made_of_its_words_pass),
    TAP_TEST(http_fuzz_corpus_passes),
};
TAP_MAIN(tests)
