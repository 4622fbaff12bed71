/* A target that answers by a script on a clock of its own: load_run against it takes no time and
 * depends on none.
 *
 * The test program defines the clock's functions itself, so the library's are not linked. Time
 * passes only inside the target: a poll moves it to the next event or to its `until`, a send may
 * cost some.
 */
#ifndef FIRSTLIGHT_TESTS_UNIT_BENCH_SCRIPTED_TARGET_H
#define FIRSTLIGHT_TESTS_UNIT_BENCH_SCRIPTED_TARGET_H

#include "support/cmocka_all.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench/load/load.h"

#include <string.h>

#define SCRIPT_START   1000000 /* the clock is never 0: that means "never happened" */
#define SCRIPT_FLIGHTS 1024
#define SCRIPT_POLLS   1000000 /* more than any test needs: it does not sleep but spin */

static int64_t script_now_us = SCRIPT_START;

int64_t clock_now_us(void)
{
    return script_now_us;
}

int64_t clock_now_ns(void)
{
    return script_now_us * 1000;
}

int64_t clock_unix_s(void)
{
    return 0;
}

/* What one request gets: n_chunks, the first after first_us, then one each gap_us; the end end_us
 * after the last. Times in microseconds. */
struct script_answer {
    enum { ANSWER_OK, ANSWER_FAILS, ANSWER_REFUSED, ANSWER_NEVER_ENDS } kind;
    uint32_t n_chunks;
    int64_t first_us, gap_us, end_us;
};

struct script_flight {
    struct record *record;
    struct script_answer answer;
    uint32_t told;   /* chunks so far */
    int64_t next_us; /* of its next event; INT64_MAX: never */
    bool background;
    bool cancelled;
};

struct script {
    struct target base;
    struct script_answer (*answer)(struct script *s, const struct work_item *item);
    void *arg;
    int64_t send_cost_us; /* before sent_us is stamped */
    int64_t take_cost_us; /* of each event, before it is stamped */
    int64_t poll_late_us; /* a poll wakes up so much after what it waited for */
    int64_t stop_at_us;   /* 0: never */
    atomic_bool stop;
    void (*on_poll)(struct script *s); /* may be NULL */

    struct script_flight flights[SCRIPT_FLIGHTS];
    uint32_t n_flights;
    uint32_t n_sent, n_background_sent;
    uint32_t in_flight, max_in_flight; /* background streams do not count */
    uint32_t n_polls, n_cancels;
};

static bool script_is_background(const struct work_item *item)
{
    return item->max_tokens == LOAD_BACKGROUND_TOKENS;
}

static void script_end(struct script *s, struct script_flight *f, enum record_state state,
                       int64_t at_us)
{
    s->in_flight -= !f->background;
    record_end(f->record, state, at_us, state == RECORD_FAILED ? "the script says so" : NULL);
    *f = s->flights[--s->n_flights];
}

static void script_send(struct target *t, const struct work_item *item, struct record *r)
{
    struct script *s = (struct script *)t;
    struct script_answer a = s->answer(s, item);
    assert_int_equal(r->state, RECORD_UNSENT);
    assert_true(script_now_us >= r->due_us);
    assert_true(r->cap_chunks >= (item->stream ? item->max_tokens : 1)); /* allocated before */
    script_now_us += s->send_cost_us;
    r->state = RECORD_RUNNING;
    r->sent_us = script_now_us;
    *(script_is_background(item) ? &s->n_background_sent : &s->n_sent) += 1;
    if (a.kind == ANSWER_REFUSED) {
        record_end(r, RECORD_FAILED, script_now_us, "refused");
        return;
    }
    assert_true(s->n_flights < SCRIPT_FLIGHTS);
    s->in_flight += !script_is_background(item);
    if (s->in_flight > s->max_in_flight)
        s->max_in_flight = s->in_flight;
    s->flights[s->n_flights++] = (struct script_flight){
        .record = r,
        .answer = a,
        .next_us = script_now_us + (a.n_chunks > 0 ? a.first_us : a.end_us),
        .background = script_is_background(item),
    };
}

