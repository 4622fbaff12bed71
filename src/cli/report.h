/* What the JSON reports of subcommands share: text that may be no UTF-8, which jansson refuses. */
#ifndef FIRSTLIGHT_CLI_REPORT_H
#define FIRSTLIGHT_CLI_REPORT_H

#include <jansson.h>
#include <stddef.h>

/* A JSON string of len bytes with what is no UTF-8 replaced; NULL when memory is short. */
json_t *report_text(const char *bytes, size_t len);

#endif
