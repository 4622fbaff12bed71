/* Questions of gRPC as those of the OpenAI API: fields become JSON of the same names, which
 * openai_request_read checks, so that there is one place that knows what may be asked. */
#include "grpc/grpc.h"

#include "api/api_kind.h"
#include "base/json.h"
#include "base/json_memory.h"
#include "base/limits.h"
#include "base/mem.h"

#include <inttypes.h>
#include <proto/firstlight.pb-c.h>
#include <stdio.h>

static json_t *message_json(const ProtobufCMessage *m);

/* What an unpacked message may take. A field of two bytes takes a hundred, so this is bounded while
 * it is unpacked. */
struct room {
    size_t left;
    bool passed, no_memory;
};

static void *grpc_request_take(void *arg, size_t size)
{
    struct room *r = arg;
    void *p = NULL;
    r->passed |= size > r->left;
    if (!r->passed) {
        r->left -= size;
        p = mem_alloc(size);
        r->no_memory |= !p;
    }
    return p;
}

static void grpc_request_give_back(void *arg, void *p)
{
    (void)arg;
    mem_free(p);
}

static void count_field(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                        struct json_count *n);

static void grpc_request_count_message(const ProtobufCMessage *m, struct json_count *n)
{
    n->containers++;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        count_field(m, &m->descriptor->fields[i], n);
}

/* The values that a field becomes, and its name. */
static void count_field(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                        struct json_count *n)
{
    const void *at = (const char *)m + f->offset;
    const void *quantifier = (const char *)m + f->quantifier_offset;
    bool many = f->label == PROTOBUF_C_LABEL_REPEATED;
    size_t values = many ? *(const size_t *)quantifier : 1;
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) && *(const uint32_t *)quantifier != f->id)
        return; /* another field lies there */
    n->strings++;
    n->containers += many;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        ProtobufCMessage *const *all = many ? *(ProtobufCMessage *const *const *)at : at;
        for (size_t i = 0; i < values; i++)
            if (all[i])
                grpc_request_count_message(all[i], n);
    } else if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_BYTES) {
        n->strings += values;
    } else {
        n->numbers += values;
    }
}

static enum status unpack(ProtobufCMessage **out, ProtobufCAllocator *allocator,
                          const ProtobufCMessageDescriptor *type, const char *bytes, size_t len,
                          struct err *err)
{
    const struct room *r = allocator->allocator_data;
    struct json_count n = {0};
    *out = protobuf_c_message_unpack(type, allocator, len, (const uint8_t *)bytes);
    if (r->passed)
        return err_set(err, STATUS_TOO_LARGE,
                       "the message has too many fields: it takes more than "
                       "%u bytes",
                       LIMIT_QUESTION_BYTES);
    if (r->no_memory)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the request");
    if (!*out)
        return err_set(err, STATUS_MALFORMED, "the message is no %s", type->name);
    grpc_request_count_message(*out, &n);
    return json_count_check(&n, err);
}

/* One value; NULL: no memory, or no UTF-8. */
static json_t *grpc_request_value_json(const ProtobufCFieldDescriptor *f, const void *at)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
        return json_integer(*(const int32_t *)at);
    case PROTOBUF_C_TYPE_INT64:
        return json_integer(*(const int64_t *)at);
    case PROTOBUF_C_TYPE_UINT32:
        return json_integer(*(const uint32_t *)at);
    case PROTOBUF_C_TYPE_FLOAT:
        return json_real(*(const float *)at); /* NULL when it is not finite */
    case PROTOBUF_C_TYPE_BOOL:
        return json_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_STRING:
        return json_string(*(char *const *)at);
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *text = at;
        return json_stringn(text->data ? (const char *)text->data : "", text->len);
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_json(*(ProtobufCMessage *const *)at);
    default:
        return NULL; /* no other type is in a question */
    }
}

static size_t value_size(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
        return sizeof(int64_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return sizeof(uint32_t);
    }
}

