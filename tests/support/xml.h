/* Reading drawings in tests: whether XML is well-formed, and the attributes of its elements. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_XML_H
#define FIRSTLIGHT_TESTS_SUPPORT_XML_H

#include "support/cmocka_all.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XML_DEPTH 32

/* The end of the tag that begins at `p`, its attributes all quoted; NULL: none before `end`. */
static inline const char *xml_tag_end(const char *p, const char *end)
{
    for (p++; p < end && *p != '>'; p++) {
        if (*p == '<')
            return NULL;
        if (*p != '"')
            continue;
        p = memchr(p + 1, '"', (size_t)(end - p - 1));
        if (!p)
            return NULL;
    }
    return p < end ? p : NULL;
}

static inline const char *xml_next_tag(const char *p, const char *end)
{
    return memchr(p, '<', (size_t)(end - p));
}

/* Every tag is closed in order, in [p, end) all of it. No call gets the rest of the page as a
 * string: AddressSanitizer would read each to its end. */
static inline bool xml_is_well_formed(const char *p, const char *end)
{
    char open[XML_DEPTH][32];
    size_t depth = 0;
    for (p = xml_next_tag(p, end); p; p = xml_next_tag(p, end)) {
        const char *close = xml_tag_end(p, end);
        bool closing = p[1] == '/';
        char name[32] = {0};
        const char *tag = p + 1 + closing;
        size_t n = 0;
        if (!close)
            return false;
        while (tag + n < close && !strchr(" />\n", tag[n]))
            n++;
        if (n == 0 || n >= sizeof name)
            return false;
        memcpy(name, tag, n);
        if (closing && (depth == 0 || strcmp(open[--depth], name) != 0))
            return false;
        if (!closing && close[-1] != '/') {
            if (depth == XML_DEPTH)
                return false;
            strcpy(open[depth++], name);
        }
        p = close;
    }
    return depth == 0;
}

/* How often `text` occurs. */
static inline size_t xml_count(const char *p, const char *text)
{
    size_t n = 0;
    for (; (p = strstr(p, text)); p++)
        n++;
    return n;
}

/* Attribute `name` of the i-th occurrence of `element` ("<circle"), as a number. */
static inline double xml_number(const char *p, const char *element, size_t i, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, " %s=\"", name);
    for (p = strstr(p, element); p && i > 0; i--)
        p = strstr(p + 1, element);
    assert_non_null(p);
    const char *at = strstr(p, key);
    assert_non_null(at);
    assert_true(at < xml_tag_end(p, p + strlen(p)));
    return strtod(at + strlen(key), NULL);
}

#endif
