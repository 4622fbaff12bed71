#include "bench/client/net_call.h"

void net_call_begin(struct net_call *c, struct record *r, bool stream)
{
    c->record = r;
    c->stream = stream;
    c->cancelled = c->refused = false;
    c->last_us = 0;
    openai_chunk_init(&c->heard);
    r->state = RECORD_RUNNING;
    r->user = c;
}

void net_call_end(struct net_call *c, enum record_state state, int64_t at_us, const char *why)
{
    struct record *r = c->record;
    openai_chunk_tell(&c->heard, r);
    r->user = NULL;
    c->record = NULL;
    record_end(r, state, at_us, why);
}

enum status net_call_stamp(struct net_call *c, struct err *err)
{
    if (c->heard.content && !record_chunk(c->record, c->last_us))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the stamps of a request");
    return STATUS_OK;
}

enum status net_call_broke_off(const struct net_call *c, const char *why, struct err *err)
{
    if (c->record->accepted_us == 0)
        return err_set(err, STATUS_UNAVAILABLE, "no answer: %s", why);
    return err_set(err, STATUS_UNAVAILABLE, "the answer broke off after %u chunks: %s",
                   c->record->n_chunks, why);
}
