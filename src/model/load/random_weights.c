#include "model/load/random_weights.h"

#include "base/limits.h"
#include "base/mem.h"
#include "kernels/half.h"
#include "model/load/config.h"
#include "model/load/hf_config.h"
#include "model/requantize.h"
#include "weights/gguf_build.h"
#include "weights/json_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define MIB  (1024.0 * 1024.0)
#define LINE 64

/* Blocks that are repeated all over a matrix; a prime, so that rows differ. */
#define PATTERN 4099

/* What the model keeps: owned by it, freed by dummy_close. */
struct dummy {
    struct buf head;
    char *weights;
    size_t bytes;
};

/* One making. */
struct making {
    struct dummy *dummy;
    struct model_config config;
    bool tied;
    const struct arch *arch;
    struct model_extra extra;
    struct tensor *tensors; /* (max) */
    char (*names)[LIMIT_GGUF_TENSOR_NAME + 1];
    size_t n_tensors;
    uint64_t random;
};

static void dummy_close(void *arg)
{
    struct dummy *d = arg;
    if (!d)
        return;
    if (d->weights)
        munmap(d->weights, d->bytes);
    buf_fini(&d->head);
    mem_free(d);
}

static enum status random_weights_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for random weights");
}

/* xorshift64* (Marsaglia 2003, Vigna 2016). */
static uint64_t random_weights_next(struct making *m)
{
    m->random ^= m->random >> 12;
    m->random ^= m->random << 25;
    m->random ^= m->random >> 27;
    return m->random * 0x2545f4914f6cdd1du;
}

/* --- metadata ------------------------------------------------------------------------------- */

/* The character that byte-level vocabularies write for a byte (GPT-2's bytes_to_unicode): itself if
 * it is visible in Latin-1, else the next of U+0100 on. `hidden` counts those so far. */
