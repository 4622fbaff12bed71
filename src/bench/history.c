#include "bench/history.h"

#include "base/mem.h"
#include "bench/table.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

enum column { DATE, ENGINE, MODEL, KIND, TOKENS, TTFT, NOTE, N_COLUMNS };

static const char *const titles[N_COLUMNS] = {"date",     "engine",   "model", "kind",
                                              "tokens/s", "TTFT p50", "note"};

struct row {
    size_t index; /* of its result: rows of one date stay in order */
    char cell[N_COLUMNS][160];
};

static void set_text(char *cell, const json_t *value)
{
    const size_t size = sizeof((struct row *)0)->cell[0];
    const char *text = json_string_value(value);
    snprintf(cell, size, "%s", text && *text ? text : "-");
    cell[utf8_valid_prefix(cell, strlen(cell))] = '\0'; /* cut to fit, but not in a character */
    table_clean(cell, false);
}

static void set_metric(char *cell, const struct result *r, const char *name, const char *unit)
{
    const json_t *metric = json_object_get(json_object_get(r->root, "metrics"), name);
    if (metric)
        snprintf(cell, sizeof((struct row *)0)->cell[0], "%.1f%s",
                 json_number_value(json_object_get(metric, "median")), unit);
    else
        set_text(cell, NULL);
}

static void fill(struct row *row, size_t index, const struct result *r)
{
    const json_t *environment = json_object_get(r->root, "environment");
    row->index = index;
    set_text(row->cell[DATE], json_object_get(r->root, "date"));
    set_text(row->cell[ENGINE], json_object_get(environment, "engine"));
    set_text(row->cell[MODEL], json_object_get(environment, "model"));
    set_text(row->cell[KIND], json_object_get(r->root, "kind"));
    set_metric(row->cell[TOKENS], r, "tokens_per_s", "");
    set_metric(row->cell[TTFT], r, "ttft_p50", " ms");
    set_text(row->cell[NOTE], json_object_get(r->root, "note"));
}

/* Dates are ISO 8601 in UTC, whose order is the text's. */
static int by_date(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->cell[DATE], y->cell[DATE]);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Characters of UTF-8, as a terminal counts most of them. */
static int width(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void put_cell(struct buf *out, const char *text, enum column column, int columns)
{
    int padding = columns - width(text);
    if (column == NOTE)
        buf_printf(out, "%s\n", text);
    else if (column == TOKENS || column == TTFT)
        buf_printf(out, "%*s%s  ", padding, "", text);
    else
        buf_printf(out, "%s%*s  ", text, padding, "");
}

void history_text(const struct result *results, size_t n, struct buf *out)
{
    struct row *rows = mem_array(n + 1, sizeof *rows); /* the titles first */
    int columns[N_COLUMNS] = {0};
    if (!rows) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        fill(&rows[i + 1], i, &results[i]);
    qsort(rows + 1, n, sizeof *rows, by_date);
    for (int c = 0; c < N_COLUMNS; c++) {
        snprintf(rows[0].cell[c], sizeof rows[0].cell[c], "%s", titles[c]);
        for (size_t i = 0; i <= n; i++)
            if (width(rows[i].cell[c]) > columns[c])
                columns[c] = width(rows[i].cell[c]);
    }
    for (size_t i = 0; i <= n; i++)
        for (int c = 0; c < N_COLUMNS; c++)
            put_cell(out, rows[i].cell[c], (enum column)c, columns[c]);
    mem_free(rows);
}
