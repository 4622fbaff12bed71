/* What reading a tokenizer.json needs in several places: its steps (tokenizer_json_steps.c), its
 * vocabulary (tokenizer_json.c), and errors that name the member. */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_TOKENIZER_JSON_INTERNAL_H
#define FIRSTLIGHT_TEXT_TOKENIZER_TOKENIZER_JSON_INTERNAL_H

#include "text/tokenizer/tokenizer_internal.h"

#include <jansson.h>

/* A value and where it is: "pre_tokenizer.pretokenizers[2].pattern". */
struct json_place {
    const json_t *value; /* NULL: absent */
    char path[128];
};

/* A file being read. */
struct json_reader {
    struct tokenizer *tokenizer;
    const char *file; /* "tokenizer.json", for errors */
    struct err *err;
    struct vocab_rules rules; /* as the steps have it: byte-level, what decoding replaces */
    bool any_byte_level;      /* in the pre-tokenizer */
};

struct json_place tokenizer_json_member(const struct json_place *o, const char *name);
struct json_place tokenizer_json_element(const struct json_place *array, size_t i);

/* STATUS_INVALID: "FILE: PATH: expected WHAT, found ...". */
enum status tokenizer_json_expected(const struct json_reader *r, const struct json_place *at,
                                    const char *what);
/* STATUS_UNSUPPORTED: "FILE: PATH: 'NAME' is not supported: WHY". */
enum status tokenizer_json_unsupported(const struct json_reader *r, const struct json_place *at,
                                       const char *name, const char *why);

/* Members of an object. Absent or null leaves *out as it is, unless it has to be there. */
enum status tokenizer_json_text(const struct json_reader *r, const struct json_place *o,
                                const char *name, bool needed, const char **out);
enum status tokenizer_json_bool(const struct json_reader *r, const struct json_place *o,
                                const char *name, bool *out);
/* A whole number in [0, limit). */
enum status tokenizer_json_id(const struct json_reader *r, const struct json_place *at,
                              int64_t limit, int32_t *out);

/* The steps: r->tokenizer's normalizer and pre-tokenizer, r->rules. Before the vocabulary. */
enum status tokenizer_json_steps(struct json_reader *r, const struct json_place *root);
/* What the post-processor puts around a text. After the vocabulary. */
enum status tokenizer_json_around(struct json_reader *r, const struct json_place *post);

#endif
