#include "model/generation.h"

#include "model/load/hf_folder.h"

static const char *source_of(const struct gguf *g)
{
    return hf_folder_is(gguf_path(g)) ? "generation_config.json" : "the file's metadata";
}

static enum status read_one(struct sampling_values *out, enum sampling_param p,
                            const struct gguf *g, struct err *err)
{
    const struct sampling_row *row = &sampling_rows[p];
    float value;
    if (!row->gguf_key || !gguf_value(g, row->gguf_key))
        return STATUS_OK;
    enum status st = gguf_get_f32(g, row->gguf_key, &value, err);
    if (st)
        return err_context(err, "%s", gguf_path(g));
    if (!sampling_row_takes(row, value))
        return err_param(err, STATUS_INVALID, row->name,
                         "%s: %s (%s): expected a %snumber %s %g up to %g, found %g; "
                         "--sampling-defaults none leaves it out",
                         gguf_path(g), source_of(g),
                         hf_folder_is(gguf_path(g)) ? row->name : row->gguf_key,
                         row->whole ? "whole " : "", row->above ? "above" : "from", row->lowest,
                         row->highest, (double)value);
    sampling_values_set(out, p, value);
    return STATUS_OK;
}

enum status generation_read(struct sampling_values *out, const struct gguf *g, struct err *err)
{
    *out = (struct sampling_values){0};
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        enum status st = read_one(out, p, g, err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

void generation_describe(const struct sampling_values *v, const struct gguf *g, struct buf *out)
{
    const char *before = ": ";
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        if (!v->given[p])
            continue;
        if (out->len == 0)
            buf_printf(out, "sampling defaults from %s", source_of(g));
        buf_printf(out, "%s%s %g", before, sampling_rows[p].name, v->value[p]);
        before = ", ";
    }
}
