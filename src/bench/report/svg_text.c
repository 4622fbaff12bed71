#include "bench/report/svg_internal.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* Widths in em, of DejaVu Sans, the widest of the usual fonts. */
#define NARROW_EM 0.61
#define WIDE_EM   1.05

/* The next character of *p and its length in bytes; -1 for a byte that is no UTF-8. */
static int32_t next_code(const char *p, size_t left, size_t *n)
{
    utf8proc_int32_t code;
    utf8proc_ssize_t len =
        utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)left, &code);
    *n = len > 0 ? (size_t)len : 1;
    return len > 0 ? code : -1;
}

/* XML 1.0, section 2.2, less what would turn the text around it. */
static bool svg_text_is_shown(int32_t code)
{
    if (code < 0 || utf8_is_control((uint32_t)code))
        return code == '\t' || code == '\n' || code == '\r';
    return code != 0xfffe && code != 0xffff;
}

static void escape_code(struct buf *out, int32_t code, const char *bytes, size_t n)
{
    if (code == '&')
        buf_puts(out, "&amp;");
    else if (code == '<')
        buf_puts(out, "&lt;");
    else if (code == '>')
        buf_puts(out, "&gt;");
    else if (code == '"')
        buf_puts(out, "&quot;");
    else if (code == '\'')
        buf_puts(out, "&#39;");
    else if (svg_text_is_shown(code))
        buf_append(out, bytes, n);
    else
        buf_puts(out, UTF8_REPLACEMENT);
}

void svg_escape(struct buf *out, const char *text)
{
    size_t n, len = strlen(text);
    for (size_t i = 0; i < len; i += n) {
        int32_t code = next_code(text + i, len - i, &n);
        escape_code(out, code, text + i, n);
    }
}

static double code_width(int32_t code)
{
    if (code > 0 && code < 0x80 && strchr("iljI.,:;'|!", code))
        return 0.33;
    if (code > 0 && code < 0x80 && strchr("rtf ()[]-/", code))
        return 0.4;
    if (code > 0 && code < 0x80 && strchr("mwMW%", code))
        return 0.92;
    int cells = code < 0 ? 1 : utf8proc_charwidth(code);
    return cells == 0 ? 0 : cells == 1 ? NARROW_EM : WIDE_EM;
}

double svg_text_width(const char *text, double size)
{
    double width = 0;
    size_t n, len = strlen(text);
    for (size_t i = 0; i < len; i += n)
        width += code_width(next_code(text + i, len - i, &n));
    return width * size;
}

void svg_text_fit(struct buf *out, const char *text, double size, double width)
{
    bool whole = svg_text_width(text, size) <= width;
    double used = whole ? 0 : NARROW_EM * size; /* the ellipsis */
    size_t n, len = strlen(text);
    for (size_t i = 0; i < len; i += n) {
        int32_t code = next_code(text + i, len - i, &n);
        used += code_width(code) * size;
        if (!whole && used > width)
            break;
        escape_code(out, code, text + i, n);
    }
    if (!whole)
        buf_puts(out, "\u2026");
}

const char *svg_number(char text[SVG_NUMBER], double x)
{
    if (!isfinite(x)) {
        snprintf(text, SVG_NUMBER, "n/a");
        return text;
    }
    double size = fabs(x);
    bool plain = size == 0 || (size >= 1e-6 && size < SERIES_HUGE);
    int decimals = size == 0 || size >= 1000 ? 0 : 3 - (int)floor(log10(size));
    snprintf(text, SVG_NUMBER, plain ? "%.*f" : "%.*e", plain ? decimals : 3, x);
    if (plain && strchr(text, '.')) {
        size_t n = strlen(text);
        while (text[n - 1] == '0')
            text[--n] = '\0';
        if (text[n - 1] == '.')
            text[n - 1] = '\0';
    }
    return strcmp(text, "-0") == 0 ? strcpy(text, "0") : text;
}
