/* Fuzz target of what the network sends: the first byte chooses whether the rest is the framing of
 * an HTTP request (the guard, whole and in pieces) or the JSON body of a chat or a completion.
 *
 * tests/fuzz/request_seeds.py writes the seeds.
 */
#include "api/api_kind.h"
#include "api/openai_request.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "http/http1_framing.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever passes is within what it says; whatever is refused says why, in valid JSON. */
static void check_body(const struct api_kind *kind, const char *body, size_t size)
{
    struct openai_request q;
    struct err e = {0};
    struct buf b = {0};
    if (openai_request_parse(&q, kind, body, size, &e) == STATUS_OK) {
        const struct request_params *p = &q.params;
        REQUIRE(p->max_tokens >= 1 && p->n_stop <= LIMIT_STOP_STRINGS);
        REQUIRE(p->sampling.temperature >= 0 && p->sampling.temperature <= 2);
        REQUIRE(p->sampling.n_bias <= LIMIT_LOGIT_BIAS);
        REQUIRE(kind != &api_chat || json_array_size(q.messages) > 0);
        REQUIRE(q.n >= 1 && q.prompts.n >= 1 && q.prompts.n * q.n <= LIMIT_CHOICES);
        REQUIRE(p->min_tokens <= p->max_tokens && p->top_logprobs <= LIMIT_TOP_LOGPROBS);
        for (uint32_t i = 0; i < q.prompts.n; i++)
            REQUIRE(kind == &api_chat || q.prompts.all[i].text || q.prompts.all[i].ids.count > 0);
    } else {
        json_put(&b, e.text);
        json_t *text = json_loadb(buf_str(&b), b.len, JSON_DECODE_ANY, NULL);
        REQUIRE(json_is_string(text) && json_string_length(text) > 0);
        json_decref(text);
    }
    buf_fini(&b);
    openai_request_fini(&q);
}

/* The same bytes in pieces are the same request. */
static void check_framing(const char *bytes, size_t size)
{
    struct http1_framing whole, pieces;
    size_t took = 0;
    http1_framing_reset(&whole);
    http1_framing_reset(&pieces);
    size_t all = http1_framing_feed(&whole, bytes, size);
    while (took < size && !pieces.done && pieces.http_status == 0) {
        size_t n = 1 + took % 7;
        took += http1_framing_feed(&pieces, bytes + took, n < size - took ? n : size - took);
    }
    REQUIRE(all == took && whole.done == pieces.done && whole.http_status == pieces.http_status);
    REQUIRE(!(whole.done && whole.http_status != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *rest = (const char *)data + 1;
    if (data[0] == 'h')
        check_framing(rest, size - 1);
    else
        check_body(data[0] == 'c' ? &api_chat : &api_completions, rest, size - 1);
    return 0;
}
