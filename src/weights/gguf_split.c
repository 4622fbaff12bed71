/* Split GGUF files: a model in parts "NAME-00001-of-00003.gguf", as llama-gguf-split writes them.
 *
 * Each part is a GGUF file; the first has the model's metadata, and each says which part of how
 * many it is (split.no, from 0; split.count) and how many tensors the parts have together
 * (split.tensors.count).
 */
#include "weights/gguf.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define KEY_NO      "split.no"
#define KEY_COUNT   "split.count"
#define KEY_TENSORS "split.tensors.count"

/* "-00001-of-00003.gguf" */
#define SUFFIX_BYTES 20

/* The parts of one model, and what all of them agree on. */
struct parts {
    struct gguf **files; /* (count) */
    uint32_t count;
    uint32_t n_tensors;
    char *stem; /* the path less SUFFIX_BYTES */
};

static bool is_part(const struct gguf *g)
{
    uint32_t count = 0;
    struct err ignored;
    return gguf_value(g, KEY_COUNT) && gguf_get_u32(g, KEY_COUNT, &count, &ignored) == STATUS_OK &&
           count > 1;
}

static void parts_close(void *arg)
{
    struct parts *p = arg;
    for (uint32_t i = 0; p->files && i < p->count; i++)
        gguf_close(p->files[i]);
    mem_free(p->files);
    mem_free(p->stem);
    mem_free(p);
}

static enum status gguf_split_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for the parts of a split model");
}

/* The path of part i (from 0), to be freed. */
static char *part_path(const struct parts *p, uint32_t i)
{
    struct buf path = {0};
    buf_printf(&path, "%s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", p->stem, i + 1, p->count);
    return buf_take(&path);
}

/* The stem that all parts share, from the path of part `no`. */
static enum status read_stem(struct parts *p, const char *path, uint32_t no, struct err *err)
{
    size_t len = strlen(path);
    p->stem = len > SUFFIX_BYTES ? mem_strndup(path, len - SUFFIX_BYTES) : mem_strdup("");
    char *expected = p->stem ? part_path(p, no) : NULL;
    if (!expected)
        return gguf_split_no_memory(err);
    enum status s = STATUS_OK;
    if (strcmp(expected, path) != 0)
        s = err_param(err, STATUS_INVALID, KEY_COUNT,
                      "part %" PRIu32 " of a split model: expected a name that ends in "
                      "\"-%05" PRIu32 "-of-%05" PRIu32 ".gguf\", so that the other parts are found",
                      no + 1, no + 1, p->count);
    mem_free(expected);
    return s;
}

/* Names every part that is not there, so that one look suffices. */
static enum status gguf_split_check_present(const struct parts *p, struct err *err)
{
    struct buf missing = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        struct stat st;
        char *path = part_path(p, i);
        if (!path)
            missing.failed = true;
        else if (stat(path, &st) != 0 && n++ < 8)
            buf_printf(&missing, "%s%s", n > 1 ? ", " : "", path);
        mem_free(path);
    }
    if (n > 8)
        buf_printf(&missing, " and %" PRIu32 " more", n - 8);
    enum status s = missing.failed ? gguf_split_no_memory(err) : STATUS_OK;
    if (s == STATUS_OK && n > 0)
        s = err_set(err, STATUS_NOT_FOUND, "expected %" PRIu32 " parts, missing: %s", p->count,
                    buf_str(&missing));
    buf_fini(&missing);
    return s;
}

static enum status gguf_split_check_key(const struct gguf *g, const char *key, uint32_t expected,
                                        struct err *err)
{
    uint32_t found = 0;
    enum status s = gguf_get_u32(g, key, &found, err);
    if (s == STATUS_OK && found != expected)
        s = err_param(err, STATUS_INVALID, key, "key %s: expected %" PRIu32 ", found %" PRIu32, key,
                      expected, found);
    return s == STATUS_OK ? s : err_context(err, "%s", gguf_path(g));
}

static enum status open_part(struct parts *p, uint32_t i, struct err *err)
{
    char *path = part_path(p, i);
    enum status s = path ? gguf_open_part(&p->files[i], path, err) : gguf_split_no_memory(err);
    mem_free(path);
    if (s == STATUS_OK)
        s = gguf_split_check_key(p->files[i], KEY_NO, i, err);
    if (s == STATUS_OK)
        s = gguf_split_check_key(p->files[i], KEY_COUNT, p->count, err);
    if (s == STATUS_OK)
        s = gguf_split_check_key(p->files[i], KEY_TENSORS, p->n_tensors, err);
    return s;
}

