#include "engine/prefix_salt.h"

const struct prefix_salt prefix_salt_public = {.word = {UINT64_MAX, UINT64_MAX}};
