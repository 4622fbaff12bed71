/* The figures of a run, from its records. */
#ifndef FIRSTLIGHT_BENCH_LOAD_SUMMARY_H
#define FIRSTLIGHT_BENCH_LOAD_SUMMARY_H

#include "base/err.h"
#include "bench/load/load.h"
#include "bench/result/series.h"

#include <jansson.h>

/* Objectives a request has to meet, milliseconds; 0: none. "ttft:500,tpot:50,e2el:5000". */
struct goodput {
    double ttft_ms, tpot_ms, e2el_ms;
};
enum status summary_parse_goodput(const char *text, struct goodput *out, struct err *err);

struct summary {
    uint32_t n, completed, failed, cancelled;
    uint32_t without_content; /* completed, but no chunk had content: they have no TTFT */
    uint32_t uncounted; /* completed, but the target did not say how many tokens: chunks count */
    uint64_t prompt_tokens, completion_tokens, cached_tokens;
    bool beside;                      /* background streams ran */
    bool on_wire;                     /* the target has connections: */
    uint64_t messages, payload_bytes; /* of completed requests */
    uint64_t received_bytes;          /* by all connections, whatever for */
    /* The same by completion token; NAN: unknown. Bytes received only where every request was
     * completed and nothing ran beside them. */
    double messages_per_token, payload_per_token, received_per_token;
    double duration_s;     /* start -> last end */
    double submit_wall_ms; /* start -> last sent */
    /* Each with one sample a request, in milliseconds, except itl: one a gap. */
    struct series add_request; /* sent -> queued; the server's receive + tokenize + submit */
    struct series queue;       /* queued -> admitted */
    struct series prefill;     /* admitted -> first token */
    struct series decode;      /* first token -> last, of answers that came whole */
    struct series ttft, tpot, itl, latency;
    struct series client_minus_server; /* client's TTFT - the server's total; what the network and
                                          the two programs' I/O add */
    struct series background_gap;
    bool has_goodput;
    uint32_t good; /* requests that met every objective */
    double request_throughput, output_throughput, total_throughput,
        request_goodput; /* per second */
};

/* Over several runs: durations and counts add up, samples are pooled. n_runs >= 1. False: no
 * memory. */
bool summary_make(struct summary *out, const struct load_result *runs, uint32_t n_runs,
                  const struct goodput *goodput /* may be NULL */);
void summary_fini(struct summary *s);

#endif
