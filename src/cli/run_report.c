#include "cli/run_report.h"

#include <jansson.h>
#include <stdio.h>

static double run_report_ms(int64_t us)
{
    return (double)us / 1000;
}

static json_t *run_report_ttft_json(const struct timeline *t)
{
    struct timeline_ttft parts = timeline_ttft(t);
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "receive_ms",
        run_report_ms(parts.receive_us), "tokenize_ms", run_report_ms(parts.tokenize_us),
        "submit_ms", run_report_ms(parts.submit_us), "queue_ms", run_report_ms(parts.queue_us),
        "cache_ms", run_report_ms(parts.cache_us), "prefill_ms", run_report_ms(parts.prefill_us),
        "decode_ms", run_report_ms(parts.decode_us), "first_write_ms",
        run_report_ms(parts.first_write_us), "total_ms", run_report_ms(parts.total_us));
}

static json_t *tokens_json(const struct request_news *all)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < all->n_tokens; i++)
        json_array_append_new(array, json_integer(all->tokens[i]));
    return array;
}

enum status run_report_json(struct request *r, struct err *err)
{
    struct request_news all;
    request_all(r, &all);
    json_t *root = json_pack(
        "{s:i, s:o, s:s%, s:s, s:o}", "prompt_tokens", (int)request_prompt_tokens(r), "tokens",
        tokens_json(&all), "text", all.text, all.text_len, "finish_reason",
        finish_reason_name(all.finish), "ttft", run_report_ttft_json(request_timeline(r)));
    /* 15 digits: the parts still add up to the total */
    int bad = !root || json_dumpf(root, stdout, JSON_REAL_PRECISION(15)) || putchar('\n') == EOF ||
              fflush(stdout) != 0;
    json_decref(root);
    return bad ? err_set(err, STATUS_IO, "cannot write to standard output") : STATUS_OK;
}

void run_report_lines(struct request *r)
{
    struct request_news all;
    struct timeline *t = request_timeline(r);
    struct timeline_ttft parts = timeline_ttft(t);
    request_all(r, &all);
    int64_t decode_us = t->at_us[TIMELINE_FINISHED] - t->at_us[TIMELINE_FIRST_TOKEN];
    fflush(stdout);
    fprintf(stderr,
            "\n[TTFT %.1f ms = tokenize %.1f + queue %.1f + prefill %.1f + write %.1f | "
            "%u prompt tokens",
            run_report_ms(parts.total_us), run_report_ms(parts.receive_us + parts.tokenize_us),
            run_report_ms(parts.submit_us + parts.queue_us + parts.cache_us),
            run_report_ms(parts.prefill_us), run_report_ms(parts.first_write_us),
            request_prompt_tokens(r));
    if (all.n_tokens > 1 && decode_us > 0)
        fprintf(stderr, " | %u tokens, %.1f tokens/s", all.n_tokens,
                (all.n_tokens - 1) / ((double)decode_us / 1e6));
    fprintf(stderr, " | %s]\n", finish_reason_name(all.finish));
}
