#include "bench/client/http_peer.h"

#include "base/buf.h"
#include "base/mem.h"
#include "bench/client/openai_chunk.h"

#include <jansson.h>
#include <string.h>

/* ---- Its address ---- */

static bool is_http(const char *scheme)
{
    return scheme && (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
}

/* Refuses what is no address of a server. A password in it would end in tables and results. */
static enum status check_url(const char *url, struct err *err)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *user = NULL, *query = NULL, *fragment = NULL;
    if (!u)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a URL");
    CURLUcode code = curl_url_set(u, CURLUPART_URL, url, 0);
    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0);
    curl_url_get(u, CURLUPART_USER, &user, 0);
    curl_url_get(u, CURLUPART_QUERY, &query, 0);
    curl_url_get(u, CURLUPART_FRAGMENT, &fragment, 0);
    enum status st = STATUS_OK;
    if (user)
        st = err_param(err, STATUS_INVALID, "--url",
                       "--url: a user or password in a URL is not taken: use --api-key-file");
    else if (code || !is_http(scheme) || query || fragment)
        st = err_param(err, STATUS_INVALID, "--url",
                       "--url: expected http://HOST:PORT, https://... or grpc://HOST:PORT, found "
                       "\"%s\"%s%s",
                       url, code ? ": " : "", code ? curl_url_strerror(code) : "");
    curl_free(scheme);
    curl_free(user);
    curl_free(query);
    curl_free(fragment);
    curl_url_cleanup(u);
    return st;
}

static size_t base_length(const char *url)
{
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/')
        n--;
    if (n > 4 && memcmp(url + n - 3, "/v1", 3) == 0 && url[n - 4] != '/')
        n -= 3;
    while (n > 0 && url[n - 1] == '/')
        n--;
    return n;
}

static char *http_peer_join(const char *base, const char *path)
{
    struct buf b = {0};
    buf_puts(&b, base);
    buf_puts(&b, path);
    if (!b.failed)
        return buf_take(&b);
    buf_fini(&b);
    return NULL;
}

static enum status set_urls(struct http_peer *p, const char *url, struct err *err)
{
    enum status st = check_url(url, err);
    if (st)
        return st;
    p->base = mem_strndup(url, base_length(url));
    if (p->base) {
        p->models_url = http_peer_join(p->base, "/v1/models");
        p->chat_url = http_peer_join(p->base, "/v1/chat/completions");
        p->completions_url = http_peer_join(p->base, "/v1/completions");
    }
    if (!p->models_url || !p->chat_url || !p->completions_url)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a URL");
    return STATUS_OK;
}

/* ---- What every request has ---- */

static bool add_header(struct http_peer *p, const char *line)
{
    struct curl_slist *longer = curl_slist_append(p->headers, line);
    if (longer)
        p->headers = longer;
    return longer;
}

/* "Expect:" keeps a long prompt from waiting for a 100 Continue. */
static enum status set_headers(struct http_peer *p, struct err *err)
{
    char line[sizeof p->key.text + 32];
    snprintf(line, sizeof line, "Authorization: Bearer %s", p->key.text);
    bool ok = add_header(p, "Content-Type: application/json") && add_header(p, "Expect:") &&
              (!p->key.text[0] || add_header(p, line));
    explicit_bzero(line, sizeof line);
    return ok ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for HTTP headers");
}

enum status http_peer_init(struct http_peer *p, const char *url, const char *api_key_file,
                           uint32_t timeout_seconds, struct err *err)
{
    *p = (struct http_peer){.timeout_seconds = timeout_seconds};
    enum status st = set_urls(p, url, err);
    if (st == STATUS_OK)
        st = api_key_read(&p->key, api_key_file, err);
    if (st == STATUS_OK)
        st = set_headers(p, err);
    return st;
}

void http_peer_fini(struct http_peer *p)
{
    curl_slist_free_all(p->headers);
    mem_free(p->base);
    mem_free(p->models_url);
    mem_free(p->chat_url);
    mem_free(p->completions_url);
    explicit_bzero(p, sizeof *p);
}

/* ---- Transfers ---- */

/* Never a proxy, whatever the environment says: it would be measured with the server. A TLS library
 * writes to sockets without MSG_NOSIGNAL, so there libcurl has to guard against SIGPIPE itself. */
CURL *http_peer_easy(const struct http_peer *p, char *error)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        return NULL;
    error[0] = '\0';
    bool ok = !curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error) &&
              !curl_easy_setopt(easy, CURLOPT_PROXY, "") &&
              !curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
              !curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
              !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, p->headers) &&
              !curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L) &&
              !curl_easy_setopt(easy, CURLOPT_NOSIGNAL, p->base[4] == ':' ? 1L : 0L) &&
              !curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)p->timeout_seconds * 1000);
    if (ok)
        return easy;
    curl_easy_cleanup(easy);
    return NULL;
}

