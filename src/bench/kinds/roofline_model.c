#include "bench/kinds/roofline_model.h"

#include "bench/result/table.h"

#include <math.h>

static const struct roofline_options brief = {.warmup_runs = 1, .repeat_runs = 3, .run_ms = 20};

/* --- what a token needs --------------------------------------------------------------------- */

static void count_product(struct roofline_model *m, const struct tensor *w, enum activations a)
{
    if (!w)
        return; /* a feed-forward part without a gate */
    bool floats = a == ACTIVATIONS_F32 || tensor_type_block_values(w->type) == 1;
    uint64_t *macs = floats ? &m->macs_f32 : &m->macs_int8;
    *macs += w->dims[0] * w->dims[1];
    m->weight_bytes += w->size;
}

static void roofline_model_count(struct roofline_model *m, const struct model *model,
                                 const struct backend_options *b)
{
    for (uint32_t i = 0; i < model->config.n_layers; i++) {
        const struct model_layer *l = &model->layers[i];
        const struct tensor *products[] = {l->wq,     l->wk,   l->wv,    l->wo,
                                           l->w_gate, l->w_up, l->w_down};
        for (size_t p = 0; p < sizeof products / sizeof products[0]; p++)
            count_product(m, products[p], b->activations);
    }
    m->weight_bytes += model->output->size;
    m->embd_bytes = tensor_row_bytes(model->token_embd->type, model->config.d_model);
    m->weight_bytes += m->embd_bytes;
    m->kv_bytes = model_kv_block_bytes(&model->config, b->kv_type) / KV_BLOCK;
}

/* --- what the machine can do ---------------------------------------------------------------- */

void roofline_model_init(struct roofline_model *m, const struct model *model,
                         const struct backend_options *b)
{
    uint32_t threads = (uint32_t)b->n_threads;
    *m = (struct roofline_model){
        .cpu_levels = b->cpu_levels,
        .int8 = {.peak = peak_best(PEAK_INT8, b->cpu_levels), .threads = threads},
        .f32 = {.peak = peak_best(PEAK_F32, b->cpu_levels), .threads = threads},
        .read = {.memory = "footprint", .threads = threads},
    };
    roofline_model_count(m, model, b);
    m->read.bytes = roofline_memory(m->weight_bytes);
}

enum status roofline_model_measure(struct roofline_model *m, struct err *err)
{
    struct roofline_options o = brief;
    o.cpu_levels = m->cpu_levels;
    enum status st = roofline_measure(&m->read, &o, err);
    if (!st && m->int8.peak)
        st = roofline_measure(&m->int8, &o, err);
    if (!st && m->f32.peak)
        st = roofline_measure(&m->f32, &o, err);
    return st;
}

void roofline_model_fini(struct roofline_model *m)
{
    series_fini(&m->int8.rates);
    series_fini(&m->f32.rates);
    series_fini(&m->read.rates);
}

/* Nanoseconds. */
static double roofline_model_time_of(uint64_t macs, const struct roofline_point *p)
{
    return macs ? 2.0 * (double)macs / series_median(&p->rates) : 0;
}

double roofline_model_peak_percent(const struct roofline_model *m, double tokens_per_s)
{
    double ns = roofline_model_time_of(m->macs_int8, &m->int8) +
                roofline_model_time_of(m->macs_f32, &m->f32);
    return 100 * tokens_per_s * 1e-9 * ns;
}

/* Of the mean step. */
static double roofline_model_decode_bytes(const struct roofline_model *m,
                                          const struct model_speed_options *o)
{
    double positions = o->depth + (o->n_generate + 1) / 2.0;
    return (double)m->weight_bytes + (o->batch - 1.0) * (double)m->embd_bytes +
           o->batch * positions * (double)m->kv_bytes;
}

double roofline_model_read_percent(const struct roofline_model *m, double tokens_per_s,
                                   const struct model_speed_options *o)
{
    double ns = roofline_model_decode_bytes(m, o) / series_median(&m->read.rates);
    return 100 * tokens_per_s / o->batch * 1e-9 * ns;
}

/* --- what is shown -------------------------------------------------------------------------- */

static void put_peak(struct buf *out, const char *name, const struct roofline_point *p)
{
    if (p->peak)
        buf_printf(out, "%s %.1f GOP/s (%s), ", name, series_median(&p->rates), p->peak->name);
}

static void put_percent(struct buf *out, const char *name, double percent, const char *of)
{
    buf_printf(out, "%-8s", name);
    if (isfinite(percent))
        buf_printf(out, " %6.1f %% of %s: ", percent, of);
    else
        buf_printf(out, " %6s of %s, which these levels have not: ", "n/a", of);
}

void roofline_model_table(struct buf *out, const struct roofline_model *m,
                          const struct model_speed_options *o, const struct model_speed *speed)
{
    double prefill = roofline_model_peak_percent(m, series_median(&speed->prefill));
    double prompts = roofline_model_peak_percent(m, series_median(&speed->prompts));
    double decode = roofline_model_read_percent(m, series_median(&speed->decode), o);
    const char *peak = !m->macs_f32    ? "the int8 peak"
                       : !m->macs_int8 ? "the f32 peak"
                                       : "the int8 and f32 peaks";
    buf_printf(out, "roofline ");
    put_peak(out, "int8", &m->int8);
    put_peak(out, "f32", &m->f32);
    buf_printf(out, "read %.1f GB/s (%.1f MB)\n", series_median(&m->read.rates),
               (double)m->read.bytes * 1e-6);
    put_percent(out, "prefill", prefill, peak);
    buf_printf(out, "%s M multiply-adds a token\n",
               table_cell((double)(m->macs_int8 + m->macs_f32) * 1e-6).text);
    if (o->n_prompts > 1) {
        put_percent(out, "prompts", prompts, peak);
        buf_printf(out, "%.1f %% of the rate of one\n", series_median(&speed->prompts_percent));
    }
    put_percent(out, "decode", decode, "the bandwidth");
    buf_printf(out, "%s MB a ", table_cell(roofline_model_decode_bytes(m, o) * 1e-6).text);
    if (o->batch > 1)
        buf_printf(out, "step of %u tokens\n", o->batch);
    else
        buf_printf(out, "token\n");
}

static void roofline_model_add(const struct roofline_point *p, const char *name, const char *unit,
                               struct result *out)
{
    for (size_t i = 0; i < p->rates.n; i++)
        result_metric(out, name, unit, RESULT_HIGHER, p->rates.v[i]);
}

void roofline_model_result(const struct roofline_model *m, const struct model_speed_options *o,
                           const struct model_speed *speed, struct result *out)
{
    roofline_model_add(&m->int8, "int8_peak", "GOP/s", out);
    roofline_model_add(&m->f32, "f32_peak", "GOP/s", out);
    roofline_model_add(&m->read, "read_bandwidth", "GB/s", out);
    for (size_t i = 0; i < speed->prefill.n; i++)
        result_metric(out, "prefill_of_peak", "%", RESULT_HIGHER,
                      roofline_model_peak_percent(m, speed->prefill.v[i]));
    for (size_t i = 0; i < speed->prompts.n; i++)
        result_metric(out, "prompts_of_peak", "%", RESULT_HIGHER,
                      roofline_model_peak_percent(m, speed->prompts.v[i]));
    for (size_t i = 0; i < speed->decode.n; i++)
        result_metric(out, "decode_of_bandwidth", "%", RESULT_HIGHER,
                      roofline_model_read_percent(m, speed->decode.v[i], o));
}
