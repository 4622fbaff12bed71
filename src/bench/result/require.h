/* A condition on a metric of a result: "ttft_p50<=200". */
#ifndef FIRSTLIGHT_BENCH_RESULT_REQUIRE_H
#define FIRSTLIGHT_BENCH_RESULT_REQUIRE_H

#include "base/err.h"
#include "bench/result/result.h"

enum require_operator { REQUIRE_LE, REQUIRE_LT, REQUIRE_GE, REQUIRE_GT, REQUIRE_EQ };

struct require {
    char metric[64];
    enum require_operator op;
    double bound;
};

/* METRIC OP NUMBER; blanks around the operator may be. */
enum status require_parse(const char *text, struct require *out, struct err *err);
const char *require_operator_text(enum require_operator op); /* "<=", ... */

/* The median over the repeats is what is compared. A metric that `result` (of file `name`) does not
 * have is STATUS_INVALID and lists those like it. */
enum status require_check(const struct require *r, const struct result *result, const char *name,
                          double *value, bool *holds, struct err *err);

#endif