/* What the part that was named says of the whole. */
static enum status read_counts(struct parts *p, const struct gguf *g, struct err *err)
{
    uint32_t no = 0;
    enum status s = gguf_get_u32(g, KEY_COUNT, &p->count, err);
    if (s == STATUS_OK)
        s = gguf_get_u32(g, KEY_NO, &no, err);
    if (s == STATUS_OK)
        s = gguf_get_u32(g, KEY_TENSORS, &p->n_tensors, err);
    if (s == STATUS_OK && p->count > LIMIT_MODEL_FILES)
        s = err_param(err, STATUS_TOO_LARGE, KEY_COUNT,
                      "key " KEY_COUNT ": expected up to %d parts, found %" PRIu32,
                      LIMIT_MODEL_FILES, p->count);
    if (s == STATUS_OK && no >= p->count)
        s = err_param(err, STATUS_INVALID, KEY_NO,
                      "key " KEY_NO ": expected a number below the %" PRIu32
                      " parts, found %" PRIu32,
                      p->count, no);
    if (s == STATUS_OK && p->n_tensors > LIMIT_GGUF_TENSORS)
        s = err_param(err, STATUS_TOO_LARGE, KEY_TENSORS,
                      "key " KEY_TENSORS ": expected up to %d, found %" PRIu32, LIMIT_GGUF_TENSORS,
                      p->n_tensors);
    if (s == STATUS_OK)
        s = read_stem(p, gguf_path(g), no, err);
    return s;
}

static enum status gguf_split_open_all(struct parts *p, const struct gguf *named, struct err *err)
{
    enum status s = read_counts(p, named, err);
    if (s == STATUS_OK)
        s = gguf_split_check_present(p, err);
    if (s != STATUS_OK)
        return err_context(err, "%s", gguf_path(named));
    p->files = mem_array(p->count, sizeof(struct gguf *));
    if (!p->files)
        return gguf_split_no_memory(err);
    for (uint32_t i = 0; i < p->count && s == STATUS_OK; i++)
        s = open_part(p, i, err);
    return s;
}

static enum status count_tensors(const struct parts *p, struct err *err)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->count; i++)
        n += gguf_tensor_count(p->files[i]);
    if (n == p->n_tensors)
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, KEY_TENSORS,
                     "%s: key " KEY_TENSORS ": expected %" PRIu32 " tensors in the %" PRIu32
                     " parts, found %zu",
                     gguf_path(p->files[0]), p->n_tensors, p->count, n);
}

static void gguf_split_collect(const struct parts *p, struct tensor *tensors, size_t *offsets,
                               size_t *size)
{
    size_t n = 0;
    *size = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct gguf *g = p->files[i];
        *size += gguf_file_size(g);
        for (size_t k = 0; k < gguf_tensor_count(g); k++, n++) {
            tensors[n] = *gguf_tensor_at(g, k);
            offsets[n] = gguf_tensor_offset(g, gguf_tensor_at(g, k));
        }
    }
}

static enum status gguf_split_assemble(struct gguf **out, struct parts *p, struct err *err)
{
    size_t size;
    struct tensor *tensors = mem_array(p->n_tensors, sizeof *tensors);
    size_t *offsets = mem_array(p->n_tensors, sizeof *offsets);
    enum status s = tensors && offsets ? STATUS_OK : gguf_split_no_memory(err);
    if (s == STATUS_OK) {
        gguf_split_collect(p, tensors, offsets, &size);
        struct gguf_assembly a = {
            .path = gguf_path(p->files[0]),
            .tensors = tensors,
            .offsets = offsets,
            .n_tensors = p->n_tensors,
            .file_size = size,
            .release = parts_close,
            .take_owned = p,
        };
        a.metadata = gguf_bytes(p->files[0], &a.metadata_len);
        s = gguf_assemble(out, &a, err);
        if (s != STATUS_OK)
            err_context(err, "%s", a.path);
    }
    mem_free(offsets);
    mem_free(tensors);
    return s;
}

/* Replaces *g, any one part, by the whole, with the first part's path and metadata. *g is closed,
 * and after an error NULL. */
static enum status gguf_split_join(struct gguf **g, struct err *err)
{
    struct gguf *named = *g;
    struct parts *p = mem_zalloc(sizeof *p);
    *g = NULL;
    enum status s = p ? gguf_split_open_all(p, named, err) : gguf_split_no_memory(err);
    gguf_close(named);
    if (s == STATUS_OK)
        s = count_tensors(p, err);
    if (s == STATUS_OK)
        s = gguf_split_assemble(g, p, err);
    if (s != STATUS_OK && p)
        parts_close(p);
    return s;
}

enum status gguf_open(struct gguf **out, const char *path, struct err *err)
{
    enum status s = gguf_open_part(out, path, err);
    return s == STATUS_OK && is_part(*out) ? gguf_split_join(out, err) : s;
}
