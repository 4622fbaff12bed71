#include "api/routes.h"

#include "api/api_kind.h"
#include "api/client_admission.h"
#include "api/completion.h"
#include "api/debug_page.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "observe/measurements.h"
#include "observe/prometheus.h"
#include "web/assets.h"

#include <inttypes.h>
#include <string.h>

typedef void route_handler(struct server *s, struct http_exchange *x);

static route_handler models, model, health, routes_ready;
static route_handler metrics, routes_requests, stats, stream;
static route_handler page, page_part;

struct route {
    const char *path; /* a final '/' takes whatever follows it, but for "/" itself */
    const char *method;
    bool needs_key;
    route_handler *handler;      /* NULL: a completion of ... */
    const struct api_kind *kind; /* ... this API is asked for */
};

static const struct route routes[] = {
    {"/v1/chat/completions", "POST", true, NULL, &api_chat},
    {"/v1/completions", "POST", true, NULL, &api_completions},
    {"/v1/models", "GET", true, models, NULL},
    {"/v1/models/", "GET", true, model, NULL},
    {"/v1/debug/requests", "GET", true, routes_requests, NULL},
    {"/v1/debug/stats", "GET", true, stats, NULL},
    {"/v1/debug/stream", "GET", true, stream, NULL},
    {"/metrics", "GET", false, metrics, NULL},
    {"/health", "GET", false, health, NULL},
    {"/ready", "GET", false, routes_ready, NULL},
    {"/", "GET", false, page, NULL},
    {"/page/", "GET", false, page_part, NULL},
};

/* Handlers */

static void routes_ask(struct server *s, struct http_exchange *x, const struct api_kind *kind)
{
    const struct completion_question question = {
        .kind = kind, .form = kind->form, .body = http_take_body(x)};
    completion_begin(s, x, &question);
}

static void reply_as(struct http_exchange *x, int status, const char *type, struct buf *body)
{
    struct err e;
    if (body->failed) {
        err_set(&e, STATUS_NO_MEMORY, "no memory for the answer");
        http_fail(x, &e, NULL);
    } else {
        http_reply(x, status, type, buf_str(body), body->len);
    }
    buf_fini(body);
}

static void routes_reply(struct http_exchange *x, int status, struct buf *body)
{
    reply_as(x, status, "application/json", body);
}

static void put_model(struct buf *out, const struct server *s)
{
    buf_puts(out, "{\"id\":");
    json_put(out, s->model_name);
    buf_printf(out,
               ",\"object\":\"model\",\"created\":%" PRId64
               ",\"owned_by\":\"firstlight\",\"max_model_len\":%u}",
               s->start_unix_s, s->info.n_ctx);
}

static bool routes_still_loading(const struct server *s, struct http_exchange *x)
{
    struct err e;
    if (server_state_check_loaded(s, &e) == STATUS_OK)
        return false;
    http_fail(x, &e, NULL);
    return true;
}

static void models(struct server *s, struct http_exchange *x)
{
    struct buf out = {0};
    if (routes_still_loading(s, x))
        return;
    buf_puts(&out, "{\"object\":\"list\",\"data\":[");
    put_model(&out, s);
    buf_puts(&out, "]}");
    routes_reply(x, 200, &out);
}

static void model(struct server *s, struct http_exchange *x)
{
    struct buf out = {0};
    struct err e;
    char name[256];
    if (routes_still_loading(s, x))
        return;
    if (!http_path_rest(x, "/v1/models/", name, sizeof name) || strcmp(name, s->model_name) != 0) {
        err_param(&e, STATUS_NOT_FOUND, "model", "no such model: this server has \"%s\"",
                  s->model_name);
        http_fail(x, &e, "model_not_found");
        return;
    }
    put_model(&out, s);
    routes_reply(x, 200, &out);
}

/* Why nothing is taken any more. */
static void put_failure(struct buf *out, const struct server *s)
{
    if (s->failure.code == STATUS_OK)
        return;
    buf_puts(out, ",\"error\":{\"message\":");
    json_put(out, s->failure.text);
    buf_putc(out, '}');
}

static void health(struct server *s, struct http_exchange *x)
{
    struct buf out = {0};
    struct server_view v;
    server_state_view(s, &v);
    buf_printf(&out, "{\"status\":\"%s\"", v.state);
    put_failure(&out, s);
    measurements_json(&out, MEASUREMENTS_HEALTH, &v);
    buf_putc(&out, '}');
    routes_reply(x, s->state == SERVER_FAILED ? 503 : 200, &out);
}

