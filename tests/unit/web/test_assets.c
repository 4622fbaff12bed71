/* The page's files: that they are whole, and what a client says it has and takes. */
#include "web/assets.h"

#include "support/cmocka_all.h"

#include "base/limits.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

static void test_files_are_whole(void **state)
{
    (void)state;
    size_t total = 0, n = 0;
    const struct asset *a;
    for (; (a = assets_at(n)); n++) {
        z_stream z = {.next_in = (Bytef *)(uintptr_t)a->gzip, .avail_in = (uInt)a->gzip_size};
        char *bytes = mem_alloc(a->size + 1);
        assert_non_null(bytes);
        z.next_out = (Bytef *)bytes;
        z.avail_out = (uInt)a->size + 1;
        assert_int_equal(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
        assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
        assert_int_equal(z.total_out, a->size);
        assert_int_equal(z.avail_in, 0);
        inflateEnd(&z);
        mem_free(bytes);
        assert_ptr_equal(assets_find(a->name), a);
        total += a->gzip_size;
    }
    assert_true(n >= 4);
    assert_true(total <= LIMIT_PAGE_BYTES);
    assert_null(assets_find("app.j"));
    assert_null(assets_find(""));
}

/* What is embedded is what lies in the source tree; tests run at its root. */
static void test_files_are_the_sources(void **state)
{
    (void)state;
    static const char *const names[] = {"index.html", "app.js", "style.css"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct asset *a = assets_find(names[i]);
        char path[64];
        assert_non_null(a);
        snprintf(path, sizeof path, "src/web/page/%s", names[i]);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        assert_int_equal(fseek(f, 0, SEEK_END), 0);
        assert_int_equal(ftell(f), a->size);
        fclose(f);
    }
}

static void test_takes_gzip(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "gzip", "gzip, deflate, br",      "deflate,gzip", "GZIP",         "gzip;q=0.001", "x-gzip",
        "*",    "br;q=1.0, gzip ; q=0.5", " ,gzip",       "gzip;level=0",
    };
    static const char *const no[] = {
        NULL, "", "identity", "br", "gzip;q=0", "gzip; q=0.000", "*;q=0", "gzipped", "*, gzip;q=0",
    };
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(assets_takes_gzip(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(assets_takes_gzip(no[i]));
}

static void test_has(void **state)
{
    (void)state;
    static const char etag[] = "W/\"abc\"";
    static const char *const yes[] = {"W/\"abc\"", "\"abc\"", "*", "\"x\", W/\"abc\"",
                                      " W/\"abc\" "};
    static const char *const no[] = {NULL, "", "abc", "\"ab\"", "W/\"abcd\"", "W/", "\"abc", "**"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(assets_has(yes[i], etag));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(assets_has(no[i], etag));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_whole),
        cmocka_unit_test(test_files_are_the_sources),
        cmocka_unit_test(test_takes_gzip),
        cmocka_unit_test(test_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
