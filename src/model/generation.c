#include "model/generation.h"

static const char *const sources[] = {
    [MODEL_FILE] = "the file's metadata",
    [MODEL_FOLDER] = "generation_config.json",
};

static enum status generation_read_one(struct sampling_values *out, enum sampling_param p,
                                       const struct gguf *g, enum model_source source,
                                       struct err *err)
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
                         gguf_path(g), sources[source],
                         source == MODEL_FOLDER ? row->name : row->gguf_key,
                         row->whole ? "whole " : "", row->above ? "above" : "from", row->lowest,
                         row->highest, (double)value);
    sampling_values_set(out, p, value);
    return STATUS_OK;
}

enum status generation_read(struct sampling_values *out, const struct gguf *g,
                            enum model_source source, struct err *err)
{
    *out = (struct sampling_values){0};
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        enum status st = generation_read_one(out, p, g, source, err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

void generation_describe(const struct sampling_values *v, enum model_source source, struct buf *out)
{
    const char *before = ": ";
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        if (!v->given[p])
            continue;
        if (out->len == 0)
            buf_printf(out, "sampling defaults from %s", sources[source]);
        buf_printf(out, "%s%s %g", before, sampling_rows[p].name, v->value[p]);
        before = ", ";
    }
}
