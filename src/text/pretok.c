#include "text/pretok.h"

#include "base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#define MAX_NAMES   14
#define MAX_REGEXES 4

/* Unicode's White_Space property (PropList.txt), which is what \s means to the Rust and Oniguruma
 * engines the expressions were written for. PCRE2's own \s under UCP has U+180E as well. */
#define WS                                                                                         \
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"       \
    "\\x{3000}"

#define SPACES "[" WS "]+(?![^" WS "])|[" WS "]+" /* a run leaves its last one to the next word */
#define LINES  "[" WS "]*[\\r\\n]+"
#define SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

/* The published expressions: GPT-2's (openai/gpt-2, encoder.py) and those of each family's
 * tokenizer.json. */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|" SPACES
#define LLAMA3                                                                                     \
    SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" LINES   \
           "|" SPACES
#define QWEN2                                                                                      \
    SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|" LINES        \
           "|" SPACES
#define QWEN35                                                                                     \
    SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" WS                                 \
           "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES

struct row {
    const char *names[MAX_NAMES];
    const char *regexes[MAX_REGEXES + 1];
    bool whole_words;
    bool add_bos;
};

static const struct row rows[] = {
    {
        .names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
                  "mellum2"},
        .regexes = {"\\p{N}", GPT2},
    },
    {
        .names = {"gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "trillion", "granite-docling",
                  "gigachat", "a.x-4.0", "mellum"},
        .regexes = {GPT2},
    },
    {
        /* What llama.cpp does for files that name no pre-tokenizer. */
        .names = {"default"},
        .regexes = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    },
    {
        .names = {"falcon"},
        .regexes = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"},
    },
    {
        .names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
                  "lfm2"},
        .regexes = {LLAMA3},
        .whole_words = true,
        .add_bos = true,
    },
    {
        .names = {"glm4", "glm5"},
        .regexes = {LLAMA3},
        .whole_words = true,
    },
    {
        .names = {"dbrx", "smaug-bpe", "chatglm-bpe"},
        .regexes = {LLAMA3},
    },
    {
        .names = {"qwen2", "deepseek-r1-qwen", "megrez", "hunyuan", "solar-open", "stablelm2",
                  "kormo", "grok-2"},
        .regexes = {QWEN2},
    },
    {
        .names = {"qwen35"},
        .regexes = {QWEN35},
    },
};

struct pretok {
    const struct row *row;
    pcre2_general_context *memory;
    pcre2_code *codes[MAX_REGEXES];
    int n_codes;
};

struct pretok_scratch {
    pcre2_general_context *memory;
    pcre2_match_data *match;
};

/* One call of pretok_split. */
struct split {
    const struct pretok *pretok;
    pcre2_match_data *match;
    pretok_word word;
    void *ctx;
    struct err *err;
};

static void *take_memory(size_t size, void *data)
{
    (void)data;
    return mem_alloc(size);
}

static void give_memory(void *p, void *data)
{
    (void)data;
    mem_free(p);
}

static const struct row *find_row(const char *name, size_t len)
{
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < MAX_NAMES && rows[r].names[i] != NULL; i++)
            if (strlen(rows[r].names[i]) == len && memcmp(rows[r].names[i], name, len) == 0)
                return &rows[r];
    return NULL;
}

/* Compiles the row's next expression. Where the system forbids executable memory there is no JIT
 * and PCRE2 interprets: slower, the same words. */
static enum status compile_next(struct pretok *p, struct err *err)
{
    const char *regex = p->row->regexes[p->n_codes];
    pcre2_compile_context *context = pcre2_compile_context_create(p->memory);
    PCRE2_SIZE at;
    int code;

    if (context == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a pre-tokenizer");
    p->codes[p->n_codes] = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP, &code, &at, context);
    pcre2_compile_context_free(context);
    if (p->codes[p->n_codes] == NULL) {
        char text[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return err_set(err, STATUS_INTERNAL, "pre-tokenizer '%s': expression %d at %zu: %s",
                       p->row->names[0], p->n_codes, (size_t)at, text);
    }
    (void)pcre2_jit_compile(p->codes[p->n_codes++], PCRE2_JIT_COMPLETE);
    return STATUS_OK;
}

enum status pretok_open(struct pretok **out, const char *name, size_t len, struct err *err)
{
    const struct row *row = find_row(name, len);
    enum status status = STATUS_OK;

