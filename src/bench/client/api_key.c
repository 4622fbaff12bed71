#include "bench/client/api_key.h"

#include "api/keys.h"

#include <string.h>

enum status api_key_read(struct api_key *k, const char *path, struct err *err)
{
    struct keys *keys = NULL;
    k->text[0] = '\0';
    if (!path)
        return STATUS_OK;
    enum status st = keys_load(&keys, path, err);
    if (st)
        return err_context(err, "--api-key-file");
    keys_first(keys, k->text);
    keys_free(keys);
    return STATUS_OK;
}

void api_key_mask(const struct api_key *k, char *text)
{
    size_t n = strlen(k->text);
    for (char *at = text; n > 0 && (at = strstr(at, k->text)); at += n)
        memset(at, '*', n);
}
