/* Fuzz target of the GGUF reader: any bytes, parsed, and if they pass, walked through to the last
 * element of the last value and the last byte of the last tensor, as a loader would.
 *
 * tests/fuzz/gguf_seeds.py writes the seeds, those with readable names.
 */
#include "weights/gguf.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the walks add up, so that the compiler cannot leave them out. */
static volatile uint64_t sink;

static void touch(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint64_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum += p[i];
    sink = sink + sum;
}

static void walk(const struct gguf_value *v)
{
    struct gguf_cursor c = {0, 0};
    for (uint64_t i = 0; i < v->count; i++) {
        struct gguf_value element = gguf_element(v, i, &c);
        if (v->element == GGUF_ARRAY) {
            walk(&element);
        } else if (v->element == GGUF_STRING) {
            struct gguf_string s = gguf_array_string(v, i, &c);
            touch(s.bytes, s.len);
        } else {
            double x = gguf_number(v, i);
            touch(&x, sizeof x);
            if (gguf_type_is_integer(v->element))
                sink = sink + (uint64_t)gguf_integer(v, i);
        }
    }
}

static void walk_values(const struct gguf *g)
{
    for (size_t i = 0; i < gguf_value_count(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        struct err err;
        uint32_t u32;
        float f32;
        bool b;
        struct gguf_string s;
        char key[256], text[64];
        walk(v);
        gguf_string_text(v->key, text, sizeof text);
        if (v->key.len >= sizeof key || memchr(v->key.bytes, '\0', v->key.len))
            continue;
        memcpy(key, v->key.bytes, v->key.len);
        key[v->key.len] = '\0';
        REQUIRE(gguf_value(g, key) == v);
        gguf_get_u32(g, key, &u32, &err);
        gguf_get_f32(g, key, &f32, &err);
        gguf_get_bool(g, key, &b, &err);
        if (gguf_get_string(g, key, &s, &err) == STATUS_OK)
            touch(s.bytes, s.len);
    }
}

static void walk_tensors(const struct gguf *g)
{
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        char text[64];
        REQUIRE(gguf_tensor(g, t->name) == t);
        touch(t->data, t->size);
        tensor_shape_text(t, text, sizeof text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g = NULL;
    struct err err = {0};
    if (gguf_parse(&g, data, size, &err) != STATUS_OK) {
        REQUIRE(!g && err.text[0] != '\0');
        return 0;
    }
    walk_values(g);
    walk_tensors(g);
    gguf_close(g);
    return 0;
}
