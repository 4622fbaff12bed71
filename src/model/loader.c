#include "model/loader.h"

#include "text/utf8.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PREFETCH_STEP ((size_t)16 << 20)

static void report(loader_progress *progress, void *arg, const char *what, double fraction)
{
    if (progress)
        progress(arg, what, fraction);
}

/* The tensors' bytes lie together at the end of the file. */
static void data_span(const struct gguf *g, const char **begin, const char **end)
{
    *begin = *end = NULL;
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        const char *data = t->data;
        if (!*begin || data < *begin)
            *begin = data;
        if (!*end || data + t->size > *end)
            *end = data + t->size;
    }
}

/* Maps the weights' pages now, so that the first request does not wait for the disk. Advice only:
 * a kernel that knows no MADV_POPULATE_READ reads ahead instead. */
static void prefetch(const struct gguf *g, loader_progress *progress, void *arg)
{
    const char *begin, *end;
    data_span(g, &begin, &end);
    if (!begin)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *p = begin - (uintptr_t)begin % page;
    size_t total = (size_t)(end - p);
    madvise((void *)p, total, MADV_HUGEPAGE);
    for (size_t done = 0; done < total; done += PREFETCH_STEP) {
        size_t n = total - done < PREFETCH_STEP ? total - done : PREFETCH_STEP;
        if (madvise((void *)(p + done), n, MADV_POPULATE_READ) != 0)
            madvise((void *)(p + done), n, MADV_WILLNEED);
        report(progress, arg, "reading weights", (double)(done + n) / (double)total);
    }
}

/* The file's name without folder and ".gguf": what the user typed, and fit for a URL, which the
 * file's general.name ("Smollm2 135M 8k Lc100K Mix1 Ep2") is not. */
static void set_name(struct loader *l, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t len =
        dot && dot > name && strcmp(dot, ".gguf") == 0 ? (size_t)(dot - name) : strlen(name);
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
    if (!gguf_value(l->gguf, "tokenizer.chat_template"))
        return;
    if (gguf_get_string(l->gguf, "tokenizer.chat_template", &source, &l->template_err) ||
        template_compile(&l->chat_template, source.bytes, source.len, &l->template_err))
        err_context(&l->template_err, "tokenizer.chat_template");
}

static enum status check_vocab(const struct loader *l, struct err *err)
{
    uint32_t tokens = tokenizer_vocab_size(l->tokenizer);
    uint32_t rows = l->model->config.n_vocab;
    if (tokens == rows)
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, "tokenizer.ggml.tokens",
                     "tokenizer.ggml.tokens: expected the embedding's %u entries, found %u", rows,
                     tokens);
}

/* What the open file holds; an error does not name the file. */
static enum status load_parts(struct loader *l, loader_progress *progress, void *arg,
                              struct err *err)
{
    enum status st = model_bind(&l->model, l->gguf, err);
    if (st)
        return st;
    report(progress, arg, "reading tokenizer", 0);
    st = tokenizer_open(&l->tokenizer, l->gguf, err);
    if (!st)
        st = check_vocab(l, err);
    if (st)
        return st;
    load_template(l);
    prefetch(l->gguf, progress, arg);
    return STATUS_OK;
}

enum status loader_open(struct loader *out, const char *path, loader_progress *progress, void *arg,
                        struct err *err)
{
    memset(out, 0, sizeof *out);
    report(progress, arg, "reading metadata", 0);
    enum status st = gguf_open(&out->gguf, path, err); /* its errors name the file */
    if (st)
        return st;
    set_name(out, path);
    st = load_parts(out, progress, arg, err);
    if (st) {
        loader_close(out);
        return err_context(err, "%s", path);
    }
    return STATUS_OK;
}

void loader_close(struct loader *l)
{
    template_free(l->chat_template);
    tokenizer_close(l->tokenizer);
    model_free(l->model);
    gguf_close(l->gguf);
    memset(l, 0, sizeof *l);
}
