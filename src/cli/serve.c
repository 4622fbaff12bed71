/* firstlight serve: the OpenAI API over HTTP. */
#include "cli/commands.h"

#include "api/server.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/log_writer.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/serve_sandbox.h"
#include "grpc/grpc.h"
#include "http/access.h"
#include "observe/trace.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMAND      "serve"
#define NO_PORT      SERVE_SANDBOX_NO_PORT
#define MEMORY_LEAST (4 * LIMIT_BODY_BYTES) /* half of it holds a body, packed and unpacked */
#define UNSENT_LEAST (1u << 20) /* an eighth of it holds a part of the page, and the metrics */
#define READY_MS     200
#define READY_BYTES  PIPE_BUF /* a pipe that has room at all has room for so many */

struct args {
    struct options options;
    const char *host;
    uint32_t port;
    uint32_t grpc_port;
    uint32_t coalesce_ms;
    const char *tls_cert, *tls_key;
    const char *served_model_name;
    const char *api_key_file;
    struct access access;
    uint32_t drain_seconds;
    uint32_t sse_comment_seconds;
    uint32_t request_timeout_s;
    uint32_t max_per_client;
    double request_rate, token_rate;
    uint32_t rate_burst_s;
    uint32_t max_per_address;
    uint32_t max_connections;
    size_t request_memory, unsent_memory;
    const char *record;
    const char *warm_prompts;
    bool no_sandbox;
    bool shared_prefix_cache;
    int log_level;
    struct sandbox sandbox; /* no flag's */
};

static enum status parse_origins(void *field, const char *text, struct err *err)
{
    return access_add_origins(field, text, err);
}

static enum status parse_hosts(void *field, const char *text, struct err *err)
{
    return access_add_hosts(field, text, err);
}

static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};

