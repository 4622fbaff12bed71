/* What a model recommends for sampling: generation_config.json row by row, and GGUF's keys. */
#include "model/generation.h"

#include "support/cmocka_all.h"
#include "support/gguf_writer.h"
#include "support/hf_folder_writer.h"

#include "model/load/model_file.h"

/* The line that is printed at start, "" for none. An error's text where there is one. */
static void expect_line(const char *json, const char *expected)
{
    struct hf_folder_writer f = {0};
    struct model_file file;
    struct sampling_values said;
    struct err err = {0};
    struct buf line = {0};
    hf_writer_write(&f);
    hf_writer_put(&f, "generation_config.json", json);
    enum status st = model_file_open(&file, f.path, &err);
    if (!st)
        st = generation_read(&said, file.gguf, file.source, &err);
    if (st)
        assert_non_null(strstr(err.text, "generation_config.json"));
    else
        generation_describe(&said, file.source, &line);
    const char *found = st ? err.text : buf_str(&line);
    if (st ? !strstr(found, expected) : strcmp(found, expected) != 0)
        fail_msg("%s: expected \"%s\", found \"%s\"", json, expected, found);
    buf_fini(&line);
    model_file_close(&file);
    hf_writer_remove(&f);
}

static void folders(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{}", ""},
        {"{\"do_sample\": true, \"temperature\": null}", ""},
        {"{\"do_sample\": true, \"temperature\": 0.7, \"top_p\": 0.8, \"top_k\": 20,"
         " \"repetition_penalty\": 1.1}",
         "sampling defaults from generation_config.json: temperature 0.7, top_k 20, top_p 0.8, "
         "repetition_penalty 1.1"},
        {"{\"temperature\": 0.6, \"min_p\": 0.05}",
         "sampling defaults from generation_config.json: temperature 0.6, min_p 0.05"},
        {"{\"do_sample\": false, \"temperature\": 0.7, \"top_p\": 9}",
         "sampling defaults from generation_config.json: temperature 0"},
        {"{\"top_k\": -1}", "sampling defaults from generation_config.json: top_k 0"},
        {"{\"temperature\": 9}", "temperature): expected a number from 0 up to 2, found 9"},
        {"{\"temperature\": 1e300}", "expected a number from 0 up to 2, found 3.4"},
        {"{\"top_p\": 0}", "top_p): expected a number above 0 up to 1, found 0"},
        {"{\"top_k\": -2}", "top_k): expected a whole number from -1 up to 1e+06, found -2"},
        {"{\"top_k\": 99999999999}", "expected a whole number from -1 up to 1e+06, found 1e+11"},
        {"{\"top_k\": 1.5}", "top_k: expected a whole number, found 1.5"},
        {"{\"repetition_penalty\": 0}", "--sampling-defaults none leaves it out"},
        {"{\"min_p\": \"x\"}", "min_p: expected a number, found \"x\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_line(rows[i][0], rows[i][1]);
}

static void files(void **state)
{
    (void)state;
    struct gguf_writer w;
    struct gguf *g;
    struct sampling_values said;
    struct err err = {0};
    size_t len;
    gguf_writer_init(&w, 3);
    gguf_writer_f32(&w, "general.sampling.temp", 0.5f);
    gguf_writer_u32(&w, "general.sampling.top_k", 7);
    gguf_writer_f32(&w, "general.sampling.penalty_repeat", 1.25f);
    const void *bytes = gguf_writer_finish(&w, &len);
    assert_int_equal(gguf_parse(&g, bytes, len, &err), STATUS_OK);
    assert_int_equal(generation_read(&said, g, MODEL_FILE, &err), STATUS_OK);
    assert_true(said.given[SAMPLING_temperature] && said.value[SAMPLING_temperature] == 0.5);
    assert_true(said.given[SAMPLING_top_k] && said.value[SAMPLING_top_k] == 7);
    assert_true(said.value[SAMPLING_repetition_penalty] == 1.25);
    assert_false(said.given[SAMPLING_top_p] || said.given[SAMPLING_min_p]);
    gguf_close(g);
    gguf_writer_f32(&w, "general.sampling.min_p", 2);
    bytes = gguf_writer_finish(&w, &len);
    assert_int_equal(gguf_parse(&g, bytes, len, &err), STATUS_OK);
    assert_int_equal(generation_read(&said, g, MODEL_FILE, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "general.sampling.min_p): expected a number from 0 up to 1"));
    gguf_close(g);
    gguf_writer_fini(&w);
}

/* Every parameter that has a key is read from it. */
static void each_key(void **state)
{
    (void)state;
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        struct gguf_writer w;
        struct gguf *g;
        struct sampling_values said;
        struct err err = {0};
        size_t len;
        if (!sampling_rows[p].gguf_key)
            continue;
        gguf_writer_init(&w, 3);
        gguf_writer_f32(&w, sampling_rows[p].gguf_key, 1);
        const void *bytes = gguf_writer_finish(&w, &len);
        assert_int_equal(gguf_parse(&g, bytes, len, &err), STATUS_OK);
        assert_int_equal(generation_read(&said, g, MODEL_FILE, &err), STATUS_OK);
        for (int k = 0; k < SAMPLING_PARAMS; k++)
            assert_int_equal(said.given[k], k == p);
        assert_true(said.value[p] == 1);
        gguf_close(g);
        gguf_writer_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders),
        cmocka_unit_test(files),
        cmocka_unit_test(each_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
