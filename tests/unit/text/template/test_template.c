/* Chat templates: expected output row by row, errors, bounds, origin of bytes, and the golden cases
 * that tools/golden_templates.py wrote with transformers' jinja2. */
#include "text/template/template.h"

#include "support/sanitized.h"

#include "base/limits.h"
#include "base/mem.h"
#include "text/template/jinja_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define GOLDEN "tests/golden/templates/cases.json"

/* Compiles and renders; `text` and `trusted` are empty before. */
static enum status render_json(const char *source, size_t len, json_t *context, struct buf *text,
                               struct buf *trusted, struct err *err)
{
    struct template *t;
    enum status st = template_compile(&t, source, len, err);

    if (st == STATUS_OK)
        st = template_render(t, context, text, trusted, err);
    template_free(t);
    return st;
}

static enum status render(const char *source, const char *context, struct buf *text,
                          struct buf *trusted, struct err *err)
{
    json_t *json = json_loads(context, JSON_ALLOW_NUL, NULL);
    enum status st;

    assert_non_null(json);
    st = render_json(source, strlen(source), json, text, trusted, err);
    json_decref(json);
    return st;
}

static void test_output(void **state)
{
    static const struct {
        const char *source, *context, *expected;
    } rows[] = {
        {"", "{}", ""},
        {"text\n", "{}", "text"},
        {"{{ x }}", "{\"x\": \"a\"}", "a"},
        {"{{ missing }}|{{ missing or 'd' }}", "{}", "|d"},
        {"{% for m in messages %}{{ m.role }}:{{ m['content'] }};{% endfor %}",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}", "user:hi;"},
        {"{% if a %}1{% elif b %}2{% else %}3{% endif %}", "{\"b\": true}", "2"},
        {"{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}"
         "{% endfor %}{{ ns.n }}",
         "{}", "6"},
        {"  {% if true %}\nx\n  {% endif %}\ny", "{}", "x\ny"},
        {"a  {%- if true -%}  b  {%- endif %}", "{}", "ab"},
        {"{{ x[::-1] }}{{ x | length }}", "{\"x\": \"a\\u00fc\\u65e5\"}", "日üa3"},
        {"{{ x | tojson }}", "{\"x\": {\"a\": [1, \"ü\", null]}}", "{\"a\": [1, \"ü\", null]}"},
        {"{% macro m(a, b='y') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}", "{}",
         "1y12"},
        /* a macro sees the scope it was defined in, not its caller's */
        {"{% macro m() %}{{ x }}{{ y is defined }}{% endmacro %}"
         "{% for y in [1] %}{% set x = 'inner' %}{{ m() }}{% endfor %}",
         "{\"x\": \"outer\"}", "outerFalse"},
        {"{% macro a() %}{{ v }}{% endmacro %}{% macro b(v) %}{{ a() }}{{ v }}{% endmacro %}"
         "{% for v in [1] %}{{ b(2) }}{{ v }}{% endfor %}{{ v }}",
         "{\"v\": 0}", "0210"},
        {"{% if x is unknown %}{% elif 1 %}ok{% endif %}", "{}", NULL},
        {"{% if false %}{{ x | unknown }}{% endif %}ok", "{}", "ok"},
        /* jinja2 has no JSON of a generator; templates written for llama.cpp count on it */
        {"{{ x | map(attribute='f') | tojson }}", "{\"x\": [{\"f\": 1}]}", "[1]"},
        {"{% generation %}g{% endgeneration %}", "{}", "g"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct buf text = {0};
        struct err err = {0};
        enum status st = render(rows[i].source, rows[i].context, &text, NULL, &err);

        if (rows[i].expected == NULL) {
            assert_int_equal(st, STATUS_UNSUPPORTED);
        } else {
            if (st != STATUS_OK)
                print_error("%s: %s\n", rows[i].source, err.text);
            assert_int_equal(st, STATUS_OK);
            assert_string_equal(buf_str(&text), rows[i].expected);
        }
        buf_fini(&text);
    }
}

static void test_errors(void **state)
{
    static const struct {
        const char *source;
        enum status code;
        const char *text;
    } rows[] = {
        {"a\n{{ x", STATUS_INVALID, "line 2: expected '}}', found the end of the template"},
        {"{% if x %}\n\n", STATUS_INVALID,
         "line 2: expected 'elif', 'else' or 'endif', found the end of the template"},
        {"{% for x in y %}{% endif %}", STATUS_INVALID,
         "line 1: expected a statement, found 'endif'"},
        {"{% for x y %}", STATUS_INVALID, "line 1: expected in, found 'y'"},
        {"{{ 1 + }}", STATUS_INVALID, "line 1: expected an expression, found '}}'"},
        {"{{ 'a }}", STATUS_INVALID,
         "line 1: expected a quote to end the string, found the end of the template"},
        {"{{ 99999999999999999999 }}", STATUS_INVALID,
         "line 1: expected a number of 64 bits, found '99999999999999999999'"},
        {"{{ $ }}", STATUS_INVALID, "line 1: expected an expression, found the character 0x24"},
        {"\n{{ x | nothing }}", STATUS_UNSUPPORTED,
         "line 2: the filter 'nothing' is not supported"},
        {"{{ x is nothing }}", STATUS_UNSUPPORTED, "line 1: the test 'nothing' is not supported"},
        {"{% include 'x' %}", STATUS_UNSUPPORTED,
         "line 1: the statement 'include' is not supported"},
        {"{% break %}", STATUS_INVALID, "line 1: expected 'break' inside a loop only, found '%}'"},
        {"{# x", STATUS_INVALID,
         "line 1: expected '#}' to end the comment, found the end of the template"},
        {"\xff", STATUS_INVALID, "expected a template in UTF-8, found other bytes"},
        {"\n\n{{ raise_exception('roles must ' ~ 'alternate') }}", STATUS_INVALID,
         "line 3: roles must alternate"},
        {"{{ x.y }}", STATUS_INVALID, "line 1: 'x' is undefined"},
        {"{{ {}.a.b }}", STATUS_INVALID, "line 1: 'dict' has no attribute 'a'"},
        {"{{ 'a' + 1 }}", STATUS_INVALID,
         "line 1: expected values that '+' joins, found 'str' and 'int'"},
        {"{{ 9223372036854775807 + 1 }}", STATUS_INVALID,
         "line 1: expected an integer of 64 bits, found a larger one"},
        {"{{ -9223372036854775807 - 2 }}", STATUS_INVALID,
         "line 1: expected an integer of 64 bits, found a larger one"},
        {"{{ (-9223372036854775807 - 1) // -1 }}", STATUS_INVALID,
         "line 1: expected an integer of 64 bits, found a larger one"},
        {"{{ range(100001) }}", STATUS_INVALID,
         "line 1: range: expected at most 100000 items, found more"},
        {"{{ [].append(1) }}", STATUS_INVALID, "line 1: 'list' has no attribute 'append'"},
        {"{{ trim(1) }}", STATUS_INVALID, "line 1: 'trim' is undefined"},
        {"{{ 'a' | replace('b') }}", STATUS_INVALID,
         "line 1: replace: expected the argument 'new', found none"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct buf text = {0};
        struct err err = {0};

        assert_int_equal(render(rows[i].source, "{}", &text, NULL, &err), rows[i].code);
        assert_string_equal(err.text, rows[i].text);
        assert_int_equal(render(rows[i].source, "{}", &text, NULL, NULL), rows[i].code);
        buf_fini(&text);
    }
}

/* `count` times `open`, then `middle`, then `count` times `close`. */
static char *nested(const char *open, const char *middle, const char *close, size_t count)
{
    struct buf b = {0};

    for (size_t i = 0; i < count; i++)
        buf_puts(&b, open);
    buf_puts(&b, middle);
    for (size_t i = 0; i < count; i++)
        buf_puts(&b, close);
    return buf_take(&b);
}

static void test_nesting(void **state)
{
    static const struct {
        const char *open, *middle, *close;
    } rows[] = {
        {"{% if 1 %}", "", "{% endif %}"},
        {"{{ [", "1", "] }}"},
        {"(", "", ")"},
        {"{% macro m() %}", "", "{% endmacro %}"},
        {"-", "", ""},
        {"[", "", "]"},
        {"", "x", ".a"},
        {"", "x", " | trim"},
        {"1 if ", "1", " else 2"},
        {"not ", "1", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char *inner = nested(rows[i].open, rows[i].middle, rows[i].close, 20000 / 8);
        struct buf source = {0}, text = {0};
        struct err err = {0};
        enum status st;

        buf_printf(&source, rows[i].open[0] == '{' ? "%s" : "{{ %s }}", inner);
        st = render(buf_str(&source), "{\"x\": 1}", &text, NULL, &err);
        assert_true(st == STATUS_TOO_LARGE || st == STATUS_INVALID ||
                    strcmp(rows[i].open, "not ") == 0);
        mem_free(inner);
        buf_fini(&source);
        buf_fini(&text);
    }
}

static void test_bounds(void **state)
{
    static const struct {
        const char *source, *word;
    } rows[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested evaluations"},
        {"{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}"
         "{% set ns.s = ns.s + ns.s %}{% endfor %}",
         "at most"},
        {"{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}"
         "{% endfor %}",
         "at most"},
        {"{{ 'x' * 9223372036854775807 }}", "at most"},
        {"{{ [1] * 9223372036854775807 }}", "at most"},
        {"{{ ('x' * 1000000) * 1000 }}", "at most"},
        {"{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}"
         "{% endfor %}{{ ns.l }}",
         "nested evaluations"},
        {"{% set ns = namespace(l=[]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}"
         "{% endfor %}{{ ns.l | tojson }}",
         "steps"},
        {"{{ 'x' | indent(9223372036854775807) }}", "at most"},
    };
    char *large = mem_zalloc(LIMIT_TEMPLATE_BYTES + 1);
    struct template *t;

    (void)state;
    for (size_t i = THREAD_SANITIZED; i < sizeof(rows) / sizeof(*rows);
         i += THREAD_SANITIZED ? 4 : 1) {
        struct buf text = {0}, trusted = {0};
        struct err err = {0};
        enum status st = render(rows[i].source, "{}", &text, &trusted, &err);

        if (st != STATUS_TOO_LARGE)
            print_error("%s: %d %s\n", rows[i].source, st, err.text);
        assert_int_equal(st, STATUS_TOO_LARGE);
        assert_non_null(strstr(err.text, rows[i].word));
        buf_fini(&text);
        buf_fini(&trusted);
    }
    memset(large, 'x', LIMIT_TEMPLATE_BYTES + 1);
    assert_int_equal(template_compile(&t, large, LIMIT_TEMPLATE_BYTES + 1, NULL), STATUS_TOO_LARGE);
    assert_int_equal(template_compile(&t, large, LIMIT_TEMPLATE_BYTES, NULL), STATUS_OK);
    template_free(t);
    mem_free(large);
}

static enum status render_text(const char *source, struct err *err)
{
    struct buf text = {0};
    *err = (struct err){0};
    enum status st = render(source, "{}", &text, NULL, err);

    buf_fini(&text);
    return st;
}

/* Each as far as its limit, and one further. */
static void test_limits(void **state)
{
    static const char *const blocks[][3] = {
        {"(", "1", ")"}, {"[", "1", "]"}, {"-", "1", ""}, {"{% if 1 %}", "", "{% endif %}"}};
    static const struct {
        const char *source; /* with a number in it */
        int most;
        const char *word;
    } rows[] = {
        {"{{ range(%d) | length }}", LIMIT_TEMPLATE_RANGE, "at most 100000 items"},
        /* The statement and the outermost list take one each. */
        {"{%% set ns = namespace(l=[]) %%}{%% for i in range(%d) %%}{%% set ns.l = [ns.l] %%}"
         "{%% endfor %%}{{ ns.l }}",
         LIMIT_TEMPLATE_FRAMES - 2, "at most 1024 nested evaluations"},
        {"{%% set s = 'x' * 1048576 %%}{%% for i in range(32) %%}{{ s[:%d - 31 * 1048576] if "
         "loop.last else s }}{%% endfor %%}{{ 'y' if %d > 33554432 }}",
         LIMIT_TEMPLATE_OUTPUT, "at most 33554432 bytes of output"},
        /* Lists of 16384 values. The one that grows to half of that takes one more, and range()
         * some. */
        {"{%% set l = [1] * 8192 %%}{%% for i in range(%d) %%}{%% set m = l + l %%}{%% endfor %%}",
         LIMIT_TEMPLATE_MEMORY / (16384 * sizeof(struct jinja_value)) - 2,
         "at most 268435456 bytes of values"},
        /* An inner round takes a step and one for its body, range() one for 64 items, and an outer
         * round up to six. */
        {"{%% for i in range(64) %%}{%% for k in range(%d) %%}{%% endfor %%}{%% endfor %%}",
         (LIMIT_TEMPLATE_STEPS - 64 * 6) / (64 * 2 + 1), "at most 4194304 steps"},
    };
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (int over = 0; over < 2; over++) {
            char source[300];
            int n = rows[i].most + over;

            snprintf(source, sizeof(source), rows[i].source, n, n);
            assert_int_equal(render_text(source, &err) != STATUS_OK, over);
            if (over && !strstr(err.text, rows[i].word))
                fail_msg("%s", err.text);
        }
    }
    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
        for (size_t over = 0; over < 2; over++) { /* the innermost expression is a level too */
            char *inner =
                nested(blocks[i][0], blocks[i][1], blocks[i][2], LIMIT_TEMPLATE_DEPTH - 1 + over);
            struct buf source = {0};

            buf_printf(&source, blocks[i][0][0] == '{' ? "%s" : "{{ %s }}", inner);
            assert_int_equal(render_text(buf_str(&source), &err),
                             over ? STATUS_TOO_LARGE : STATUS_OK);
            mem_free(inner);
            buf_fini(&source);
        }
    }
}

/* The caller's own limit holds too, and is the same afterwards. */
static void test_output_limit(void **state)
{
    struct buf text = {.limit = 8};
    struct err err = {0};

    (void)state;
    assert_int_equal(render("{{ 'x' * 9 }}", "{}", &text, NULL, &err), STATUS_TOO_LARGE);
    assert_int_equal(text.limit, 8);
    buf_clear(&text);
    assert_int_equal(render("{{ 'x' * 8 }}", "{}", &text, NULL, &err), STATUS_OK);
    assert_string_equal(buf_str(&text), "xxxxxxxx");
    buf_fini(&text);
}

/* Context strings are upper-case X and Y here; `mask` has 1 for bytes of the template. */
static void test_trusted(void **state)
{
    static const struct {
        const char *source, *expected, *mask;
    } rows[] = {
        {"ab{{ x }}c", "abXXc", "11001"},
        {"{{ 'a' + x + 'b' }}", "aXXb", "1001"},
        {"{{ x ~ y }}", "XXYYY", "00000"},
        {"{{ ('a' ~ x)[1:] }}", "XX", "00"},
        {"{{ ('a' ~ x)[::-1] }}", "XXa", "001"},
        {"{{ (' a' ~ x ~ ' ') | trim }}", "aXX", "100"},
        {"{{ y | replace('Y', 'a') }}", "aaa", "111"},
        {"{{ 'aba' | replace('b', x) }}", "aXXa", "1001"},
        {"{{ [x, 'a'] | join('-') }}", "XX-a", "0011"},
        {"{{ (x ~ 'a') | upper }}", "XXA", "001"},
        {"{{ (x ~ 'a') | lower }}", "xxa", "001"},
        {"{% set s %}a{{ x }}{% endset %}{{ s }}", "aXX", "100"},
        {"{% macro m(v) %}<{{ v }}>{% endmacro %}{{ m(x) }}", "<XX>", "1001"},
        {"{{ ('a,' ~ x).split(',') | join }}", "aXX", "100"},
        {"{{ '{}b'.format(x) }}", "XXb", "001"},
        {"{{ 'lit' | tojson }}", "\"lit\"", "00000"},
        {"{% for c in x %}{{ c }}-{% endfor %}", "X-X-", "0101"},
        {"{{ 'a' if x else 'b' }}{{ x or 'b' }}", "aXX", "100"},
        {"{{ d.k }}{{ d | items | first | first }}", "YYYk", "0000"},
        {"{{ 'é' ~ x }}", "éXX", "1100"},
        {"{{ ('<' + ('a' | safe)) ~ ((x ~ '<') | e) }}", "&lt;aXX&lt;", "11111001111"},
        {"{% filter upper %}a{{ x }}{% endfilter %}", "AXX", "100"},
        {"{{ x * 2 }}{{ 'a' * 2 }}", "XXXXaa", "000011"},
        {"{{ 5 }}{{ true }}", "5True", "00000"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct buf text = {0}, trusted = {0};
        struct err err = {0};

        assert_int_equal(render(rows[i].source,
                                "{\"x\": \"XX\", \"y\": \"YYY\", \"d\": {\"k\": \"YYY\"}}", &text,
                                &trusted, &err),
                         STATUS_OK);
        assert_string_equal(buf_str(&text), rows[i].expected);
        assert_int_equal(trusted.len, text.len);
        for (size_t k = 0; k < trusted.len; k++)
            trusted.data[k] += '0';
        assert_string_equal(buf_str(&trusted), rows[i].mask);
        buf_fini(&text);
        buf_fini(&trusted);
    }
}

/* A NUL is a character like others. */
static void test_nul(void **state)
{
    struct buf text = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(render("{{ x }}|{{ x | length }}|{{ '\\x00' in x }}|{{ x.split('\\x00') }}",
                            "{\"x\": \"a\\u0000b\"}", &text, NULL, &err),
                     STATUS_OK);
    assert_int_equal(text.len, 3 + strlen("|3|True|['a', 'b']"));
    assert_memory_equal(text.data, "a\0b|3|True|['a', 'b']", text.len);
    buf_fini(&text);
}

static bool golden_case(json_t *templates, json_t *contexts, json_t *row)
{
    json_t *t =
        json_array_get(templates, (size_t)json_integer_value(json_object_get(row, "template")));
    json_t *c =
        json_array_get(contexts, (size_t)json_integer_value(json_object_get(row, "context")));
    json_t *source = json_object_get(t, "source"), *expected = json_object_get(row, "expected");
    struct buf text = {0}, trusted = {0};
    struct err err = {0};
    enum status st = render_json(json_string_value(source), json_string_length(source), c, &text,
                                 &trusted, &err);
    bool same = expected == NULL
                    ? st != STATUS_OK
                    : st == STATUS_OK && json_string_length(expected) == text.len &&
                          memcmp(json_string_value(expected), buf_str(&text), text.len) == 0;

    if (!same)
        fprintf(stderr, "%s:\nexpected %s\nfound    %s%s\n",
                json_string_value(json_object_get(t, "name")),
                expected != NULL ? json_string_value(expected)
                                 : json_string_value(json_object_get(row, "fails")),
                err.text, buf_str(&text));
    buf_fini(&text);
    buf_fini(&trusted);
    return same;
}

static void test_golden(void **state)
{
    const char *path = getenv("FIRSTLIGHT_TEMPLATE_CASES"); /* for a census of other templates */
    json_t *all = json_load_file(path != NULL ? path : GOLDEN, JSON_ALLOW_NUL, NULL), *row;
    json_t *templates = json_object_get(all, "templates"),
           *contexts = json_object_get(all, "contexts");
    size_t i, failed = 0;

    (void)state;
    assert_non_null(all);
    json_array_foreach(json_object_get(all, "cases"), i, row) failed +=
        !golden_case(templates, contexts, row);
    assert_true(i > 0);
    json_decref(all);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output),  cmocka_unit_test(test_errors),
        cmocka_unit_test(test_nesting), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_output_limit),
        cmocka_unit_test(test_trusted), cmocka_unit_test(test_nul),
        cmocka_unit_test(test_golden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
