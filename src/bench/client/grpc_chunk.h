/* What one message of a gRPC answer says (GenerateResponse of proto/firstlight.proto), beside
 * openai_chunk.h. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_GRPC_CHUNK_H
#define FIRSTLIGHT_BENCH_CLIENT_GRPC_CHUNK_H

#include "bench/client/openai_chunk.h"

/* STATUS_INVALID: the bytes are no such message. */
enum status grpc_chunk_read(struct openai_chunk *c, const char *bytes, size_t len, struct err *err);

#endif
