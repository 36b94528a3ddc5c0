/* SPDX-License-Identifier: MIT */
/*
 * corpus.h - runs a fuzz target with its corpus, as a test: inputs that libFuzzer found stay
 * tested.
 */
#ifndef CORPUS_H
#define CORPUS_H

#include <dirent.h>
#include <stdio.h>

#include "fuzz/fuzz.h"
#include "tap.h"

/* Runs every file of the folder; returns their number. */
static inline size_t corpus_run(const char *folder)
{
    size_t count = 0;
    const struct dirent *file;
    DIR *stream = opendir(folder);
    CHECK(stream != NULL);
    /* NOLINT(concurrency-mt-unsafe): only this thread uses the stream */
    while ((file = readdir(stream)) != NULL) {
        char path[4096];
        uint8_t bytes[4096];
        if (file->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", folder, file->d_name);
        tap_doing("%s", path);
        FILE *input = fopen(path, "rb");
        CHECK(input != NULL);
        size_t size = fread(bytes, 1, sizeof(bytes), input);
        CHECK(size < sizeof(bytes));
        CHECK_EQ(fclose(input), 0);
        CHECK_EQ(LLVMFuzzerTestOneInput(bytes, size), 0);
        count++;
    }
    CHECK_EQ(closedir(stream), 0);
    return count;
}

#endif
