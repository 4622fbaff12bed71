#include "engine/memory_plan.h"

#include "base/limits.h"
#include "engine/kv.h"
#include "kernels/kernels.h"

#include <stdio.h>

/* "1.4 MiB", "1 KiB": small sizes too are told apart. */
struct size_text {
    char text[32];
};

static struct size_text size_text(uint64_t bytes)
{
    struct size_text t;
    if (bytes < 1024)
        snprintf(t.text, sizeof t.text, "%llu bytes", (unsigned long long)bytes);
    else if (bytes < 1024 * 1024)
        snprintf(t.text, sizeof t.text, "%.1f KiB", (double)bytes / 1024);
    else
        snprintf(t.text, sizeof t.text, "%.1f MiB", (double)bytes / (1024 * 1024));
    return t;
}

static uint64_t pool_bytes(const struct memory_plan_wish *w, uint32_t n_ctx)
{
    uint64_t one = (uint64_t)kv_blocks_for(n_ctx) * w->block_bytes;
    if (w->kv_memory > 0)
        return w->kv_memory;
    uint64_t wanted =
        (uint64_t)w->n_seqs * kv_blocks_for(MEMORY_PLAN_SEQ_POSITIONS) * w->block_bytes;
    if (wanted < one)
        wanted = one;
    if (wanted > w->available / 4)
        wanted = w->available / 4;
    if (w->n_ctx > 0 && wanted < one)
        wanted = one;
    return wanted;
}

static enum status check_context(const struct memory_plan_wish *w, uint32_t *n_ctx, struct err *err)
{
    uint32_t most = w->n_ctx_train < LIMIT_CONTEXT ? w->n_ctx_train : LIMIT_CONTEXT;
    *n_ctx = w->n_ctx > 0 ? w->n_ctx : most;
    if (*n_ctx > most)
        return err_param(err, STATUS_INVALID, "ctx",
                         "a context of %u positions was asked for, the model has %u", *n_ctx, most);
    return STATUS_OK;
}

enum status memory_plan_choose(struct memory_plan *out, const struct memory_plan_wish *w,
                               struct err *err)
{
    uint32_t n_ctx;
    enum status status = check_context(w, &n_ctx, err);
    if (status != STATUS_OK)
        return status;
    uint64_t bytes = pool_bytes(w, n_ctx);
    const char *asked = w->kv_memory > 0 ? "kv-memory" : "ctx";
    if (bytes > w->available)
        return err_param(err, STATUS_NO_MEMORY, asked,
                         "the KV pool needs %s, %s of memory are available; ask for a smaller %s",
                         size_text(bytes).text, size_text(w->available).text, asked);
    uint64_t blocks = bytes / w->block_bytes;
    if (blocks > UINT32_MAX / KV_BLOCK)
        blocks = UINT32_MAX / KV_BLOCK;
    uint64_t positions = blocks * KV_BLOCK;
    uint64_t needed =
        w->n_ctx > 0 ? n_ctx : (n_ctx < MEMORY_PLAN_MIN_CTX ? n_ctx : MEMORY_PLAN_MIN_CTX);
    uint64_t least = (uint64_t)kv_blocks_for((uint32_t)needed) * w->block_bytes;
    if (positions < needed)
        return err_param(err, STATUS_NO_MEMORY, asked,
                         "a context of %llu positions needs %s of KV memory, the pool has %s; ask "
                         "for %s",
                         (unsigned long long)needed, size_text(least).text, size_text(bytes).text,
                         w->kv_memory > 0 ? "a larger kv-memory" : "a smaller ctx");
    *out = (struct memory_plan){
        .n_ctx = positions < n_ctx ? (uint32_t)positions : n_ctx,
        .n_blocks = (uint32_t)blocks,
    };
    return STATUS_OK;
}