// clang-format off
static const struct flag own_flags[] = {
    {"--host", "ADDRESS", "address to listen on (default 127.0.0.1)",
     FLAG_TEXT, FLAG_FIELD(args, host)},
    {"--port", "N", "port; 0 takes any free one (default 8080)",
     FLAG_U32, FLAG_FIELD(args, port), .max = 65535},
    {"--grpc-port", "N", "port for gRPC, which also takes the API over HTTP/2; 0: any free one\n"
                         "(default: none)",
     FLAG_U32, FLAG_FIELD(args, grpc_port), .max = 65535},
    {"--grpc-coalesce-ms", "N", "tokens of a gRPC stream gather for so long after each\n"
                                "message, for fewer messages; the first is never held (default 0)",
     FLAG_U32, FLAG_FIELD(args, coalesce_ms), .max = LIMIT_COALESCE_MS},
    {"--tls-cert", "PATH", "certificate (with its chain) of that port, PEM; then it takes TLS only",
     FLAG_TEXT, FLAG_FIELD(args, tls_cert)},
    {"--tls-key", "PATH", "its key, PEM", FLAG_TEXT, FLAG_FIELD(args, tls_key)},
    {"--served-model-name", "NAME", "name of the model in the API (default: the file's)",
     FLAG_TEXT, FLAG_FIELD(args, served_model_name)},
    {"--api-key-file", "PATH", "keys to ask for, one a line, # for comments\n"
                               "(also: the environment variable FIRSTLIGHT_API_KEY)",
     FLAG_TEXT, FLAG_FIELD(args, api_key_file)},
    {"--cors-origin", "ORIGIN", "web pages that may use this server beside its own and those of\n"
                                "this machine: https://chat.example.com; * is all of them.\n"
                                "May be repeated, and a list with commas",
     FLAG_CUSTOM, FLAG_FIELD(args, access), .parse = parse_origins},
    {"--allowed-host", "NAME", "name that a server without keys on a loopback address answers to\n"
                               "beside localhost: that of the proxy before it. May be repeated,\n"
                               "and a list with commas",
     FLAG_CUSTOM, FLAG_FIELD(args, access), .parse = parse_hosts},
    {"--max-requests", "N", "requests known at once; more get 429 (default 1024)",
     FLAG_U32, FLAG_FIELD(args, options.engine.n_slots), .min = 1, .max = LIMIT_SLOTS_MOST},
    {"--max-requests-per-client", "N", "requests under way of one API key or, without keys, one\n"
                                       "address; more get 429 (default: no bound)",
     FLAG_U32, FLAG_FIELD(args, max_per_client), .min = 1, .max = LIMIT_SLOTS_MOST},
    {"--max-requests-per-second", "N", "requests a second of one API key or, without keys, one\n"
                                       "address; more get 429 (default: no bound)",
     FLAG_F64, FLAG_FIELD(args, request_rate), .min = 0.001, .max = 1e6},
    {"--max-tokens-per-second", "N", "tokens a second of the same, read and generated; while a\n"
                                     "client is over it, its requests get 429 (default: no bound)",
     FLAG_F64, FLAG_FIELD(args, token_rate), .min = 0.001, .max = 1e9},
    {"--rate-burst", "SECONDS", "of both, that a client may use at once",
     FLAG_U32, FLAG_FIELD(args, rate_burst_s), .min = 1, .max = 86400, .zero = "none"},
    {"--max-connections-per-address", "N", "connections at once of one address, on all\n"
                                           "ports; more get 429",
     FLAG_U32, FLAG_FIELD(args, max_per_address), .min = 1, .max = 65536, .zero = "no bound"},
    {"--max-connections", "N", "connections at once; more get 503",
     FLAG_U32, FLAG_FIELD(args, max_connections), .min = 1, .max = 65536, .zero = "no bound"},
    {"--max-request-memory", "SIZE",
     "of the bodies of all requests until they are tokens; one client\n"
     "has at most half, more get 503 (default: an eighth of the memory\n"
     "that the model leaves, 64M to 1G)",
     FLAG_SIZE, FLAG_FIELD(args, request_memory)},
    {"--max-unsent-memory", "SIZE",
     "of the answers that clients have not taken; one address has at\n"
     "most half, more get 503 or the end of their stream; a quarter is\n"
     "for answers that need no key (at least 1M; default: as\n"
     "--max-request-memory)",
     FLAG_SIZE, FLAG_FIELD(args, unsent_memory)},
    {"--request-timeout", "SECONDS", "for a whole answer, waiting included; then 408\n"
                                     "(default: none; a request may ask for less)",
     FLAG_U32, FLAG_FIELD(args, request_timeout_s), .min = 1, .max = LIMIT_TIMEOUT_SECONDS},
    {"--drain-timeout", "SECONDS", "time for running requests after SIGTERM",
     FLAG_U32, FLAG_FIELD(args, drain_seconds), .max = 86400, .zero = "none"},
    {"--sse-comment", "SECONDS", "a stream that was silent for so long gets a comment, so that\n"
                                 "proxies keep it",
     FLAG_U32, FLAG_FIELD(args, sse_comment_seconds), .min = 1, .max = 86400, .zero = "none"},
    {"--warm-prompts", "FILE", "prompts to have in the prefix cache from the start, one request\n"
                               "in JSON a line: {\"messages\": [...]} or {\"prompt\": ...}",
     FLAG_TEXT, FLAG_FIELD(args, warm_prompts)},
    {"--shared-prefix-cache", NULL, "API keys share cached prompts, so that one can find out what\n"
                                    "another asked (default: each key has its own)",
     FLAG_BOOL, FLAG_FIELD(args, shared_prefix_cache)},
    {"--record", "FILE", "new file for a trace of what is asked: times, lengths and hashes,\n"
                         "no text; for `firstlight bench replay`",
     FLAG_TEXT, FLAG_FIELD(args, record)},
    {"--no-sandbox", NULL, "let the process do all that its user may (default: it opens its own\n"
                           "files only, and starts no program)",
     FLAG_BOOL, FLAG_FIELD(args, no_sandbox)},
    {"--log-level", "LEVEL", "debug, info, warn, error or off (default info)",
     FLAG_CHOICE, FLAG_FIELD(args, log_level), .choices = log_levels},
};
// clang-format on

static enum status serve_load(void *arg, struct loader *out, struct err *err)
{
    const struct args *args = arg;
    enum status st = options_load(&args->options, out, err);
    if (!st)
        options_tell_sampling(out);
    return st;
}

/* All threads have been started. */
static void seal(struct args *args)
{
    struct sandbox *s = &args->sandbox;
    char text[256];
    if (args->no_sandbox) {
        log_info("server.sandbox", "landlock=off seccomp=off reason=--no-sandbox");
        return;
    }
    sandbox_seal(s);
    log_event(s->confined && s->sealed ? LOG_INFO : LOG_WARN, "server.sandbox", "%s",
              sandbox_describe(s, text, sizeof text));
}

/* The line that people and supervisors wait for: one small write at the start, for which a reader
 * that is there makes room at once. If there is none, the I/O thread must not wait for it. */
static void print_ready(const char *text, size_t len)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&p, 1, READY_MS) == 1 && write(STDOUT_FILENO, text, len) == (ssize_t)len)
        return;
    log_warn("server.ready_line", "written=no reason=\"standard output takes nothing\"");
}

