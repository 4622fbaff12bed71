/* gRPC over an exchange of HTTP/2 ("gRPC over HTTP2", the protocol's specification): which method
 * is called, messages in and out, statuses. Private to grpc*.c but for grpc_rpc.
 *
 *     body     flag (0, 1: compressed), length (4 bytes, big endian), message; and so on
 *     status   grpc-status and grpc-message after the body, or in the only headers
 */
#ifndef FIRSTLIGHT_GRPC_GRPC_H
#define FIRSTLIGHT_GRPC_GRPC_H

#include "api/server_state.h"
#include "base/buf.h"

#include <protobuf-c/protobuf-c.h>

#define GRPC_TYPE        "application/grpc"
#define GRPC_ENCODINGS   "identity,gzip"
#define GRPC_FRAME_BYTES 5

#define GRPC_HEALTH_CHECK "/grpc.health.v1.Health/Check"

/* One message has come whole. The method takes it over and answers, now or later. */
typedef void grpc_method(struct server *s, struct http_exchange *x, struct evbuffer *message);

struct grpc_route {
    const char *path; /* "/package.Service/Method" */
    bool needs_key;
    bool many; /* the client sends messages while it likes, and ends the call */
    grpc_method *method;
};

/* Of HTTP/2: requests are of gRPC or those of routes_dispatch. */
void grpc_dispatch(void *server, struct http_exchange *x);
/* For the server. */
extern const struct server_rpc grpc_rpc;

extern const struct grpc_route grpc_inference_routes[]; /* path NULL ends each */
extern const struct grpc_route grpc_health_routes[];
extern const struct grpc_route grpc_reflection_routes[];

/* Appends the message with its frame, or without. */
void grpc_put(struct buf *out, const ProtobufCMessage *message);
void grpc_put_bare(struct buf *out, const ProtobufCMessage *message);
/* Reads a message and frees its bytes. Free with protobuf_c_message_free_unpacked. NULL: what came
 * is none, and the call was answered with that. */
ProtobufCMessage *grpc_take(struct http_exchange *x, struct evbuffer *message,
                            const ProtobufCMessageDescriptor *type);
/* The one message of an answer, and its good end. */
void grpc_reply(struct http_exchange *x, const ProtobufCMessage *message);
/* The same of one that is packed already. */
void grpc_reply_packed(struct http_exchange *x, const struct buf *message);
/* One of several: a stream of messages; grpc_end ends it. */
void grpc_stream(struct http_exchange *x);
/* Writes one of them; without memory for it the stream ends with that. */
void grpc_write(struct http_exchange *x, const ProtobufCMessage *message);
/* The end of a stream; NULL: a good one. */
void grpc_end(struct http_exchange *x, const struct err *broken);
/* An answer that is an error (http_fail comes here too). */
void grpc_fail(struct http_exchange *x, const struct err *err);

/* Inflates what gzip made, in place, to at most so many bytes. Frees the message when it fails. */
enum status grpc_inflate(struct evbuffer **message, size_t most, struct err *err);
/* Calls the method with what the message inflates to, now or after a text worker had it; or fails
 * the call. */
void grpc_inflate_for(struct server *s, struct http_exchange *x, struct evbuffer *message,
                      grpc_method *method);

/* The value of grpc-timeout in seconds: up to eight digits and a unit of H, M, S, m, u, n. False:
 * not one. */
bool grpc_timeout(const char *text, float *seconds);

/* Generate and Chat: questions and answers as calls have them. */
extern const struct wire_format grpc_response_format;
enum status grpc_request_read(struct openai_request *out, const struct api_kind *kind,
                              const char *bytes, size_t len, struct err *err);

#endif
