#include "bench/load/load.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

/* A sleep is never longer: `stop` may be set just before one begins. */
#define LOOK_US 100000
/* Longer answers grow their array of stamps while they run. */
#define CHUNKS_RESERVED 4096

/* One that runs beside the measured requests. */
struct background {
    struct work_item item; /* its prompt is ours */
    struct record record;
    uint32_t lives; /* times it was started */
    bool came_up;   /* it had a first chunk once */
    bool down;      /* it failed and is not started again */
};

struct run {
    struct target *target;
    const struct workload *workload;
    const struct load_options *options;
    struct load_result *out;
    struct background *background; /* (n_background) */
    uint32_t *live;                /* (n) numbers of the records in flight, n_live of them */
    uint32_t n_live;
    /* When each place became free, in order of time; 0: it never was taken. Those in front of
     * first_place are taken. */
    int64_t *places; /* (2 n): those at the start and one for each end */
    uint32_t first_place, n_places;
    int64_t base_us;   /* an item's due_us counts from here; 0: the clock has not started */
    int64_t turned_us; /* the last poll began to take what had come; 0: none yet */
    uint32_t next;     /* first item that was not sent */
    uint32_t n_ended, n_failed;
    int64_t last_sent_us, last_end_us;
    int64_t cpu_ns; /* of this thread when the clock started */
};

static double load_ms(int64_t us)
{
    return (double)us / 1000;
}

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool load_stopped(struct run *run)
{
    const atomic_bool *stop = run->options->stop;
    if (stop && atomic_load_explicit(stop, memory_order_relaxed))
        run->out->interrupted = true;
    return run->out->interrupted;
}

static void poll_until(struct run *run, int64_t until_us)
{
    int64_t now = clock_now_us();
    if (run->base_us > 0 && run->turned_us > 0)
        series_add(&run->out->generator.turn_ms, load_ms(now - run->turned_us));
    if (until_us > now + LOOK_US)
        until_us = now + LOOK_US;
    run->target->ops->poll(run->target, until_us);
    run->turned_us = run->target->woke_us;
}

static bool load_reserve(struct record *r, const struct work_item *item)
{
    uint32_t n = item->max_tokens < CHUNKS_RESERVED ? item->max_tokens : CHUNKS_RESERVED;
    return record_reserve(r, item->stream ? n + 1 : 1);
}

static void send(struct run *run, const struct work_item *item, struct record *r, int64_t due_us)
{
    r->due_us = due_us;
    r->whole = !item->stream;
    run->target->ops->send(run->target, item, r);
    REQUIRE(r->state != RECORD_UNSENT);
}

/* --- background streams --------------------------------------------------------------------- */

static bool start_background(struct run *run, struct background *b)
{
    const struct load_options *o = run->options;
    uint32_t index = (uint32_t)(b - run->background) + b->lives * o->n_background;
    char *prompt = workload_background_prompt(o->background_of, index);
    record_fini(&b->record);
    if (!prompt || !load_reserve(&b->record, &b->item)) {
        mem_free(prompt);
        return false;
    }
    mem_free(b->item.prompt);
    b->item.prompt = prompt;
    b->lives++;
    send(run, &b->item, &b->record, clock_now_us());
    return true;
}

static bool init_background(struct run *run, struct err *err)
{
    const struct load_options *o = run->options;
    if (o->n_background == 0)
        return true;
    REQUIRE(o->background_of != NULL);
    run->background = mem_array(o->n_background, sizeof *run->background);
    for (uint32_t i = 0; run->background && i < o->n_background; i++) {
        struct background *b = &run->background[i];
        record_init(&b->record);
        b->item = (struct work_item){.max_tokens = LOAD_BACKGROUND_TOKENS,
                                     .ignore_eos = true,
                                     .chat = o->background_of->chat,
                                     .stream = true};
    }
    if (run->background)
        return true;
    err_set(err, STATUS_NO_MEMORY, "no memory for %u background streams", o->n_background);
    return false;
}

/* Its gaps whose later end fell into the run, so far as the run has come. */
static void take_gaps(struct run *run, const struct record *r, int64_t end_us)
{
    for (uint32_t i = 1; run->base_us > 0 && i < r->n_chunks; i++)
        if (r->chunk_us[i] >= run->out->start_us && r->chunk_us[i] <= end_us)
            series_add(&run->out->background_gap_ms, load_ms(r->chunk_us[i] - r->chunk_us[i - 1]));
}

/* An answer without content would be asked for again and again without end: it counts as failed. */
static void look_at_background(struct run *run, struct background *b)
{
    if (b->down || b->record.state == RECORD_UNSENT)
        return;
    b->came_up |= b->record.first_us > 0;
    if (!record_has_ended(&b->record))
        return;
    take_gaps(run, &b->record, INT64_MAX);
    b->down = b->record.state != RECORD_OK || b->record.first_us == 0 || !start_background(run, b);
    run->out->background_failed += b->down;
}