static void routes_ready(struct server *s, struct http_exchange *x)
{
    struct buf out = {0};
    bool is = s->state == SERVER_READY;
    buf_printf(&out, "{\"ready\":%s,\"status\":\"%s\"", is ? "true" : "false",
               server_state_name(s->state));
    put_failure(&out, s);
    buf_putc(&out, '}');
    if (!is)
        http_add_header(x, "Retry-After", "1");
    routes_reply(x, is ? 200 : 503, &out);
}

static void metrics(struct server *s, struct http_exchange *x)
{
    struct buf out = {0};
    struct server_view v;
    server_state_look(s, &v);
    measurements_prometheus(&out, &v);
    reply_as(x, 200, PROMETHEUS_CONTENT_TYPE, &out);
}

static void routes_requests(struct server *s, struct http_exchange *x)
{
    struct buf out = {0};
    struct err e;
    if (debug_page_requests(s, x, &out, &e))
        http_fail(x, &e, NULL);
    else
        routes_reply(x, 200, &out);
}

static void stats(struct server *s, struct http_exchange *x)
{
    struct buf out = {0};
    struct server_view v;
    server_state_view(s, &v);
    buf_puts(&out, "{\"object\":\"stats\"");
    measurements_json(&out, MEASUREMENTS_DEBUG, &v);
    buf_putc(&out, '}');
    routes_reply(x, 200, &out);
}

static void stream(struct server *s, struct http_exchange *x)
{
    event_stream_begin(&s->events, x);
}

static void page(struct server *s, struct http_exchange *x)
{
    (void)s;
    assets_reply(x, assets_find("index.html"));
}

static void page_part(struct server *s, struct http_exchange *x)
{
    const struct asset *a = NULL;
    struct err e;
    char name[64];
    (void)s;
    if (http_path_rest(x, "/page/", name, sizeof name))
        a = assets_find(name);
    if (a) {
        assets_reply(x, a);
        return;
    }
    err_set(&e, STATUS_NOT_FOUND, "the page has no such part: %.200s", x->path);
    http_fail(x, &e, NULL);
}

/* Dispatch */

/* Something must come behind it. */
static bool is_open_ended(const char *pattern)
{
    size_t n = strlen(pattern);
    return n > 1 && pattern[n - 1] == '/';
}

static bool matches(const char *pattern, const char *path)
{
    size_t n = strlen(pattern);
    return strncmp(path, pattern, n) == 0 && is_open_ended(pattern) == (path[n] != '\0');
}

static const struct route *routes_find(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (matches(routes[i].path, path))
            return &routes[i];
    return NULL;
}

