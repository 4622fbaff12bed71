#include "weights/json_file.h"

#include "weights/file_map.h"

enum status json_file_parse(json_t **out, const void *bytes, size_t len, struct err *err)
{
    json_error_t where;
    json_t *root = json_loadb(len ? bytes : "", len, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return err_set(err, STATUS_INVALID, "line %d: %s", where.line, where.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return err_set(err, STATUS_INVALID, "expected a JSON object");
    }
    *out = root;
    return STATUS_OK;
}

enum status json_file_load(json_t **out, const char *path, size_t limit, struct err *err)
{
    struct file_map map;
    enum status s = file_map_open(&map, path, err);
    if (s == STATUS_OK && map.len > limit)
        s = err_set(err, STATUS_TOO_LARGE, "expected up to %zu bytes, found %zu", limit, map.len);
    if (s == STATUS_OK)
        s = json_file_parse(out, map.bytes, map.len, err);
    file_map_close(&map);
    return s == STATUS_OK ? s : err_context(err, "%s", path);
}
