/* grpc.reflection.v1 and v1alpha, whose messages are the same on the wire: what there is to call,
 * for clients that were not built with proto/. */
#include "grpc/grpc.h"

#include <event2/buffer.h>
#include <proto/grpc/reflection/v1/reflection.pb-c.h>
#include <string.h>

#define METHOD(version) "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo"

/* A FileDescriptorSet (google/protobuf/descriptor.proto) of all of proto/, which the Makefile
 * makes this file depend on. */
__asm__(".section .rodata\n"
        "grpc_descriptors_begin: .incbin \"build/proto/descriptors.bin\"\n"
        "grpc_descriptors_end: .byte 0\n"
        ".previous\n");
extern const uint8_t grpc_descriptors_begin[] __attribute__((visibility("hidden")));
extern const uint8_t grpc_descriptors_end[] __attribute__((visibility("hidden")));

typedef Grpc__Reflection__V1__ServerReflectionRequest question;
typedef Grpc__Reflection__V1__ServerReflectionResponse answer;

/* Fields of a message, one after the other. Only what descriptors are made of: lengths and varints
 * (the set is our own compiler's, so nothing is checked beyond its end). */
struct field {
    uint32_t number;
    const uint8_t *bytes; /* NULL: a number */
    size_t len;
};

static uint64_t varint(const uint8_t **at, const uint8_t *end)
{
    uint64_t value = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return value;
}

static bool next_field(const uint8_t **at, const uint8_t *end, struct field *f)
{
    if (*at >= end)
        return false;
    uint64_t key = varint(at, end), value = varint(at, end);
    *f = (struct field){.number = (uint32_t)(key >> 3)};
    if ((key & 7) == 2) {
        f->bytes = *at;
        f->len = value < (uint64_t)(end - *at) ? (size_t)value : (size_t)(end - *at);
        *at += f->len;
    }
    return true;
}

/* Of descriptor.proto */
enum { SET_FILE = 1 };
enum { FILE_NAME = 1, FILE_PACKAGE = 2, FILE_MESSAGE = 4, FILE_ENUM = 5, FILE_SERVICE = 6 };
enum { ANY_NAME = 1 };
enum { MESSAGE_NESTED = 3, MESSAGE_ENUM = 4, SERVICE_METHOD = 2 };

static bool is_text(const struct field *f, const char *text, size_t len)
{
    return f->len == len && memcmp(f->bytes, text, len) == 0;
}

static struct field find_field(const struct field *in, uint32_t number)
{
    const uint8_t *at = in->bytes, *end = in->bytes + in->len;
    struct field f;
    while (next_field(&at, end, &f))
        if (f.number == number)
            return f;
    return (struct field){0};
}

/* Does something named in `in`, or something inside it, have the rest of a symbol? Depth: nested
 * messages, of which ours have one. */
static bool has_symbol(const struct field *in, const char *rest, int depth)
{
    struct field name = find_field(in, ANY_NAME), f;
    size_t len = strcspn(rest, ".");
    if (!is_text(&name, rest, len))
        return false;
    if (rest[len] == '\0')
        return true;
    const uint8_t *at = in->bytes, *end = in->bytes + in->len;
    while (depth > 0 && next_field(&at, end, &f))
        if (f.bytes &&
            (f.number == SERVICE_METHOD || f.number == MESSAGE_NESTED ||
             f.number == MESSAGE_ENUM) &&
            has_symbol(&f, rest + len + 1, depth - 1))
            return true;
    return false;
}

static bool defines(const struct field *file, const char *symbol)
{
    struct field package = find_field(file, FILE_PACKAGE), f;
    const uint8_t *at = file->bytes, *end = file->bytes + file->len;
    if (strncmp(symbol, (const char *)package.bytes, package.len) != 0 ||
        symbol[package.len] != '.')
        return false;
    while (next_field(&at, end, &f))
        if ((f.number == FILE_MESSAGE || f.number == FILE_ENUM || f.number == FILE_SERVICE) &&
            has_symbol(&f, symbol + package.len + 1, 2))
            return true;
    return false;
}

