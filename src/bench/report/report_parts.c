/* What the page and its tables write alike. */
#include "bench/report/report_internal.h"

const char *report_parts_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

void report_parts_letter(const struct report_page *p, size_t file)
{
    if (p->n_files > 1)
        buf_printf(p->out, "<b class=\"letter f%u\">%c</b> ", figures_colour(file),
                   figures_letter(file));
}
