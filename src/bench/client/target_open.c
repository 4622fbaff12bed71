#include "bench/client/target_open.h"

#include <strings.h>

enum status target_open_url(struct target **out, const struct http_options *options,
                            struct err *err)
{
    if (strncasecmp(options->url, "grpcs://", 8) == 0)
        return err_param(err, STATUS_UNSUPPORTED, "--url",
                         "--url: the load generator speaks gRPC without TLS only: expected "
                         "grpc://HOST:PORT, found \"%.200s\"",
                         options->url);
    return strncasecmp(options->url, "grpc://", 7) == 0 ? target_open_grpc(out, options, err)
                                                        : target_open_http(out, options, err);
}
