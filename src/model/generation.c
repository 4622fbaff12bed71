#include "model/generation.h"

#include "base/limits.h"
#include "model/load/hf_folder.h"

#include <math.h>

/* The values that the sampler takes. */
static const struct logits_row {
    const char *name;
    const char *key;
    double min, max;
    bool above_min;
    bool whole;
} rows[GENERATION_FIELDS] = {
    [GENERATION_TEMPERATURE] = {"temperature", "general.sampling.temp", 0, 2, false, false},
    [GENERATION_TOP_K] = {"top_k", "general.sampling.top_k", -1, LIMIT_TOP_K, false, true},
    [GENERATION_TOP_P] = {"top_p", "general.sampling.top_p", 0, 1, true, false},
    [GENERATION_MIN_P] = {"min_p", "general.sampling.min_p", 0, 1, false, false},
    [GENERATION_REPETITION_PENALTY] = {"repetition_penalty", "general.sampling.penalty_repeat", 0,
                                       2, true, false},
};

const char *generation_name(enum generation_field f)
{
    return rows[f].name;
}

const char *generation_key(enum generation_field f)
{
    return rows[f].key;
}

bool generation_is_whole(enum generation_field f)
{
    return rows[f].whole;
}

static const char *source_of(const struct gguf *g)
{
    return hf_folder_is(gguf_path(g)) ? "generation_config.json" : "the file's metadata";
}

static enum status read_one(struct generation *out, enum generation_field f, const struct gguf *g,
                            struct err *err)
{
    const struct logits_row *row = &rows[f];
    float value;
    if (!gguf_value(g, row->key))
        return STATUS_OK;
    enum status st = gguf_get_f32(g, row->key, &value, err);
    if (st)
        return err_context(err, "%s", gguf_path(g));
    bool good = value >= row->min && value <= row->max && !(row->above_min && value == row->min);
    if (!good || (row->whole && value != floorf(value)))
        return err_param(err, STATUS_INVALID, row->name,
                         "%s: %s (%s): expected a %snumber %s %g up to %g, found %g; "
                         "--sampling-defaults none leaves it out",
                         gguf_path(g), source_of(g),
                         hf_folder_is(gguf_path(g)) ? row->name : row->key,
                         row->whole ? "whole " : "", row->above_min ? "above" : "from", row->min,
                         row->max, (double)value);
    out->said[f] = true;
    out->value[f] = row->whole && value < 0 ? 0 : (double)value;
    return STATUS_OK;
}

enum status generation_read(struct generation *out, const struct gguf *g, struct err *err)
{
    *out = (struct generation){0};
    for (int f = 0; f < GENERATION_FIELDS; f++) {
        enum status st = read_one(out, f, g, err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

void generation_describe(const struct generation *s, const struct gguf *g, struct buf *out)
{
    const char *before = ": ";
    for (int f = 0; f < GENERATION_FIELDS; f++) {
        if (!s->said[f])
            continue;
        if (out->len == 0)
            buf_printf(out, "sampling defaults from %s", source_of(g));
        buf_printf(out, "%s%s %g", before, rows[f].name, s->value[f]);
        before = ", ";
    }
}
