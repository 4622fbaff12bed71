#include "api/server.h"

#include "api/completion.h"
#include "api/reload.h"
#include "api/routes.h"
#include "api/server_state.h"
#include "api/warm_prompts.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "base/sched_slice.h"
#include "kernels/kv_layout.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SPARE_DESCRIPTORS 192 /* connections told that there are too many, files, eventfds */
#define ABANDON_SECONDS   2   /* how long a loader thread may outlive a signal */

static void state_changed(struct server *s)
{
    server_state_tell(s);
    event_stream_changed(&s->events);
}

/* The loader thread */

static enum status server_warm_up(struct server *s, struct err *err)
{
    const char *path = s->options.warm_prompts;
    struct engine_info info;
    struct warm_prompts w = {0};
    int64_t start = clock_now_us();
    engine_info(s->engine, &info);
    enum status st = STATUS_OK;
    if (path)
        st = warm_prompts_read(&w, path, &s->loader, info.n_ctx, s->keyed, err);
    if (st == STATUS_OK)
        st = engine_warm(s->engine, w.all, w.n, err);
    if (st == STATUS_OK && path)
        log_info("server.warm_prompts", "prompts=%u seconds=%.3f", w.n,
                 (double)(clock_now_us() - start) / 1e6);
    warm_prompts_fini(&w);
    return st;
}

static void *server_load(void *arg)
{
    struct server *s = arg;
    const struct server_options *o = &s->options;
    s->load_status = o->load(o->arg, &s->loader, &s->load_err);
    if (s->load_status == STATUS_OK)
        s->load_status = engine_open(&s->engine, &s->loader, &o->engine, &s->load_err);
    if (s->load_status == STATUS_OK)
        s->load_status = server_warm_up(s, &s->load_err);
    wake_signal(&s->loaded);
    return NULL;
}

