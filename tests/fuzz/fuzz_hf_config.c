/* Fuzz target of config.json: any bytes; what passes makes metadata that the GGUF reader and the
 * model's configuration take or refuse, and nothing else. The seeds are those of
 * tests/golden/hf and some by hand (tests/fuzz/hf_config_seeds.py). */
#include "model/load/config.h"
#include "model/load/hf_config.h"
#include "weights/json_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(const struct gguf_build *b)
{
    struct buf head = {0};
    struct gguf *g = NULL;
    struct err err = {0};
    const struct arch *arch;
    struct model_config config;
    gguf_build_header(b, 0, &head);
    REQUIRE(gguf_parse(&g, head.data, head.len, &err) == STATUS_OK);
    REQUIRE(arch_of(&arch, g, &err) == STATUS_OK);
    if (config_read(&config, arch, g, &err) != STATUS_OK)
        REQUIRE(err.text[0] != '\0');
    gguf_close(g);
    buf_fini(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf_build b = {0};
    struct hf_config config = {0};
    struct err err = {0};
    json_t *json = NULL;
    if (json_file_parse(&json, data, size, &err) != STATUS_OK)
        return 0;
    if (hf_config_read(&config, json, &b, &err) == STATUS_OK)
        read_back(&b);
    else
        REQUIRE(err.text[0] != '\0');
    hf_config_fini(&config);
    gguf_build_fini(&b);
    json_decref(json);
    return 0;
}
