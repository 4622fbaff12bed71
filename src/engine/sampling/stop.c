#include "engine/sampling/stop.h"

#include "base/err.h"

#include <string.h>

/* The automaton's step: the longest prefix of the string that (matched prefix + byte) ends with. */
static uint16_t stop_advance(const struct stop_string *s, uint16_t matched, char byte)
{
    while (matched > 0 && s->bytes[matched] != byte)
        matched = s->back[matched - 1];
    return s->bytes[matched] == byte ? matched + 1 : 0;
}

static void init_string(struct stop_string *s, const char *bytes)
{
    size_t len = strlen(bytes);
    REQUIRE(len >= 1 && len <= LIMIT_STOP_BYTES);
    *s = (struct stop_string){.bytes = bytes, .len = (uint16_t)len};
    for (uint16_t i = 1; i < s->len; i++)
        s->back[i] = stop_advance(s, s->back[i - 1], bytes[i]);
}

void stop_init(struct stop *s, char *const *strings, uint32_t n)
{
    REQUIRE(n <= LIMIT_STOP_STRINGS);
    s->n = n;
    s->fed = 0;
    s->unarmed = false;
    for (uint32_t i = 0; i < n; i++)
        init_string(&s->strings[i], strings[i]);
}

bool stop_feed(struct stop *s, const char *bytes, size_t len, size_t *cut)
{
    for (size_t i = 0; i < len; i++) {
        size_t longest = 0;
        s->fed++;
        for (uint32_t k = 0; k < s->n; k++) {
            struct stop_string *string = &s->strings[k];
            string->matched = stop_advance(string, string->matched, bytes[i]);
            if (string->matched < string->len)
                continue;
            if (s->unarmed)
                string->matched = string->back[string->len - 1];
            else if (string->len > longest)
                longest = string->len;
        }
        if (longest > 0) {
            *cut = s->fed - longest;
            return true;
        }
    }
    return false;
}

size_t stop_held(const struct stop *s)
{
    size_t held = 0;
    for (uint32_t k = 0; k < s->n; k++)
        if (s->strings[k].matched > held)
            held = s->strings[k].matched;
    return held;
}