/* Threads started from here on leave signals to the I/O thread. */
static enum status start_loading(struct server *s, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* a fault of the thread itself: see weights/map_guard.h */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int e = pthread_create(&s->load_thread, NULL, server_load, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (e)
        return err_set(err, STATUS_NO_MEMORY, "cannot start the loader thread: %s", strerror(e));
    s->loading = true;
    return STATUS_OK;
}

/* Said once. What comes of the engine after this are the ends of all requests. */
static void look_for_failure(struct server *s)
{
    char text[sizeof s->failure.text + 64];
    if (s->failure.code != STATUS_OK || engine_failure(s->engine, &s->failure) == STATUS_OK)
        return;
    log_error("server.failed", "error=%s", log_quote(s->failure.text, text, sizeof text));
    if (s->state != SERVER_READY)
        return;
    s->state = SERVER_FAILED;
    state_changed(s);
}

static void on_engine(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    struct request *r;
    (void)fd;
    (void)what;
    engine_events_clear(s->engine);
    look_for_failure(s);
    while ((r = engine_next_event(s->engine)))
        completion_output_news(request_user(r));
}

/* Of one connection: a head, what is read at once, what comes ahead of an answer, what is on its
 * way out, short answers, and what of an answer, of finished choices and of an echo may always
 * wait. Over HTTP/2 nothing comes ahead: its only stream, which asks no budget for room, and what
 * goes out take less. */
#define CONNECTION_BYTES                                                                           \
    (2 * LIMIT_HEADER_BYTES + LIMIT_PIPELINED_BYTES + 4 * LIMIT_STREAM_BUFFER + (56u << 10))
/* Of one connection with TLS: its state, a record either way, and a ClientHello as long as OpenSSL
 * takes one, which it makes room for (a third more) when its length has come. */
#define TLS_BYTES (256u << 10)
/* Of one token of a request: its id, prompt or output, twice for penalties, log probabilities. */
#define TOKEN_BYTES (24 + (LIMIT_TOP_LOGPROBS + 2) * 8)
/* Of one request beside its tokens: a choice, and the choices of its call that are done; its bias,
 * its stop strings, and what stands between them and the text. */
#define REQUEST_BYTES                                                                              \
    (LIMIT_CHOICES * sizeof(struct choice) + LIMIT_LOGIT_BIAS * sizeof(struct logit_bias) +        \
     4 * LIMIT_STOP_STRINGS * LIMIT_STOP_BYTES)
/* Of one thread that reads questions: a body in one piece, JSON, a message of gRPC, a template. */
#define READING_BYTES                                                                              \
    (LIMIT_BODY_BYTES + (100u << 20) + LIMIT_QUESTION_BYTES + LIMIT_TEMPLATE_MEMORY +              \
     LIMIT_TEMPLATE_OUTPUT)

/* The most that each part may take; ARCHITECTURE.md says what it is made of. */
static void log_memory_bound(const struct server *s)
{
    const struct backend_memory *m = &s->info.memory;
    size_t model = m->weights + m->repacked + m->kv + m->activations + s->info.slots_memory +
                   s->info.expect_memory;
    const struct tokenizer *t = s->loader.tokenizer;
    size_t token = TOKEN_BYTES + tokenizer_max_piece(t);
    size_t outputs = s->info.n_slots * (s->info.n_ctx * token + REQUEST_BYTES +
                                        tokenizer_vocab_size(t) * sizeof(uint32_t));
    size_t max = s->options.max_connections, connections = max * CONNECTION_BYTES;
    /* and the I/O thread, an answer of at most half of what may be unsent: put together, copied */
    size_t reading = 2 * (size_t)READING_BYTES + s->unsent_memory.most;
    if (s->http2)
        connections += max * (CONNECTION_BYTES + LIMIT_H2_SESSION);
    if (s->http2 && s->options.tls_cert)
        connections += max * TLS_BYTES;
    size_t unsent = s->unsent_memory.most + s->keyless_memory.most;
    size_t streams = s->http2 ? s->stream_memory.most : 0;
    size_t trace = s->trace ? LIMIT_TRACE_BYTES : 0;
    log_info("server.memory_bound",
             "total=%zu model=%zu request=%zu streams=%zu unsent=%zu connections=%zu outputs=%zu "
             "reading=%zu trace=%zu",
             model + s->request_memory.most + streams + unsent + connections + outputs + reading +
                 trace,
             model, s->request_memory.most, streams, unsent, connections, outputs, reading, trace);
}

static void announce(struct server *s)
{
    struct server_ready ready = {
        .url = http1_url(s->http),
        .grpc_url = s->http2 ? http2_url(s->http2) : NULL,
        .model = s->model_name,
        .engine = s->options.engine.kind ? s->options.engine.kind->name : "auto",
        .info = &s->info,
        .seconds = (double)(clock_now_us() - s->start_us) / 1e6,
    };
    char name[160];
    uint32_t most = s->loader.model->config.n_ctx_train;
    if (s->options.engine.n_ctx == 0 && s->info.n_ctx < most && s->info.n_ctx < LIMIT_CONTEXT)
        log_warn("server.context", "n_ctx=%u of=%u reason=memory help=\"--ctx or --kv-memory\"",
                 s->info.n_ctx, most);
    log_info("server.ready", "url=%s model=%s seconds=%.3f n_ctx=%u slots=%u kv_blocks=%u",
             ready.url, log_quote(ready.model, name, sizeof name), ready.seconds, s->info.n_ctx,
             s->info.n_slots, s->info.n_kv_blocks);
    if (ready.grpc_url)
        log_info("server.grpc", "url=%s", ready.grpc_url);
    const struct backend_memory *m = &s->info.memory;
    log_info("server.memory",
             "weights=%zu repacked=%zu kv=%zu kv_type=%s activations=%zu slots=%zu threads=%d",
             m->weights, m->repacked, m->kv, kv_layout_names[s->options.engine.kv_type],
             m->activations, s->info.slots_memory, s->info.n_threads);
    log_memory_bound(s);
    s->options.ready(s->options.arg, &ready);
}

static size_t server_between(size_t n, size_t least, size_t most)
{
    return n < least ? least : n > most ? most : n;
}

/* What can be had without a key fills a quarter of the one, and a budget beside the other. */
static void share_memory(struct server *s, size_t request, size_t unsent)
{
    byte_budget_resize(&s->request_memory, request);
    byte_budget_resize(&s->stream_memory, request);
    byte_budget_resize(&s->keyless_memory, unsent / 4);
    byte_budget_resize(&s->unsent_memory, unsent - unsent / 4);
}

static void open_budgets(struct server *s)
{
    struct byte_budget *const all[] = {&s->request_memory, &s->stream_memory, &s->unsent_memory,
                                       &s->keyless_memory};
    const struct server_options *o = &s->options;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        byte_budget_init(all[i], 0);
    share_memory(s, o->request_memory ? o->request_memory : LIMIT_REQUEST_MEMORY_LEAST,
                 o->unsent_memory ? o->unsent_memory : LIMIT_UNSENT_MEMORY_LEAST);
}

/* An eighth each of what is left once the KV pool has all its pages: enough for many prompts at
 * once, and little beside what parsing, outputs and the page cache of the model's file need. */
static void size_memory(struct server *s)
{
    size_t left = mem_available(), kv = s->info.memory.kv;
    size_t share = left > kv ? (left - kv) / 8 : 0;
    size_t request = s->options.request_memory, unsent = s->options.unsent_memory;
    share_memory(
        s,
        request ? request : server_between(share, LIMIT_REQUEST_MEMORY_LEAST, LIMIT_REQUEST_MEMORY),
        unsent ? unsent : server_between(share, LIMIT_UNSENT_MEMORY_LEAST, LIMIT_UNSENT_MEMORY));
}

static void on_loaded(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    (void)fd;
    (void)what;
    pthread_join(s->load_thread, NULL);
    s->loading = false;
    event_del(s->loaded_event);
    if (s->load_status == STATUS_OK)
        s->engine_event =
            event_new(s->base, engine_event_fd(s->engine), EV_READ | EV_PERSIST, on_engine, s);
    if (s->load_status == STATUS_OK && (!s->engine_event || event_add(s->engine_event, NULL)))
        s->load_status = err_set(&s->load_err, STATUS_NO_MEMORY, "no memory for the server");
    if (s->load_status != STATUS_OK) {
        event_base_loopbreak(s->base);
        return;
    }
    engine_info(s->engine, &s->info);
    size_memory(s);
    sched_slice_short(); /* all threads that compute have been started */
    s->model_name = s->options.served_model_name ? s->options.served_model_name : s->loader.name;
    s->state = SERVER_READY;
    state_changed(s);
    announce(s);
}

/* The end */

static void set_deadline(struct server *s, uint32_t seconds)
{
    struct timeval tv = {.tv_sec = seconds};
    event_add(s->deadline_event, &tv);
}

static bool is_busy(void *server)
{
    return ((struct server *)server)->calls != NULL;
}

static void events_look(void *server, struct server_view *out)
{
    server_state_look(server, out);
}

static uint32_t events_waiting(void *server, struct server_view_waiting *out)
{
    return completion_waiting(server, out);
}

static void events_ended(void *server)
{
    server_state_call_ended(server);
}

static void server_on_left(void *server)
{
    memory_trim_soon(((struct server *)server)->trim);
}

/* First the running requests are cancelled and their streams told so; then there is no more time.
 */
static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    (void)fd;
    (void)what;
    if (!s->cancelled) {
        s->cancelled = true;
        completion_cancel_all(s);
        set_deadline(s, LIMIT_LINGER_SECONDS);
        return;
    }
    event_base_loopbreak(s->base);
}

