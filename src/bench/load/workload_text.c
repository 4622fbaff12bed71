#include "bench/load/workload_text.h"

#include "base/mem.h"
#include "bench/load/workload.h"

#include <string.h>

/* Each is one token in the vocabularies of GPT-2's kind that were looked at (SmolLM2's was
 * checked), both at the start of a text and after a space. Results depend on the order: never
 * change it. */
static const char *const words[] = {
    "the",        "of",       "and",       "to",      "in",      "is",      "that",   "for",
    "it",         "as",       "was",       "with",    "be",      "by",      "on",     "not",
    "he",         "his",      "but",       "at",      "are",     "this",    "have",   "had",
    "from",       "or",       "one",       "all",     "her",     "she",     "they",   "we",
    "you",        "were",     "my",        "an",      "their",   "which",   "when",   "there",
    "would",      "who",      "what",      "been",    "more",    "if",      "so",     "will",
    "no",         "out",      "do",        "up",      "them",    "about",   "me",     "some",
    "could",      "time",     "into",      "than",    "only",    "other",   "its",    "then",
    "two",        "may",      "any",       "first",   "these",   "new",     "like",   "our",
    "over",       "man",      "even",      "most",    "made",    "after",   "also",   "did",
    "many",       "before",   "must",      "through", "back",    "years",   "where",  "much",
    "your",       "way",      "down",      "should",  "because", "long",    "each",   "just",
    "those",      "people",   "how",       "too",     "little",  "state",   "good",   "very",
    "make",       "world",    "still",     "own",     "see",     "men",     "work",   "life",
    "get",        "here",     "between",   "both",    "under",   "never",   "day",    "same",
    "another",    "know",     "while",     "last",    "might",   "us",      "great",  "old",
    "year",       "off",      "come",      "since",   "go",      "against", "came",   "right",
    "used",       "take",     "three",     "few",     "house",   "use",     "during", "without",
    "again",      "place",    "around",    "however", "home",    "small",   "found",  "thought",
    "went",       "say",      "part",      "once",    "general", "high",    "upon",   "school",
    "every",      "does",     "got",       "left",    "number",  "course",  "war",    "until",
    "always",     "away",     "something", "fact",    "though",  "water",   "less",   "public",
    "put",        "think",    "almost",    "hand",    "enough",  "far",     "head",   "yet",
    "government", "system",   "better",    "set",     "nothing", "night",   "end",    "why",
    "called",     "find",     "going",     "look",    "later",   "point",   "next",   "program",
    "city",       "business", "give",      "group",   "young",   "days",    "let",    "room",
    "word",       "present",  "side",      "social",  "given",   "several", "second", "possible",
    "rather",     "face",     "order",     "light",   "music",   "paper",   "river",  "green",
    "table",      "window",   "summer",    "winter",  "family",  "friend",  "story",  "letter",
    "market",     "street",   "bridge",    "forest",  "ocean",   "castle",  "doctor", "teacher",
    "student",    "flower",   "animal",    "orange",  "yellow",  "bread",   "sugar",  "chair",
    "horse",      "engine",   "machine",   "science", "history", "theory",  "planet", "energy",
};
#define N_WORDS 256
_Static_assert(sizeof words / sizeof words[0] == N_WORDS, "a digit of a code is a byte");

/* Tried in turn where words do not meet the count; each is short and merges with little. */
static const char *const fillers[] = {" a", ".", " I", "!", "0", "x", "\n"};

#define STREAM_ALPHABET 1 /* of the seed; workload.c numbers its own from 2 on */

struct maker {
    struct buf *out;
    size_t floor; /* bytes that were there before */
    struct random *random;
    uint64_t seed, code;
    uint32_t n_words;
    const struct tokenizer *tokenizer;
    struct tokens ids;
    enum status status;
    struct err *err;
};

/* The i-th digit of the code, in an alphabet that depends on the seed. */
static uint32_t head_word(const struct maker *m, uint32_t i)
{
    struct random r;
    random_init(&r, m->seed, (uint64_t)STREAM_ALPHABET << 56 | i);
    uint32_t odd = random_below(&r, N_WORDS) | 1, shift = random_below(&r, N_WORDS);
    return ((uint32_t)(m->code >> 8 * i & 0xff) * odd + shift) % N_WORDS;
}

