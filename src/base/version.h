/* What this binary was built from. */
#ifndef FIRSTLIGHT_BASE_VERSION_H
#define FIRSTLIGHT_BASE_VERSION_H

const char *version_number(void); /* "0.1.0" */
const char *version_commit(void); /* short hash, "+" behind it for changes; "unknown" outside git */
const char *version_compiler(void); /* "gcc 12.2.0" */

#endif
