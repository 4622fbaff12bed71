/* Reading a trace: any bytes may come. */
#include "bench/load/replay.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "observe/trace.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define MOONCAKE_BLOCK_TOKENS 512
#define MAX_TIMESTAMP_MS      1e11 /* three years, as the clock of a workload has it */
#define MAX_ID                ((INT64_C(1) << 53) - 1)

struct reader {
    const char *path;
    FILE *file;
    uint32_t line; /* from 1 */
    struct buf text;
    EVP_MD_CTX *sha;
    size_t cap, hash_cap;
    const struct replay_options *options;
    struct replay *out;
    struct err *err;
};

static enum status replay_read_no_memory(struct reader *r)
{
    return err_set(r->err, STATUS_NO_MEMORY, "no memory for the trace %s", r->path);
}

static enum status bad_line(struct reader *r, const char *what)
{
    return err_set(r->err, STATUS_INVALID, "%s:%u: %s", r->path, r->line, what);
}

/* Room for `more` elements behind the n that are there. */
static bool replay_read_grow(void **array, size_t *cap, size_t n, size_t more, size_t size)
{
    size_t wanted = *cap, bytes;
    if (n + more <= *cap)
        return true;
    while (wanted < n + more)
        wanted += wanted / 2 + 64;
    void *p = mem_mul(wanted, size, &bytes) ? mem_resize(*array, bytes) : NULL;
    if (!p)
        return false;
    *array = p;
    *cap = wanted;
    return true;
}

/* --- lines ---------------------------------------------------------------------------------- */

/* The next line without its end. *more: there was one. */
static enum status next_line(struct reader *r, bool *more)
{
    int c;
    buf_clear(&r->text);
    r->line++;
    while ((c = getc_unlocked(r->file)) != EOF && c != '\n')
        if (!buf_putc(&r->text, (char)c))
            break;
    if (r->text.failed && r->text.len < r->text.limit)
        return replay_read_no_memory(r);
    if (r->text.failed)
        return err_set(r->err, STATUS_INVALID, "%s:%u: the line is longer than %u bytes", r->path,
                       r->line, LIMIT_REPLAY_LINE);
    if (ferror(r->file))
        return err_set(r->err, STATUS_IO, "cannot read %s: %s", r->path, strerror(errno));
    *more = c != EOF || r->text.len > 0;
    bool hashed = EVP_DigestUpdate(r->sha, buf_str(&r->text), r->text.len) == 1 &&
                  (c == EOF || EVP_DigestUpdate(r->sha, "\n", 1) == 1);
    return hashed ? STATUS_OK : replay_read_no_memory(r);
}

static enum status replay_read_parse(struct reader *r, json_t **out)
{
    json_error_t fault;
    char what[sizeof fault.text + 64];
    *out = json_loadb(buf_str(&r->text), r->text.len, JSON_REJECT_DUPLICATES, &fault);
    if (*out && json_is_object(*out))
        return STATUS_OK;
    if (!*out && json_error_code(&fault) == json_error_out_of_memory)
        return replay_read_no_memory(r);
    if (*out)
        snprintf(what, sizeof what, "expected a JSON object, found %s",
                 json_found(*out, fault.text, sizeof fault.text));
    else
        snprintf(what, sizeof what, "not JSON: %s (column %d)", fault.text, fault.column);
    json_decref(*out);
    *out = NULL;
    return bad_line(r, what);
}

static enum status in_line(struct reader *r, enum status st)
{
    return st ? err_context(r->err, "%s:%u", r->path, r->line) : STATUS_OK;
}

static enum status replay_read_whole(struct reader *r, const json_t *o, const char *name,
                                     int64_t min, int64_t max, int64_t *out)
{
    return in_line(r, json_whole(json_object_get(o, name), name, min, max, out, r->err));
}

/* --- requests ------------------------------------------------------------------------------- */

static enum status read_hashes(struct reader *r, const json_t *o, struct replay_request *q)
{
    struct replay *out = r->out;
    const json_t *list = json_object_get(o, "hash_ids");
    size_t n = json_array_size(list);
    size_t most = (q->input_tokens + (size_t)out->block_tokens - 1) / out->block_tokens;
    char found[64], what[200];
    if ((list && !json_is_array(list)) || n > most) {
        snprintf(what, sizeof what,
                 "hash_ids: must be an array of at most %zu (input_length %u in blocks of %u), "
                 "found %s",
                 most, q->input_tokens, out->block_tokens, json_found(list, found, sizeof found));
        return bad_line(r, what);
    }
    if (!replay_read_grow((void **)&out->hash_ids, &r->hash_cap, out->n_hash_ids, n,
                          sizeof *out->hash_ids))
        return replay_read_no_memory(r);
    q->first_hash = out->n_hash_ids;
    q->n_hashes = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        char name[40];
        snprintf(name, sizeof name, "hash_ids[%zu]", i);
        if (in_line(r, json_whole(json_array_get(list, i), name, 0, MAX_ID, &id, r->err)))
            return r->err->code;
        out->hash_ids[out->n_hash_ids++] = (uint64_t)id;
    }
    return STATUS_OK;
}