static void on_signal(evutil_socket_t signal_number, short what, void *arg)
{
    struct server *s = arg;
    (void)what;
    log_info("server.signal", "signal=%d state=%d", (int)signal_number, (int)s->state);
    if (s->state != SERVER_READY &&
        s->state != SERVER_FAILED) { /* nothing to drain, or told twice */
        event_base_loopbreak(s->base);
        return;
    }
    s->state = SERVER_DRAINING;
    state_changed(s);
    engine_drain(s->engine);
    http1_drain(s->http);
    if (s->http2)
        http2_drain(s->http2);
    set_deadline(s, s->options.drain_seconds);
    server_state_call_ended(s);
}

/* Logged, so that one can see that it came. */
static void on_user_signal(evutil_socket_t signal_number, short what, void *arg)
{
    (void)what;
    (void)arg;
    log_debug("server.signal", "signal=%d ignored=yes", (int)signal_number);
}

static void on_reload(evutil_socket_t signal_number, short what, void *arg)
{
    (void)signal_number;
    (void)what;
    reload_files(arg);
}

/* Start */

static const struct {
    int number;
    event_callback_fn on_signal;
} signals[SERVER_SIGNALS] = {{SIGTERM, on_signal},
                             {SIGINT, on_signal},
                             {SIGHUP, on_reload},
                             {SIGUSR1, on_user_signal},
                             {SIGUSR2, on_user_signal}};

