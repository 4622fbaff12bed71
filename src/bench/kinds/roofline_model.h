/* A model's speed beside what the machine can do: multiply-adds against the peak of arithmetic, and
 * bytes against the rate of reading. */
#ifndef FIRSTLIGHT_BENCH_KINDS_ROOFLINE_MODEL_H
#define FIRSTLIGHT_BENCH_KINDS_ROOFLINE_MODEL_H

#include "bench/kinds/model_speed.h"
#include "bench/kinds/roofline.h"

struct roofline_model {
    /* Multiply-adds of one token in the products of all layers, by the activations they take.
     * Attention, the output head and all else are not counted, though they are in the time. */
    uint64_t macs_int8;
    uint64_t macs_f32;
    size_t weight_bytes; /* that a decoded token needs: layers, head, its row of embeddings */
    size_t embd_bytes;   /* of which the row is */
    size_t kv_bytes;     /* of one position in the cache */

    uint32_t cpu_levels;
    struct roofline_point int8, f32; /* the best of these levels; peak NULL: there is none */
    struct roofline_point read;      /* of weight_bytes */
};

/* Counts; measures nothing yet. */
void roofline_model_init(struct roofline_model *m, const struct model *model,
                         const struct backend_options *backend);
/* Adds some runs of each point, a quarter of a second in all. Before and after the model's own
 * runs, so that what else goes on in the machine weighs on both. */
enum status roofline_model_measure(struct roofline_model *m, struct err *err);
void roofline_model_fini(struct roofline_model *m);

/* Of the peak, at so many tokens/s: the time of macs_int8 and macs_f32 at their peaks. NAN: there
 * is no such peak. */
double roofline_model_peak_percent(const struct roofline_model *m, double tokens_per_s);
/* Of the bandwidth, of decoding o->n_generate tokens one by one after o->depth in o->batch
 * sequences: the weights once a step, and the keys and values of all positions so far, and a row of
 * embeddings, once a token. */
double roofline_model_read_percent(const struct roofline_model *m, double tokens_per_s,
                                   const struct model_speed_options *o);

/* Lines behind the table of bench model; metrics int8_peak, f32_peak, read_bandwidth,
 * prefill_of_peak, prompts_of_peak where there are several, decode_of_bandwidth. */
void roofline_model_table(struct buf *out, const struct roofline_model *m,
                          const struct model_speed_options *o, const struct model_speed *speed);
void roofline_model_result(const struct roofline_model *m, const struct model_speed_options *o,
                           const struct model_speed *speed, struct result *out);

#endif
