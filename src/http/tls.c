#include "http/tls.h"

#include "base/clock.h"
#include "base/secret_file.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdbool.h>

#define EXCHANGE_US 300 /* what a handshake takes beside its signature */
#define TRIES       3

static const unsigned char protocols[] = {2, 'h', '2'};

/* A client that offers no HTTP/2 ends here, with the alert that says so. */
static int tls_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                      const unsigned char *offered, unsigned offered_len, void *arg)
{
    (void)ssl;
    (void)arg;
    int st = SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, protocols,
                                   sizeof protocols, offered, offered_len);
    return st == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static enum status tls_fail(struct err *err, const char *flag, const char *path)
{
    char why[160];
    ERR_error_string_n(ERR_peek_last_error(), why, sizeof why);
    ERR_clear_error();
    return err_param(err, STATUS_INVALID, flag, "%s %s: cannot be used, a PEM file is expected: %s",
                     flag, path, why);
}

/* A key with a password: nobody is there to be asked, least of all while the server runs. */
static int no_password(char *out, int size, int write, void *arg)
{
    (void)out;
    (void)size;
    (void)write;
    (void)arg;
    return -1;
}

static enum status use_files(SSL_CTX *tls, const char *cert, const char *key, struct err *err)
{
    SSL_CTX_set_default_passwd_cb(tls, no_password);
    if (SSL_CTX_use_certificate_chain_file(tls, cert) != 1)
        return tls_fail(err, "--tls-cert", cert);
    if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        return tls_fail(err, "--tls-key", key);
    if (SSL_CTX_check_private_key(tls) != 1)
        return err_param(err, STATUS_INVALID, "--tls-key", "--tls-key %s: is not the key of %s",
                         key, cert);
    return secret_file_check(key, SECRET_FILE_PRIVATE, err) ? err_context(err, "--tls-key")
                                                            : STATUS_OK;
}

enum status tls_open(SSL_CTX **out, const char *cert, const char *key, struct err *err)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    bool ok = tls && SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
    enum status st =
        ok ? use_files(tls, cert, key, err) : err_set(err, STATUS_NO_MEMORY, "no memory for TLS");
    if (st) {
        SSL_CTX_free(tls);
        return st;
    }
    SSL_CTX_set_alpn_select_cb(tls, tls_choose, NULL);
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    /* sessions are resumed by the tickets of clients; 20,000 of those without would be kept here */
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    *out = tls;
    return STATUS_OK;
}

static bool sign(EVP_PKEY *key)
{
    static const unsigned char text[130]; /* as long as what TLS 1.3 signs */
    unsigned char signature[1024];        /* of RSA with 8,192 bits */
    size_t len = sizeof signature;
    int id = EVP_PKEY_get_id(key);
    const EVP_MD *digest = id == EVP_PKEY_ED25519 || id == EVP_PKEY_ED448 ? NULL : EVP_sha256();
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    bool done = c && EVP_DigestSignInit(c, NULL, digest, NULL, key) == 1 &&
                EVP_DigestSign(c, signature, &len, text, sizeof text) == 1;
    EVP_MD_CTX_free(c);
    ERR_clear_error();
    return done;
}

int64_t tls_handshake_us(SSL_CTX *tls)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t before = clock_now_us();
        if (!sign(SSL_CTX_get0_privatekey(tls)))
            break;
        int64_t us = clock_now_us() - before;
        least = us < least ? us : least;
    }
    return EXCHANGE_US + (least < INT64_MAX ? least : 0);
}

void tls_close(SSL_CTX *tls)
{
    SSL_CTX_free(tls);
}