/* Every connection is a descriptor; the soft limit is often 1024. */
static void raise_descriptors(struct server *s)
{
    struct rlimit limit;
    uint32_t ports = s->options.rpc ? 2 : 1;
    rlim_t need = (rlim_t)s->options.max_connections * ports + SPARE_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
        return;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= need)
        return;
    s->options.max_connections = limit.rlim_cur > (ports + 1) * SPARE_DESCRIPTORS
                                     ? ((uint32_t)limit.rlim_cur - SPARE_DESCRIPTORS) / ports
                                     : SPARE_DESCRIPTORS;
    log_warn("server.descriptors", "limit=%lu max_connections=%u", (unsigned long)limit.rlim_cur,
             s->options.max_connections);
}

static void on_libevent_log(int severity, const char *message)
{
    char text[300];
    if (severity >= EVENT_LOG_WARN)
        log_warn("libevent", "message=%s", log_quote(message, text, sizeof text));
}

static enum status open_events(struct server *s, struct err *err)
{
    s->loaded_event = event_new(s->base, s->loaded.fd, EV_READ | EV_PERSIST, on_loaded, s);
    s->deadline_event = evtimer_new(s->base, on_deadline, s);
    bool ok = s->loaded_event && s->deadline_event && event_add(s->loaded_event, NULL) == 0;
    for (int i = 0; i < SERVER_SIGNALS; i++) {
        s->signal_events[i] = evsignal_new(s->base, signals[i].number, signals[i].on_signal, s);
        ok = ok && s->signal_events[i] && event_add(s->signal_events[i], NULL) == 0;
    }
    if (!ok)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the event loop");
    return STATUS_OK;
}

/* Only where no key is asked for does it matter who a browser believes this server to be. */
static void set_access(struct server *s)
{
    const struct server_options *o = &s->options;
    if (o->access)
        s->access = *o->access;
    s->access.checks_host = !s->keys && http1_is_loopback(s->http);
    if (!access_parse_host(o->host, strlen(o->host), &s->access.own))
        s->access.own = (struct access_host){0};
    if (s->access.any_origin && !s->keys)
        log_warn("server.cors",
                 "reason=\"every web page that a user of this machine visits may use "
                 "this server: it asks for no key\" help=\"--api-key-file, or "
                 "--cors-origin with the pages that may\"");
}

/* What is known of clients. */
static enum status open_clients(struct server *s, struct err *err)
{
    const struct server_options *o = &s->options;
    const struct rate_limit_options rates = {
        .requests = o->request_rate, .tokens = o->token_rate, .burst_s = o->rate_burst_s};
    enum status st = STATUS_OK;
    if (o->max_per_client > 0)
        st = client_limit_open(&s->clients, o->max_per_client, 2 * o->max_connections, err);
    if (st == STATUS_OK && o->max_per_address > 0)
        st = client_limit_open(&s->addresses, o->max_per_address, 2 * o->max_connections, err);
    if (st == STATUS_OK && (rates.requests > 0 || rates.tokens > 0))
        st = rate_limit_open(&s->rates, &rates, err);
    return st;
}

/* Said at the start, before a model has loaded: the ports are open by then. */
static void warn_if_open_to_all(const struct server *s)
{
    if (s->keys || http1_is_loopback(s->http))
        return;
    log_warn("server.open_to_all",
             "url=%s keys=none message=\"whoever reaches this address can use the server and read "
             "what it is asked: name keys by --api-key-file, or listen on 127.0.0.1 (--host)\"",
             http1_url(s->http));
}

