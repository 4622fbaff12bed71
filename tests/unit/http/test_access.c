#include "http/access.h"
#include "support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

static bool parse(const char *text, struct access_host *out)
{
    return access_parse_host(text, strlen(text), out);
}

static void hosts_are_read(void **state)
{
    static const struct {
        const char *text, *name;
        uint32_t port;
        bool literal, loopback;
    } cases[] = {
        {"localhost", "localhost", 0, false, true},
        {"LocalHost:8080", "localhost", 8080, false, true},
        {"localhost.", "localhost", 0, false, true},
        {"localhost.:80", "localhost", 80, false, true},
        {"localhost:", "localhost", 0, false, true},
        {"127.0.0.1:65535", "127.0.0.1", 65535, true, true},
        {"127.255.1.2", "127.255.1.2", 0, true, true},
        {"128.0.0.1", "128.0.0.1", 0, true, false},
        {"0.0.0.0:8080", "0.0.0.0", 8080, true, false},
        {"[::1]", "::1", 0, true, true},
        {"[0:0:0:0:0:0:0:1]:8080", "::1", 8080, true, true},
        {"[::FFFF:127.0.0.1]", "::ffff:127.0.0.1", 0, true, true},
        {"[::ffff:10.0.0.1]", "::ffff:10.0.0.1", 0, true, false},
        {"[2001:DB8::1]:1", "2001:db8::1", 1, true, false},
        {"localhost.evil.com", "localhost.evil.com", 0, false, false},
        {"127.0.0.1.evil.com", "127.0.0.1.evil.com", 0, false, false},
        {"127.1", "127.1", 0, false, false},
        {"0x7f.0.0.1", "0x7f.0.0.1", 0, false, false},
        {"notlocalhost", "notlocalhost", 0, false, false},
        {"Chat.Example.COM:443", "chat.example.com", 443, false, false},
        {"my_machine-2", "my_machine-2", 0, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct access_host h;
        if (!parse(cases[i].text, &h) || strcmp(h.name, cases[i].name) != 0 ||
            h.port != cases[i].port || h.literal != cases[i].literal ||
            h.loopback != cases[i].loopback)
            fail_msg("%s: name %s port %u literal %d loopback %d", cases[i].text, h.name, h.port,
                     h.literal, h.loopback);
    }
}

static void other_texts_are_no_hosts(void **state)
{
    static const char *const cases[] = {
        "",
        ".",
        ":80",
        "a:0",
        "a:65536",
        "a:99999999",
        "a:8o",
        "a:-1",
        "a:80:80",
        "a b",
        "a/b",
        "a?b",
        "a#b",
        "user@localhost",
        "user:password@localhost",
        "localhost@evil.com",
        "a\\b",
        "%6c",
        "[",
        "[]",
        "[::1",
        "::1",
        "[::1]x",
        "[::1]:x",
        "[:::]",
        "[127.0.0.1]",
        "[fe80::1%25eth0]",
        "[v1.a]",
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]",
        "h\xc3\xa4",
    };
    char long_name[LIMIT_HOST_BYTES + 2];
    struct access_host h;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (parse(cases[i], &h))
            fail_msg("taken: %s", cases[i]);
    memset(long_name, 'a', sizeof long_name);
    assert_true(access_parse_host(long_name, LIMIT_HOST_BYTES, &h));
    assert_false(access_parse_host(long_name, LIMIT_HOST_BYTES + 1, &h));
}

/* With hosts checked, as a server without keys on a loopback address does it. */
static bool allowed(const char *flag_origins, const char *flag_hosts, const char *origin,
                    const char *host)
{
    static struct access a;
    struct err e = {0};
    a = (struct access){.checks_host = true};
    if (flag_origins)
        assert_int_equal(access_add_origins(&a, flag_origins, &e), STATUS_OK);
    if (flag_hosts)
        assert_int_equal(access_add_hosts(&a, flag_hosts, &e), STATUS_OK);
    enum status st = access_check(&a, origin, host, &e);
    if (st) {
        const char *flag = strcmp(e.param, "Origin") == 0 ? "--cors-origin" : "--allowed-host";
        assert_int_equal(st, STATUS_FORBIDDEN);
        assert_non_null(strstr(e.text, flag));
    }
    return st == STATUS_OK;
}