/* map<int32, float>: an object. */
static json_t *bias_json(Firstlight__V1__Sampling__LogitBiasEntry *const *entries, size_t n)
{
    json_t *o = json_object();
    for (size_t i = 0; i < n && o; i++) {
        char key[12];
        snprintf(key, sizeof key, "%" PRId32, entries[i]->key);
        if (json_object_set_new(o, key, json_real(entries[i]->value))) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

static json_t *repeated_json(const ProtobufCFieldDescriptor *f, const void *values, size_t n)
{
    if (f->descriptor == &firstlight__v1__sampling__logit_bias_entry__descriptor)
        return bias_json(values, n);
    json_t *array = json_array();
    for (size_t i = 0; i < n && array; i++)
        if (json_array_append_new(
                array, grpc_request_value_json(f, (const char *)values + i * value_size(f)))) {
            json_decref(array);
            return NULL;
        }
    return array;
}

/* The field's value, if it was given: *json; false: it was not. */
static bool field_json(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, json_t **json)
{
    const char *at = (const char *)m + f->offset;
    const void *quantifier = (const char *)m + f->quantifier_offset;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t n = *(const size_t *)quantifier;
        if (n > 0)
            *json = repeated_json(f, *(void *const *)at, n);
        return n > 0;
    }
    bool given = f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE
                     ? *(void *const *)at != NULL
                     : *(const protobuf_c_boolean *)quantifier;
    if (given)
        *json = grpc_request_value_json(f, at);
    return given;
}

/* Adds what was given of a message to an object. */
static enum status add_fields(json_t *o, const ProtobufCMessage *m, struct err *err)
{
    for (unsigned i = 0; m && i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        json_t *value = NULL;
        if (field_json(m, f, &value) && json_object_set_new(o, f->name, value))
            return err_param(err, STATUS_INVALID, f->name,
                             "%s: texts must be UTF-8 and numbers finite", f->name);
    }
    return STATUS_OK;
}

static json_t *message_json(const ProtobufCMessage *m)
{
    json_t *o = json_object();
    if (o && add_fields(o, m, NULL)) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* A completion's `logprobs` is the number of alternatives, a chat's asks for them. */
static void logprobs_as_number(json_t *o)
{
    json_t *top = json_object_get(o, "top_logprobs");
    if (json_is_true(json_object_get(o, "logprobs")))
        json_object_set_new(o, "logprobs", top ? json_incref(top) : json_integer(0));
    json_object_del(o, "top_logprobs");
}

static enum status read_generate(json_t *o, const ProtobufCMessage *message, struct err *err)
{
    const Firstlight__V1__GenerateRequest *m = (const void *)message;
    enum status st = add_fields(o, (const ProtobufCMessage *)m->sampling, err);
    logprobs_as_number(o);
    if (st == STATUS_OK)
        st = add_fields(o, (const ProtobufCMessage *)m->service, err);
    if (st)
        return st;
    json_t *prompt = NULL;
    if (m->input_case == FIRSTLIGHT__V1__GENERATE_REQUEST__INPUT_PROMPT)
        prompt = json_stringn(m->prompt.data ? (char *)m->prompt.data : "", m->prompt.len);
    else if (m->input_case == FIRSTLIGHT__V1__GENERATE_REQUEST__INPUT_TOKENS) {
        prompt = json_array();
        for (size_t i = 0; i < m->tokens->n_ids && prompt; i++)
            json_array_append_new(prompt, json_integer(m->tokens->ids[i]));
    } else
        return err_param(err, STATUS_INVALID, "prompt", "prompt: must be given, or tokens");
    if (m->has_echo)
        json_object_set_new(o, "echo", json_boolean(m->echo));
    if (json_object_set_new(o, "prompt", prompt))
        return err_param(err, STATUS_INVALID, "prompt", "prompt: must be UTF-8");
    return STATUS_OK;
}

static enum status read_chat(json_t *o, const ProtobufCMessage *message, struct err *err)
{
    const Firstlight__V1__ChatRequest *m = (const void *)message;
    if (m->n_messages > LIMIT_MESSAGES) /* before they take a hundred times their room as JSON */
        return err_param(err, STATUS_INVALID, "messages",
                         "messages: must be an array of 1 to %d messages, found %zu",
                         LIMIT_MESSAGES, m->n_messages);
    enum status st = add_fields(o, message, err);
    json_object_del(o, "sampling"); /* their fields stand beside the messages */
    json_object_del(o, "service");
    if (st == STATUS_OK)
        st = add_fields(o, (const ProtobufCMessage *)m->sampling, err);
    return st ? st : add_fields(o, (const ProtobufCMessage *)m->service, err);
}

struct making {
    const struct api_kind *kind;
    const ProtobufCMessage *message;
    json_t *json;
    enum status status;
    struct err *err;
};

static void make_json(void *arg)
{
    struct making *q = arg;
    q->json = json_object();
    q->status = q->kind->chat_template ? read_chat(q->json, q->message, q->err)
                                       : read_generate(q->json, q->message, q->err);
}

enum status grpc_request_read(struct openai_request *out, const struct api_kind *kind,
                              const char *bytes, size_t len, struct err *err)
{
    const ProtobufCMessageDescriptor *type = kind->chat_template
                                                 ? &firstlight__v1__chat_request__descriptor
                                                 : &firstlight__v1__generate_request__descriptor;
    struct room room = {.left = LIMIT_QUESTION_BYTES};
    ProtobufCAllocator allocator = {grpc_request_take, grpc_request_give_back, &room};
    ProtobufCMessage *m;
    enum status st = unpack(&m, &allocator, type, bytes, len, err);
    struct making making = {.kind = kind, .message = m, .err = err};
    if (st == STATUS_OK && !json_memory_try(make_json, &making))
        st = err_set(err, STATUS_NO_MEMORY, "no memory for the request");
    if (m)
        protobuf_c_message_free_unpacked(m, &allocator);
    if (st)
        return st;
    if (making.status == STATUS_OK)
        return openai_request_read(out, kind, making.json, err);
    json_decref(making.json);
    return making.status;
}
