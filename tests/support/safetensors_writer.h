/* Writes safetensors files for tests: good ones tensor by tensor, broken ones from any header. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_SAFETENSORS_WRITER_H
#define FIRSTLIGHT_TESTS_SUPPORT_SAFETENSORS_WRITER_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct safetensors_writer {
    struct buf header; /* the members so far */
    struct buf data;
    struct buf file;
};

static inline void safetensors_writer_fini(struct safetensors_writer *w)
{
    buf_fini(&w->header);
    buf_fini(&w->data);
    buf_fini(&w->file);
}

/* shape: "2,3", slowest first. */
static inline void safetensors_writer_tensor(struct safetensors_writer *w, const char *name,
                                             const char *dtype, const char *shape, const void *data,
                                             size_t size)
{
    buf_printf(&w->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
               w->header.len ? "," : "", name, dtype, shape, w->data.len, w->data.len + size);
    buf_append(&w->data, data, size);
    REQUIRE(!w->header.failed && !w->data.failed);
}

/* `header` and `data` as they stand, with the header's length before them. */
static inline const void *safetensors_writer_raw(struct safetensors_writer *w, const char *header,
                                                 const void *data, size_t size, size_t *len)
{
    uint64_t n = strlen(header);
    buf_clear(&w->file);
    buf_append(&w->file, &n, sizeof n);
    buf_puts(&w->file, header);
    buf_append(&w->file, data, size);
    REQUIRE(!w->file.failed);
    *len = w->file.len;
    return w->file.data;
}

static inline const void *safetensors_writer_finish(struct safetensors_writer *w, size_t *len)
{
    struct buf header = {0};
    buf_printf(&header, "{%s}", buf_str(&w->header));
    while (header.len % 8)
        buf_putc(&header, ' ');
    REQUIRE(!header.failed);
    const void *bytes =
        safetensors_writer_raw(w, buf_str(&header), buf_str(&w->data), w->data.len, len);
    buf_fini(&header);
    return bytes;
}

/* Writes any bytes to folder/name. */
static inline void safetensors_writer_put(const char *folder, const char *name, const void *bytes,
                                          size_t len)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    REQUIRE(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

static inline void safetensors_writer_save(struct safetensors_writer *w, const char *folder,
                                           const char *name)
{
    size_t len;
    const void *bytes = safetensors_writer_finish(w, &len);
    safetensors_writer_put(folder, name, bytes, len);
}

#endif
