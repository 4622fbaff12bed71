#include "weights/safetensors.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "weights/json_file.h"
#include "weights/safetensors_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SINGLE "model.safetensors"
#define INDEX  "model.safetensors.index.json"

struct safetensors {
    struct safetensors_file *files; /* (n_files) */
    size_t n_files;
    const struct safetensors_tensor **tensors; /* (n_tensors) by name, in files */
    size_t n_tensors;
};

static enum status safetensors_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for the index of the tensors");
}

static enum status safetensors_create(struct safetensors **out, size_t n_files, struct err *err)
{
    struct safetensors *s = mem_zalloc(sizeof *s);
    if (s)
        s->files = mem_array(n_files, sizeof *s->files);
    if (!s || !s->files) {
        mem_free(s);
        return safetensors_no_memory(err);
    }
    *out = s;
    return STATUS_OK;
}

void safetensors_close(struct safetensors *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_files; i++)
        safetensors_file_close(&s->files[i]);
    mem_free(s->tensors);
    mem_free(s->files);
    mem_free(s);
}

/* All tensors of the one file. */
static enum status safetensors_take_all(struct safetensors *s, struct err *err)
{
    const struct safetensors_file *f = &s->files[0];
    s->tensors = mem_array(f->n_tensors + 1, sizeof *s->tensors);
    if (!s->tensors)
        return safetensors_no_memory(err);
    s->n_tensors = f->n_tensors;
    for (size_t i = 0; i < f->n_tensors; i++)
        s->tensors[i] = &f->tensors[i];
    return STATUS_OK;
}

static enum status safetensors_finish(struct safetensors **out, struct safetensors *s,
                                      enum status status)
{
    if (status == STATUS_OK)
        *out = s;
    else
        safetensors_close(s);
    return status;
}

enum status safetensors_open(struct safetensors **out, const char *path, struct err *err)
{
    struct safetensors *s = NULL;
    enum status status = safetensors_create(&s, 1, err);
    if (status != STATUS_OK)
        return status;
    s->n_files = 1;
    status = safetensors_file_open(&s->files[0], path, err);
    return safetensors_finish(out, s, status == STATUS_OK ? safetensors_take_all(s, err) : status);
}

enum status safetensors_parse(struct safetensors **out, const void *bytes, size_t len,
                              struct err *err)
{
    struct safetensors *s = NULL;
    enum status status = safetensors_create(&s, 1, err);
    if (status != STATUS_OK)
        return status;
    s->n_files = 1;
    status = safetensors_file_parse(&s->files[0], bytes, len, err);
    return safetensors_finish(out, s, status == STATUS_OK ? safetensors_take_all(s, err) : status);
}

/* --- the index ------------------------------------------------------------------------------ */

/* {"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors", ...}} */
struct shards {
    const char *folder;
    json_t *index; /* the file */
    json_t *map;   /* its weight_map, borrowed */
    json_t *names; /* file name -> its number in the order of first use */
};

static enum status check_file_name(const char *tensor, const json_t *value, struct err *err)
{
    char text[SAFETENSORS_SHOWN];
    const char *file = json_string_value(value);
    if (file && *file && *file != '.' && !strchr(file, '/'))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID,
                   "weight_map: tensor %s: expected the name of a file in the same folder, found "
                   "%s",
                   safetensors_show(tensor, text), file ? file : "no string");
}

static enum status collect_names(struct shards *sh, struct err *err)
{
    const char *tensor;
    json_t *file;
    sh->map = json_object_get(sh->index, "weight_map");
    if (!json_is_object(sh->map) || json_object_size(sh->map) == 0)
        return err_set(err, STATUS_INVALID,
                       "weight_map: expected an object of tensor and file names");
    if (json_object_size(sh->map) > LIMIT_GGUF_TENSORS)
        return err_set(err, STATUS_TOO_LARGE, "weight_map: expected up to %d tensors, found %zu",
                       LIMIT_GGUF_TENSORS, json_object_size(sh->map));
    json_object_foreach(sh->map, tensor, file)
    {
        enum status s = check_file_name(tensor, file, err);
        if (s != STATUS_OK)
            return s;
        const char *name = json_string_value(file);
        json_int_t n = (json_int_t)json_object_size(sh->names);
        if (!json_object_get(sh->names, name) &&
            json_object_set_new(sh->names, name, json_integer(n)) != 0)
            return safetensors_no_memory(err);
    }
    if (json_object_size(sh->names) > LIMIT_MODEL_FILES)
        return err_set(err, STATUS_TOO_LARGE, "weight_map: expected up to %d files, found %zu",
                       LIMIT_MODEL_FILES, json_object_size(sh->names));
    return STATUS_OK;
}

