/* The key that a load generator sends to a server. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_API_KEY_H
#define FIRSTLIGHT_BENCH_CLIENT_API_KEY_H

#include "base/err.h"
#include "base/limits.h"

struct api_key {
    char text[LIMIT_API_KEY_BYTES + 1]; /* "": none */
};

/* The first of the file; path NULL: none. Errors name --api-key-file, and never the key. */
enum status api_key_read(struct api_key *k, const char *path, struct err *err);
/* Replaces the key, should a server have repeated it, by as many '*'. */
void api_key_mask(const struct api_key *k, char *text);

#endif
