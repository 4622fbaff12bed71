#include "bench/client/grpc_frames.h"

#include "base/limits.h"

void grpc_frames_init(struct grpc_frames *f,
                      enum status (*message)(void *arg, const char *bytes, size_t len,
                                             struct err *err),
                      void *arg)
{
    *f = (struct grpc_frames){.message = message, .arg = arg};
}

void grpc_frames_reset(struct grpc_frames *f)
{
    buf_clear(&f->part);
}

void grpc_frames_fini(struct grpc_frames *f)
{
    buf_fini(&f->part);
}

bool grpc_frames_is_cut(const struct grpc_frames *f)
{
    return f->part.len > 0;
}

void grpc_frames_put_head(char *at, size_t len)
{
    at[0] = 0;
    for (int i = 1; i < GRPC_FRAMES_HEAD; i++)
        at[i] = (char)(len >> (8 * (GRPC_FRAMES_HEAD - 1 - i)));
}

static enum status read_head(const char *head, size_t *len, struct err *err)
{
    unsigned flag = (unsigned char)head[0];
    *len = 0;
    for (int i = 1; i < GRPC_FRAMES_HEAD; i++)
        *len = *len << 8 | (unsigned char)head[i];
    if (flag == 1)
        return err_set(err, STATUS_INVALID,
                       "malformed answer: a compressed message, which was "
                       "not asked for");
    if (flag > 1)
        return err_set(err, STATUS_INVALID,
                       "malformed answer: a message begins with 0 or 1, found %u", flag);
    if (*len > LIMIT_ANSWER_BYTES)
        return err_set(err, STATUS_INVALID, "the answer has a message of %zu bytes, more than %u",
                       *len, LIMIT_ANSWER_BYTES);
    return STATUS_OK;
}

/* Messages that are whole in the bytes are not copied; *took: how many of them that were. */
static enum status grpc_frames_take_whole(struct grpc_frames *f, const char *bytes, size_t len,
                                          size_t *took, struct err *err)
{
    enum status st = STATUS_OK;
    for (*took = 0; len - *took >= GRPC_FRAMES_HEAD && st == STATUS_OK;) {
        size_t size, left = len - *took;
        st = read_head(bytes + *took, &size, err);
        if (st || left - GRPC_FRAMES_HEAD < size)
            break;
        st = f->message(f->arg, bytes + *took + GRPC_FRAMES_HEAD, size, err);
        *took += GRPC_FRAMES_HEAD + size;
    }
    return st;
}

static enum status grpc_frames_append(struct grpc_frames *f, const char *bytes, size_t len,
                                      struct err *err)
{
    if (buf_append(&f->part, bytes, len))
        return STATUS_OK;
    return err_set(err, STATUS_NO_MEMORY, "no memory for a message of the answer");
}

/* Adds of the bytes what is missing until the part has `need`; *took moves past them. */
static enum status fill_up(struct grpc_frames *f, size_t need, const char *bytes, size_t len,
                           size_t *took, struct err *err)
{
    size_t missing = need > f->part.len ? need - f->part.len : 0;
    size_t more = missing < len - *took ? missing : len - *took;
    enum status st = grpc_frames_append(f, bytes + *took, more, err);
    *took += more;
    return st;
}

/* Fills up the message that was begun; *took: how many of the bytes that took. */
static enum status take_rest(struct grpc_frames *f, const char *bytes, size_t len, size_t *took,
                             struct err *err)
{
    size_t size;
    *took = 0;
    enum status st = fill_up(f, GRPC_FRAMES_HEAD, bytes, len, took, err);
    if (st || f->part.len < GRPC_FRAMES_HEAD)
        return st;
    st = read_head(f->part.data, &size, err);
    if (st == STATUS_OK)
        st = fill_up(f, GRPC_FRAMES_HEAD + size, bytes, len, took, err);
    if (st || f->part.len < GRPC_FRAMES_HEAD + size)
        return st;
    st = f->message(f->arg, f->part.data + GRPC_FRAMES_HEAD, size, err);
    buf_clear(&f->part);
    return st;
}

enum status grpc_frames_feed(struct grpc_frames *f, const char *bytes, size_t len, struct err *err)
{
    size_t took = 0;
    enum status st = STATUS_OK;
    if (f->part.len > 0) {
        st = take_rest(f, bytes, len, &took, err);
        bytes += took;
        len -= took;
    }
    if (st || f->part.len > 0)
        return st;
    st = grpc_frames_take_whole(f, bytes, len, &took, err);
    if (st == STATUS_OK && took < len)
        st = grpc_frames_append(f, bytes + took, len - took, err);
    return st;
}
