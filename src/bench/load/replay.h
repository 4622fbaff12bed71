/* A trace (docs/traces.md), read and made into a workload: requests of the same lengths, due at the
 * same moments, whose prompts share just the blocks that the recorded ones shared.
 *
 *     hash_ids    17    |   42    |   99    |                 input_length
 *     prompt   words(17)|words(42)|words(99)|words of its own ──┤
 *
 * The words of a block are drawn from a generator seeded by its id: equal beginnings, equal text.
 * Blocks end where the recorded ones did, in tokens of the tokenizer that is given.
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_REPLAY_H
#define FIRSTLIGHT_BENCH_LOAD_REPLAY_H

#include "bench/load/workload.h"

struct replay_options {
    double speed;          /* 2: in half the time; > 0 */
    uint32_t num_requests; /* the first so many; 0: all */
    uint32_t max_length;   /* of prompt and answer in tokens; longer ones are left out; 0: none */
    uint64_t seed, salt;   /* of the words; salt 0: none */
};

struct replay_request {
    double at_ms; /* since the trace's start */
    uint32_t line;
    uint32_t input_tokens, output_tokens; /* >= 1 */
    uint32_t n_hashes;
    size_t first_hash; /* in hash_ids */
};

struct replay {
    struct replay_request *requests; /* (n) by time, then by line */
    uint32_t n;
    uint64_t *hash_ids; /* (n_hash_ids) of all of them */
    size_t n_hash_ids;
    uint32_t block_tokens;
    uint32_t empty;    /* lines without a prompt or an output (refused, or gone too early): left out
                          with the others, as is what num_requests leaves out */
    uint32_t too_long; /* left out by max_length */
    uint64_t dropped;  /* lines that the file says are missing from it */
    uint64_t input_tokens, output_tokens; /* sums */
    char sha256[65];                      /* of the file */
};

/* STATUS_INVALID names the file, the line and the field. *out is to be freed by replay_fini either
 * way. */
enum status replay_read(struct replay *out, const char *path, const struct replay_options *o,
                        struct err *err);
void replay_fini(struct replay *r);

/* The workload of a run: each run has words of its own, shared alike. All are streamed completions
 * that stop at nothing. The tokenizer may be NULL: a token is a word then. *inexact: prompts whose
 * length is not what it should be, by that tokenizer. */
enum status replay_make(struct workload *out, const struct replay *r,
                        const struct replay_options *o, const struct tokenizer *tokenizer,
                        uint32_t run, uint32_t *inexact, struct err *err);

/* A result's `workload`: new; NULL when memory is short. */
json_t *replay_json(const struct replay *r, const struct replay_options *o,
                    uint32_t max_concurrency);

#endif
