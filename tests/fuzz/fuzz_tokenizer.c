/* Fuzz target: a tokenizer.json, its tokenizer_config.json and a text, hostile all.
 *
 *     input ─> tokenizer.json | 0xff | tokenizer_config.json (may be empty) | 0xff | text
 *
 * What opens encodes the text, with and without special tokens, and decodes the ids. */
#include "base/buf.h"
#include "base/err.h"
#include "text/tokenizer/tokenizer.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes the bytes up to the next 0xff, or all that is left. */
static const char *take(const uint8_t **data, size_t *size, size_t *len)
{
    const uint8_t *start = *data, *mark = *size > 0 ? memchr(start, 0xff, *size) : NULL;

    *len = mark != NULL ? (size_t)(mark - start) : *size;
    size_t used = mark != NULL ? *len + 1 : *len;
    *data += used;
    *size -= used;
    return (const char *)start;
}

static void use(const struct tokenizer *t, const char *text, size_t len)
{
    uint8_t trusted[256];

    for (size_t i = 0; i < sizeof trusted; i++)
        trusted[i] = i % 5 != 0;
    for (unsigned flags = 0; flags < 4; flags++) {
        struct tokens ids = {0};
        struct buf out = {.limit = 1 << 24};
        struct err err = {0};
        const uint8_t *mask = len <= sizeof trusted ? trusted : NULL;
        enum status status = tokenizer_encode(t, text, len, mask, flags, &ids, &err);
        for (size_t i = 0; i < ids.count; i++)
            REQUIRE(ids.ids[i] >= 0 && (uint32_t)ids.ids[i] < tokenizer_vocab_size(t));
        REQUIRE(status == STATUS_OK || err.text[0] != '\0');
        (void)tokenizer_decode(t, ids.ids, ids.count, flags & 1, &out);
        tokens_fini(&ids);
        buf_fini(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char usual[] = "  a\xcc\x81 B1\n<s>\xe2\x96\x81\xf0\x9f\x98\x80 x";
    struct tokenizer_json files = {0};
    struct tokenizer *t = NULL;
    struct err err = {0};
    size_t len;

    files.text = take(&data, &size, &files.len);
    files.config = take(&data, &size, &files.config_len);
    if (files.config_len == 0)
        files.config = NULL;
    const char *text = take(&data, &size, &len);
    if (tokenizer_open_json(&t, &files, &err) != STATUS_OK) {
        REQUIRE(t == NULL && err.text[0] != '\0');
        return 0;
    }
    use(t, len > 0 ? text : usual, len > 0 ? len : sizeof usual - 1);
    tokenizer_close(t);
    return 0;
}
