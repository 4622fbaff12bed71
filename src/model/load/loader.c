#include "model/load/loader.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "model/load/random_weights.h"
#include "model/requantize.h"
#include "weights/file_map.h"
#include "weights/map_guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PREFETCH_STEP ((size_t)16 << 20)

static void loader_report(const struct loader_options *o, const char *what, double fraction)
{
    if (o->progress)
        o->progress(o->arg, what, fraction);
}

/* Pages with weights on them: [begin, end). */
struct span {
    const char *begin, *end;
};

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* The pages of all tensors, in order, those that touch as one. Returns how many; NULL *out when
 * memory is short, which only costs the advice. */
static size_t find_spans(const struct gguf *g, struct span **out)
{
    size_t n = gguf_tensor_count(g), merged = 0;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct span *spans = mem_array(n, sizeof *spans);
    *out = spans;
    for (size_t i = 0; i < n && spans; i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        const char *data = t->data, *end = data + t->size;
        spans[i].begin = data - (uintptr_t)data % page;
        spans[i].end = end + (page - (uintptr_t)end % page) % page;
    }
    if (!spans || n == 0)
        return 0;
    qsort(spans, n, sizeof *spans, compare_spans);
    for (size_t i = 1; i < n; i++) {
        if (spans[i].begin > spans[merged].end)
            spans[++merged] = spans[i];
        else if (spans[i].end > spans[merged].end)
            spans[merged].end = spans[i].end;
    }
    return merged + 1;
}

/* Advice only: a kernel that knows no MADV_POPULATE_READ reads ahead instead. Where pages cannot be
 * had, reading them tells the guard which file lost them. */
static void populate(const char *p, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (madvise((void *)p, len, MADV_POPULATE_READ) == 0)
        return;
    bool gone = errno == EFAULT || errno == EHWPOISON;
    if (!gone)
        madvise((void *)p, len, MADV_WILLNEED);
    for (size_t i = 0; gone && i < len; i += page)
        (void)*(const volatile char *)&p[i];
}

/* Maps the weights' pages now, so that the first request does not wait for the disk. */
static void prefetch(const struct gguf *g, const struct loader_options *o)
{
    struct span *spans;
    size_t n = find_spans(g, &spans), total = 0, done = 0;
    for (size_t i = 0; i < n; i++)
        total += (size_t)(spans[i].end - spans[i].begin);
    for (size_t i = 0; i < n; i++) {
        madvise((void *)spans[i].begin, (size_t)(spans[i].end - spans[i].begin), MADV_HUGEPAGE);
        for (const char *p = spans[i].begin; p < spans[i].end; p += PREFETCH_STEP) {
            size_t left = (size_t)(spans[i].end - p);
            size_t step = left < PREFETCH_STEP ? left : PREFETCH_STEP;
            populate(p, step);
            done += step;
            loader_report(o, "reading weights", (double)done / (double)total);
        }
    }
    mem_free(spans);
}

/* The file's name without folder and ".gguf": what the user typed, and fit for a URL, which the
 * file's general.name ("Smollm2 135M 8k Lc100K Mix1 Ep2") is not. */
static void set_name(struct loader *l, const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--; /* a folder's */
    const char *name = path + end;
    while (name > path && name[-1] != '/')
        name--;
    size_t len = (size_t)(path + end - name);
    if (len > strlen(".gguf") && strncmp(path + end - strlen(".gguf"), ".gguf", 5) == 0)
        len -= strlen(".gguf");
    if (len >= sizeof l->name)
        len = sizeof l->name - 1;
    len = utf8_valid_prefix(name, len); /* a client must be able to send it back */
    snprintf(l->name, sizeof l->name, "%.*s", len > 0 ? (int)len : 5, len > 0 ? name : "model");
}

/* A template that cannot be compiled is kept as an error for whoever asks for a chat: the model
 * still completes text. */
static void load_template(struct loader *l)
{
    struct gguf_string source;
    if (!gguf_value(l->file.gguf, "tokenizer.chat_template"))
        return;
    if (gguf_get_string(l->file.gguf, "tokenizer.chat_template", &source, &l->template_err) ||
        template_compile(&l->chat_template, source.bytes, source.len, &l->template_err))
        err_context(&l->template_err, "tokenizer.chat_template");
}