static void script_event(struct script *s, struct script_flight *f)
{
    const struct script_answer *a = &f->answer;
    int64_t at = f->next_us;
    if (s->take_cost_us > 0)
        at = script_now_us += s->take_cost_us;
    if (f->cancelled) {
        script_end(s, f, RECORD_CANCELLED, at);
    } else if (f->told < a->n_chunks) {
        assert_true(record_chunk(f->record, at));
        f->told++;
        f->next_us = at + (f->told < a->n_chunks ? a->gap_us : a->end_us);
    } else if (a->kind == ANSWER_NEVER_ENDS) {
        f->next_us = INT64_MAX;
    } else {
        script_end(s, f, a->kind == ANSWER_OK ? RECORD_OK : RECORD_FAILED, at);
    }
}

static void script_poll(struct target *t, int64_t until_us)
{
    struct script *s = (struct script *)t;
    int64_t wake = until_us;
    assert_true(++s->n_polls < SCRIPT_POLLS);
    for (uint32_t i = 0; i < s->n_flights; i++)
        if (s->flights[i].next_us < wake)
            wake = s->flights[i].next_us;
    if (wake > script_now_us)
        script_now_us = wake + s->poll_late_us;
    t->woke_us = script_now_us;
    for (uint32_t i = 0; i < s->n_flights;)
        if (s->flights[i].next_us > script_now_us)
            i++;
        else
            script_event(s, &s->flights[i]); /* its place may be another's then */
    if (s->stop_at_us > 0 && script_now_us >= s->stop_at_us)
        atomic_store(&s->stop, true);
    if (s->on_poll)
        s->on_poll(s);
}

static void script_cancel(struct target *t, struct record *r)
{
    struct script *s = (struct script *)t;
    assert_int_equal(r->state, RECORD_RUNNING);
    s->n_cancels++;
    for (uint32_t i = 0; i < s->n_flights; i++)
        if (s->flights[i].record == r) {
            assert_false(s->flights[i].cancelled);
            s->flights[i].cancelled = true; /* it ends in the next poll */
            s->flights[i].next_us = script_now_us;
            return;
        }
    fail_msg("a record is cancelled that does not run");
}

static const struct target_ops script_ops = {
    .send = script_send,
    .poll = script_poll,
    .cancel = script_cancel,
};

static inline struct script_answer script_usual(struct script *s, const struct work_item *item)
{
    (void)s;
    return (struct script_answer){ANSWER_OK, item->max_tokens, 5000, 1000, 0};
}

static inline struct script_answer script_refused(struct script *s, const struct work_item *item)
{
    (void)s;
    (void)item;
    return (struct script_answer){ANSWER_REFUSED, 0, 0, 0, 0};
}

static inline void script_init(struct script *s)
{
    *s = (struct script){.base = {.ops = &script_ops}, .answer = script_usual};
    script_now_us = SCRIPT_START;
}

/* --- a run ---------------------------------------------------------------------------------- */

#define MS 1000

/* What background streams are asked for. */
static const struct workload_options script_background = {.prompt = "Count.", .num_requests = 1};

static struct script script;
static struct load_result result;

/* n items of max_tokens chunks, one each interval_us. */
static inline struct workload script_items(uint32_t n, uint32_t max_tokens, int64_t interval_us)
{
    struct workload w = {.items = mem_array(n > 0 ? n : 1, sizeof *w.items), .n = n};
    for (uint32_t i = 0; i < n; i++)
        w.items[i] =
            (struct work_item){.due_us = i * interval_us, .max_tokens = max_tokens, .stream = true};
    return w;
}

static inline void script_run(uint32_t n, uint32_t max_tokens, int64_t interval_us,
                              struct load_options o)
{
    struct workload w = script_items(n, max_tokens, interval_us);
    struct err err = {0};
    o.stop = &script.stop;
    if (load_run(&script.base, &w, &o, &result, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(result.n, n);
    assert_int_equal(script.n_flights, 0);
    mem_free(w.items);
}

static inline int script_begin(void **state)
{
    (void)state;
    script_init(&script);
    return 0;
}

static inline int script_close(void **state)
{
    (void)state;
    load_fini(&result);
    return 0;
}

#endif
