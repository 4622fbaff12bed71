#include "observe/wait_reason.h"

#include "base/json.h"

#include <inttypes.h>
#include <string.h>

#define MS     INT64_C(1000)
#define SECOND INT64_C(1000000)

/* --- words ---------------------------------------------------------------------------------- */

/* 12345 as 12,345 */
static void put_thousands(struct buf *out, uint64_t n)
{
    if (n < 1000) {
        buf_printf(out, "%" PRIu64, n);
        return;
    }
    put_thousands(out, n / 1000);
    buf_printf(out, ",%03u", (unsigned)(n % 1000));
}

/* Up to twelve in letters, as one writes it. */
static void wait_reason_put_number(struct buf *out, uint64_t n)
{
    static const char *const names[] = {"no",    "one",   "two",  "three", "four",   "five",  "six",
                                        "seven", "eight", "nine", "ten",   "eleven", "twelve"};
    if (n < sizeof names / sizeof *names)
        buf_puts(out, names[n]);
    else
        put_thousands(out, n);
}

/* As precise as a person wants it: 4 ms, 180 ms, 1.2 s, 75 s. */
static void put_duration(struct buf *out, int64_t us)
{
    if (us < SECOND - MS / 2)
        buf_printf(out, "%" PRId64 " ms", (us + MS / 2) / MS);
    else if (us < 10 * SECOND - SECOND / 20)
        buf_printf(out, "%.1f s", (double)us / (double)SECOND);
    else
        buf_printf(out, "%" PRId64 " s", (us + SECOND / 2) / SECOND);
}

/* "a prompt of 512 tokens", "two prompts of 1,024 tokens in all" */
static void put_prompts(struct buf *out, const struct request_wait *w)
{
    if (w->prompts > 1)
        wait_reason_put_number(out, w->prompts);
    buf_puts(out, w->prompts > 1 ? " prompts of " : "a prompt of ");
    if (w->prompt_tokens == 1)
        buf_puts(out, "one token");
    else
        put_thousands(out, w->prompt_tokens);
    buf_puts(out, w->prompt_tokens == 1 ? "" : " tokens");
    buf_puts(out, w->prompts > 1 ? " in all" : "");
}

/* No prompt was computed meanwhile: decodes were. */
static void put_steps(struct buf *out, const struct request_wait *w)
{
    if (w->steps == 0) {
        buf_puts(out, w->in_step ? " for the step under way" : " before the engine took it");
        return;
    }
    buf_puts(out, " while ");
    wait_reason_put_number(out, w->steps);
    buf_puts(out, w->steps == 1 ? " step of other answers ran" : " steps of other answers ran");
}

static int64_t wait_reason_wait_us(const struct timeline *t)
{
    int64_t queued = t->at_us[TIMELINE_QUEUED], end = t->at_us[TIMELINE_ADMITTED];
    if (end == 0)
        end = t->at_us[TIMELINE_FINISHED];
    return queued != 0 && end != 0 ? end - queued : 0;
}

/* What there was none of, where it was not only a turn. */
static const char *lack_of(const struct request_wait *w)
{
    const char *reason = request_wait_reason(w);
    if (strcmp(reason, "leader") == 0)
        return " for a prompt that begins like it, to use what that one computed";
    if (strcmp(reason, "kv_blocks") == 0)
        return " for free KV blocks";
    if (strcmp(reason, "max_active") == 0)
        return " for one of the running requests to end";
    return NULL;
}

void wait_reason_words(struct buf *out, const struct request_wait *w, const struct timeline *t)
{
    int64_t us = wait_reason_wait_us(t);
    if (us < MS)
        return;
    buf_puts(out, "waited ");
    put_duration(out, us);
    const char *lack = lack_of(w);
    if (lack) {
        buf_puts(out, lack);
    } else if (w->prompts > 0 && w->prompt_tokens > 0) {
        buf_puts(out, " behind ");
        put_prompts(out, w);
    } else {
        put_steps(out, w);
    }
}

/* --- JSON ----------------------------------------------------------------------------------- */

void wait_reason_json(struct buf *out, const struct request_wait *w, const struct timeline *t)
{
    struct buf words = {0};
    buf_printf(out,
               ",\"waited\":{\"for\":\"%s\",\"waiting\":%u,\"running\":%u,\"tokens\":%" PRIu64
               ",\"in_step\":%s,\"leader\":%s,\"steps\":%u,\"steps_no_blocks\":%u,"
               "\"steps_no_place\":%u,\"prompts\":%u,\"prompt_tokens\":%u,\"words\":",
               request_wait_reason(w), w->waiting, w->running, w->tokens,
               w->in_step ? "true" : "false", w->followed ? "true" : "false", w->steps,
               w->steps_no_blocks, w->steps_no_place, w->prompts, w->prompt_tokens);
    wait_reason_words(&words, w, t);
    json_put(out, buf_str(&words));
    buf_putc(out, '}');
    out->failed |= words.failed;
    buf_fini(&words);
}
