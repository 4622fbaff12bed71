#include "bench/result/history.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "bench/result/table.h"

#include <stdlib.h>
#include <string.h>

enum column { DATE, ENGINE, MODEL, KIND, TOKENS, TTFT, NOTE, N_COLUMNS };

static const char *const titles[N_COLUMNS] = {"date",     "engine",   "model", "kind",
                                              "tokens/s", "TTFT p50", "note"};

struct logits_row {
    char cell[N_COLUMNS][160];
};

static void set_text(char *cell, const json_t *value)
{
    const size_t size = sizeof((struct logits_row *)0)->cell[0];
    const char *text = json_string_value(value);
    snprintf(cell, size, "%s", text && *text ? text : "-");
    cell[utf8_valid_prefix(cell, strlen(cell))] = '\0'; /* cut to fit, but not in a character */
    utf8_make_plain(cell, false);
}

static void set_metric(char *cell, const struct result *r, const char *name, const char *unit)
{
    const json_t *metric = json_object_get(json_object_get(r->root, "metrics"), name);
    if (metric)
        snprintf(cell, sizeof((struct logits_row *)0)->cell[0], "%.1f%s",
                 json_number_value(json_object_get(metric, "median")), unit);
    else
        set_text(cell, NULL);
}

static void history_fill(struct logits_row *row, const struct result *r)
{
    const json_t *environment = json_object_get(r->root, "environment");
    set_text(row->cell[DATE], json_object_get(r->root, "date"));
    const json_t *engine = json_object_get(environment, "engine"); /* unknown of a server: */
    set_text(row->cell[ENGINE],
             json_is_string(engine) ? engine : json_object_get(environment, "target"));
    set_text(row->cell[MODEL], json_object_get(environment, "model"));
    set_text(row->cell[KIND], json_object_get(r->root, "kind"));
    set_metric(row->cell[TOKENS], r, "tokens_per_s", "");
    set_metric(row->cell[TTFT], r, "ttft_p50", " ms");
    set_text(row->cell[NOTE], json_object_get(r->root, "note"));
}

/* Dates are ISO 8601 in UTC, whose order is the text's. */
static int by_date(const void *a, const void *b)
{
    const struct history_entry *x = a, *y = b;
    int order = strcmp(json_string_value(json_object_get(x->result.root, "date")),
                       json_string_value(json_object_get(y->result.root, "date")));
    return order ? order : strcmp(x->file, y->file);
}

void history_sort(struct history_entry *entries, size_t n)
{
    qsort(entries, n, sizeof *entries, by_date);
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

void history_text(const struct history_entry *entries, size_t n, struct buf *out)
{
    struct logits_row *rows = mem_array(n + 1, sizeof *rows); /* the titles first */
    int columns[N_COLUMNS] = {0};
    if (!rows) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        history_fill(&rows[i + 1], &entries[i].result);
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

/* --- as JSON -------------------------------------------------------------------------------- */

static json_t *metric_json(const struct result *r, const char *name)
{
    const json_t *metric = json_object_get(json_object_get(r->root, "metrics"), name);
    json_t *median = json_object_get(metric, "median");
    return median ? json_incref(median) : json_null();
}

static json_t *entry_json(const struct history_entry *e)
{
    const json_t *root = e->result.root;
    const json_t *environment = json_object_get(root, "environment");
    return json_pack("{s:o, s:O, s:O, s:O?, s:O?, s:o, s:o, s:O}", "file", result_text(e->file),
                     "date", json_object_get(root, "date"), "kind", json_object_get(root, "kind"),
                     "engine", json_object_get(environment, "engine"), "model",
                     json_object_get(environment, "model"), "tokens_per_s",
                     metric_json(&e->result, "tokens_per_s"), "ttft_p50",
                     metric_json(&e->result, "ttft_p50"), "note", json_object_get(root, "note"));
}

json_t *history_json(const struct history_entry *entries, size_t n)
{
    json_t *list = json_array();
    int bad = 0;
    for (size_t i = 0; i < n; i++)
        bad |= json_array_append_new(list, entry_json(&entries[i]));
    return result_whole(list, bad);
}