static size_t spell_byte(uint32_t byte, uint32_t *hidden, char out[static 2])
{
    bool visible = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    uint32_t c = visible ? byte : 256 + (*hidden)++;
    if (c < 128) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

/* A token for each byte, one merge, and rows that no text has. */
static void random_weights_write_tokenizer(uint32_t n_vocab, struct gguf_build *b)
{
    uint32_t hidden = 0;
    gguf_build_string(b, "tokenizer.ggml.model", "gpt2");
    gguf_build_string(b, "tokenizer.ggml.pre", "gpt-2");
    gguf_build_array(b, "tokenizer.ggml.tokens", GGUF_STRING, n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++) {
        char text[24];
        size_t len = 0;
        if (i < 256)
            len = spell_byte(i, &hidden, text);
        else
            len = (size_t)snprintf(text, sizeof text, i == 256 ? "th" : "[PAD%u]", i);
        gguf_build_element_string(b, text, len);
    }
    gguf_build_array(b, "tokenizer.ggml.merges", GGUF_STRING, 1);
    gguf_build_element_string(b, "t h", 3);
    gguf_build_bool(b, "tokenizer.ggml.add_bos_token", false);
}

static enum status random_weights_read_shape(struct making *m, const char *path, struct err *err)
{
    struct gguf_build b = {0};
    struct hf_config config = {0};
    json_t *json = NULL;
    enum status st = json_file_load(&json, path, LIMIT_CONFIG_BYTES, err);
    if (!st && hf_config_read(&config, json, &b, err))
        st = err_context(err, "%s", path);
    if (!st) {
        gguf_build_string(&b, "general.name", "random weights");
        random_weights_write_tokenizer(config.n_vocab, &b);
        gguf_build_header(&b, 0, &m->dummy->head);
        st = m->dummy->head.failed ? random_weights_no_memory(err) : STATUS_OK;
    }
    m->config.n_vocab = config.n_vocab;
    m->tied = config.tying == HF_TYING_YES;
    m->extra = config.extra;
    hf_config_fini(&config);
    json_decref(json);
    gguf_build_fini(&b);
    return st;
}

/* The model without its data, or with it. */
static enum status random_weights_assemble(struct gguf **out, const struct making *m,
                                           const char *path, struct dummy *take, struct err *err)
{
    const struct gguf_assembly a = {
        .path = path,
        .metadata = m->dummy->head.data,
        .metadata_len = m->dummy->head.len,
        .tensors = m->tensors,
        .n_tensors = m->n_tensors,
        .release = take ? dummy_close : NULL,
        .take_owned = take,
    };
    return gguf_assemble(out, &a, err);
}

/* --- tensors -------------------------------------------------------------------------------- */

static bool random_weights_is_long(const struct making *m)
{
    return m->config.rope[ROPE_MAIN].scaling == ROPE_SCALING_LONG;
}

static void random_weights_add_rows(struct making *m, const struct arch_tensor *rows, size_t n,
                                    uint32_t layer)
{
    for (size_t i = 0; i < n; i++) {
        bool head = strcmp(rows[i].name, "output.weight") == 0 && !m->tied;
        bool factors = strncmp(rows[i].name, "rope_factors_", 13) == 0 && random_weights_is_long(m);
        if ((rows[i].flags & ARCH_OPTIONAL) && !head && !factors)
            continue;
        struct tensor *t = &m->tensors[m->n_tensors];
        char *name = m->names[m->n_tensors++], long_name[ARCH_NAME_BYTES];
        snprintf(name, sizeof *m->names, "%.64s", arch_gguf_name(long_name, &rows[i], layer));
        *t = (struct tensor){
            .name = name,
            .type = TENSOR_F32,
            .n_dims = rows[i].out == ARCH_NONE ? 1 : 2,
            .dims = {arch_extent(&m->config, rows[i].in), arch_extent(&m->config, rows[i].out), 1,
                     1},
        };
    }
}

static enum status list_tensors(struct making *m, const char *path, struct err *err)
{
    struct gguf *g = NULL;
    uint32_t n_vocab = m->config.n_vocab;
    enum status st = random_weights_assemble(&g, m, path, NULL, err);
    if (!st)
        st = arch_of(&m->arch, g, err);
    if (!st)
        st = config_read(&m->config, m->arch, g, err);
    gguf_close(g);
    if (st)
        return err_context(err, "%s", path);
    m->config.n_vocab = n_vocab;
    size_t max = m->arch->n_tensors + (size_t)m->config.n_layers * m->arch->n_layer_tensors;
    m->tensors = mem_array(max, sizeof *m->tensors);
    m->names = mem_array(max, sizeof *m->names);
    if (!m->tensors || !m->names)
        return random_weights_no_memory(err);
    random_weights_add_rows(m, m->arch->tensors, m->arch->n_tensors, ARCH_NO_LAYER);
    for (uint32_t i = 0; i < m->config.n_layers; i++)
        random_weights_add_rows(m, m->arch->layer_tensors, m->arch->n_layer_tensors, i);
    return STATUS_OK;
}

/* Types and sizes; returns the bytes of all. */
static enum status size_tensors(struct making *m, enum tensor_type type, const char *path,
                                struct err *err)
{
    struct gguf *g = NULL;
    enum status st = random_weights_assemble(&g, m, path, NULL, err);
    for (size_t i = 0; i < m->n_tensors && !st; i++) {
        struct tensor *t = &m->tensors[i];
        t->type = requantize_choose(g, t, type);
        t->size = (size_t)t->dims[1] * tensor_row_bytes(t->type, (size_t)t->dims[0]);
        m->dummy->bytes += (t->size + LINE - 1) / LINE * LINE;
    }
    gguf_close(g);
    if (!st && m->dummy->bytes > mem_available())
        st = err_set(err, STATUS_NO_MEMORY,
                     "%s: random weights need %.1f MiB, %.1f MiB are available", path,
                     (double)m->dummy->bytes / MIB, (double)mem_available() / MIB);
    return st;
}

/* --- values --------------------------------------------------------------------------------- */

/* A block whose values are within about 0.05 of zero. */
static void random_block(struct making *m, enum tensor_type type, unsigned char *out)
{
    size_t bytes = tensor_type_block_bytes(type);
    float value = (float)((double)(random_weights_next(m) >> 11) * 0x1p-53 - 0.5) * 0.1f;
    uint16_t half = type == TENSOR_BF16 ? bf16_from_float(value) : half_from_float(value);
    if (type == TENSOR_F32) {
        memcpy(out, &value, sizeof value);
        return;
    }
    for (size_t i = 2; i < bytes; i++)
        out[i] = (unsigned char)(random_weights_next(m) >> 56);
    if (bytes > 2) /* a scale */
        half = half_from_float(type == TENSOR_Q8_0 ? 0.05f / 127 : 0.05f / 8);
    memcpy(out, &half, sizeof half);
}

/* Norms of ones, everything else from a pattern of random blocks over and over: copying is what
 * makes billions of them in seconds. */
static void random_weights_fill(struct making *m, const struct tensor *t, char *out)
{
    static unsigned char pattern[PATTERN * 34]; /* the longest block here, Q8_0's */
    size_t block = tensor_type_block_bytes(t->type), whole = PATTERN * block;
    if (t->n_dims == 1) {
        for (size_t i = 0; i < t->dims[0]; i++)
            memcpy(out + i * sizeof(float), &(float){1}, sizeof(float));
        return;
    }
    for (size_t i = 0; i < PATTERN; i++)
        random_block(m, t->type, pattern + i * block);
    for (size_t at = 0; at < t->size; at += whole)
        memcpy(out + at, pattern, t->size - at < whole ? t->size - at : whole);
}

static enum status fill_tensors(struct making *m, struct err *err)
{
    struct dummy *d = m->dummy;
    size_t at = 0;
    void *p = mmap(NULL, d->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return random_weights_no_memory(err);
    madvise(p, d->bytes, MADV_HUGEPAGE);
    d->weights = p;
    for (size_t i = 0; i < m->n_tensors; i++) {
        struct tensor *t = &m->tensors[i];
        random_weights_fill(m, t, d->weights + at);
        t->data = d->weights + at;
        at += (t->size + LINE - 1) / LINE * LINE;
    }
    return STATUS_OK;
}

enum status random_weights_open(struct model_file *out, const char *path, enum tensor_type type,
                                struct err *err)
{
    struct making m = {.dummy = mem_zalloc(sizeof *m.dummy), .random = 0x9e3779b97f4a7c15u};
    enum status st =
        m.dummy ? random_weights_read_shape(&m, path, err) : random_weights_no_memory(err);
    if (!st)
        st = list_tensors(&m, path, err);
    if (!st)
        st = size_tensors(&m, type, path, err);
    if (!st)
        st = fill_tensors(&m, err);
    if (!st)
        st = random_weights_assemble(&out->gguf, &m, path, m.dummy, err);
    out->extra = m.extra;
    if (st)
        dummy_close(m.dummy);
    mem_free(m.names);
    mem_free(m.tensors);
    return st;
}