    if (row == NULL)
        return err_param(err, STATUS_UNSUPPORTED, "tokenizer.ggml.pre",
                         "tokenizer.ggml.pre: the pre-tokenizer '%.*s' is not supported",
                         len > 100 ? 100 : (int)len, name);
    struct pretok *p = mem_zalloc(sizeof *p);
    if (p == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a pre-tokenizer");
    p->row = row;
    p->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    if (p->memory == NULL)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for a pre-tokenizer");
    while (status == STATUS_OK && row->regexes[p->n_codes] != NULL)
        status = compile_next(p, err);
    if (status != STATUS_OK) {
        pretok_close(p);
        return status;
    }
    *out = p;
    return STATUS_OK;
}

void pretok_close(struct pretok *p)
{
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_codes; i++)
        pcre2_code_free(p->codes[i]);
    pcre2_general_context_free(p->memory);
    mem_free(p);
}

bool pretok_whole_words(const struct pretok *p)
{
    return p->row->whole_words;
}

bool pretok_add_bos(const struct pretok *p)
{
    return p->row->add_bos;
}

struct pretok_scratch *pretok_scratch_open(void)
{
    struct pretok_scratch *s = mem_zalloc(sizeof *s);

    if (s == NULL)
        return NULL;
    s->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    s->match = s->memory ? pcre2_match_data_create(1, s->memory) : NULL;
    if (s->match == NULL) {
        pretok_scratch_close(s);
        return NULL;
    }
    return s;
}

void pretok_scratch_close(struct pretok_scratch *s)
{
    if (s == NULL)
        return;
    pcre2_match_data_free(s->match);
    pcre2_general_context_free(s->memory);
    mem_free(s);
}

/* Finds the next match of an expression at or after `from`; *start = len when there is none. */
static enum status next_match(const struct split *s, int level, const char *text, size_t len,
                              size_t from, size_t *start, size_t *end)
{
    int found = pcre2_match(s->pretok->codes[level], (PCRE2_SPTR)text, len, from,
                            PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, s->match, NULL);

    *start = *end = len;
    if (found == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (found < 0) {
        char why[128] = "";
        pcre2_get_error_message(found, (PCRE2_UCHAR *)why, sizeof why);
        return err_set(s->err, found == PCRE2_ERROR_NOMEMORY ? STATUS_NO_MEMORY : STATUS_INTERNAL,
                       "pre-tokenizer '%s': expression %d at byte %zu of %zu: %s",
                       s->pretok->row->names[0], level, from, len, why);
    }
    *start = pcre2_get_ovector_pointer(s->match)[0];
    *end = pcre2_get_ovector_pointer(s->match)[1];
    return STATUS_OK;
}

/* Cuts one part with the expressions from `level` on; recursion is as deep as the row is long. */
static enum status split_part(const struct split *s, int level, const char *text, size_t len)
{
    size_t from = 0, start, end;
    enum status status = STATUS_OK;

    if (len == 0)
        return STATUS_OK;
    if (level == s->pretok->n_codes)
        return s->word(s->ctx, text, len, s->err);
    while (status == STATUS_OK && from < len) {
        status = next_match(s, level, text, len, from, &start, &end);
        if (status == STATUS_OK)
            status = split_part(s, level + 1, text + from, start - from);
        if (status == STATUS_OK)
            status = split_part(s, level + 1, text + start, end - start);
        from = end;
    }
    return status;
}

enum status pretok_split(const struct pretok *p, struct pretok_scratch *s, const char *text,
                         size_t len, pretok_word word, void *ctx, struct err *err)
{
    struct split split = {.pretok = p, .match = s->match, .word = word, .ctx = ctx, .err = err};

    return split_part(&split, 0, text, len);
}
