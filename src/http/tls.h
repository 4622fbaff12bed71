/* The server's side of TLS: a certificate, and HTTP/2 as the one protocol (ALPN, RFC 7301). */
#ifndef FIRSTLIGHT_HTTP_TLS_H
#define FIRSTLIGHT_HTTP_TLS_H

#include "base/err.h"

#include <openssl/types.h>
#include <stdint.h>

/* PEM files: the certificate with its chain, its key. Errors name the file. TLS 1.2 and later. */
enum status tls_open(SSL_CTX **out, const char *cert, const char *key, struct err *err);
void tls_close(SSL_CTX *tls);

/* Microseconds that a handshake takes here, about: those of one signature with the key, tried. */
int64_t tls_handshake_us(SSL_CTX *tls);

#endif
