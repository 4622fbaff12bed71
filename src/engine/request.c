#include "engine/request.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/sampling/sampler.h"

#include <string.h>
#include <sys/random.h>

#define BIT(state) (1u << (state))

static const unsigned edges[REQUEST_STATES] = {
    [REQUEST_FREE] = BIT(REQUEST_QUEUED),
    [REQUEST_QUEUED] = BIT(REQUEST_WAITING),
    [REQUEST_WAITING] = BIT(REQUEST_PREFILL) | BIT(REQUEST_ENDED),
    [REQUEST_PREFILL] = BIT(REQUEST_DECODE) | BIT(REQUEST_WAITING) | BIT(REQUEST_ENDED),
    [REQUEST_DECODE] = BIT(REQUEST_DECODE) | BIT(REQUEST_WAITING) | BIT(REQUEST_ENDED),
    [REQUEST_ENDED] = BIT(REQUEST_FREE),
};

/* QUEUED and ENDED requests are in rings and hands, which two threads share: no list. */
static bool has_list(enum request_state s)
{
    return s != REQUEST_QUEUED && s != REQUEST_ENDED;
}

bool request_edge(enum request_state from, enum request_state to)
{
    return edges[from] & BIT(to);
}

static void unlink_from(struct request_list *list, struct request *r)
{
    *(r->prev ? &r->prev->next : &list->first) = r->next;
    *(r->next ? &r->next->prev : &list->last) = r->prev;
    r->prev = r->next = NULL;
    list->n--;
}

static void append_to(struct request_list *list, struct request *r)
{
    r->prev = list->last;
    r->next = NULL;
    *(list->last ? &list->last->next : &list->first) = r;
    list->last = r;
    list->n++;
}

void request_move(struct request_lists *lists, struct request *r, enum request_state to)
{
    REQUIRE(request_edge(r->state, to));
    if (has_list(r->state))
        unlink_from(&lists->of[r->state], r);
    r->state = to;
    if (has_list(to))
        append_to(&lists->of[to], r);
}

void request_put(struct request_lists *lists, struct request *r)
{
    REQUIRE(r->state == REQUEST_FREE);
    append_to(&lists->of[REQUEST_FREE], r);
}

/* --- memory (owner's thread) ---------------------------------------------------------------- */

static bool allocate_output(struct request *r, const struct request_params *p, uint32_t n_vocab)
{
    r->tokens = mem_alloc(r->max_tokens * sizeof *r->tokens);
    /* Not cleared: a long buffer that is never written costs address space, not memory. */
    r->text = mem_alloc(r->text_cap);
    r->stop = p->n_stop > 0 ? mem_alloc(sizeof *r->stop) : NULL;
    bool counted = !sampler_has_penalty(&p->sampling) ||
                   token_counts_init(&r->counts, n_vocab, p->n_prompt + r->max_tokens);
    bool priced =
        !p->logprobs || logprobs_init(&r->logprobs, p->top_logprobs,
                                      p->prompt_logprobs ? p->n_prompt : 0, r->max_tokens, n_vocab);
    return counted && priced && r->tokens && r->text && (r->stop || p->n_stop == 0);
}

static void free_output(struct request *r)
{
    mem_free(r->tokens);
    mem_free(r->text);
    mem_free(r->stop);
    token_counts_fini(&r->counts);
    logprobs_fini(&r->logprobs);
    r->tokens = NULL;
    r->text = NULL;
    r->stop = NULL;
}

static void choose_seed(struct sampling *s)
{
    if (s->has_seed)
        s->seed = sampler_choice_seed(s->seed, s->choice);
    s->choice = 0; /* is in the seed now */
    if (s->has_seed)
        return;
    if (getrandom(&s->seed, sizeof s->seed, 0) != (ssize_t)sizeof s->seed)
        s->seed = (uint64_t)clock_now_ns(); /* no entropy yet: any number will do */
}