static enum status background_error(const struct run *run, uint32_t i, struct err *err)
{
    const struct record *r = &run->background[i].record;
    return err_set(err, STATUS_UNAVAILABLE, "background stream %u of %u did not come up: %s", i + 1,
                   run->options->n_background,
                   r->error[0] != '\0'         ? r->error
                   : r->state == RECORD_UNSENT ? "no memory"
                                               : "its answer had no content");
}

/* How many still have to give their first chunk; *status is set when one never will. */
static uint32_t count_pending(struct run *run, enum status *status, struct err *err)
{
    uint32_t pending = 0;
    for (uint32_t i = 0; i < run->options->n_background && *status == STATUS_OK; i++) {
        struct background *b = &run->background[i];
        look_at_background(run, b);
        pending += !b->came_up;
        if (b->down)
            *status = background_error(run, i, err);
    }
    return pending;
}

static enum status raise_background(struct run *run, struct err *err)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < run->options->n_background && status == STATUS_OK; i++) {
        if (!start_background(run, &run->background[i]))
            status = background_error(run, i, err);
        poll_until(run, 0);
    }
    while (status == STATUS_OK && count_pending(run, &status, err) > 0 && !load_stopped(run))
        poll_until(run, INT64_MAX);
    return status;
}

static void end_background(struct run *run)
{
    uint32_t n = run->background ? run->options->n_background : 0;
    for (uint32_t i = 0; i < n; i++)
        if (run->background[i].record.state == RECORD_RUNNING)
            run->target->ops->cancel(run->target, &run->background[i].record);
    for (uint32_t i = 0; i < n; i++) {
        struct background *b = &run->background[i];
        while (b->record.state == RECORD_RUNNING)
            run->target->ops->poll(run->target, clock_now_us() + LOOK_US);
        if (!b->down) {
            take_gaps(run, &b->record, run->out->end_us);
            run->out->background_failed += b->record.state == RECORD_FAILED;
        }
        record_fini(&b->record);
        mem_free(b->item.prompt);
    }
    mem_free(run->background);
}

/* --- requests ------------------------------------------------------------------------------- */

/* Records that end in one poll are found in any order; their places queue up by time. */
static void free_place(struct run *run, int64_t at_us)
{
    uint32_t i = run->n_places++;
    for (; i > run->first_place && run->places[i - 1] > at_us; i--)
        run->places[i] = run->places[i - 1];
    run->places[i] = at_us;
}

static void note_end(struct run *run, const struct record *r)
{
    free_place(run, r->end_us);
    run->n_ended++;
    run->n_failed += r->state == RECORD_FAILED;
    if (r->end_us > run->last_end_us)
        run->last_end_us = r->end_us;
}

static bool load_is_over(const struct run *run)
{
    return run->out->interrupted || (run->next == run->out->n && run->n_live == 0);
}

/* Finds what has ended since the last look. */
static void load_collect(struct run *run)
{
    const struct load_options *o = run->options;
    uint32_t n_ended = run->n_ended, kept = 0;
    for (uint32_t i = 0; i < run->n_live; i++) {
        const struct record *r = &run->out->records[run->live[i]];
        if (record_has_ended(r))
            note_end(run, r);
        else
            run->live[kept++] = run->live[i];
    }
    run->n_live = kept;
    if (o->progress && run->n_ended > n_ended)
        o->progress(o->arg, run->n_ended, run->n_failed, run->out->n);
    for (uint32_t i = 0; i < o->n_background && !load_is_over(run); i++)
        look_at_background(run, &run->background[i]);
}

/* INT64_MAX: nothing is to be sent before something has ended. */
static int64_t next_due_us(const struct run *run)
{
    if (run->next == run->out->n || run->first_place == run->n_places)
        return INT64_MAX;
    return run->base_us + run->workload->items[run->next].due_us;
}

/* False when it failed on the spot. */
static bool send_next(struct run *run)
{
    struct record *r = &run->out->records[run->next];
    int64_t planned = next_due_us(run), freed = run->places[run->first_place++];
    send(run, &run->workload->items[run->next], r, freed > planned ? freed : planned);
    run->live[run->n_live++] = run->next++;
    run->last_sent_us = r->sent_us;
    if (r->sent_us > 0)
        series_add(&run->out->generator.lag_ms, load_ms(r->sent_us - r->due_us));
    return !record_has_ended(r);
}

static uint64_t load_received(const struct run *run)
{
    const struct target *t = run->target;
    return t->ops->received ? t->ops->received(t) : 0;
}

static void start_clock(struct run *run)
{
    run->out->on_wire = run->target->ops->received != NULL;
    run->out->received_bytes = load_received(run);
    run->cpu_ns = thread_cpu_ns();
    run->turned_us = run->base_us = clock_now_us();
    run->out->start_us = run->out->end_us = run->base_us + run->workload->items[0].due_us;
}

