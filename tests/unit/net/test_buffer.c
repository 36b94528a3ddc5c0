/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a reader returns every byte once and in order, in whatever pieces they arrive; a writer
 *         writes every byte that it accepted; an error loses nothing, and the limits are exact.
 * Method: tables by hand, with each text in pieces of every size; the fuzz target, which compares
 *         every call with its meaning on the whole text, with random plans.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "base/base.h"
#include "fuzz/corpus.h"
#include "fuzz/fuzz.h"
#include "io_helpers.h"

/* The source: a text in pieces. */
struct source {
    const char *text;
    size_t size;
    size_t piece;
    size_t at;
    int error; /* returned once, instead of a piece */
    unsigned reads;
};

static ssize_t read_source(void *context, void *buffer, size_t size)
{
    struct source *source = context;
    source->reads++;
    if (source->error != 0) {
        int error = source->error;
        source->error = 0;
        return error;
    }
    size_t count = source->size - source->at;
    count = count < source->piece ? count : source->piece;
    count = count < size ? count : size;
    memcpy(buffer, source->text + source->at, count);
    source->at += count;
    return (ssize_t)count;
}

static struct source source_of(const char *text, size_t piece)
{
    return (struct source){.text = text, .size = strlen(text), .piece = piece};
}

/* The sink: accepts bytes up to its limit, a few at a time. */
struct sink {
    char bytes[256];
    size_t used;
    size_t piece;
    size_t limit; /* when it is full: -ETIMEDOUT */
    unsigned writes;
};

static ssize_t write_sink(void *context, const void *bytes, size_t size)
{
    struct sink *sink = context;
    sink->writes++;
    if (sink->used == sink->limit) {
        return -ETIMEDOUT;
    }
    size_t count = sink->limit - sink->used;
    count = count < sink->piece ? count : sink->piece;
    count = count < size ? count : size;
    memcpy(sink->bytes + sink->used, bytes, count);
    sink->used += count;
    return (ssize_t)count;
}

static ssize_t write_nothing(void *context, const void *bytes, size_t size)
{
    (void)context;
    (void)bytes;
    (void)size;
    return 0;
}

static void check_slice(weft_view slice, const char *expected)
{
    CHECK_EQ(slice.size, strlen(expected));
    CHECK(memcmp(slice.bytes, expected, slice.size) == 0);
}

static void check_sink(const struct sink *sink, const char *expected)
{
    CHECK_EQ(sink->used, strlen(expected));
    CHECK(memcmp(sink->bytes, expected, sink->used) == 0);
}

/* ---- reader ---------------------------------------------------------------------------------- */

static void reader_line_excludes_its_newline(void)
{
    static const char *const lines[] = {"one", "", "two\rand", "\r", "", "last\r"};
    for (size_t piece = 1; piece < 40; piece++) {
        struct source source = source_of("one\n\r\ntwo\rand\r\n\r\r\n\nlast\r", piece);
        /* the longest line with its newline has 9 bytes; a line without newline must not fill the
         * buffer */
        char buffer[10];
        weft_reader reader;
        weft_view line;
        tap_doing("pieces of %zu", piece);
        CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, buffer, sizeof(buffer)), 0);
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
            CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 1);
            check_slice(line, lines[i]);
            CHECK(line.bytes >= buffer && line.bytes + line.size <= buffer + sizeof(buffer));
        }
        CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 0);
        CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 0);
        weft_reader_done(&reader);
    }
}

static void reader_has_no_line_after_the_last_newline(void)
{
    static const char *const texts[] = {"", "a\n", "a\r\n", "\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct source source = source_of(texts[i], 1);
        weft_reader reader;
        weft_view line;
        CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, NULL, 0), 0);
        if (texts[i][0] != '\0') {
            CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 1);
            check_slice(line, texts[i][0] == 'a' ? "a" : "");
        }
        CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 0);
        weft_reader_done(&reader);
    }
}

/* A line of `limit` bytes including its newline is accepted; with one byte more nothing is
 * taken. */