static bool find_file(const char *name, const char *symbol, struct field *out)
{
    const uint8_t *at = grpc_descriptors_begin;
    while (next_field(&at, grpc_descriptors_end, out)) {
        struct field own = find_field(out, FILE_NAME);
        if (name ? is_text(&own, name, strlen(name)) : defines(out, symbol))
            return true;
    }
    return false;
}

static void grpc_reflection_put(struct http_exchange *x, const answer *a)
{
    grpc_write(x, &a->base);
}

static void grpc_reflection_fail(struct http_exchange *x, answer *a, enum status code,
                                 const char *text)
{
    Grpc__Reflection__V1__ErrorResponse e = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    e.error_code = status_grpc(code);
    e.error_message = (char *)(uintptr_t)text;
    a->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    a->error_response = &e;
    grpc_reflection_put(x, a);
}

static void put_file(struct http_exchange *x, answer *a, const char *name, const char *symbol)
{
    Grpc__Reflection__V1__FileDescriptorResponse r =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    ProtobufCBinaryData bytes;
    struct field file;
    if (!find_file(name, symbol, &file)) {
        grpc_reflection_fail(x, a, STATUS_NOT_FOUND, name ? "no such file" : "no such symbol");
        return;
    }
    bytes = (ProtobufCBinaryData){file.len, (uint8_t *)(uintptr_t)file.bytes};
    r.n_file_descriptor_proto = 1;
    r.file_descriptor_proto = &bytes;
    a->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    a->file_descriptor_response = &r;
    grpc_reflection_put(x, a);
}

static void put_services(struct http_exchange *x, answer *a)
{
    static const char *const names[] = {"firstlight.v1.Inference", "grpc.health.v1.Health",
                                        "grpc.reflection.v1.ServerReflection",
                                        "grpc.reflection.v1alpha.ServerReflection"};
    enum { N = sizeof names / sizeof *names };
    Grpc__Reflection__V1__ServiceResponse services[N], *list[N];
    Grpc__Reflection__V1__ListServiceResponse r = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    for (size_t i = 0; i < N; i++) {
        grpc__reflection__v1__service_response__init(&services[i]);
        services[i].name = (char *)(uintptr_t)names[i];
        list[i] = &services[i];
    }
    r.n_service = N;
    r.service = list;
    a->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    a->list_services_response = &r;
    grpc_reflection_put(x, a);
}

static void grpc_reflection_reply(struct http_exchange *x, question *q)
{
    answer a = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    a.valid_host = q->host;
    a.original_request = q;
    switch (q->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        put_file(x, &a, q->file_by_filename, NULL);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        put_file(x, &a, NULL, q->file_containing_symbol);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        put_services(x, &a);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__NOT_SET:
        grpc_reflection_fail(x, &a, STATUS_INVALID, "nothing was asked");
        break;
    default: /* extensions: there are none */
        grpc_reflection_fail(x, &a, STATUS_NOT_FOUND, "there are no extensions");
    }
}

static void reflect(struct server *s, struct http_exchange *x, struct evbuffer *message)
{
    (void)s;
    struct err e;
    size_t len;
    const char *bytes;
    if (http_in_one_piece(message, &bytes, &len, &e)) {
        evbuffer_free(message);
        grpc_end(x, &e);
        return;
    }
    question *q =
        grpc__reflection__v1__server_reflection_request__unpack(NULL, len, (const uint8_t *)bytes);
    answer a = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    evbuffer_free(message);
    if (!q) {
        grpc_reflection_fail(x, &a, STATUS_INVALID, "the message is no ServerReflectionRequest");
        return;
    }
    grpc_reflection_reply(x, q);
    grpc__reflection__v1__server_reflection_request__free_unpacked(q, NULL);
}

const struct grpc_route grpc_reflection_routes[] = {
    {METHOD("v1"), false, true, reflect},
    {METHOD("v1alpha"), false, true, reflect},
    {0},
};
