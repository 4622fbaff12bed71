#include "cli/report.h"

#include "base/buf.h"
#include "base/utf8.h"

json_t *report_text(const char *bytes, size_t len)
{
    struct buf text = {0};
    utf8_append(&text, bytes, len);
    json_t *json = text.failed ? NULL : json_stringn(buf_str(&text), text.len);
    buf_fini(&text);
    return json;
}