static void pages_may_ask(void **state)
{
    static const struct {
        const char *flag, *origin, *host;
        bool allowed;
    } cases[] = {
        /* no page */
        {NULL, NULL, "127.0.0.1:8080", true},
        /* the loopback network */
        {NULL, "http://localhost", "127.0.0.1:8080", true},
        {NULL, "http://localhost:3000", "127.0.0.1:8080", true},
        {NULL, "https://localhost:3000", "127.0.0.1:8080", true},
        {NULL, "HTTP://LOCALHOST:3000", "127.0.0.1:8080", true},
        {NULL, "http://localhost.:3000", "127.0.0.1:8080", true},
        {NULL, "http://127.0.0.1", "localhost:8080", true},
        {NULL, "http://127.9.9.9:1", "localhost:8080", true},
        {NULL, "http://[::1]:3000", "localhost:8080", true},
        {NULL, "http://[0::1]:3000", "localhost:8080", true},
        /* what looks like it */
        {NULL, "http://localhost.evil.com", "localhost:8080", false},
        {NULL, "http://127.0.0.1.evil.com", "localhost:8080", false},
        {NULL, "http://evil.com.localhost:3000", "localhost:8080", false},
        {NULL, "http://localhost@evil.com", "localhost:8080", false},
        {NULL, "http://localhost:80@evil.com", "localhost:8080", false},
        {NULL, "http://localhost/", "localhost:8080", false},
        {NULL, "http://localhost http://evil.com", "localhost:8080", false},
        {NULL, "http:localhost", "localhost:8080", false},
        {NULL, "localhost", "localhost:8080", false},
        {NULL, "//localhost", "localhost:8080", false},
        {NULL, "://localhost", "localhost:8080", false},
        {NULL, "app://localhost", "localhost:8080", false},
        {NULL, "http://[::2]", "localhost:8080", false},
        {NULL, "http://128.0.0.1", "localhost:8080", false},
        {NULL, "http://", "localhost:8080", false},
        {NULL, "", "localhost:8080", false},
        {NULL, "null", "localhost:8080", false},
        {NULL, "NULL", "localhost:8080", false},
        {NULL, "*", "localhost:8080", false},
        /* the server's own page */
        {NULL, "http://10.0.0.5:8080", "10.0.0.5:8080", true},
        {NULL, "http://10.0.0.5:8081", "10.0.0.5:8080", false},
        {NULL, "http://10.0.0.6:8080", "10.0.0.5:8080", false},
        {NULL, "http://10.0.0.5", "10.0.0.5", true},
        {NULL, "http://10.0.0.5", "10.0.0.5:80", true},
        {NULL, "http://10.0.0.5:80", "10.0.0.5", true},
        {NULL, "https://10.0.0.5", "10.0.0.5", true},
        {NULL, "https://10.0.0.5", "10.0.0.5:443", true},
        {NULL, "https://10.0.0.5", "10.0.0.5:80", false},
        {NULL, "http://[2001:db8::1]:8080", "[2001:DB8:0::1]:8080", true},
        {NULL, "http://10.0.0.5:8080", NULL, false},
        /* what a flag lists */
        {"https://chat.example.com", "https://chat.example.com", "localhost", true},
        {"https://chat.example.com", "https://Chat.Example.com:443", "localhost", true},
        {"https://chat.example.com:443", "https://chat.example.com", "localhost", true},
        {"https://chat.example.com", "http://chat.example.com", "localhost", false},
        {"https://chat.example.com", "https://chat.example.com:8443", "localhost", false},
        {"https://chat.example.com", "https://evil.chat.example.com", "localhost", false},
        {"https://chat.example.com", "https://chat.example.com.evil.com", "localhost", false},
        {"https://a.com, https://b.com:1", "https://b.com:1", "localhost", true},
        {"https://a.com, https://b.com:1", "https://c.com", "localhost", false},
        {"chrome-extension://abc", "chrome-extension://abc", "localhost", true},
        {"chrome-extension://abc", "chrome-extension://abd", "localhost", false},
        {"https://a.com", "http://localhost:3000", "localhost", true},
        {"*", "https://c.com", "localhost", true},
        {"*", "null", "localhost", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (allowed(cases[i].flag, NULL, cases[i].origin, cases[i].host) != cases[i].allowed)
            fail_msg("origin %s at %s with %s", cases[i].origin, cases[i].host, cases[i].flag);
}

static void names_are_checked(void **state)
{
    static const struct {
        const char *flag, *host;
        bool allowed;
    } cases[] = {
        {NULL, NULL, true},
        {NULL, "", true},
        {NULL, "localhost:8080", true},
        {NULL, "LOCALHOST.", true},
        {NULL, "127.0.0.1", true},
        {NULL, "[::1]:8080", true},
        {NULL, "10.0.0.5:8080", true},
        {NULL, "evil.com:8080", false},
        {NULL, "localhost.evil.com", false},
        {NULL, "127.0.0.1.evil.com", false},
        {NULL, "user@localhost", false},
        {NULL, "localhost/", false},
        {NULL, "[::1", false},
        {"chat.example.com", "chat.example.com", true},
        {"chat.example.com", "Chat.Example.com.:9", true},
        {"chat.example.com", "evil.chat.example.com", false},
        {"a.com,b.com", "b.com", true},
        {"a.com,b.com", "c.com", false},
    };
    struct access a = {.checks_host = true};
    struct err e;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (allowed(NULL, cases[i].flag, NULL, cases[i].host) != cases[i].allowed)
            fail_msg("host %s with %s", cases[i].host, cases[i].flag);
    assert_int_equal(access_check(&a, NULL, "my-machine:1", &e), STATUS_FORBIDDEN);
    assert_true(parse("my-machine", &a.own));
    assert_int_equal(access_check(&a, NULL, "my-machine:1", &e), STATUS_OK);
    a = (struct access){0}; /* keys, or a public address: any name may be right */
    assert_int_equal(access_check(&a, NULL, "evil.com", &e), STATUS_OK);
    assert_int_equal(access_check(&a, "http://evil.com", "evil.com", &e), STATUS_OK);
    assert_int_equal(access_check(&a, "http://evil.com", "b.com", &e), STATUS_FORBIDDEN);
}

/* A page whose name leads to this machine asks what it takes for its own server. */
static void rebinding_finds_nothing(void **state)
{
    (void)state;
    assert_false(allowed(NULL, NULL, "http://evil.com:8080", "evil.com:8080"));
    assert_false(allowed("*", NULL, "http://evil.com:8080", "evil.com:8080"));
    assert_false(allowed("http://evil.com:8080", NULL, NULL, "evil.com:8080"));
    assert_true(allowed(NULL, "evil.com", "http://evil.com:8080", "evil.com:8080"));
}

static void bad_flags_are_named(void **state)
{
    static const char *const origins[] = {
        "",         "a.com",         "https://a.com/",  "https://a.com,", "null",
        "https://", "https://*.com", "https://a.com/b", "a, *x",          "https://u@a.com"};
    static const char *const hosts[] = {"",  "a.com:80", "http://a.com", "a.com,",
                                        "*", "a b",      "u@a"};
    static struct access a;
    struct err e;
    char one[32];
    (void)state;
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++) {
        assert_int_equal(access_add_origins(&a, origins[i], &e), STATUS_INVALID);
        assert_string_equal(e.param, "--cors-origin");
    }
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        assert_int_equal(access_add_hosts(&a, hosts[i], &e), STATUS_INVALID);
        assert_string_equal(e.param, "--allowed-host");
    }
    a = (struct access){0};
    for (int i = 0; i <= LIMIT_CORS_ORIGINS; i++) {
        snprintf(one, sizeof one, "https://h%d", i);
        assert_int_equal(access_add_origins(&a, one, &e) == STATUS_OK, i < LIMIT_CORS_ORIGINS);
        assert_int_equal(access_add_hosts(&a, one + 8, &e) == STATUS_OK, i < LIMIT_ALLOWED_HOSTS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_read),          cmocka_unit_test(other_texts_are_no_hosts),
        cmocka_unit_test(pages_may_ask),           cmocka_unit_test(names_are_checked),
        cmocka_unit_test(rebinding_finds_nothing), cmocka_unit_test(bad_flags_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
