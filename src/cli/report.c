#include "cli/report.h"

#include "text/utf8.h"

#include <utf8proc.h>

void report_append_utf8(struct buf *out, const char *bytes, size_t len)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)bytes;
    for (size_t i = 0; i < len;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t n = utf8proc_iterate(p + i, (utf8proc_ssize_t)(len - i), &code);
        if (n > 0)
            buf_append(out, p + i, (size_t)n);
        else
            buf_puts(out, UTF8_REPLACEMENT);
        i += n > 0 ? (size_t)n : 1;
    }
}

json_t *report_text(const char *bytes, size_t len)
{
    struct buf text = {0};
    report_append_utf8(&text, bytes, len);
    json_t *json = text.failed ? NULL : json_stringn(buf_str(&text), text.len);
    buf_fini(&text);
    return json;
}
