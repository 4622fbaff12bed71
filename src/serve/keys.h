/* API keys: from a file (one a line, # comments) or the environment variable FIRSTLIGHT_API_KEY. */
#ifndef FIRSTLIGHT_SERVE_KEYS_H
#define FIRSTLIGHT_SERVE_KEYS_H

#include "base/err.h"
#include "serve/salt.h"

#include <stdbool.h>
#include <stddef.h>

struct keys;

/* path may be NULL: the environment alone. *out is NULL when there are no keys: everyone may ask.
 */
enum status keys_load(struct keys **out, const char *path, struct err *err);
void keys_free(struct keys *k);

/* The first of the file, for a client that sends it; out holds LIMIT_API_KEY_BYTES + 1 bytes. */
void keys_first(const struct keys *k, char *out);

/* Is the value of an Authorization header ("Bearer KEY"; NULL: none came) one of the keys? Takes
 * the same time wherever a wrong key differs. *index says which. STATUS_UNAUTHENTICATED says what
 * to send. */
enum status keys_check(const struct keys *k, const char *authorization, size_t *index,
                       struct err *err);

/* The secret that the salts of this key are made with: see salt.h. */
enum status keys_secret(const struct keys *k, size_t index, const struct salt_secret *process,
                        struct salt_secret *out, struct err *err);

#endif
