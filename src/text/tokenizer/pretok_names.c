/* The pre-tokenizers that GGUF files name: the published expressions, GPT-2's (openai/gpt-2,
 * encoder.py) and those of each family's tokenizer.json, under the names of tokenizer.ggml.pre. */
#include "text/tokenizer/pretok.h"

#include <string.h>

#define MAX_NAMES   14
#define MAX_REGEXES 5

#define SPACES "\\s+(?!\\S)|\\s+" /* a run leaves its last one to the next word */
#define LINES  "\\s*[\\r\\n]+"
#define SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" SPACES
#define LLAMA3                                                                                     \
    SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES      \
           "|" SPACES
#define QWEN2                                                                                      \
    SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES
#define QWEN35                                                                                     \
    SUFFIX "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "                                       \
           "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES
#define DEEPSEEK_LLM_LETTERS                                                                       \
    "\\s?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"            \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"         \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-"         \
    "\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"             \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-"       \
    "\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}"        \
    "\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}"         \
    "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}"        \
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-"       \
    "\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"          \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"         \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"         \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-"        \
    "\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"        \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"               \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"         \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+"
#define DEEPSEEK_LLM_PUNCTUATION                                                                   \
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+"
#define DEEPSEEK_CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define DEEPSEEK3                                                                                  \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                                       \
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES "|" SPACES
#define DIGIT "\\p{N}"

struct logits_row {
    const char *names[MAX_NAMES];
    const char *regexes[MAX_REGEXES + 1];
    struct pretok_traits traits;
};

static const struct logits_row rows[] = {
    {
        .names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
                  "mellum2"},
        .regexes = {DIGIT, GPT2},
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
        .traits = {.whole_words = true, .add_bos = true},
    },
    {
        .names = {"glm4", "glm5"},
        .regexes = {LLAMA3},
        .traits = {.whole_words = true},
    },
    {
        .names = {"dbrx", "smaug-bpe", "chatglm-bpe"},
        .regexes = {LLAMA3},
    },
    {
        .names = {"qwen2", "deepseek-r1-qwen"},
        .regexes = {QWEN2},
        .traits = {.nfc = true},
    },
    {
        .names = {"megrez", "hunyuan", "solar-open", "stablelm2", "kormo", "grok-2"},
        .regexes = {QWEN2},
    },
    {
        .names = {"qwen35"},
        .regexes = {QWEN35},
        .traits = {.nfc = true},
    },
    {
        .names = {"deepseek-llm"},
        .regexes = {"[\\r\\n]", DEEPSEEK_LLM_LETTERS, DEEPSEEK_LLM_PUNCTUATION, "\\s+$",
                    DEEPSEEK_CJK "|" DIGIT},
    },
    {
        .names = {"deepseek-coder"},
        .regexes = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, DIGIT},
    },
    {
        .names = {"deepseek-v3", "hunyuan-dense", "joyai-llm"},
        .regexes = {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+", DEEPSEEK3},
    },
};

static const struct logits_row *find_row(const char *name, size_t len)
{
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < MAX_NAMES && rows[r].names[i]; i++)
            if (strlen(rows[r].names[i]) == len && memcmp(rows[r].names[i], name, len) == 0)
                return &rows[r];
    return NULL;
}

enum status pretok_open(struct pretok **out, struct pretok_traits *traits, const char *name,
                        size_t len, struct err *err)
{
    const struct logits_row *row = find_row(name, len);
    enum status status = STATUS_OK;
    if (!row)
        return err_param(err, STATUS_UNSUPPORTED, "tokenizer.ggml.pre",
                         "tokenizer.ggml.pre: the pre-tokenizer '%.*s' is not supported",
                         len > 100 ? 100 : (int)len, name);
    struct pretok *p = pretok_new();
    if (!p)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a pre-tokenizer");
    for (int i = 0; status == STATUS_OK && row->regexes[i]; i++)
        status = pretok_add_split(p, row->regexes[i], PRETOK_ISOLATED, false, row->names[0], err);
    if (status != STATUS_OK) {
        pretok_close(p);
        return status;
    }
    *out = p;
    *traits = row->traits;
    return STATUS_OK;
}
