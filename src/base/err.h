/* Errors: one list of codes, one carrier for the text.
 *
 * Every function that can fail returns `enum status` and takes a `struct err *` last. On success it
 * returns STATUS_OK and leaves *err alone. On failure it fills *err once, at the place that knows
 * the name of the thing, what was expected and what was found; callers pass the status up and may
 * prefix the text with err_context. Nothing below cli/ exits or prints.
 *
 * Three kinds, never mixed: bad input (the caller's fault), resources exhausted (try again later),
 * broken invariant (REQUIRE: abort with the state, also in release builds).
 */
#ifndef FIRSTLIGHT_BASE_ERR_H
#define FIRSTLIGHT_BASE_ERR_H

#include <stddef.h>

/* code, name on the wire (OpenAI's `type`), HTTP status, gRPC status */
#define STATUS_MAP(X)                                                                              \
    X(OK, "ok", 200, 0)                                                                            \
    X(INVALID, "invalid_request_error", 400, 3)                                                    \
    X(MALFORMED, "invalid_request_error", 400, 13) /* not as its protocol has it */                \
    X(UNAUTHENTICATED, "authentication_error", 401, 16)                                            \
    X(FORBIDDEN, "permission_error", 403, 7)                                                       \
    X(NOT_FOUND, "not_found_error", 404, 5)                                                        \
    X(METHOD_NOT_ALLOWED, "method_not_allowed_error", 405, 12)                                     \
    X(TIMEOUT, "timeout_error", 408, 4)                                                            \
    X(TOO_LARGE, "request_too_large_error", 413, 8)                                                \
    X(OVERLOADED, "rate_limit_error", 429, 8)                                                      \
    X(CANCELLED, "cancelled", 499, 1)                                                              \
    X(INTERNAL, "server_error", 500, 13)                                                           \
    X(UNSUPPORTED, "unsupported_error", 501, 12)                                                   \
    X(UNAVAILABLE, "service_unavailable_error", 503, 14)                                           \
    X(NO_MEMORY, "out_of_memory_error", 503, 8)                                                    \
    X(IO, "io_error", 500, 13)

enum status {
#define X(code, name, http, grpc) STATUS_##code,
    STATUS_MAP(X)
#undef X
};

struct err {
    enum status code;
    char param[64]; /* the field, flag, tensor or key at fault; "" when there is none */
    char text[512];
};

/* Fills *e (which may be NULL) and returns `code`, so that callers write `return err_set(...)`. */
enum status err_set(struct err *e, enum status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Like err_set, naming the parameter at fault. */
enum status err_param(struct err *e, enum status code, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "what: " in front of the text already in *e. Returns e->code. */
enum status err_context(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *status_name(enum status code);
int status_http(enum status code);
int status_grpc(enum status code);

/* A broken invariant: prints the condition and the place, then aborts. Also in release builds. */
#define REQUIRE(cond) ((cond) ? (void)0 : err_abort(#cond, __FILE__, __LINE__))
void err_abort(const char *cond, const char *file, int line) __attribute__((noreturn));

/* Registers what err_abort waits for before it aborts: `settle` gets the time that it may take, and
 * must take no lock. A process has one; NULL: none. */
typedef void err_settle(int milliseconds);
void err_on_abort(err_settle *settle);

#endif