static void reader_overlong_line_can_still_be_read(void)
{
    for (size_t piece = 1; piece < 12; piece++) {
        struct source source = source_of("abc\nabcd\nrest", piece);
        char buffer[8];
        char taken[4];
        weft_reader reader;
        weft_view line;
        tap_doing("pieces of %zu", piece);
        CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, buffer, sizeof(buffer)), 0);
        CHECK_EQ(weft_reader_read_line(&reader, &line, 4), 1);
        check_slice(line, "abc");
        for (unsigned again = 0; again < 2; again++) {
            CHECK_EQ(weft_reader_read_line(&reader, &line, 4), -EMSGSIZE);
        }
        CHECK_EQ(weft_reader_read_exact(&reader, taken, 2), 2);
        CHECK(memcmp(taken, "ab", 2) == 0);
        CHECK_EQ(weft_reader_read_line(&reader, &line, 3), 1);
        check_slice(line, "cd");
        CHECK_EQ(weft_reader_read_line(&reader, &line, 4), -EMSGSIZE); /* whatever follows */
        CHECK_EQ(weft_reader_read_line(&reader, &line, 5), 1);
        check_slice(line, "rest");
        CHECK_EQ(weft_reader_read_line(&reader, &line, 1), 0);
    }
}

static void reader_line_limit_is_capped_at_the_buffer(void)
{
    struct source source = source_of("12345678\n", 100);
    char buffer[8];
    weft_reader reader;
    weft_view line;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_reader_read_line(&reader, &line, 1000), -EMSGSIZE);
    CHECK_EQ(weft_reader_read_line(&reader, &line, 0), -EMSGSIZE);
    CHECK_EQ(weft_reader_fill(&reader), -ENOBUFS);
    CHECK_EQ(weft_reader_skip(&reader, 1), 1);
    CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 1);
    check_slice(line, "2345678");
}

static void reader_until_includes_the_delimiter(void)
{
    static const char text[] = "a\0bc\0d";
    struct source source = {.text = text, .size = sizeof(text) - 1, .piece = 2};
    weft_reader reader;
    weft_view part;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, NULL, 0), 0);
    CHECK_EQ(weft_reader_read_until(&reader, &part, '\0', 0), 1);
    CHECK(part.size == 2 && memcmp(part.bytes, "a\0", 2) == 0);
    CHECK_EQ(weft_reader_read_until(&reader, &part, '\0', 0), 1);
    CHECK(part.size == 3 && memcmp(part.bytes, "bc\0", 3) == 0);
    CHECK_EQ(weft_reader_read_until(&reader, &part, '\0', 0), 1);
    check_slice(part, "d"); /* end of input before the delimiter */
    CHECK_EQ(weft_reader_read_until(&reader, &part, '\0', 0), 0);
    weft_reader_done(&reader);
}

static void reader_peek_consumes_nothing(void)
{
    struct source source = source_of("abcdef", 2);
    char buffer[4];
    const char *bytes = NULL;
    weft_reader reader;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 0), 0);
    CHECK_EQ(source.reads, 0);
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 1), 2);
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 4), 4);
    CHECK(memcmp(bytes, "abcd", 4) == 0);
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 5), -EMSGSIZE);
    CHECK_EQ(weft_reader_skip(&reader, 3), 3);
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 4), 3); /* end of input before the fourth byte */
    CHECK(memcmp(bytes, "def", 3) == 0);
    CHECK_EQ(weft_reader_buffered(&reader), 3);
}

static void reader_exact_is_all_or_nothing(void)
{
    struct source source = source_of("abcdefgh", 3);
    char buffer[6];
    char taken[8];
    weft_reader reader;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 0), 0);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 5), 5);
    CHECK(memcmp(taken, "abcde", 5) == 0);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 4), -ENODATA);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 3), 3);
    CHECK(memcmp(taken, "fgh", 3) == 0);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 1), 0);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 8), 0);
}

