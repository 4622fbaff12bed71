#include "model/requantize.h"

#include "base/mem.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "model/quantize.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB  (1024.0 * 1024.0)
#define LINE 64

/* Values that a worker holds as floats between the two types. */
#define SPAN 4096

/* The types of --dtype and convert's --type, as users write them. */
static const struct {
    const char *name, *about;
    enum tensor_type type;
} types[] = {
    {"f32", "32-bit floats", TENSOR_F32},
    {"f16", "16-bit floats", TENSOR_F16},
    {"bf16", "16-bit floats with the range of 32-bit ones", TENSOR_BF16},
    {"q8_0", "8 bits, blocks of 32", TENSOR_Q8_0},
    {"q4_0", "4 bits, blocks of 32", TENSOR_Q4_0},
};

bool requantize_type_at(size_t i, const char **name, const char **about)
{
    if (i >= sizeof types / sizeof types[0])
        return false;
    *name = types[i].name;
    *about = types[i].about;
    return true;
}

enum tensor_type requantize_type_of(size_t i)
{
    REQUIRE(i < sizeof types / sizeof types[0]);
    return types[i].type;
}

static bool is_head(const struct gguf *g, const struct tensor *t)
{
    const char *head = gguf_tensor(g, "output.weight") ? "output.weight" : "token_embd.weight";
    return strcmp(t->name, head) == 0;
}

enum tensor_type requantize_choose(const struct gguf *g, const struct tensor *t,
                                   enum tensor_type wanted)
{
    if (t->n_dims == 1 || strcmp(t->name, "position_embd.weight") == 0)
        return TENSOR_F32;
    if (wanted == TENSOR_Q4_0 && is_head(g, t))
        wanted = TENSOR_Q8_0;
    return t->dims[0] % tensor_type_block_values(wanted) ? TENSOR_F16 : wanted;
}

/* --- rows ----------------------------------------------------------------------------------- */

struct rows_job {
    const struct requantize_rows *r;
    struct kernels k;
    struct pool *pool;
    atomic_bool failed;
};

/* Row by row in spans: whole blocks of both types, whose sizes divide SPAN. */
static bool recast_row(const struct rows_job *job, size_t row)
{
    const struct requantize_rows *r = job->r;
    const struct tensor *t = r->from;
    _Alignas(LINE) float values[SPAN];
    size_t n = t->dims[0], source = r->source ? r->source[row] : row;
    const char *in = (const char *)t->data + source * tensor_row_bytes(t->type, n);
    char *out = (char *)r->out + (row - r->begin) * tensor_row_bytes(r->to, n);
    if (t->type == r->to) {
        memcpy(out, in, tensor_row_bytes(t->type, n));
        return true;
    }
    for (size_t at = 0; at < n; at += SPAN) {
        size_t len = n - at < SPAN ? n - at : SPAN;
        job->k.dequantize[t->type](values, in + tensor_row_bytes(t->type, at), len);
        if (!quantize_row(r->to, out + tensor_row_bytes(r->to, at), values, len))
            return false;
    }
    return true;
}

static void recast_slice(void *arg, int worker)
{
    struct rows_job *job = arg;
    size_t begin, end;
    pool_slice(job->r->end - job->r->begin, 1, worker, pool_threads(job->pool), &begin, &end);
    for (size_t i = begin; i < end; i++)
        if (!recast_row(job, job->r->begin + i))
            atomic_store(&job->failed, true);
}

/* The reference kernels: what a weight becomes must not depend on the machine. */
bool requantize_rows(struct pool *pool, const struct requantize_rows *r)
{
    struct rows_job job = {.r = r, .pool = pool};
    kernels_fill(&job.k, 0);
    pool_run(pool, recast_slice, &job);
    return !atomic_load(&job.failed);
}

/* --- whole models --------------------------------------------------------------------------- */

/* What the new model keeps. */
struct recast {
    struct gguf *original; /* metadata, and the tensors that stay */
    char *copies;
    size_t bytes;
};

static void recast_close(void *arg)
{
    struct recast *r = arg;
    gguf_close(r->original);
    if (r->copies)
        munmap(r->copies, r->bytes);
    mem_free(r);
}

