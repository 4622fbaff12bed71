/* Tensors in another type: weights quantised when they are loaded or converted.
 *
 * A matrix takes the wanted type, with two exceptions that spare quality at little cost, as
 * llama-quantize does: beside 4-bit weights the output head (or the embedding that is the head too)
 * is Q8_0, and rows that are no whole number of blocks are F16. Vectors stay F32,
 * and so do positions.
 */
#ifndef FIRSTLIGHT_MODEL_REQUANTIZE_H
#define FIRSTLIGHT_MODEL_REQUANTIZE_H

#include "base/err.h"
#include "weights/gguf.h"

struct requantize_options {
    enum tensor_type type; /* one that quantize_has */
    int n_threads;         /* >= 1 */
    /* Called with how much is done (0 .. 1); may be NULL. */
    void (*progress)(void *arg, const char *what, double fraction);
    void *arg;
};

/* Names the types that can be asked for, for name_table_find; requantize_type_of: which one. */
bool requantize_type_at(size_t i, const char **name, const char **about);
enum tensor_type requantize_type_of(size_t i);

/* What `t` of model `g` becomes. */
enum tensor_type requantize_choose(const struct gguf *g, const struct tensor *t,
                                   enum tensor_type wanted);

/* Some rows of a tensor, [begin, end) of all of its rows, in another type. Row i of the result is
 * row source[i] of the tensor; NULL: the rows stay in order. */
struct requantize_rows {
    const struct tensor *from;
    enum tensor_type to;
    const uint32_t *source;
    size_t begin, end;
    void *out; /* of row `begin` */
};

struct pool;

/* By all threads of the pool. False: a value does not fit the type. */
bool requantize_rows(struct pool *pool, const struct requantize_rows *r);

/* Replaces *g by the same model in the wanted type: the copies are in memory of their own, the
 * original's pages are given back. After an error *g is fit for gguf_close only. Errors name the
 * tensor. */
enum status requantize_model(struct gguf **g, const struct requantize_options *o, struct err *err);

#endif