static size_t on_answer(char *bytes, size_t size, size_t n, void *arg)
{
    return buf_append(arg, bytes, size * n) ? size * n : 0;
}

/* GET; *status is the HTTP status of an answer that came whole. */
static enum status get(const struct http_peer *p, const char *url, struct buf *answer, long *status,
                       struct err *err)
{
    char why[CURL_ERROR_SIZE];
    CURL *easy = http_peer_easy(p, why);
    if (!easy)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a request");
    long most =
        p->timeout_seconds < LIMIT_MODELS_SECONDS ? p->timeout_seconds : LIMIT_MODELS_SECONDS;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, most * 1000);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_answer);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    CURLcode code = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, status);
    curl_easy_cleanup(easy);
    if (code == CURLE_OK)
        return STATUS_OK;
    return err_set(err, STATUS_UNAVAILABLE, "--url: no answer from %s: %s", url,
                   why[0] ? why : curl_easy_strerror(code));
}

/* ---- Its models ---- */

static const char *model_name(const json_t *data, size_t i)
{
    return json_string_value(json_object_get(json_array_get(data, i), "id"));
}

static enum status http_peer_not_listed(const struct http_peer *p, const json_t *data,
                                        const char *asked, struct err *err)
{
    struct buf names = {0};
    size_t n = json_array_size(data), shown = 0;
    for (; shown < n && names.len < 200; shown++) {
        const char *name = model_name(data, shown);
        buf_printf(&names, "%s\"%.100s\"", shown > 0 ? ", " : "", name ? name : "?");
    }
    if (shown < n)
        buf_printf(&names, " and %zu more", n - shown);
    err_param(err, STATUS_NOT_FOUND, "--model", "--model: %s has no \"%.100s\": it has %s", p->base,
              asked, buf_str(&names));
    buf_fini(&names);
    return STATUS_NOT_FOUND;
}

static enum status http_peer_choose(const struct http_peer *p, const json_t *data,
                                    const char *asked, const char **name, struct err *err)
{
    size_t n = json_array_size(data);
    *name = asked;
    if (n == 0 && !asked)
        return err_param(err, STATUS_INVALID, "--model", "--model: %s lists no model: name one",
                         p->base);
    if (n > 0 && !asked)
        *name = model_name(data, 0);
    if (!*name)
        return err_set(err, STATUS_INVALID, "%s: data[0].id: expected a string", p->models_url);
    for (size_t i = 0; i < n; i++) {
        const char *listed = model_name(data, i);
        if (listed && strcmp(listed, *name) == 0)
            return STATUS_OK;
    }
    return n == 0 ? STATUS_OK : http_peer_not_listed(p, data, asked, err);
}

/* The list did not come: the answer was an error. */
static enum status http_peer_refused(const struct http_peer *p, long status,
                                     const struct buf *answer, struct err *err)
{
    char words[200];
    openai_chunk_error(buf_str(answer), answer->len, words, sizeof words);
    api_key_mask(&p->key, words);
    if (status == 401 || status == 403)
        return err_set(err, STATUS_UNAUTHENTICATED, "%s %s: HTTP %ld: %s", p->base,
                       p->key.text[0] ? "refuses the key of --api-key-file"
                                      : "wants a key: give one with --api-key-file",
                       status, words);
    return err_set(err, STATUS_UNAVAILABLE, "--url: %s: HTTP %ld: %s", p->models_url, status,
                   words);
}

enum status http_peer_model(const struct http_peer *p, const char *asked, char *out,
                            size_t out_size, struct err *err)
{
    struct buf answer = {.limit = LIMIT_ANSWER_BYTES};
    json_t *list = NULL;
    const char *name = asked;
    long status = 0;
    enum status st = get(p, p->models_url, &answer, &status, err);
    if (st == STATUS_OK && status / 100 == 2) {
        list = json_loadb(buf_str(&answer), answer.len, 0, NULL);
        const json_t *data = json_object_get(list, "data");
        st = json_is_array(data) ? http_peer_choose(p, data, asked, &name, err)
                                 : err_set(err, STATUS_INVALID,
                                           "--url: %s: expected {\"data\": [...]}, a list of "
                                           "models: is this a server of the OpenAI API?",
                                           p->models_url);
    } else if (st == STATUS_OK && !(status == 404 && asked)) {
        st = http_peer_refused(p, status, &answer, err); /* a server need not list its model */
    }
    if (st == STATUS_OK)
        snprintf(out, out_size, "%s", name);
    json_decref(list);
    buf_fini(&answer);
    return st;
}