static enum status add_request(struct reader *r, const json_t *o)
{
    struct replay *out = r->out;
    struct replay_request q = {.line = r->line};
    int64_t input, output;
    if (in_line(r, json_number(json_object_get(o, "timestamp"), "timestamp", false, 0,
                               MAX_TIMESTAMP_MS, &q.at_ms, r->err)) ||
        replay_read_whole(r, o, "input_length", 0, LIMIT_CONTEXT, &input) ||
        replay_read_whole(r, o, "output_length", 0, LIMIT_CONTEXT, &output))
        return r->err->code;
    q.input_tokens = (uint32_t)input;
    q.output_tokens = (uint32_t)output;
    size_t n_hash_ids = out->n_hash_ids;
    enum status st = read_hashes(r, o, &q);
    if (st)
        return st;
    bool empty = input == 0 || output == 0;
    bool too_long = !empty && r->options->max_length && input + output > r->options->max_length;
    out->empty += empty;
    out->too_long += too_long;
    if (empty || too_long) {
        out->n_hash_ids = n_hash_ids;
        return STATUS_OK;
    }
    if (out->n == LIMIT_BENCH_REQUESTS)
        return err_set(r->err, STATUS_INVALID, "%s:%u: more than %u requests", r->path, r->line,
                       LIMIT_BENCH_REQUESTS);
    if (!replay_read_grow((void **)&out->requests, &r->cap, out->n, 1, sizeof *out->requests))
        return replay_read_no_memory(r);
    out->requests[out->n++] = q;
    return STATUS_OK;
}

static enum status add_dropped(struct reader *r, const json_t *o)
{
    int64_t n;
    enum status st = replay_read_whole(r, o, "dropped", 0, MAX_ID, &n);
    if (st == STATUS_OK)
        r->out->dropped += (uint64_t)n;
    return st;
}

static enum status replay_read_read_header(struct reader *r, const json_t *o)
{
    const char *schema = json_string_value(json_object_get(o, "schema"));
    char what[160];
    int64_t n;
    if (!schema || strcmp(schema, TRACE_SCHEMA) != 0) {
        snprintf(what, sizeof what, "schema: expected \"" TRACE_SCHEMA "\", found \"%.60s\"",
                 schema ? schema : "(no string)");
        return bad_line(r, what);
    }
    enum status st = replay_read_whole(r, o, "block_tokens", 1, LIMIT_CONTEXT, &n);
    if (st == STATUS_OK)
        r->out->block_tokens = (uint32_t)n;
    return st;
}

static enum status replay_read_read_line(struct reader *r)
{
    json_t *o;
    enum status st = replay_read_parse(r, &o);
    if (st)
        return st;
    if (r->line == 1 && json_object_get(o, "schema"))
        st = replay_read_read_header(r, o);
    else if (json_object_get(o, "dropped"))
        st = add_dropped(r, o);
    else
        st = add_request(r, o);
    json_decref(o);
    return st;
}

/* --- the file ------------------------------------------------------------------------------- */

static enum status read_lines(struct reader *r)
{
    for (;;) {
        bool more = false;
        enum status st = next_line(r, &more);
        if (st || !more)
            return st;
        st = replay_read_read_line(r);
        if (st)
            return st;
    }
}

static int by_time(const void *a, const void *b)
{
    const struct replay_request *x = a, *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static enum status replay_read_finish(struct reader *r)
{
    struct replay *out = r->out;
    uint32_t most = r->options->num_requests;
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (EVP_DigestFinal_ex(r->sha, digest, NULL) != 1)
        return replay_read_no_memory(r);
    for (size_t i = 0; i < 32; i++)
        snprintf(out->sha256 + 2 * i, 3, "%02x", digest[i]);
    if (out->n == 0)
        return err_set(r->err, STATUS_INVALID,
                       "%s: no request to replay (%u without a prompt or an output, %u too long)",
                       r->path, out->empty, out->too_long);
    qsort(out->requests, out->n, sizeof *out->requests, by_time);
    if (most > 0 && most < out->n)
        out->n = most;
    for (uint32_t i = 0; i < out->n; i++) {
        out->input_tokens += out->requests[i].input_tokens;
        out->output_tokens += out->requests[i].output_tokens;
    }
    if (out->input_tokens > LIMIT_REPLAY_TOKENS)
        return err_set(r->err, STATUS_INVALID,
                       "%s: prompts of %llu tokens in all, the most is %u: give --num-requests or "
                       "--max-length",
                       r->path, (unsigned long long)out->input_tokens, LIMIT_REPLAY_TOKENS);
    return STATUS_OK;
}

enum status replay_read(struct replay *out, const char *path, const struct replay_options *o,
                        struct err *err)
{
    struct reader r = {
        .path = path, .text.limit = LIMIT_REPLAY_LINE, .options = o, .out = out, .err = err};
    *out = (struct replay){.block_tokens = MOONCAKE_BLOCK_TOKENS};
    r.file = fopen(path, "re");
    if (!r.file)
        return err_set(err, STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    r.sha = EVP_MD_CTX_new();
    enum status st = STATUS_OK;
    if (!r.sha || EVP_DigestInit_ex(r.sha, EVP_sha256(), NULL) != 1)
        st = replay_read_no_memory(&r);
    if (!st)
        st = read_lines(&r);
    if (!st)
        st = replay_read_finish(&r);
    EVP_MD_CTX_free(r.sha);
    buf_fini(&r.text);
    fclose(r.file);
    return st;
}

void replay_fini(struct replay *r)
{
    mem_free(r->requests);
    mem_free(r->hash_ids);
    *r = (struct replay){0};
}