static void reader_exact_may_exceed_the_buffer(void)
{
    struct source source = source_of("0123456789abcdef", 5);
    char buffer[4];
    char taken[16];
    weft_reader reader;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 1), 1);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 10), 10);
    CHECK(memcmp(taken, "123456789a", 10) == 0);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 10), -ENODATA);
    CHECK_EQ(weft_reader_read(&reader, taken, 1), 0);
}

static void reader_large_read_bypasses_the_buffer(void)
{
    struct source source = source_of("abcdefgh", 100);
    char buffer[4];
    char taken[8];
    weft_reader reader;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_reader_read(&reader, taken, 6), 6);
    CHECK_EQ(weft_reader_buffered(&reader), 0);
    CHECK_EQ(weft_reader_read(&reader, taken, 1), 1); /* the rest is buffered with it */
    CHECK_EQ(taken[0], 'g');
    CHECK_EQ(weft_reader_buffered(&reader), 1);
    CHECK_EQ(weft_reader_read(&reader, taken, 8), 1); /* the buffered byte comes first */
    CHECK_EQ(taken[0], 'h');
    CHECK_EQ(weft_reader_read(&reader, taken, 0), 0);
    CHECK_EQ(source.reads, 2);
    CHECK_EQ(weft_reader_read(&reader, taken, 8), 0);
}

/* A terminal could continue after its end of file: a reader does not. */
static void reader_asks_for_the_end_once(void)
{
    struct source source = source_of("a", 1);
    char byte;
    weft_view line;
    weft_reader reader;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, NULL, 0), 0);
    CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 1);
    CHECK_EQ(source.reads, 2);
    source.text = "more";
    source.size = 4;
    CHECK_EQ(weft_reader_read(&reader, &byte, 1), 0);
    CHECK_EQ(weft_reader_skip(&reader, 1), 0);
    CHECK_EQ(weft_reader_fill(&reader), 0);
    CHECK_EQ(source.reads, 2);
    weft_reader_done(&reader);
}

/* An error in the middle of each call; the repeated call returns what the first would have
 * returned. */
static void reader_call_can_be_repeated_after_an_error(void)
{
    struct source source = source_of("ab\ncd:efgh", 1);
    char taken[4];
    const char *bytes;
    weft_reader reader;
    weft_view slice;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, NULL, 0), 0);
    CHECK_EQ(weft_reader_fill(&reader), 1);
    source.error = -ETIMEDOUT;
    CHECK_EQ(weft_reader_read_line(&reader, &slice, 0), -ETIMEDOUT);
    CHECK_EQ(weft_reader_read_line(&reader, &slice, 0), 1);
    check_slice(slice, "ab");
    source.error = -ECANCELED;
    CHECK_EQ(weft_reader_read_until(&reader, &slice, ':', 0), -ECANCELED);
    CHECK_EQ(weft_reader_read_until(&reader, &slice, ':', 0), 1);
    check_slice(slice, "cd:");
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 1), 1);
    source.error = -ECONNRESET;
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 2), -ECONNRESET);
    source.error = -ECONNRESET;
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 2), -ECONNRESET);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 2), 2);
    CHECK(memcmp(taken, "ef", 2) == 0);
    source.error = -EAGAIN;
    CHECK_EQ(weft_reader_read(&reader, taken, 1), -EAGAIN);
    CHECK_EQ(weft_reader_fill(&reader), 1);
    source.error = -EAGAIN;
    CHECK_EQ(weft_reader_skip(&reader, 2), 1);
    source.error = -EAGAIN;
    CHECK_EQ(weft_reader_skip(&reader, 1), -EAGAIN);
    CHECK_EQ(weft_reader_skip(&reader, 100), 1);
    CHECK_EQ(weft_reader_skip(&reader, 100), 0);
    weft_reader_done(&reader);
}

static void reader_returns_the_error_of_a_bypassing_read(void)
{
    struct source source = source_of("abcdef", 2);
    char buffer[2];
    char taken[6];
    weft_reader reader;
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, &source, buffer, sizeof(buffer)), 0);
    source.error = -EIO;
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 3), -EIO);
    CHECK_EQ(weft_reader_read_exact(&reader, taken, 6), 6);
}