static void request_reset(struct request *r)
{
    r->n_past = r->n_goal = r->n_cached = r->n_blocks = 0;
    r->n_published = r->n_hit = r->follow_at = 0;
    r->chunk_us = 0;
    r->leader = r->urgent_follower = NULL;
    r->n_tokens = r->read_tokens = 0;
    r->text_len = r->read_text = 0;
    r->detok = (struct detok){0};
    r->wait = (struct request_wait){0};
    r->was_evicted = r->in_step = r->cancel_sent = r->finished = r->discarded = false;
    r->finish = r->ending = FINISH_NONE;
    atomic_store_explicit(&r->text_visible, 0, memory_order_relaxed);
    atomic_store_explicit(&r->tokens_visible, 0, memory_order_relaxed);
    atomic_store_explicit(&r->dirty, false, memory_order_relaxed);
    atomic_store_explicit(&r->admitted, false, memory_order_relaxed);
}

enum status request_fill(struct request *r, struct request_params *take, uint32_t max_tokens,
                         const struct tokenizer *tokenizer, struct err *err)
{
    request_reset(r);
    r->max_tokens = max_tokens;
    r->text_cap = DETOK_ROOM(tokenizer ? max_tokens * tokenizer_max_piece(tokenizer) : 0);
    if (!allocate_output(r, take, tokenizer ? tokenizer_vocab_size(tokenizer) : 0)) {
        free_output(r);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a request of %u tokens", max_tokens);
    }
    r->params = *take;
    *take = (struct request_params){0};
    choose_seed(&r->params.sampling);
    if (r->stop)
        stop_init(r->stop, r->params.stop, r->params.n_stop);
    if (r->counts.cap > 0)
        for (uint32_t i = 0; i < r->params.n_prompt; i++)
            token_counts_add(&r->counts, r->params.prompt[i], false);
    return STATUS_OK;
}

void request_give_back(struct request *r, struct request_params *out)
{
    *out = r->params;
    r->params = (struct request_params){0};
    free_output(r);
}

void request_clear(struct request *r)
{
    free_output(r);
    request_params_fini(&r->params);
}

void request_params_fini(struct request_params *p)
{
    mem_free(p->prompt);
    mem_free(p->sampling.bias);
    for (uint32_t i = 0; i < p->n_stop; i++)
        mem_free(p->stop[i]);
    *p = (struct request_params){0};
}

static bool copy_owned(struct request_params *out, const struct request_params *p)
{
    size_t n_bias = p->sampling.n_bias;
    if (n_bias > 0) {
        out->sampling.bias = mem_array(n_bias, sizeof *out->sampling.bias);
        if (!out->sampling.bias)
            return false;
        memcpy(out->sampling.bias, p->sampling.bias, n_bias * sizeof *out->sampling.bias);
    }
    for (; out->n_stop < p->n_stop; out->n_stop++) {
        const char *stop = p->stop[out->n_stop];
        out->stop[out->n_stop] = mem_strndup(stop, strlen(stop));
        if (!out->stop[out->n_stop])
            return false;
    }
    return true;
}

enum status request_params_copy(struct request_params *out, const struct request_params *p,
                                const int32_t *prompt, uint32_t n, struct err *err)
{
    *out = *p;
    out->sampling.bias = NULL;
    out->n_stop = 0;
    out->n_prompt = n;
    out->prompt = mem_array(n, sizeof *out->prompt);
    if (out->prompt && copy_owned(out, p)) {
        memcpy(out->prompt, prompt, n * sizeof *out->prompt);
        return STATUS_OK;
    }
    request_params_fini(out);
    return err_set(err, STATUS_NO_MEMORY, "no memory for a request of %u prompt tokens", n);
}

/* --- output (engine thread) ----------------------------------------------------------------- */

/* True when a stop string became complete; the text then ends before it. */
static bool append_text(struct request *r, int32_t token, const struct tokenizer *tokenizer)
{
    size_t len, cut;
    const char *piece = tokenizer_piece(tokenizer, token, &len);
    REQUIRE(r->text_len + DETOK_ROOM(len) <= r->text_cap);
    char *at = r->text + r->text_len;
    size_t n = detok_push(&r->detok, piece, len, at);
    r->text_len += n;
    if (!r->stop || !stop_feed(r->stop, at, n, &cut))
        return false;
    r->text_len = cut;
    return true;
}