static void serve_ready(void *arg, const struct server_ready *r)
{
    char text[READY_BYTES];
    seal(arg);
    int n = snprintf(
        text, sizeof text,
        "firstlight ready on %s (%.200s, ready in %.1f s) - try: curl -N %s/v1/chat/completions "
        "-H 'Content-Type: application/json' "
        "-d '{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n%s%s%s",
        r->url, r->model, r->seconds, r->url, r->grpc_url ? "gRPC and HTTP/2 on " : "",
        r->grpc_url ? r->grpc_url : "", r->grpc_url ? "\n" : "");
    print_ready(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void confine(struct args *args)
{
    const struct serve_files files = {
        .model = args->options.dummy ? args->options.dummy : args->options.model,
        .once = {args->options.chat_template, args->warm_prompts},
        .again = {args->api_key_file, args->tls_cert, args->tls_key},
        .ports = {args->port, args->grpc_port},
    };
    if (!args->no_sandbox)
        serve_sandbox_confine(&args->sandbox, &files);
}

/* found 0: the flag was not given. */
static enum status check_least(const char *flag, size_t found, uint32_t least, const char *why,
                               struct err *err)
{
    if (found == 0 || found >= least)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID, "%s: must be at least %uM, so that %s, found %zu bytes",
                   flag, least >> 20, why, found);
}

static enum status serve_check_memory(const struct args *args, struct err *err)
{
    enum status st = check_least("--max-request-memory", args->request_memory, MEMORY_LEAST,
                                 "one client's half holds the largest body", err);
    if (st)
        return st;
    return check_least("--max-unsent-memory", args->unsent_memory, UNSENT_LEAST,
                       "what one address has of it holds the longest answer that needs no key",
                       err);
}

static enum status serve_run(struct args *args, struct err *err)
{
    enum status st = options_check(&args->options, err);
    if (st)
        return st;
    if (args->warm_prompts && args->options.engine.no_prefix_cache)
        return err_set(err, STATUS_INVALID,
                       "--warm-prompts needs the prefix cache, which "
                       "--no-prefix-cache turns off");
    if ((st = serve_check_memory(args, err)))
        return st;
    bool has_grpc = args->grpc_port != NO_PORT;
    if (!args->tls_cert != !args->tls_key || (args->tls_cert && !has_grpc))
        return err_set(
            err, STATUS_INVALID,
            "--tls-cert and --tls-key go together, and with --grpc-port, whose they are");
    struct server_options server = {
        .host = args->host,
        .port = (int)args->port,
        .rpc = has_grpc ? &grpc_rpc : NULL,
        .grpc_port = (int)args->grpc_port,
        .coalesce_ms = args->coalesce_ms,
        .tls_cert = args->tls_cert,
        .tls_key = args->tls_key,
        .max_connections = args->max_connections,
        .api_key_file = args->api_key_file,
        .access = &args->access,
        .served_model_name = args->served_model_name,
        .drain_seconds = args->drain_seconds,
        .sse_comment_seconds = args->sse_comment_seconds,
        .max_per_address = args->max_per_address,
        .request_rate = args->request_rate,
        .token_rate = args->token_rate,
        .rate_burst_s = args->rate_burst_s,
        .max_per_client = args->max_per_client,
        .unsent_memory = args->unsent_memory,
        .request_memory = args->request_memory,
        .request_timeout_s = args->request_timeout_s,
        .record = args->record,
        .warm_prompts = args->warm_prompts,
        .shared_prefix_cache = args->shared_prefix_cache,
        .load = serve_load,
        .ready = serve_ready,
        .arg = args,
    };
    st = options_engine(&args->options, &server.engine, err);
    if (!st && args->record)
        st = trace_create(&server.record_fd, args->record, err);
    if (st)
        return st;
    confine(args); /* no thread has been started */
    if ((st = log_writer_start(err)))
        return st;
    st = server_run(&server, err);
    log_writer_stop();
    return st;
}

int serve_main(int argc, char **argv)
{
    struct args args = {
        .options = options_default,
        .host = "127.0.0.1",
        .port = 8080,
        .grpc_port = NO_PORT,
        .drain_seconds = LIMIT_DRAIN_SECONDS,
        .sse_comment_seconds = LIMIT_SSE_COMMENT_SECONDS,
        .max_connections = LIMIT_CONNECTIONS,
        .max_per_address = LIMIT_ADDRESS_CONNECTIONS,
        .request_rate = LIMIT_REQUEST_RATE,
        .token_rate = LIMIT_TOKEN_RATE,
        .rate_burst_s = LIMIT_RATE_BURST_SECONDS,
        .log_level = LOG_INFO,
    };
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--model PATH [flags]",
        .about = "Serves a model over HTTP with the OpenAI API: /v1/chat/completions, "
                 "/v1/completions,\n/v1/models, and /health and /ready. SIGTERM lets running "
                 "requests finish,\nSIGHUP reads API keys and certificate anew.",
        .groups = {FLAG_GROUP(own_flags, &args), options_text_flags(&args.options),
                   options_engine_flags(&args.options), options_model_flags(&args.options)},
    };
    struct err err;
    int exit_code;
    args.options.engine.max_queued_tokens = LIMIT_QUEUED_TOKENS;
    args.options.engine.max_queue_ms = ENGINE_UNSET; /* the profile's */
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    log_set_level((enum log_level)args.log_level);
    if (serve_run(&args, &err) != STATUS_OK)
        return flags_fail(COMMAND, &err);
    return EXIT_SUCCESS;
}