/* ---- writer ---------------------------------------------------------------------------------- */

static void writer_collects_small_writes(void)
{
    struct sink sink = {.piece = 100, .limit = 100};
    char buffer[8];
    weft_writer writer;
    CHECK_EQ(weft_writer_init_fn(&writer, write_sink, &sink, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_writer_flush(&writer), 0);
    CHECK_EQ(weft_writer_write(&writer, "abc", 3), 0);
    CHECK_EQ(weft_writer_write(&writer, NULL, 0), 0);
    CHECK_EQ(weft_writer_printf(&writer, "%d", 1234), 4);
    CHECK_EQ(weft_writer_write(&writer, "d", 1), 0); /* the buffer is full now */
    CHECK_EQ(sink.writes, 0);
    CHECK_EQ(weft_writer_buffered(&writer), 8);
    CHECK_EQ(weft_writer_write(&writer, "e", 1), 0);
    CHECK_EQ(sink.writes, 1);
    check_sink(&sink, "abc1234d");
    CHECK_EQ(weft_writer_buffered(&writer), 1);
    CHECK_EQ(weft_writer_flush(&writer), 0);
    CHECK_EQ(weft_writer_buffered(&writer), 0);
    check_sink(&sink, "abc1234de");
    weft_writer_done(&writer);
    CHECK_EQ(sink.writes, 2);
}

static void writer_done_does_not_flush(void)
{
    struct sink sink = {.piece = 100, .limit = 100};
    weft_writer writer;
    CHECK_EQ(weft_writer_init_fn(&writer, write_sink, &sink, NULL, 0), 0);
    CHECK_EQ(weft_writer_write(&writer, "abc", 3), 0);
    weft_writer_done(&writer);
    CHECK_EQ(sink.writes, 0);
}

static void writer_printf_text_must_fit_the_buffer(void)
{
    struct sink sink = {.piece = 3, .limit = 100};
    char buffer[8];
    weft_writer writer;
    CHECK_EQ(weft_writer_init_fn(&writer, write_sink, &sink, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_writer_write(&writer, "ab", 2), 0);
    CHECK_EQ(weft_writer_printf(&writer, "%08d", 7), -EMSGSIZE);
    CHECK_EQ(weft_writer_printf(&writer, "%1000d", 7), -EMSGSIZE);
    CHECK_EQ(sink.writes, 0);
    CHECK_EQ(weft_writer_printf(&writer, "%s", ""), 0);
    /* it does not fit behind the buffered bytes */
    CHECK_EQ(weft_writer_printf(&writer, "%06d", 7), 6);
    check_sink(&sink, "ab");
    CHECK_EQ(weft_writer_printf(&writer, "%07d", 8), 7);
    check_sink(&sink, "ab000007");
    /* the C locale has no such character */
    CHECK_EQ(weft_writer_printf(&writer, "%ls", L"\x1234"), -EINVAL);
    CHECK_EQ(weft_writer_flush(&writer), 0);
    check_sink(&sink, "ab0000070000008");
}

static void writer_failed_flush_can_be_repeated(void)
{
    struct sink sink = {.piece = 2, .limit = 3};
    char buffer[6];
    weft_writer writer;
    CHECK_EQ(weft_writer_init_fn(&writer, write_sink, &sink, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_writer_write(&writer, "abcdef", 6), 0);
    CHECK_EQ(weft_writer_flush(&writer), -ETIMEDOUT);
    check_sink(&sink, "abc");
    CHECK_EQ(weft_writer_buffered(&writer), 3);
    CHECK_EQ(weft_writer_write(&writer, "ghij", 4), -ETIMEDOUT); /* none of these is accepted */
    CHECK_EQ(weft_writer_printf(&writer, "%s", "ghij"), -ETIMEDOUT);
    CHECK_EQ(weft_writer_buffered(&writer), 3);
    CHECK_EQ(weft_writer_write(&writer, "gh", 2), 0); /* these fit */
    sink.limit = 100;
    CHECK_EQ(weft_writer_write(&writer, "ij", 2), 0);
    CHECK_EQ(weft_writer_flush(&writer), 0);
    check_sink(&sink, "abcdefghij");
}

static void writer_large_write_bypasses_the_buffer(void)
{
    struct sink sink = {.piece = 100, .limit = 100};
    char buffer[4];
    weft_writer writer;
    CHECK_EQ(weft_writer_init_fn(&writer, write_sink, &sink, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_writer_write(&writer, "ab", 2), 0);
    CHECK_EQ(weft_writer_write(&writer, "cdefgh", 6), 0);
    check_sink(&sink, "abcdefgh");
    CHECK_EQ(sink.writes, 2);
    CHECK_EQ(weft_writer_buffered(&writer), 0);
}

static void writer_partial_large_write_breaks_the_stream(void)
{
    struct sink sink = {.piece = 2, .limit = 0};
    char buffer[4];
    weft_writer writer;
    CHECK_EQ(weft_writer_init_fn(&writer, write_sink, &sink, buffer, sizeof(buffer)), 0);
    CHECK_EQ(weft_writer_write(&writer, "abcdefgh", 8), -ETIMEDOUT); /* nothing was written */
    sink.limit = 3;
    CHECK_EQ(weft_writer_write(&writer, "abcdefgh", 8), -ETIMEDOUT);
    check_sink(&sink, "abc");
    sink.limit = 100;
    CHECK_EQ(weft_writer_write(&writer, "d", 1), -ETIMEDOUT);
    CHECK_EQ(weft_writer_printf(&writer, "d"), -ETIMEDOUT);
    CHECK_EQ(weft_writer_flush(&writer), -ETIMEDOUT);
    check_sink(&sink, "abc");
}

static void writer_stops_if_its_function_writes_nothing(void)
{
    weft_writer writer;
    CHECK_EQ(weft_writer_init_fn(&writer, write_nothing, NULL, NULL, 0), 0);
    CHECK_EQ(weft_writer_write(&writer, "a", 1), 0);
    CHECK_EQ(weft_writer_flush(&writer), -EIO);
    CHECK_EQ(weft_writer_buffered(&writer), 1);
    weft_writer_done(&writer);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

enum { LINES = 3000 };

static intptr_t write_lines(void *arg)
{
    weft_writer writer;
    char buffer[500];
    CHECK_EQ(weft_writer_init(&writer, (int)(intptr_t)arg, buffer, sizeof(buffer)), 0);
    for (int i = 0; i < LINES; i++) {
        CHECK(weft_writer_printf(&writer, "line %d\n", i) > 0);
    }
    CHECK_EQ(weft_writer_flush(&writer), 0);
    weft_writer_done(&writer);
    return weft_close((int)(intptr_t)arg);
}

static intptr_t lines_travel(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    weft_reader reader;
    weft_view line;
    weft_task *task = go(write_lines, (void *)(intptr_t)pair.far);
    CHECK_EQ(weft_reader_init(&reader, pair.near, NULL, 64), 0);
    for (int i = 0; i < LINES; i++) {
        char expected[32];
        (void)snprintf(expected, sizeof(expected), "line %d", i);
        CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 1);
        check_slice(line, expected);
    }
    CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 0);
    weft_reader_done(&reader);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void reader_and_writer_pass_lines_between_tasks(void)
{
    run_under(EVERYWHERE, lines_travel);
}

/* Half a line has arrived at the deadline; it is the first half of the next line read. */
static intptr_t send_line_in_halves(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    weft_reader reader;
    weft_view line;
    CHECK_EQ(weft_reader_init(&reader, pair.near, NULL, 0), 0);
    CHECK_EQ(weft_write(pair.far, "one\ntw", 6), 6);
    CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 1);
    check_slice(line, "one");
    weft_time old = weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_reader_read_line(&reader, &line, 0), -ETIMEDOUT);
    (void)weft_deadline_set(old);
    CHECK_EQ(weft_write(pair.far, "o\n", 2), 2);
    CHECK_EQ(weft_reader_read_line(&reader, &line, 0), 1);
    check_slice(line, "two");
    weft_reader_done(&reader);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void reader_deadline_keeps_half_a_line(void)
{
    run_under(ON_ONE_WORKER, send_line_in_halves);
}

/* ---- reader and writer ----------------------------------------------------------------------- */

static void reader_and_writer_init_return_their_errors(void)
{
    char buffer[1];
    weft_reader reader = {0};
    weft_writer writer = {0};
    CHECK_EQ(weft_reader_init_fn(&reader, read_source, NULL, buffer, 0), -EINVAL);
    CHECK_EQ(weft_writer_init_fn(&writer, write_sink, NULL, buffer, 0), -EINVAL);
    wf_fault_arm(1);
    int reader_rc = weft_reader_init_fn(&reader, read_source, NULL, NULL, 0);
    wf_fault_arm(1);
    int writer_rc = weft_writer_init_fn(&writer, write_sink, NULL, NULL, 0);
    if (wf_fault_hit(NULL)) { /* not in builds without fault points */
        CHECK_EQ(reader_rc, -ENOMEM);
        CHECK_EQ(writer_rc, -ENOMEM);
    }
    wf_fault_arm(0);
    weft_reader_done(&reader);
    weft_writer_done(&writer);
    weft_reader_done(&reader); /* all zeros again */
    weft_writer_done(&writer);
    weft_reader_done(NULL);
    weft_writer_done(NULL);
}

/* Plans whose texts have lines, and plans of arbitrary bytes. */
static void buffer_fuzz_calls_mean_the_same_in_pieces(void)
{
    static const char alphabet[] = "ab\n\r";
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t bytes[512];
        size_t size = 4 + wf_random_below(&random, sizeof(bytes) - 4);
        for (size_t k = 0; k < size; k++) {
            bytes[k] = (uint8_t)wf_random_next(&random);
            if (k >= 4 + 126 && i % 2 == 0) {
                bytes[k] = (uint8_t)alphabet[wf_random_below(&random, sizeof(alphabet) - 1)];
            }
        }
        CHECK_EQ(LLVMFuzzerTestOneInput(bytes, size), 0);
    }
}

static void buffer_fuzz_corpus_passes(void)
{
    CHECK(corpus_run(WEFT_CORPUS) >= 3);
}

static const struct tap_test tests[] = {
    TAP_TEST(reader_line_excludes_its_newline),
    TAP_TEST(reader_has_no_line_after_the_last_newline),
    TAP_TEST(reader_overlong_line_can_still_be_read),
    TAP_TEST(reader_line_limit_is_capped_at_the_buffer),
    TAP_TEST(reader_until_includes_the_delimiter),
    TAP_TEST(reader_peek_consumes_nothing),
    TAP_TEST(reader_exact_is_all_or_nothing),
    TAP_TEST(reader_exact_may_exceed_the_buffer),
    TAP_TEST(reader_large_read_bypasses_the_buffer),
    TAP_TEST(reader_asks_for_the_end_once),
    TAP_TEST(reader_call_can_be_repeated_after_an_error),
    TAP_TEST(reader_returns_the_error_of_a_bypassing_read),
    TAP_TEST(writer_collects_small_writes),
    TAP_TEST(writer_done_does_not_flush),
    TAP_TEST(writer_printf_text_must_fit_the_buffer),
    TAP_TEST(writer_failed_flush_can_be_repeated),
    TAP_TEST(writer_large_write_bypasses_the_buffer),
    TAP_TEST(writer_partial_large_write_breaks_the_stream),
    TAP_TEST(writer_stops_if_its_function_writes_nothing),
    TAP_TEST(reader_and_writer_pass_lines_between_tasks),
    TAP_TEST(reader_deadline_keeps_half_a_line),
    TAP_TEST(reader_and_writer_init_return_their_errors),
    TAP_TEST(buffer_fuzz_calls_mean_the_same_in_pieces),
    TAP_TEST(buffer_fuzz_corpus_passes),
};
TAP_MAIN(tests)
