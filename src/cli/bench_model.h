/* `firstlight bench model`: tokens per second of the model alone, in prefill and in decode. */
#ifndef FIRSTLIGHT_CLI_BENCH_MODEL_H
#define FIRSTLIGHT_CLI_BENCH_MODEL_H

/* argv[0] is "model". */
int bench_model_main(int argc, char **argv);

#endif