static size_t size_as(const struct tensor *t, enum tensor_type type)
{
    size_t rows = (size_t)(t->dims[1] * t->dims[2] * t->dims[3]);
    return rows * tensor_row_bytes(type, (size_t)t->dims[0]);
}

static size_t requantize_padded(size_t size)
{
    return (size + LINE - 1) / LINE * LINE;
}

static enum status map_copies(struct recast *r, const struct gguf *g, enum tensor_type wanted,
                              struct err *err)
{
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        enum tensor_type type = requantize_choose(g, t, wanted);
        r->bytes += type == t->type ? 0 : requantize_padded(size_as(t, type));
    }
    if (r->bytes > mem_available())
        return err_set(err, STATUS_NO_MEMORY, "weights as %s need %.1f MiB, %.1f MiB are available",
                       tensor_type_name(wanted), (double)r->bytes / MIB,
                       (double)mem_available() / MIB);
    if (r->bytes == 0)
        return STATUS_OK;
    void *p = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_set(err, STATUS_NO_MEMORY, "no memory for weights of %.1f MiB",
                       (double)r->bytes / MIB);
    madvise(p, r->bytes, MADV_HUGEPAGE);
    r->copies = p;
    return STATUS_OK;
}

/* The whole pages inside the tensor's bytes are not needed again. Those of a file stay in its
 * cache.
 */
static void requantize_give_back(const struct tensor *t)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), p = (uintptr_t)t->data;
    uintptr_t begin = (p + page - 1) / page * page, end = (p + t->size) / page * page;
    if (end > begin)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static enum status fill_copies(struct recast *r, const struct gguf *g, struct tensor *tensors,
                               const struct requantize_options *o, struct pool *pool,
                               struct err *err)
{
    size_t at = 0;
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        enum tensor_type type = requantize_choose(g, t, o->type);
        tensors[i] = *t;
        if (type == t->type)
            continue;
        const struct requantize_rows rows = {
            .from = t,
            .to = type,
            .end = (size_t)(t->dims[1] * t->dims[2] * t->dims[3]),
            .out = r->copies + at,
        };
        if (!requantize_rows(pool, &rows))
            return err_param(err, STATUS_INVALID, t->name,
                             "%s: tensor %s: expected values that %s can hold, found one that is "
                             "not finite or too large",
                             gguf_path(g), t->name, tensor_type_name(type));
        requantize_give_back(t);
        tensors[i].type = type;
        tensors[i].data = r->copies + at;
        tensors[i].size = size_as(t, type);
        at += requantize_padded(tensors[i].size);
        if (o->progress)
            o->progress(o->arg, "quantising weights", (double)at / (double)r->bytes);
    }
    return STATUS_OK;
}

static enum status requantize_assemble(struct gguf **g, struct recast *r,
                                       const struct tensor *tensors, struct err *err)
{
    struct gguf_assembly a = {
        .path = gguf_path(*g),
        .tensors = tensors,
        .n_tensors = gguf_tensor_count(*g),
        .file_size = gguf_file_size(*g),
        .release = recast_close,
        .take_owned = r,
    };
    struct gguf *made = NULL;
    a.metadata = gguf_bytes(*g, &a.metadata_len);
    enum status st = gguf_assemble(&made, &a, err);
    if (st)
        return st;
    r->original = *g;
    *g = made;
    return STATUS_OK;
}

enum status requantize_model(struct gguf **g, const struct requantize_options *o, struct err *err)
{
    struct pool *pool = NULL;
    struct recast *r = mem_zalloc(sizeof *r);
    struct tensor *tensors = mem_array(gguf_tensor_count(*g), sizeof *tensors);
    enum status st = STATUS_OK;
    if (!r || !tensors)
        st = err_set(err, STATUS_NO_MEMORY, "no memory to quantise a model");
    if (!st)
        st = map_copies(r, *g, o->type, err);
    if (!st)
        st = pool_create(&pool, o->n_threads, err);
    if (!st)
        st = fill_copies(r, *g, tensors, o, pool, err);
    if (!st)
        st = requantize_assemble(g, r, tensors, err);
    if (st && r)
        recast_close(r);
    pool_destroy(pool);
    mem_free(tensors);
    return st;
}