static enum status server_open_all(struct server *s, struct err *err)
{
    const struct server_options *o = &s->options;
    s->base = event_base_new();
    if (!s->base)
        return err_set(err, STATUS_NO_MEMORY, "no event loop: %s", strerror(errno));
    s->events = (struct event_stream){.base = s->base,
                                      .look = events_look,
                                      .waiting = events_waiting,
                                      .ended = events_ended,
                                      .arg = s};
    raise_descriptors(s);
    enum status st = open_clients(s, err);
    if (st == STATUS_OK)
        st = text_worker_open(&s->text, s->base, LIMIT_TEXT_JOBS, err);
    if (st)
        return st;
    struct http1_options http = {.host = o->host,
                                 .port = o->port,
                                 .errors = &openai_response_errors,
                                 .max_connections = o->max_connections,
                                 .addresses = s->addresses,
                                 .unsent = &s->unsent_memory,
                                 .keyless = &s->keyless_memory,
                                 .left = server_on_left,
                                 .left_arg = s,
                                 .admit = routes_admit};
    struct http2_options http2 = {.host = o->host,
                                  .port = o->grpc_port,
                                  .errors = &openai_response_errors,
                                  .is_probe = o->rpc ? o->rpc->is_probe : NULL,
                                  .max_connections = o->max_connections,
                                  .addresses = s->addresses,
                                  .unsent = &s->unsent_memory,
                                  .keyless = &s->keyless_memory,
                                  .streams = &s->stream_memory,
                                  .left = server_on_left,
                                  .left_arg = s,
                                  .tls_cert = o->tls_cert,
                                  .tls_key = o->tls_key,
                                  .workers = s->text};
    if ((st = keys_load(&s->keys, o->api_key_file, err)) ||
        (st = cache_salt_secret_make(&s->secret, err)) || (st = wake_init(&s->loaded, err)) ||
        (st = open_events(s, err)) ||
        (st = http1_open(&s->http, s->base, &http, routes_dispatch, s, err)) ||
        (st = o->rpc ? http2_open(&s->http2, s->base, &http2, o->rpc->dispatch, s, err)
                     : STATUS_OK) ||
        (st = memory_trim_open(&s->trim, s->base, s->text, is_busy, s, err)) ||
        (st = o->record ? trace_open(&s->trace, o->record_fd, o->record, err) : STATUS_OK))
        return st;
    set_access(s);
    s->keyed = s->keys && !o->shared_prefix_cache;
    warn_if_open_to_all(s);
    return start_loading(s, err);
}

/* A signal may come while a large model loads; nobody waits for that to be done. */
static bool loader_ended(struct server *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ABANDON_SECONDS;
    return !s->loading || pthread_timedjoin_np(s->load_thread, NULL, &until) == 0;
}

/* Cancels what still runs and waits for it; the engine needs one step at most. */
static void finish_calls(struct server *s)
{
    struct request *r;
    completion_cancel_all(s);
    while (s->calls) {
        engine_wait(s->engine);
        while ((r = engine_next_event(s->engine)))
            completion_output_news(request_user(r));
    }
}

static void free_event(struct event *e)
{
    if (e)
        event_free(e);
}

static void close_all(struct server *s)
{
    http1_close(s->http);
    http2_close(s->http2);
    text_worker_close(s->text);
    memory_trim_close(s->trim);
    s->trim = NULL;
    if (s->engine)
        finish_calls(s);
    trace_close(s->trace);
    engine_close(s->engine);
    loader_close(&s->loader);
    free_event(s->loaded_event);
    free_event(s->engine_event);
    for (int i = 0; i < SERVER_SIGNALS; i++)
        free_event(s->signal_events[i]);
    free_event(s->deadline_event);
    wake_fini(&s->loaded);
    keys_free(s->keys);
    client_limit_free(s->clients);
    client_limit_free(s->addresses);
    rate_limit_free(s->rates);
    explicit_bzero(&s->secret, sizeof s->secret);
    if (s->base)
        event_base_free(s->base);
    mem_free(s);
}

enum status server_run(const struct server_options *options, struct err *err)
{
    struct server *s = mem_zalloc(sizeof *s);
    if (!s)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the server");
    s->options = *options;
    metrics_init(&s->metrics);
    open_budgets(s);
    s->start_us = clock_now_us();
    s->start_unix_s = clock_unix_s();
    s->loaded.fd = -1;
    reserve_open();
    event_set_mem_functions(reserve_alloc, reserve_resize, reserve_free);
    event_set_log_callback(on_libevent_log);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < SERVER_SIGNALS; i++) /* what asks for no end must not bring one meanwhile */
        if (signals[i].on_signal != on_signal)
            signal(signals[i].number, SIG_IGN);
    enum status st = server_open_all(s, err);
    if (st == STATUS_OK)
        event_base_dispatch(s->base);
    if (!loader_ended(s)) {
        trace_close(s->trace);
        log_info("server.end", "loading=abandoned");
        return st; /* the process is about to end; the loader thread still uses what *s holds */
    }
    if (st == STATUS_OK && s->load_status != STATUS_OK) {
        st = s->load_status;
        *err = s->load_err;
    }
    if (st == STATUS_OK)
        log_info("server.end", NULL);
    close_all(s);
    return st;
}
