#include "bench/result/environment.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/version.h"
#include "bench/result/result.h"
#include "kernels/kv_layout.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#define PIECE (1u << 20) /* bytes of a model read at a time */

/* A sum under way. */
struct hash {
    EVP_MD_CTX *ctx;
    char *piece; /* (PIECE) */
    json_int_t size;
};

/* False: errno says why, or 0 when it was libcrypto. */
static bool hash_file(struct hash *h, const char *path)
{
    size_t n;
    FILE *f = fopen(path, "rb");
    bool ok = f != NULL;
    errno = f ? 0 : errno;
    while (ok && (n = fread(h->piece, 1, PIECE, f)) > 0) {
        ok = EVP_DigestUpdate(h->ctx, h->piece, n) == 1;
        h->size += (json_int_t)n;
    }
    ok = ok && !ferror(f);
    if (f)
        fclose(f);
    return ok;
}

static int is_weights(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".safetensors") == 0;
}

/* The weights of a folder, one after the other in the order of their names. */
static bool hash_folder(struct hash *h, const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_weights, alphasort);
    bool ok = n > 0;
    for (int i = 0; i < n; i++) {
        struct buf file = {0};
        buf_printf(&file, "%s/%s", path, entries[i]->d_name);
        ok = ok && !file.failed && hash_file(h, buf_str(&file));
        buf_fini(&file);
        free(entries[i]); /* scandir's own */
    }
    if (n >= 0)
        free(entries);
    if (n == 0)
        errno = EISDIR; /* and no model */
    return ok;
}

/* Lower-case hexadecimal of a file, or of a folder's weights, into hex. */
static enum status hash_model(const char *path, char hex[2 * 32 + 1], json_int_t *size,
                              struct err *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct hash h = {.ctx = EVP_MD_CTX_new(), .piece = mem_alloc(PIECE)};
    struct stat info;
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    enum status st = STATUS_OK;
    errno = 0;
    if (!h.ctx || !h.piece)
        st = err_set(err, STATUS_NO_MEMORY, "no memory to take the sha256 of %s", path);
    else if (EVP_DigestInit_ex(h.ctx, EVP_sha256(), NULL) != 1 ||
             !(folder ? hash_folder(&h, path) : hash_file(&h, path)) ||
             EVP_DigestFinal_ex(h.ctx, digest, NULL) != 1)
        st = err_param(err, STATUS_IO, "--model", "cannot take the sha256 of %s: %s", path,
                       errno ? strerror(errno) : "libcrypto failed");
    for (int i = 0; i < 32 && !st; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    *size = h.size;
    mem_free(h.piece);
    EVP_MD_CTX_free(h.ctx);
    return st;
}

static enum status set_model(json_t *root, const struct environment *e, struct err *err)
{
    char hex[2 * 32 + 1];
    json_int_t size = 0;
    enum status st = e->model_path ? hash_model(e->model_path, hex, &size, err) : STATUS_OK;
    if (st)
        return st;
    json_object_set_new(root, "model", result_text(e->model));
    json_object_set_new(root, "model_path", result_text(e->model_path));
    json_object_set_new(root, "model_bytes", e->model_path ? json_integer(size) : json_null());
    json_object_set_new(root, "model_sha256", e->model_path ? json_string(hex) : json_null());
    return STATUS_OK;
}

static void set_engine(json_t *root, const struct environment *e)
{
    bool known = e->has_engine_options;
    const char *activations = e->activations == ACTIVATIONS_F32 ? "f32" : "int8";
    json_object_set_new(root, "engine", result_text(e->engine));
    json_object_set_new(root, "threads", e->threads ? json_integer(e->threads) : json_null());
    json_object_set_new(root, "activations", result_text(known ? activations : NULL));
    json_object_set_new(root, "kv_type", result_text(known ? kv_layout_names[e->kv_type] : NULL));
}

/* Of this process: with a server elsewhere it is the client's, and `machine` says so. */
static void set_machine(json_t *root, const struct environment *e)
{
    char levels[128], date[32] = "";
    struct utsname os;
    struct tm tm;
    time_t now = time(NULL);
    bool here = e->target && !strstr(e->target, "://");
    if (gmtime_r(&now, &tm))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &tm);
    uname(&os);
    json_object_set_new(root, "machine",
                        json_string(here ? "measured" : "the client's; the server's is not known"));
    json_object_set_new(root, "cpu", json_string(cpu_model_name()));
    json_object_set_new(root, "processors", json_integer(cpu_usable_count()));
    json_object_set_new(root, "levels",
                        e->has_engine_options || e->has_levels
                            ? json_string(cpu_levels_text(e->cpu_levels, levels, sizeof levels))
                            : json_null());
    json_object_set_new(root, "kernel", json_sprintf("%s %s", os.sysname, os.release));
    json_object_set_new(root, "compiler", json_string(version_compiler()));
    json_object_set_new(root, "version", json_string(version_number()));
    json_object_set_new(root, "commit", json_string(version_commit()));
    json_object_set_new(root, "date", json_string(date));
}

#define N_FIELDS 18

enum status environment_json(json_t **out, const struct environment *e, struct err *err)
{
    json_t *root = json_object();
    *out = NULL;
    json_object_set_new(root, "target", result_text(e->target));
    enum status st = set_model(root, e, err);
    if (!st) {
        set_engine(root, e);
        set_machine(root, e);
        /* A field that found no memory is not there. */
        if (json_object_size(root) != N_FIELDS)
            st = err_set(err, STATUS_NO_MEMORY, "no memory for the environment");
    }
    if (st)
        json_decref(root);
    else
        *out = root;
    return st;
}
