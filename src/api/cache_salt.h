/* Whose cached prefixes a request finds on a server with API keys: those of its own key.
 *
 *     secret of this process ─┐
 *     bytes of the API key ───┴─ HMAC-SHA-256 ─► secret of the key ─┐
 *     the request's own salt (of its cache_salt; zeros: none) ──────┴─ HMAC-SHA-256 ─► its salt
 *
 * So a cache_salt divides the prompts of one key, and whatever it says, it never names a salt of
 * another key. A key's salts depend on its bytes alone, not on its place in the file, so it keeps
 * them when the keys are read again. Any thread.
 */
#ifndef FIRSTLIGHT_API_CACHE_SALT_H
#define FIRSTLIGHT_API_CACHE_SALT_H

#include "base/err.h"
#include "base/key_secret.h"
#include "engine/engine.h"

#include <stddef.h>

/* A process's: random. STATUS_INTERNAL: the kernel has no random numbers. */
enum status cache_salt_secret_make(struct key_secret *out, struct err *err);

/* That of a key, n bytes long. STATUS_NO_MEMORY. */
enum status cache_salt_secret_of_key(struct key_secret *out, const struct key_secret *process,
                                     const void *key, size_t n, struct err *err);

/* Makes the salt that a request asked for (all zero: none) one of its key's. STATUS_NO_MEMORY. */
enum status cache_salt_of_key(struct prefix_salt *salt, const struct key_secret *key,
                              struct err *err);

#endif
