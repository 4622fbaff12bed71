/* What the JSON reports of subcommands share: text that may be no UTF-8, which jansson refuses. */
#ifndef FIRSTLIGHT_CLI_REPORT_H
#define FIRSTLIGHT_CLI_REPORT_H

#include "base/buf.h"

#include <jansson.h>

/* Appends len bytes with each one that is not part of a UTF-8 sequence replaced by U+FFFD. */
void report_append_utf8(struct buf *out, const char *bytes, size_t len);

/* A JSON string of them; NULL when memory is short. */
json_t *report_text(const char *bytes, size_t len);

#endif
