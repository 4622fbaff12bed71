#include "bench/client/target_internal.h"

#include "base/utf8.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#define OTHER_FILES 64 /* of this process beside the connections */

enum status target_allow_files(uint32_t max_connections, struct err *err)
{
    struct rlimit files;
    rlim_t need = (rlim_t)max_connections + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return err_set(err, STATUS_IO, "getrlimit: %s", strerror(errno));
    if (files.rlim_cur >= need)
        return STATUS_OK;
    if (files.rlim_max < need)
        return err_param(err, STATUS_INVALID, "--max-concurrency",
                         "%u connections at once need %ju open files, this process may have %ju: "
                         "lower --max-concurrency or raise the limit (ulimit -Hn)",
                         max_connections, (uintmax_t)need, (uintmax_t)files.rlim_max);
    files.rlim_cur = need;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        return err_set(err, STATUS_IO, "setrlimit of %ju open files: %s", (uintmax_t)need,
                       strerror(errno));
    return STATUS_OK;
}

void target_put_label(char *out, size_t out_size, const char *text)
{
    size_t len = strlen(text);
    if (len > out_size - 1)
        len = out_size - 1;
    len = utf8_valid_prefix(text, len);
    memcpy(out, text, len);
    out[len] = '\0';
    utf8_make_plain(out, false);
}
