/* `firstlight bench WHAT`: measurements, one file each. */
#include "cli/commands.h"

static const struct command benches[] = {
    {"streaming", bench_streaming_main, "many requests: TTFT in its parts, latency, throughput"},
    {"curves", bench_curves_main, "TTFT and throughput against length, batch size and rate"},
    {"model", bench_model_main, "tokens per second of the model alone"},
    {"roofline", bench_roofline_main, "what this machine can do at most: reading and arithmetic"},
    {"scheduler", bench_scheduler_main, "the engine without HTTP, online and offline"},
    {"simulate", bench_simulate_main,
     "scheduling policies over the same arrivals, in virtual time"},
    {"token-speed", bench_token_speed_main, "tokens per second and TTFT of the standard prompts"},
    {"replay", bench_replay_main, "a recorded trace, played again"},
    {"ab", bench_ab_main, "two servers in turns, until their difference is known"},
    {"compare", bench_compare_main, "two results, metric by metric; requirements"},
    {"history", bench_history_main, "the record table of results"},
    {"report", bench_report_main, "results as an HTML page and SVG charts"},
};

int bench_main(int argc, char **argv)
{
    return commands_run("firstlight bench", benches, sizeof benches / sizeof benches[0], argc,
                        argv);
}
