/* Fuzz target of a trace that `bench replay` reads: any bytes; what passes is within what the
 * header says, and makes prompts of just the words that it asks for. tests/fuzz/trace_seeds.py
 * writes the seeds. */
#include "base/limits.h"
#include "bench/load/replay.h"
#include "fuzz/memory_file.h"

#include <math.h>
#include <string.h>

#define MAX_WORDS 20000 /* of prompts that are made: more only takes longer */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const struct replay *r, const struct replay_request *q)
{
    REQUIRE(isfinite(q->at_ms) && q->at_ms >= 0 && q->line >= 1);
    REQUIRE(q->input_tokens >= 1 && q->input_tokens <= LIMIT_CONTEXT);
    REQUIRE(q->output_tokens >= 1 && q->output_tokens <= LIMIT_CONTEXT);
    REQUIRE(q->first_hash <= r->n_hash_ids && q->n_hashes <= r->n_hash_ids - q->first_hash);
    REQUIRE(q->n_hashes == 0 ||
            (uint64_t)(q->n_hashes - 1) * r->block_tokens < (uint64_t)q->input_tokens);
}

static void check_replay(const struct replay *r)
{
    uint64_t input = 0, output = 0;
    REQUIRE(r->n >= 1 && r->n <= LIMIT_BENCH_REQUESTS && r->block_tokens >= 1);
    for (uint32_t i = 0; i < r->n; i++) {
        check_request(r, &r->requests[i]);
        REQUIRE(i == 0 || r->requests[i - 1].at_ms <= r->requests[i].at_ms);
        input += r->requests[i].input_tokens;
        output += r->requests[i].output_tokens;
    }
    REQUIRE(input == r->input_tokens && output == r->output_tokens);
    REQUIRE(input <= LIMIT_REPLAY_TOKENS && strlen(r->sha256) == 64);
}

static uint32_t words_of(const char *text)
{
    uint32_t n = 0;
    for (const char *at = text; *at; at++)
        n += *at != ' ' && (at == text || at[-1] == ' ');
    return n;
}

static void make(const struct replay *r, const struct replay_options *o)
{
    struct workload w;
    uint32_t inexact;
    if (r->input_tokens > MAX_WORDS)
        return;
    REQUIRE(replay_make(&w, r, o, NULL, 0, &inexact, NULL) == STATUS_OK);
    REQUIRE(w.n == r->n && inexact == 0);
    for (uint32_t i = 0; i < w.n; i++) {
        REQUIRE(words_of(w.items[i].prompt) == r->requests[i].input_tokens);
        REQUIRE(i == 0 || w.items[i - 1].due_us <= w.items[i].due_us);
    }
    workload_fini(&w);
}

static void read_with(const char *path, const struct replay_options *o)
{
    struct replay r;
    struct err err = {0};
    enum status st = replay_read(&r, path, o, &err);
    if (st == STATUS_OK) {
        check_replay(&r);
        REQUIRE(o->num_requests == 0 || r.n <= o->num_requests);
        make(&r, o);
    } else {
        REQUIRE(st == STATUS_INVALID && strncmp(err.text, path, strlen(path)) == 0);
    }
    replay_fini(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_file f;
    memory_file_open(&f, data, size);
    read_with(f.path, &(struct replay_options){.speed = 1});
    read_with(f.path, &(struct replay_options){.speed = 3, .num_requests = 2, .max_length = 100});
    memory_file_close(&f);
    return 0;
}
