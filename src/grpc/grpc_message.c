/* Messages in and out, statuses, deadlines: what every method of gRPC uses. */
#include "grpc/grpc.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Statuses */

/* Percent-encoding as the specification has it for grpc-message: all but printable ASCII. */
static void grpc_message_put_escaped(struct buf *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < ' ' || c > '~' || c == '%')
            buf_printf(out, "%%%02X", c);
        else
            buf_putc(out, (char)c);
    }
}

typedef void add_field(struct http_exchange *x, const char *name, const char *value);

static void add_status(struct http_exchange *x, add_field *add, const struct err *e)
{
    char code[12];
    struct buf text = {0};
    snprintf(code, sizeof code, "%d", e ? status_grpc(e->code) : 0);
    add(x, "grpc-status", code);
    if (e) {
        grpc_message_put_escaped(&text, e->text);
        add(x, "grpc-message", buf_str(&text));
    }
    buf_fini(&text);
}

/* Only headers, whose last are the status. The log and the metrics know errors by HTTP's. */
void grpc_fail(struct http_exchange *x, const struct err *err)
{
    add_status(x, http_add_trailer, err);
    http_reply(x, 200, GRPC_TYPE, NULL, 0);
    x->status = status_http(err->code);
}

void grpc_stream(struct http_exchange *x)
{
    http_add_header(x, "grpc-accept-encoding", GRPC_ENCODINGS);
    http_stream_start(x, GRPC_TYPE);
}

void grpc_write(struct http_exchange *x, const ProtobufCMessage *message)
{
    struct buf out = {0};
    struct err e;
    grpc_put(&out, message);
    if (out.failed) {
        err_set(&e, STATUS_NO_MEMORY, "no memory for the answer");
        grpc_end(x, &e);
    } else {
        http_stream_write(x, buf_str(&out), out.len);
    }
    buf_fini(&out);
}

void grpc_end(struct http_exchange *x, const struct err *broken)
{
    add_status(x, http_add_trailer, broken);
    http_stream_end(x, broken != NULL);
}

/* Messages */

static void put_length(char *at, size_t len)
{
    const unsigned char bytes[] = {0, (unsigned char)(len >> 24), (unsigned char)(len >> 16),
                                   (unsigned char)(len >> 8), (unsigned char)len};
    memcpy(at, bytes, sizeof bytes);
}

void grpc_put_bare(struct buf *out, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    if (!buf_reserve(out, len))
        return;
    protobuf_c_message_pack(message, (uint8_t *)out->data + out->len);
    out->len += len;
    out->data[out->len] = '\0';
}

void grpc_put(struct buf *out, const ProtobufCMessage *message)
{
    char frame[GRPC_FRAME_BYTES];
    put_length(frame, protobuf_c_message_get_packed_size(message));
    buf_append(out, frame, sizeof frame);
    grpc_put_bare(out, message);
}

/* whole: with its frame */
static void grpc_message_reply(struct http_exchange *x, const struct buf *whole)
{
    struct err e;
    if (whole->failed) {
        err_set(&e, STATUS_NO_MEMORY, "no memory for the answer");
        grpc_fail(x, &e);
        return;
    }
    if (!http_has_room(x, whole->len)) {
        http_no_room_to_send(x, &e);
        http_fail(x, &e, "unsent_memory");
        return;
    }
    http_add_header(x, "grpc-accept-encoding", GRPC_ENCODINGS);
    add_status(x, http_add_trailer, NULL);
    http_reply(x, 200, GRPC_TYPE, buf_str(whole), whole->len);
}

void grpc_reply(struct http_exchange *x, const ProtobufCMessage *message)
{
    struct buf out = {0};
    grpc_put(&out, message);
    grpc_message_reply(x, &out);
    buf_fini(&out);
}

void grpc_reply_packed(struct http_exchange *x, const struct buf *message)
{
    struct buf out = {0};
    char frame[GRPC_FRAME_BYTES];
    put_length(frame, message->len);
    buf_append(&out, frame, sizeof frame);
    buf_append(&out, message->data, message->len);
    grpc_message_reply(x, &out);
    buf_fini(&out);
}

ProtobufCMessage *grpc_take(struct http_exchange *x, struct evbuffer *message,
                            const ProtobufCMessageDescriptor *type)
{
    struct err e;
    size_t len;
    const char *bytes;
    ProtobufCMessage *m = NULL;
    enum status st = http_in_one_piece(message, &bytes, &len, &e);
    if (st == STATUS_OK &&
        !(m = protobuf_c_message_unpack(type, NULL, len, (const uint8_t *)bytes)))
        err_set(&e, STATUS_MALFORMED, "the message is no %s", type->name);
    evbuffer_free(message);
    if (!m)
        grpc_fail(x, &e);
    return m;
}

/* The deadline of a call */

bool grpc_timeout(const char *text, float *seconds)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'H', 3600}, {'M', 60}, {'S', 1}, {'m', 1e-3}, {'u', 1e-6}, {'n', 1e-9}};
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 8 || text[digits] == '\0' || text[digits + 1] != '\0')
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].unit == text[digits]) {
            double s = strtod(text, NULL) * units[i].seconds;
            *seconds = (float)(s > 1e-6 ? s : 1e-6); /* none is 0 */
            return true;
        }
    return false;
}