/* Names every file that is not there, so that one look suffices. */
static enum status safetensors_check_present(const struct shards *sh, struct err *err)
{
    struct buf missing = {0}, path = {0};
    unsigned n = 0;
    const char *name;
    json_t *number;
    json_object_foreach(sh->names, name, number)
    {
        struct stat st;
        buf_clear(&path);
        buf_printf(&path, "%s/%s", sh->folder, name);
        if (stat(buf_str(&path), &st) != 0 && n++ < 8)
            buf_printf(&missing, "%s%s", n > 1 ? ", " : "", name);
    }
    if (n > 8)
        buf_printf(&missing, " and %u more", n - 8);
    enum status s = STATUS_OK;
    if (path.failed || missing.failed)
        s = safetensors_no_memory(err);
    else if (n > 0)
        s = err_set(err, STATUS_NOT_FOUND, "expected %zu files in %s, missing: %s",
                    json_object_size(sh->names), sh->folder, buf_str(&missing));
    buf_fini(&path);
    buf_fini(&missing);
    return s;
}

static enum status open_files(struct safetensors *s, const struct shards *sh, struct err *err)
{
    const char *name;
    json_t *number;
    json_object_foreach(sh->names, name, number)
    {
        struct buf path = {0};
        buf_printf(&path, "%s/%s", sh->folder, name);
        s->n_files++;
        enum status status =
            path.failed
                ? safetensors_no_memory(err)
                : safetensors_file_open(&s->files[json_integer_value(number)], buf_str(&path), err);
        buf_fini(&path);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static int safetensors_compare_tensors(const void *a, const void *b)
{
    const struct safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static enum status take_indexed(struct safetensors *s, const struct shards *sh, struct err *err)
{
    char text[SAFETENSORS_SHOWN];
    const char *name;
    json_t *file;
    s->tensors = mem_array(json_object_size(sh->map), sizeof *s->tensors);
    if (!s->tensors)
        return safetensors_no_memory(err);
    json_object_foreach(sh->map, name, file)
    {
        json_t *number = json_object_get(sh->names, json_string_value(file));
        const struct safetensors_file *f = &s->files[json_integer_value(number)];
        const struct safetensors_tensor *t = safetensors_file_find(f, name);
        if (!t)
            return err_set(err, STATUS_INVALID,
                           "%s: expected tensor %s, which " INDEX " says is there, found none",
                           f->path, safetensors_show(name, text));
        s->tensors[s->n_tensors++] = t;
    }
    qsort(s->tensors, s->n_tensors, sizeof *s->tensors, safetensors_compare_tensors);
    return STATUS_OK;
}

static enum status read_index(struct shards *sh, const char *path, struct err *err)
{
    enum status s = json_file_load(&sh->index, path, LIMIT_SAFETENSORS_HEADER, err);
    if (s != STATUS_OK)
        return s;
    sh->names = json_object();
    s = sh->names ? collect_names(sh, err) : safetensors_no_memory(err);
    if (s == STATUS_OK)
        s = safetensors_check_present(sh, err);
    return s == STATUS_OK ? s : err_context(err, "%s", path);
}

static enum status open_sharded(struct safetensors **out, const char *folder, const char *path,
                                struct err *err)
{
    struct shards sh = {.folder = folder};
    struct safetensors *s = NULL;
    enum status status = read_index(&sh, path, err);
    if (status == STATUS_OK)
        status = safetensors_create(&s, json_object_size(sh.names), err);
    if (status == STATUS_OK)
        status = open_files(s, &sh, err);
    if (status == STATUS_OK)
        status = take_indexed(s, &sh, err);
    json_decref(sh.names);
    json_decref(sh.index);
    return safetensors_finish(out, s, status);
}

enum status safetensors_open_folder(struct safetensors **out, const char *folder, struct err *err)
{
    struct buf single = {0}, index = {0};
    struct stat st;
    enum status s;
    buf_printf(&single, "%s/" SINGLE, folder);
    buf_printf(&index, "%s/" INDEX, folder);
    if (single.failed || index.failed)
        s = safetensors_no_memory(err);
    else if (stat(buf_str(&single), &st) == 0)
        s = safetensors_open(out, buf_str(&single), err);
    else if (stat(buf_str(&index), &st) == 0)
        s = open_sharded(out, folder, buf_str(&index), err);
    else
        s = err_set(err, STATUS_NOT_FOUND,
                    "%s: expected " SINGLE " or " INDEX
                    ", found neither (weights in other formats are not read)",
                    folder);
    buf_fini(&index);
    buf_fini(&single);
    return s;
}

/* --- access --------------------------------------------------------------------------------- */

size_t safetensors_count(const struct safetensors *s)
{
    return s->n_tensors;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i)
{
    REQUIRE(i < s->n_tensors);
    return s->tensors[i];
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    struct safetensors_tensor wanted = {.name = name};
    const struct safetensors_tensor *key = &wanted;
    const struct safetensors_tensor *const *found =
        bsearch(&key, s->tensors, s->n_tensors, sizeof *s->tensors, safetensors_compare_tensors);
    return found ? *found : NULL;
}

size_t safetensors_file_size(const struct safetensors *s)
{
    size_t size = 0;
    for (size_t i = 0; i < s->n_files; i++)
        size += s->files[i].size;
    return size;
}
