/* What `firstlight run` says about a finished request. */
#ifndef FIRSTLIGHT_CLI_RUN_REPORT_H
#define FIRSTLIGHT_CLI_RUN_REPORT_H

#include "engine/engine.h"

/* One JSON object on standard output: prompt_tokens, tokens, text, finish_reason, ttft. */
enum status run_report_json(struct request *r, struct err *err);

/* A line of TTFT and tokens/s on standard error. */
void run_report_lines(struct request *r);

#endif