static void workload_text_add_words(struct maker *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, m->n_words++) {
        uint32_t w = m->n_words < WORKLOAD_TEXT_HEAD ? head_word(m, m->n_words)
                                                     : random_below(m->random, N_WORDS);
        if (m->out->len > 0)
            buf_putc(m->out, ' ');
        buf_puts(m->out, words[w]);
    }
}

/* Tokens of the first `len` bytes. 0 after an error. */
static size_t workload_text_count(struct maker *m, size_t len)
{
    m->ids.count = 0;
    if (m->out->failed)
        m->status = err_set(m->err, STATUS_NO_MEMORY, "no memory for a prompt");
    if (!m->status)
        m->status = tokenizer_encode(m->tokenizer, buf_str(m->out), len, NULL,
                                     TOKENIZE_SPECIAL | TOKENIZE_ADD, &m->ids, m->err);
    return m->status ? 0 : m->ids.count;
}

static void cut(struct maker *m, size_t len)
{
    m->out->len = len;
    if (m->out->data)
        m->out->data[len] = '\0';
}

/* Words until there are enough tokens, guessing how many from what the last ones made. The bound is
 * for a vocabulary that lacks their letters: it makes nothing of them. */
static size_t workload_text_grow(struct maker *m, uint32_t n_tokens)
{
    size_t n = workload_text_count(m, m->out->len), before = n;
    uint32_t words_before = m->n_words;
    while (!m->status && n < n_tokens && m->n_words / 4 <= n_tokens) {
        uint32_t made = m->n_words - words_before, missing = n_tokens - (uint32_t)n;
        double per_word = made && n > before ? (double)(n - before) / made : 1;
        uint32_t more = (uint32_t)(missing / (per_word < 0.5 ? 0.5 : per_word));
        workload_text_add_words(m, more ? more : 1);
        n = workload_text_count(m, m->out->len);
    }
    return n;
}

/* The text is too long: the longest beginning that is not, by bisection. It need not be exactly the
 * longest, as the count is not quite monotonic; a space at the end is not left. */
static size_t shrink(struct maker *m, uint32_t n_tokens)
{
    size_t low = m->floor, high = m->out->len, n = workload_text_count(m, low);
    while (!m->status && n != n_tokens && high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (m->out->data[mid - 1] == ' ')
            mid++;
        if (mid == high)
            break;
        size_t at_mid = workload_text_count(m, mid);
        if (at_mid > n_tokens) {
            high = mid;
        } else {
            low = mid;
            n = at_mid;
        }
    }
    cut(m, low);
    return n;
}

/* Makes up for what is still missing, a few bytes at a time. */
static size_t workload_text_fill(struct maker *m, size_t n, uint32_t n_tokens)
{
    size_t i = 0;
    while (!m->status && n < n_tokens && i < sizeof fillers / sizeof fillers[0]) {
        size_t len = m->out->len;
        buf_puts(m->out, fillers[i]);
        size_t longer = workload_text_count(m, m->out->len);
        if (longer > n && longer <= n_tokens) {
            n = longer;
            i = 0;
        } else {
            cut(m, len);
            i++;
        }
    }
    return n;
}

enum status workload_text_append(struct buf *out, struct random *r, uint64_t seed, uint64_t code,
                                 uint32_t n_tokens, const struct tokenizer *tokenizer, bool *exact,
                                 struct err *err)
{
    struct maker m = {.out = out,
                      .floor = out->len,
                      .random = r,
                      .seed = seed,
                      .code = code,
                      .tokenizer = tokenizer,
                      .err = err};
    *exact = true;
    if (!tokenizer) {
        workload_text_add_words(&m, n_tokens);
    } else {
        size_t n = workload_text_grow(&m, n_tokens);
        if (n > n_tokens)
            n = shrink(&m, n_tokens);
        *exact = workload_text_fill(&m, n, n_tokens) == n_tokens;
        tokens_fini(&m.ids);
    }
    if (!m.status && out->failed)
        m.status = err_set(err, STATUS_NO_MEMORY, "no memory for a prompt");
    return m.status;
}

char *workload_text(struct random *r, uint32_t n_tokens, const struct tokenizer *tokenizer,
                    bool *exact)
{
    struct buf text = {0};
    struct err err;
    uint64_t code = random_next(r);
    if (workload_text_append(&text, r, 0, code, n_tokens, tokenizer, exact, &err)) {
        buf_fini(&text);
        return NULL;
    }
    return buf_take(&text);
}
