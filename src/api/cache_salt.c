#include "api/cache_salt.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

/* The first n_out bytes of the HMAC of n bytes under a secret. */
static enum status hmac(const struct key_secret *secret, const void *bytes, size_t n, void *out,
                        size_t n_out, struct err *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (!HMAC(EVP_sha256(), secret->bytes, sizeof secret->bytes, bytes, n, digest, NULL))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the salt of an API key");
    memcpy(out, digest, n_out);
    return STATUS_OK;
}

enum status cache_salt_secret_make(struct key_secret *out, struct err *err)
{
    if (getrandom(out->bytes, sizeof out->bytes, 0) == (ssize_t)sizeof out->bytes)
        return STATUS_OK;
    return err_set(err, STATUS_INTERNAL, "the kernel gives no random numbers");
}

enum status cache_salt_secret_of_key(struct key_secret *out, const struct key_secret *process,
                                     const void *key, size_t n, struct err *err)
{
    return hmac(process, key, n, out->bytes, sizeof out->bytes, err);
}

enum status cache_salt_of_key(struct prefix_salt *salt, const struct key_secret *key,
                              struct err *err)
{
    return hmac(key, salt, sizeof *salt, salt, sizeof *salt, err);
}