enum finish_reason request_append(struct request *r, int32_t token,
                                  const struct tokenizer *tokenizer)
{
    if (r->logprobs.width > 0)
        r->logprobs.text_before[r->n_tokens] = r->text_len;
    r->tokens[r->n_tokens++] = token;
    if (r->stop)
        r->stop->unarmed = r->n_tokens < r->params.min_tokens;
    if (r->counts.cap > 0)
        token_counts_add(&r->counts, token, true);
    if (!tokenizer)
        return r->n_tokens == r->max_tokens ? FINISH_LENGTH : FINISH_NONE;
    if (!r->params.ignore_eos && tokenizer_is_end(tokenizer, token))
        return FINISH_STOP;
    if (!tokenizer_is_control(tokenizer, token) && append_text(r, token, tokenizer))
        return FINISH_STOP;
    return r->n_tokens == r->max_tokens ? FINISH_LENGTH : FINISH_NONE;
}

void request_publish(struct request *r, bool all)
{
    size_t held = r->stop && !all ? stop_held(r->stop) : 0;
    atomic_store_explicit(&r->text_visible, r->text_len - held, memory_order_release);
    atomic_store_explicit(&r->tokens_visible, r->n_tokens, memory_order_release);
}

/* --- the owner's view ----------------------------------------------------------------------- */

void request_all(const struct request *r, struct request_news *out)
{
    *out = (struct request_news){
        .text = r->text,
        .text_len = atomic_load_explicit(&r->text_visible, memory_order_acquire),
        .tokens = r->tokens,
        .n_tokens = atomic_load_explicit(&r->tokens_visible, memory_order_acquire),
        .logprobs = r->logprobs.rows,
        .logprobs_width = r->logprobs.width,
        .prompt_logprobs = r->logprobs.prompt,
        .text_before = r->logprobs.text_before,
        .finish = r->finished ? r->finish : FINISH_NONE,
    };
}

void request_read(struct request *r, struct request_news *out)
{
    struct request_news all;
    request_all(r, &all);
    *out = (struct request_news){
        .text = all.text + r->read_text,
        .text_len = all.text_len - r->read_text,
        .tokens = all.tokens + r->read_tokens,
        .n_tokens = all.n_tokens - r->read_tokens,
        .logprobs_width = all.logprobs_width,
        .prompt_logprobs = all.prompt_logprobs,
        .finish = all.finish,
    };
    if (all.logprobs) {
        out->logprobs = all.logprobs + (size_t)r->read_tokens * all.logprobs_width;
        out->text_before = all.text_before + r->read_tokens;
    }
    r->read_text = all.text_len;
    r->read_tokens = all.n_tokens;
}

struct timeline *request_timeline(struct request *r)
{
    return &r->params.timeline;
}

void *request_user(const struct request *r)
{
    return r->params.user;
}

uint32_t request_cached_tokens(const struct request *r)
{
    return r->n_hit;
}

void request_waited(const struct request *r, struct request_wait *out)
{
    *out = r->wait;
}

const char *request_wait_reason(const struct request_wait *w)
{
    if (w->followed)
        return "leader";
    if (w->steps_no_blocks > 0)
        return "kv_blocks";
    if (w->steps_no_place > 0)
        return "max_active";
    if (w->steps > 0)
        return "turn";
    return w->in_step ? "step" : "nothing";
}

bool request_is_admitted(const struct request *r)
{
    return atomic_load_explicit(&r->admitted, memory_order_relaxed);
}

bool request_was_evicted(const struct request *r)
{
    return r->was_evicted;
}

const int32_t *request_prompt(const struct request *r)
{
    return r->params.prompt;
}

uint32_t request_prompt_tokens(const struct request *r)
{
    return r->params.n_prompt;
}

const char *finish_reason_name(enum finish_reason reason)
{
    static const char *const names[] = {"none", "stop", "length", "cancelled", "timeout", "error"};
    return names[reason];
}
