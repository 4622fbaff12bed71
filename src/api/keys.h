/* API keys: from a file (one a line, # comments) or the environment variable FIRSTLIGHT_API_KEY. */
#ifndef FIRSTLIGHT_API_KEYS_H
#define FIRSTLIGHT_API_KEYS_H

#include "api/cache_salt.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keys;

/* path may be NULL: the environment alone. *out is NULL when there are no keys: everyone may ask.
 */
enum status keys_load(struct keys **out, const char *path, struct err *err);
void keys_free(struct keys *k);

/* The first of the file, for a client that sends it; out holds LIMIT_API_KEY_BYTES + 1 bytes. */
void keys_first(const struct keys *k, char *out);

/* Is the value of an Authorization header ("Bearer KEY"; NULL: none came) one of the keys? Takes
 * the same time wherever a wrong key differs. *id says which: made of the key itself, so that a key
 * keeps it in whatever line of whatever file it stands. STATUS_UNAUTHENTICATED says what to send.
 */
enum status keys_check(const struct keys *k, const char *authorization, uint64_t *id,
                       struct err *err);

size_t keys_count(const struct keys *k); /* of NULL: 0 */

/* The secret that the salts of a key are made with (cache_salt.h), by the id that keys_check has
 * just given of it. */
enum status keys_secret(const struct keys *k, uint64_t id, const struct key_secret *process,
                        struct key_secret *out, struct err *err);

#endif
