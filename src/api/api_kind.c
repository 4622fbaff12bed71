#include "api/api_kind.h"

const struct api_kind *const api_kind_table[] = {&api_chat, &api_completions, NULL};

const struct api_kind *api_kind_of(const json_t *request)
{
    for (const struct api_kind *const *k = api_kind_table; *k; k++)
        if (json_object_get(request, (*k)->prompts))
            return *k;
    return &api_completions;
}
