/* The prompts of the token-speed benchmark: the three standard ones, which are part of the binary
 * (prompts/standard.json), or those of a file of the same form:
 *
 *     {"token_speed": [{"id": "code", "kind": "code generation", "text": "..."}, ...]}
 *
 * An id names the prompt's metrics ("ttft_code_p50"): letters, digits and "_". `kind` is for people
 * and may be missing. Other fields are ignored.
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_PROMPT_SET_H
#define FIRSTLIGHT_BENCH_LOAD_PROMPT_SET_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct prompt {
    char *id;   /* unique among its prompts */
    char *kind; /* NULL: not given */
    char *text; /* UTF-8, not empty */
};

struct prompt_set {
    struct prompt *v; /* (n), n >= 1; owned */
    uint32_t n;
};

/* *out is to be freed by prompt_set_fini either way. Errors name `from` (the file) and the field.
 */
enum status prompt_set_standard(struct prompt_set *out, struct err *err);
enum status prompt_set_read(struct prompt_set *out, const char *path, struct err *err);
enum status prompt_set_parse(struct prompt_set *out, const char *from, const char *json, size_t len,
                             struct err *err);
void prompt_set_fini(struct prompt_set *p);

#endif
