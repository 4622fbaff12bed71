#ifndef FIRSTLIGHT_ENGINE_SAMPLING_TOKEN_LOGPROB_H
#define FIRSTLIGHT_ENGINE_SAMPLING_TOKEN_LOGPROB_H

#include <stdint.h>

struct token_logprob {
    int32_t token;
    float logprob; /* natural, of the model's own distribution: see logprobs.h */
};

#endif
