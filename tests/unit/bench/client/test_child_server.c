/* A server in a child process: it starts, says where, and ends with us. */
#include "bench/client/child_server.h"
#include "engine/engine.h"
#include "support/cmocka_all.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define MODEL "tests/golden/tiny/base.gguf"

static enum status load_tiny(void *arg, struct loader *out, struct err *err)
{
    (void)arg;
    return loader_open(out, MODEL, NULL, NULL, err);
}

static enum status load_nothing(void *arg, struct loader *out, struct err *err)
{
    (void)out;
    return err_param(err, STATUS_NOT_FOUND, "--model", "%s is not there", (const char *)arg);
}

static enum status load_and_die(void *arg, struct loader *out, struct err *err)
{
    (void)arg;
    (void)out;
    (void)err;
    _exit(1);
}

static struct server_options options(enum status (*load)(void *, struct loader *, struct err *))
{
    struct err err = {0};
    struct server_options o = {
        .host = "127.0.0.1",
        .max_connections = 4,
        .load = load,
        .arg = (void *)"the model",
        .engine = {.kind = engine_kind_find("auto", &err), .n_threads = 1, .n_slots = 2},
    };
    assert_non_null(o.engine.kind);
    return o;
}

static bool is_there(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

static void starts_and_ends(void **state)
{
    (void)state;
    const struct server_options o = options(load_tiny);
    struct child_server c;
    struct err err = {0};
    if (child_server_start(&c, &o, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(strncmp(c.url, "http://127.0.0.1:", 17), 0);
    pid_t pid = c.pid;
    assert_true(is_there(pid));
    assert_int_equal(getpgid(pid), pid); /* Ctrl-C on our terminal is not its */
    child_server_stop(&c);
    assert_int_equal(c.pid, 0);
    assert_false(is_there(pid)); /* nor left as a zombie */
    child_server_stop(&c);       /* nothing to do */
}

static void its_error_is_told(void **state)
{
    (void)state;
    const struct server_options o = options(load_nothing);
    struct child_server c;
    struct err err = {0};
    assert_int_equal(child_server_start(&c, &o, &err), STATUS_NOT_FOUND);
    assert_string_equal(err.param, "--model");
    assert_non_null(strstr(err.text, "the model is not there"));
    assert_int_equal(c.pid, 0);
}

static void its_death_is_noticed(void **state)
{
    (void)state;
    const struct server_options o = options(load_and_die);
    struct child_server c;
    struct err err = {0};
    assert_int_equal(child_server_start(&c, &o, &err), STATUS_UNAVAILABLE);
    assert_non_null(strstr(err.text, "ended before it was ready"));
    assert_int_equal(c.pid, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_and_ends),
        cmocka_unit_test(its_error_is_told),
        cmocka_unit_test(its_death_is_noticed),
    };
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
