#include "base/version.h"

/* The Makefile defines both for this file. */
#ifndef FIRSTLIGHT_VERSION
#define FIRSTLIGHT_VERSION "unknown"
#endif
#ifndef FIRSTLIGHT_COMMIT
#define FIRSTLIGHT_COMMIT "unknown"
#endif

const char *version_number(void)
{
    return FIRSTLIGHT_VERSION;
}

const char *version_commit(void)
{
    return FIRSTLIGHT_COMMIT;
}

const char *version_compiler(void)
{
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}
