/* Cuts the body of a gRPC answer, in whatever pieces it comes, into messages.
 *
 *     0 or 1 (compressed), length (4 bytes, big endian), message; and so on
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_GRPC_FRAMES_H
#define FIRSTLIGHT_BENCH_CLIENT_GRPC_FRAMES_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define GRPC_FRAMES_HEAD 5 /* bytes before a message */

struct grpc_frames {
    /* One message, gone after the call. A failure ends grpc_frames_feed, which passes it on. */
    enum status (*message)(void *arg, const char *bytes, size_t len, struct err *err);
    void *arg;
    struct buf part; /* of a message that is not whole yet, with its head */
};

void grpc_frames_init(struct grpc_frames *f,
                      enum status (*message)(void *arg, const char *bytes, size_t len,
                                             struct err *err),
                      void *arg);
void grpc_frames_reset(struct grpc_frames *f); /* for another answer; keeps the memory */
void grpc_frames_fini(struct grpc_frames *f);

/* STATUS_INVALID: a message of more than LIMIT_ANSWER_BYTES, a compressed one (none was asked for).
 * After a failure only grpc_frames_reset and grpc_frames_fini may follow. */
enum status grpc_frames_feed(struct grpc_frames *f, const char *bytes, size_t len, struct err *err);
bool grpc_frames_is_cut(const struct grpc_frames *f); /* in the middle of a message */

/* Writes the head of a message of len bytes to at[0..GRPC_FRAMES_HEAD). */
void grpc_frames_put_head(char *at, size_t len);

#endif
