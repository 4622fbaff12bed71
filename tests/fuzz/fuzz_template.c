/* Fuzz target: a template and its context, hostile both.
 *
 *     input ─> template source | 0xff | context as JSON (optional)
 *
 * Whatever compiles is rendered with the origin asked for. */
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "text/template/template.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every byte has an origin, and it is 0 or 1. */
static void check_origin(const struct buf *text, const struct buf *trusted)
{
    REQUIRE(text->len == trusted->len);
    for (size_t i = 0; i < trusted->len; i++)
        REQUIRE(trusted->data[i] == 0 || trusted->data[i] == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const fallback =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"h\\u00e9 \\u0000\"}, {\"role\": "
        "\"x\"}],"
        " \"x\": 1, \"s\": \"a b\", \"l\": [1, \"a\", null], \"d\": {\"k\": {\"y\": 2.5}}}";
    const uint8_t *mark = size > 0 ? memchr(data, 0xff, size) : NULL;
    size_t len = mark != NULL ? (size_t)(mark - data) : size;
    struct buf text = {.limit = 1 << 20}, trusted = {0};
    struct template *t;
    struct err err = {0};
    json_t *context = NULL;

    if (template_compile(&t, (const char *)data, len, &err) != STATUS_OK)
        return 0;
    if (mark != NULL)
        context = json_loadb((const char *)mark + 1, size - len - 1, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(context)) {
        json_decref(context);
        context = json_loads(fallback, JSON_ALLOW_NUL, NULL);
    }
    if (template_render(t, context, &text, &trusted, &err) == STATUS_OK)
        check_origin(&text, &trusted);
    json_decref(context);
    buf_fini(&text);
    buf_fini(&trusted);
    template_free(t);
    return 0;
}
