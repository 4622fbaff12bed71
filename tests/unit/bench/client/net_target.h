/* A target over a network and one request of it, for tests of each protocol: what they do with it
 * and what they ask of its record. The scripted servers are their own. */
#ifndef FIRSTLIGHT_TESTS_UNIT_BENCH_CLIENT_NET_TARGET_H
#define FIRSTLIGHT_TESTS_UNIT_BENCH_CLIENT_NET_TARGET_H

#include "base/clock.h"
#include "bench/client/target_open.h"
#include "bench/load/target.h"
#include "unit/bench/bench_file.h"

static const struct work_item completion = {
    .prompt = (char *)"say \"a\"", .max_tokens = 5, .stream = true};

static struct target *target; /* NULL: closed */
static struct record record;

static inline void open_target(struct http_options o)
{
    struct err e = {0};
    if (target_open_url(&target, &o, &e))
        fail_msg("%s", e.text);
}

static inline void close_target(void)
{
    if (target)
        target->ops->close(target);
    target = NULL;
}

static inline void poll_once(void)
{
    target->ops->poll(target, clock_now_us() + 1000000);
}

static inline void until_ended(struct record *r)
{
    while (r->state == RECORD_RUNNING)
        poll_once();
}

static inline void until_chunks(uint32_t n)
{
    while (record.n_chunks < n)
        poll_once();
}

static inline void send_to(struct record *r, struct work_item item)
{
    target->ops->send(target, &item, r);
}

/* One request after another, up to its end. */
static inline void ask_again(struct work_item item)
{
    record_fini(&record);
    send_to(&record, item);
    until_ended(&record);
}

static inline void check_stamps(void)
{
    int64_t last = record.accepted_us;
    assert_true(record.sent_us > 0 && record.sent_us <= last);
    assert_int_equal(record.first_us, record.n_chunks > 0 ? record.chunk_us[0] : 0);
    for (uint32_t i = 0; i < record.n_chunks; i++) {
        assert_true(record.chunk_us[i] >= last);
        last = record.chunk_us[i];
    }
    assert_true(record.end_us >= last);
}

/* Of a server that passes a gate before each of two chunks, and then says everything there is. */
static inline void check_gated_stream(void (*open_gate)(void))
{
    send_to(&record, completion);
    while (record.accepted_us == 0)
        poll_once();
    int64_t gate1 = clock_now_us();
    open_gate();
    until_chunks(1);
    int64_t gate2 = clock_now_us();
    open_gate();
    until_ended(&record);

    assert_string_equal(record.error, "");
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.http_status, 200);
    assert_int_equal(record.n_chunks, 2);
    check_stamps();
    assert_true(record.first_us >= gate1 && record.first_us <= gate2);
    assert_true(record.chunk_us[1] >= gate2);
    assert_int_equal(record.prompt_tokens, 9);
    assert_int_equal(record.completion_tokens, 5);
    assert_int_equal(record.cached_tokens, 4);
    assert_string_equal(record.finish, "length");
    assert_true(record.has_ttft);
    assert_int_equal(record.ttft.queue_us, 400);
    assert_true(record.server_ttft_ms == 2.8 && record.server_queue_ms == 0.4);
}

/* What a row of `failures` expects of a request that failed. */
struct failure {
    uint32_t n_chunks;
    int http_status;
    const char *says;
};

static inline void check_failed(size_t row, struct failure f)
{
    if (record.state != RECORD_FAILED || !strstr(record.error, f.says))
        fail_msg("%zu: \"%s\" is not in \"%s\"", row, f.says, record.error);
    assert_int_equal(record.n_chunks, f.n_chunks);
    assert_int_equal(record.completion_tokens, f.n_chunks);
    assert_int_equal(record.http_status, f.http_status);
    assert_true(record.end_us >= record.sent_us && record.sent_us > 0);
}

/* Of a target with a timeout of one second, and a server that sends one chunk and no end. */
static inline void check_timeout(int64_t least_us)
{
    send_to(&record, completion);
    until_ended(&record);
    assert_int_equal(record.state, RECORD_FAILED);
    assert_string_equal(record.error, "no end within 1 s: 1 chunks had come");
    assert_true(record.end_us - record.sent_us >= least_us);
}

/* Of a server that sends one chunk and no end, and answers a second request. */
static inline void check_cancel(void)
{
    send_to(&record, completion);
    until_chunks(1);
    target->ops->cancel(target, &record);
    target->ops->cancel(target, &record);
    assert_int_equal(record.state, RECORD_RUNNING);
    poll_once();
    assert_int_equal(record.state, RECORD_CANCELLED);
    assert_int_equal(record.n_chunks, 1);
    check_stamps();
    target->ops->cancel(target, &record); /* too late: changes nothing */
    ask_again(completion);
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.n_chunks, 1);
}

/* A file of keys; the path is to be unlinked. */
static inline const char *write_key(const char *text)
{
    assert_int_equal(bench_file_make(NULL), 0);
    bench_file_write(text, strlen(text));
    return bench_file;
}

#endif
