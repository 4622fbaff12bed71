/* A file in /tmp, for tests of what is read by its path: one at a time in a program. */
#ifndef FIRSTLIGHT_TESTS_UNIT_BENCH_BENCH_FILE_H
#define FIRSTLIGHT_TESTS_UNIT_BENCH_BENCH_FILE_H

#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char bench_file[40]; /* its path */

/* A set-up: an empty file. */
static inline int bench_file_make(void **state)
{
    (void)state;
    strcpy(bench_file, "/tmp/firstlight-bench-XXXXXX");
    int fd = mkstemp(bench_file);
    return fd < 0 || close(fd);
}

static inline int bench_file_remove(void **state)
{
    (void)state;
    return unlink(bench_file);
}

/* In place of what is in it. */
static inline void bench_file_write(const char *bytes, size_t len)
{
    FILE *f = fopen(bench_file, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

#endif