static const char *allowed(const struct route *r)
{
    return strcmp(r->method, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

/* A browser asks before it sends from another origin's page. */
static void preflight(const struct route *r, struct http_exchange *x)
{
    const char *headers = http_header(x, "Access-Control-Request-Headers");
    http_add_header(x, "Access-Control-Allow-Methods", allowed(r));
    http_add_header(x, "Access-Control-Allow-Headers",
                    headers ? headers : "Authorization, Content-Type, X-Request-Id");
    http_add_header(x, "Access-Control-Max-Age", "86400");
    http_add_header(x, "Allow", allowed(r));
    http_reply(x, 204, NULL, NULL, 0);
}

static bool method_fits(const struct route *r, const char *method)
{
    return strcmp(method, r->method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

static bool is_preflight(const struct http_head *head)
{
    return strcmp(head->method, "OPTIONS") == 0;
}

static enum status no_path(const char *path, struct err *err)
{
    struct buf all = {0};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        buf_printf(&all, "%s%s%s", i > 0 ? ", " : "", routes[i].path,
                   is_open_ended(routes[i].path) ? "..." : "");
    err_set(err, STATUS_NOT_FOUND, "no such path: %.200s; there are %s", path, buf_str(&all));
    buf_fini(&all);
    return STATUS_NOT_FOUND;
}

/* What a head decides, and what becomes known by it. */
struct judged {
    const struct route *route;
    uint64_t key;
    struct key_secret *secret; /* to be filled; NULL: not yet needed */
    struct http_refusal why;   /* of a refusal; its origin in any case */
};

static enum status check_access(struct server *s, const struct http_head *head,
                                struct http_refusal *why)
{
    *why = (struct http_refusal){0};
    enum status st = access_check(&s->access, head->origin, head->host, &why->err);
    if (st) {
        why->code = strcmp(why->err.param, "Origin") == 0 ? "foreign_origin" : "foreign_host";
        metrics_refuse(&s->metrics, 403, why->code);
    } else {
        why->origin = head->origin;
    }
    return st;
}

static enum status routes_check_key(struct server *s, const struct http_head *head,
                                    struct judged *out)
{
    struct err *e = &out->why.err;
    enum status st = server_state_check_key(s, head->authorization, &out->key, out->secret, e);
    if (st == STATUS_UNAUTHENTICATED)
        out->why.code = "invalid_api_key";
    if (st)
        metrics_refuse(&s->metrics, status_http(st), out->why.code ? out->why.code : "memory");
    return st;
}

static enum status check_body(const struct route *r, const struct http_head *head, struct err *err)
{
    bool asked = strcmp(r->method, "POST") == 0 && !is_preflight(head);
    if (asked || head->announced <= LIMIT_BODY_UNASKED)
        return STATUS_OK;
    return err_set(err, STATUS_TOO_LARGE,
                   "%s %s takes no body: at most %u bytes, of a length told "
                   "before",
                   head->method, r->path, LIMIT_BODY_UNASKED);
}

/* All that a head decides alone; the one place that does, whether the body is there or not. */
static enum status routes_judge(struct server *s, const struct http_head *head, struct judged *out)
{
    const struct route *r = out->route = routes_find(head->path);
    struct http_refusal *why = &out->why;
    enum status st = check_access(s, head, why);
    if (st)
        return st;
    if (!r)
        return no_path(head->path, &why->err);
    if (!is_preflight(head) && !method_fits(r, head->method)) {
        why->allow = allowed(r);
        return err_set(&why->err, STATUS_METHOD_NOT_ALLOWED, "%s does not take %s, only %s",
                       r->path, head->method, allowed(r));
    }
    if (!is_preflight(head) && r->needs_key)
        st = routes_check_key(s, head, out);
    return st ? st : check_body(r, head, &why->err);
}

bool routes_admit(void *server, const struct http_head *head, const struct sockaddr *peer,
                  struct hold *held, struct http_refusal *why)
{
    struct server *s = server;
    struct judged j = {0};
    enum status st = routes_judge(s, head, &j);
    *why = j.why;
    if (st)
        return false;
    struct client who = client_admission_client(s, j.route->needs_key, j.key, peer);
    size_t announced = head->announced == HTTP_UNANNOUNCED ? 0 : head->announced;
    if (client_admission_body(&s->request_memory, held, &who, announced, &why->err) == STATUS_OK)
        return true;
    why->code = http_code_memory;
    return false;
}

bool routes_is_probe(const char *path)
{
    return strcmp(path, "/health") == 0 || strcmp(path, "/ready") == 0;
}

/* The log line of what is answered at once; calls write their own. */
static void log_end(struct http_exchange *x, bool gone)
{
    char path[256];
    bool usual = routes_is_probe(x->path) || strcmp(x->path, "/metrics") == 0 ||
                 strncmp(x->path, "/page/", 6) == 0;
    log_event(usual ? LOG_DEBUG : LOG_INFO, "request.done",
              "request_id=%s method=%s path=%s status=%d gone=%d", x->request_id, x->method,
              log_quote(x->path, path, sizeof path), x->status, gone);
}

void routes_refuse(struct http_exchange *x, const struct http_refusal *why)
{
    if (!x->ended)
        x->ended = log_end;
    x->origin = why->origin;
    if (why->allow)
        http_add_header(x, "Allow", why->allow);
    http_fail(x, &why->err, why->code);
}

bool routes_allow(struct server *s, struct http_exchange *x)
{
    const struct http_head head = http_head_of(x);
    struct http_refusal why;
    if (check_access(s, &head, &why)) {
        routes_refuse(x, &why);
        return false;
    }
    x->origin = why.origin;
    return true;
}

/* Whoever may ask for all has that room for what needs no key too. */
static bool brings_key(const struct server *s, const struct http_head *head)
{
    struct err e;
    uint64_t key;
    return s->keys && server_state_check_key(s, head->authorization, &key, NULL, &e) == STATUS_OK;
}

void routes_dispatch(void *server, struct http_exchange *x)
{
    struct server *s = server;
    const struct http_head head = http_head_of(x);
    struct judged j = {.secret = &x->key_secret};
    x->ended = log_end;
    x->keyless = true;
    if (routes_judge(s, &head, &j)) {
        routes_refuse(x, &j.why);
        return;
    }
    x->origin = j.why.origin;
    x->key = j.key;
    x->keyless = !j.route->needs_key && !brings_key(s, &head);
    if (is_preflight(&head))
        preflight(j.route, x);
    else if (j.route->handler)
        j.route->handler(s, x);
    else
        routes_ask(s, x, j.route->kind);
}
