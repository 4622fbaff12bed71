/* Runs made by hand, for tests of tables: records whose times are known. */
#ifndef FIRSTLIGHT_TESTS_UNIT_BENCH_BENCH_RUNS_H
#define FIRSTLIGHT_TESTS_UNIT_BENCH_BENCH_RUNS_H

#include "base/mem.h"
#include "bench/load/measure.h"
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run of n requests sent at its start; request i has its first token after (i + 1) * step_us, 4
 * more chunks 1 ms apart, and 9 tokens. It lasts one second. */
static inline void make_run(struct load_result *run, uint32_t n, int64_t step_us, bool tells_parts)
{
    const int64_t start = 1000000;
    *run = (struct load_result){.n = n, .start_us = start, .end_us = start + 1000000};
    run->submit_wall_us = 2500;
    run->records = mem_array(n, sizeof *run->records);
    assert_non_null(run->records);
    for (uint32_t i = 0; i < n; i++) {
        struct record *r = &run->records[i];
        int64_t first = (i + 1) * step_us;
        record_init(r);
        r->state = RECORD_RUNNING;
        r->due_us = r->sent_us = start;
        for (int k = 0; k < 5; k++)
            record_chunk(r, start + first + k * 1000);
        r->prompt_tokens = 3;
        r->completion_tokens = 9;
        r->has_ttft = tells_parts;
        r->ttft = (struct timeline_ttft){
            .receive_us = 1000, .queue_us = first / 2, .prefill_us = 3000, .total_us = first - 500};
        record_end(r, RECORD_OK, start + first + 8000, NULL);
    }
    series_add(&run->generator.lag_ms, 0.5);
    series_add(&run->generator.turn_ms, 0.25);
    run->generator.cpu_share = 0.031;
}

static inline void make_measurement(struct measurement *m, uint32_t n_runs, uint32_t n,
                                    int64_t step_us, bool tells_parts)
{
    *m = (struct measurement){.runs = mem_array(n_runs, sizeof *m->runs), .n_runs = n_runs};
    assert_non_null(m->runs);
    for (uint32_t i = 0; i < n_runs; i++)
        make_run(&m->runs[i], n, step_us * (1 + i), tells_parts);
}

/* After whatever the test changed in the records. */
static inline void pool(struct measurement *m, const struct goodput *goodput)
{
    summary_fini(&m->pooled);
    assert_true(summary_make(&m->pooled, m->runs, m->n_runs, goodput));
}

/* The line of a table that begins with `label`, up to its end; "" when there is none. */
static inline const char *table_line(const char *table, const char *label)
{
    static char line[512];
    size_t len = strlen(label);
    for (const char *p = table; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        if (strncmp(p, label, len) != 0)
            continue;
        snprintf(line, sizeof line, "%.*s", (int)strcspn(p, "\n"), p);
        return line;
    }
    return "";
}

/* The words after the label. */
static inline void expect_words(const char *table, const char *label, const char *expected)
{
    char words[512] = "";
    char *line = strdup(table_line(table, label)), *save = NULL;
    if (strlen(line) < strlen(label))
        fail_msg("no line \"%s\" in\n%s", label, table);
    for (char *w = strtok_r(line + strlen(label), " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s%s", used ? " " : "", w);
    }
    free(line);
    if (strcmp(words, expected) != 0)
        fail_msg("%s: expected \"%s\", found \"%s\"", label, expected, words);
}

#endif