/* One request is sent a turn: answers to the earlier ones of a burst do not wait for all of it. */
static void send_all(struct run *run)
{
    while (!load_is_over(run) && !load_stopped(run)) {
        int64_t due = next_due_us(run);
        if (due <= clock_now_us())
            due = send_next(run) ? next_due_us(run) : 0;
        poll_until(run, due);
        load_collect(run);
    }
}

static void cancel_all(struct run *run)
{
    for (uint32_t i = 0; i < run->n_live; i++) {
        struct record *r = &run->out->records[run->live[i]];
        if (!record_has_ended(r))
            run->target->ops->cancel(run->target, r);
    }
    while (run->n_live > 0) {
        poll_until(run, INT64_MAX);
        load_collect(run);
    }
}

/* --- the generator itself ------------------------------------------------------------------- */

static double median_ttft_ms(const struct load_result *out)
{
    struct series ttft = {0};
    for (uint32_t i = 0; i < out->n; i++)
        series_add(&ttft, record_ttft_ms(&out->records[i]));
    double median = series_percentile(&ttft, 50);
    series_fini(&ttft);
    return median;
}

/* Without any TTFT there is nothing to spoil. */
static bool load_too_late(double late_ms, double ttft_ms)
{
    return late_ms > LOAD_LATE_MS && late_ms > LOAD_LATE_TTFT * ttft_ms;
}

static void load_judge(struct load_result *out)
{
    struct load_generator *g = &out->generator;
    double ttft = median_ttft_ms(out), wall = load_ms(out->end_us - out->start_us);
    double lag = series_percentile(&g->lag_ms, 99), turn = series_percentile(&g->turn_ms, 99);
    g->bottleneck = true;
    if (load_too_late(lag, ttft))
        snprintf(g->why, sizeof g->why,
                 "requests left late: p99 of the lag is %.1f ms, the median TTFT %.1f ms", lag,
                 ttft);
    else if (load_too_late(turn, ttft))
        snprintf(g->why, sizeof g->why,
                 "answers were looked at late: p99 of a turn is %.1f ms, the median TTFT %.1f ms",
                 turn, ttft);
    else if (g->cpu_share > LOAD_BUSY && wall >= LOAD_BUSY_FROM_MS)
        snprintf(g->why, sizeof g->why, "its thread used %.0f %% of a processor",
                 100 * g->cpu_share);
    else
        g->bottleneck = false;
}

static void stop_clock(struct run *run)
{
    struct load_result *out = run->out;
    int64_t wall_us = clock_now_us() - run->base_us, cpu_ns = thread_cpu_ns() - run->cpu_ns;
    out->received_bytes = load_received(run) - out->received_bytes;
    if (run->last_end_us > out->end_us)
        out->end_us = run->last_end_us;
    if (run->last_sent_us > out->start_us)
        out->submit_wall_us = run->last_sent_us - out->start_us;
    if (wall_us > 0)
        out->generator.cpu_share = fmin(1, (double)cpu_ns / 1000 / (double)wall_us);
    load_judge(out);
}

/* --- a run ---------------------------------------------------------------------------------- */

static enum status load_no_memory(const struct run *run, struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for the records of %u requests", run->out->n);
}

static enum status init(struct run *run, struct err *err)
{
    struct load_result *out = run->out;
    uint32_t n = run->workload->n, places = run->options->max_concurrency;
    if (n == 0)
        return err_set(err, STATUS_INVALID, "the workload has no requests");
    out->records = mem_array(n, sizeof *out->records);
    out->n = out->records ? n : 0;
    run->live = mem_array(n, sizeof *run->live);
    run->places = mem_array(n, 2 * sizeof *run->places);
    if (!out->records || !run->live || !run->places)
        return load_no_memory(run, err);
    run->n_places = places > 0 && places < n ? places : n;
    for (uint32_t i = 0; i < n; i++)
        record_init(&out->records[i]);
    for (uint32_t i = 0; i < n; i++)
        if (!load_reserve(&out->records[i], &run->workload->items[i]))
            return load_no_memory(run, err);
    return init_background(run, err) ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status load_run(struct target *t, const struct workload *w, const struct load_options *o,
                     struct load_result *out, struct err *err)
{
    struct run run = {.target = t, .workload = w, .options = o, .out = out};
    *out = (struct load_result){.n_background = o->n_background};
    enum status status = init(&run, err);
    if (status == STATUS_OK && o->progress)
        o->progress(o->arg, 0, 0, w->n);
    if (status == STATUS_OK)
        status = raise_background(&run, err);
    if (status == STATUS_OK) {
        start_clock(&run);
        send_all(&run);
        cancel_all(&run);
        stop_clock(&run);
    }
    end_background(&run);
    mem_free(run.live);
    mem_free(run.places);
    return status;
}

void load_fini(struct load_result *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        record_fini(&r->records[i]);
    mem_free(r->records);
    series_fini(&r->background_gap_ms);
    series_fini(&r->generator.lag_ms);
    series_fini(&r->generator.turn_ms);
    *r = (struct load_result){0};
}
