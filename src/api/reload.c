#include "api/reload.h"

#include "api/server_state.h"
#include "base/log.h"

/* Keys are made first and put in last: what is between may fail, putting them in cannot. */
static enum status reload(struct server *s, struct err *err)
{
    const struct server_options *o = &s->options;
    struct keys *keys = NULL;
    enum status st = o->api_key_file ? keys_load(&keys, o->api_key_file, err) : STATUS_OK;
    if (st == STATUS_OK && o->tls_cert)
        st = http2_reload_tls(s->http2, o->tls_cert, o->tls_key, err);
    if (st) {
        keys_free(keys);
        return st;
    }
    if (o->api_key_file) {
        keys_free(s->keys);
        s->keys = keys;
    }
    return STATUS_OK;
}

void reload_files(struct server *s)
{
    struct err err;
    char text[2 * sizeof err.text];
    if (!s->options.api_key_file && !s->options.tls_cert)
        log_info("server.reload", "files=none help=\"--api-key-file, --tls-cert\"");
    else if (reload(s, &err) == STATUS_OK)
        log_info("server.reload", "api_keys=%zu certificate=%s", keys_count(s->keys),
                 s->options.tls_cert ? "read" : "none");
    else
        log_error("server.reload", "kept=all error=%s", log_quote(err.text, text, sizeof text));
}
