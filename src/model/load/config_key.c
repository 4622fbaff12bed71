/* One key of a configuration, by its name. */
#include "model/load/config.h"

#include <math.h>
#include <stdio.h>

const char *config_name(char out[static CONFIG_KEY], const struct arch *arch, const char *name)
{
    snprintf(out, CONFIG_KEY, "%s.%s", arch->name, name);
    return out;
}

enum status config_whole(const struct gguf *g, const char *key, uint32_t max, uint32_t *out,
                         struct err *err)
{
    uint32_t v;
    enum status st = gguf_get_u32(g, key, &v, err);
    if (st)
        return st;
    if (v < 1 || v > max)
        return err_param(err, STATUS_INVALID, key, "%s: expected 1 to %u, found %u", key, max, v);
    *out = v;
    return STATUS_OK;
}

enum status config_positive(const struct gguf *g, const char *key, float *out, struct err *err)
{
    float v;
    enum status st = gguf_get_f32(g, key, &v, err);
    if (st)
        return st;
    if (!isfinite(v) || v <= 0)
        return err_param(err, STATUS_INVALID, key, "%s: expected a positive number, found %g", key,
                         (double)v);
    *out = v;
    return STATUS_OK;
}