/* One that the user names must be good. */
static enum status load_template_file(struct loader *l, const char *path, struct err *err)
{
    struct file_map map;
    enum status st = file_map_open(&map, path, err);
    if (!st)
        st = template_compile(&l->chat_template, (const char *)map.bytes, map.len, err);
    file_map_close(&map);
    return st ? err_context(err, "%s", path) : STATUS_OK;
}

/* A GGUF file has an entry for every row of the embedding; folders leave out rows that only fill a
 * matrix up. */
static enum status loader_check_vocab(const struct loader *l, struct err *err)
{
    uint32_t tokens = tokenizer_vocab_size(l->tokenizer);
    uint32_t rows = l->model->config.n_vocab;
    bool folder = l->file.source == MODEL_FOLDER;
    if (tokens == rows || (folder && tokens < rows))
        return STATUS_OK;
    const char *what = folder ? "tokenizer.json" : "tokenizer.ggml.tokens";
    return err_param(err, STATUS_INVALID, what,
                     "%s: %s: expected %sthe embedding's %u entries, found %u",
                     gguf_path(l->file.gguf), what, folder ? "at most " : "", rows, tokens);
}

static enum status load_text(struct loader *l, const struct loader_options *o, struct err *err)
{
    loader_report(o, "reading tokenizer", 0);
    enum status st = model_file_tokenizer(&l->tokenizer, &l->file, err);
    if (!st)
        st = loader_check_vocab(l, err);
    if (!st && o->chat_template)
        st = load_template_file(l, o->chat_template, err);
    else if (!st)
        load_template(l);
    if (!st && !o->ignore_generation)
        st = generation_read(&l->generation, l->file.gguf, l->file.source, err);
    return st;
}

/* The model was bound once already, so that a bad one is refused before the work; now it is bound
 * to the copies. */
static enum status recast(struct loader *l, const struct loader_options *o, struct err *err)
{
    const struct requantize_options options = {
        .type = o->dtype,
        .n_threads = o->n_threads > 0 ? o->n_threads : 1,
        .progress = o->progress,
        .arg = o->arg,
    };
    model_free(l->model);
    l->model = NULL;
    enum status st = requantize_model(&l->file.gguf, &options, err);
    return st ? st : model_file_load(&l->model, &l->file, err);
}

enum status loader_open_with(struct loader *out, const struct loader_options *o, struct err *err)
{
    memset(out, 0, sizeof *out);
    loader_report(o, "reading metadata", 0);
    enum status st = o->dummy ? random_weights_open(&out->file, o->path, o->dtype, err)
                              : model_file_open(&out->file, o->path, err);
    if (st)
        return st;
    set_name(out, o->path);
    st = model_file_load(&out->model, &out->file, err);
    if (!st && o->recast && !o->dummy)
        st = recast(out, o, err);
    if (!st && !o->model_only)
        st = load_text(out, o, err);
    if (!st && !o->lazy && !o->dummy)
        prefetch(out->file.gguf, o);
    enum status whole = loader_check(out, err); /* before others: it may be what they are about */
    if (st || whole)
        loader_close(out);
    return whole ? whole : st;
}

enum status loader_open(struct loader *out, const char *path, loader_progress *progress, void *arg,
                        struct err *err)
{
    const struct loader_options o = {.path = path, .progress = progress, .arg = arg};
    return loader_open_with(out, &o, err);
}

enum status loader_check(const struct loader *l, struct err *err)
{
    (void)l; /* a process has one model: whatever is lost is of it */
    return map_guard_check(err);
}

void loader_release(const struct loader *l)
{
    for (size_t i = 0; i < gguf_tensor_count(l->file.gguf); i++) {
        const struct tensor *t = gguf_tensor_at(l->file.gguf, i);
        if (t->n_dims > 1 && t != l->model->token_embd && t != l->model->position_embd)
            gguf_release(l->file.gguf, t);
    }
}

void loader_close(struct loader *l)
{
    template_free(l->chat_template);
    tokenizer_close(l->tokenizer);
    model_free(l->model);
    model_file_close(&l->file);
    memset(l, 0, sizeof *l);
}
