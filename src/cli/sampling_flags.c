#include "cli/sampling_flags.h"

#include <math.h>
#include <stdio.h>

static void make_name(char *out, size_t size, const char *param)
{
    snprintf(out, size, "--%s", param);
    for (char *c = out; *c; c++)
        if (*c == '_')
            *c = '-';
}

/* A whole number's flag begins at 0, which says off as -1 does. */
static void make_flag(struct sampling_flags *f, enum sampling_param p)
{
    const struct sampling_row *row = &sampling_rows[p];
    make_name(f->names[p], sizeof f->names[p], row->name);
    snprintf(f->helps[p], sizeof f->helps[p], "%s\n(default%s %g)", row->help,
             row->gguf_key ? ": the model's, else" : "", row->standard);
    f->flags[p] = (struct flag){
        .name = f->names[p],
        .value = row->whole ? "N" : "X",
        .help = f->helps[p],
        .kind = row->whole ? FLAG_U32 : FLAG_F32,
        .offset = row->offset,
        .min = row->whole ? fmax(row->lowest, 0) : row->lowest,
        .max = row->highest,
    };
}

struct flag_group sampling_flags_init(struct sampling_flags *f)
{
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        make_flag(f, p);
        sampling_set(&f->said, p, UINT32_MAX);
    }
    return (struct flag_group)FLAG_GROUP(f->flags, &f->said);
}

void sampling_flags_take(struct sampling *s, const struct sampling_flags *f)
{
    for (int p = 0; p < SAMPLING_PARAMS; p++)
        if (sampling_get(&f->said, p) <= sampling_rows[p].highest)
            sampling_set(s, p, sampling_get(&f->said, p));
}
