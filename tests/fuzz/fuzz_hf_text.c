/* Fuzz target: what a Hugging Face folder says besides weights, as convert and the loader read it.
 *
 *     input ─> tokenizer.json | 0xff | tokenizer_config.json | 0xff | generation_config.json
 *
 * What passes becomes metadata that the GGUF reader, the tokenizer and the sampling defaults take
 * or refuse, and nothing else. The files are in a folder of this process, which ends with it. */
#include "base/log.h"
#include "base/mem.h"
#include "model/generation.h"
#include "model/load/hf_text.h"
#include "model/write/hf_tokenizer.h"
#include "text/tokenizer/tokenizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_VOCAB 24 /* rows of the embedding: more than the seeds have tokens */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                    "generation_config.json"};
static char folder[] = "/tmp/fuzz-hf-text-XXXXXX";

static void path_of(int i, char path[static 80])
{
    snprintf(path, 80, "%s/%s", folder, names[i]);
}

static void remove_folder(void)
{
    char path[80];
    for (int i = 0; i < 3; i++) {
        path_of(i, path);
        unlink(path);
    }
    rmdir(folder);
}

static void write_files(const uint8_t *data, size_t size)
{
    char path[80];
    for (int i = 0; i < 3; i++) {
        const uint8_t *mark = size > 0 ? memchr(data, 0xff, size) : NULL;
        size_t len = mark ? (size_t)(mark - data) : size;
        path_of(i, path);
        FILE *f = fopen(path, "wb");
        REQUIRE(f);
        fwrite(data, 1, len, f);
        fclose(f);
        data += mark ? len + 1 : len;
        size -= mark ? len + 1 : len;
    }
}

static void read_back(const struct gguf_build *b)
{
    static const char text[] = "  a\xcc\x81 B1\n<s>\xe2\x96\x81\xf0\x9f\x98\x80 ab";
    struct buf head = {0};
    struct gguf *g = NULL;
    struct tokenizer *t = NULL;
    struct sampling_values said;
    struct tokens ids = {0};
    struct err err = {0};
    gguf_build_header(b, 0, &head);
    if (gguf_parse(&g, buf_str(&head), head.len, &err) == STATUS_OK) {
        if (generation_read(&said, g, MODEL_FOLDER, &err) == STATUS_OK &&
            said.given[SAMPLING_top_p])
            REQUIRE(said.value[SAMPLING_top_p] > 0 && said.value[SAMPLING_top_p] <= 1);
        if (tokenizer_open(&t, g, &err) == STATUS_OK)
            (void)tokenizer_encode(t, text, sizeof text - 1, NULL, 3, &ids, &err);
    }
    for (size_t i = 0; i < ids.count; i++)
        REQUIRE(ids.ids[i] >= 0 && ids.ids[i] < N_VOCAB);
    tokens_fini(&ids);
    tokenizer_close(t);
    gguf_close(g);
    buf_fini(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    struct gguf_build b = {0};
    struct err err = {0};
    if (!made) {
        REQUIRE(mkdtemp(folder));
        atexit(remove_folder);
        log_set_level(LOG_ERROR);
        made = true;
    }
    write_files(data, size);
    if (hf_text_generation(folder, NULL, &b, &err) == STATUS_OK &&
        hf_text_template(folder, &b, &err) == STATUS_OK &&
        hf_tokenizer_write(folder, N_VOCAB, &b, &err) == STATUS_OK)
        read_back(&b);
    else
        REQUIRE(err.text[0] != '\0');
    gguf_build_fini(&b);
    return 0;
}
