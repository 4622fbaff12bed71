/* How long tokenizers take for a megabyte: prose, code, Chinese, and runs of one thing, which show
 * what is not linear. `make bench-tokenizers` runs it on the reduced published tokenizers; it takes
 * published tokenizer.json files too:
 *
 *     build/release/tests/bench/tokenizers DIR/qwen2.5.json DIR/llama3.json
 *
 * Prints milliseconds, the best of three. Not a test: it never fails for being slow. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "text/tokenizer/tokenizer.h"

#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REDUCED "tests/golden/tokenizer/published/*.json"
#define PROSE   "tests/golden/perplexity.txt"
#define CODE    "src/*/*.c"
#define REPEATS 3

enum { LEN = 1000000 };

static char text[LEN + 8];

/* ---- texts ---- */

static size_t repeat(const char *unit, size_t n)
{
    size_t len = LEN - LEN % n;
    for (size_t i = 0; i < len; i++)
        text[i] = unit[i % n];
    return len;
}

/* The files one after another, and again if they are too short. */
static size_t from_files(const char *pattern)
{
    struct buf all = {0};
    glob_t files;
    if (glob(pattern, 0, NULL, &files) != 0)
        return 0;
    for (size_t i = 0; i < files.gl_pathc && all.len < LEN; i++) {
        FILE *f = fopen(files.gl_pathv[i], "rb");
        if (f) {
            buf_read(&all, f);
            fclose(f);
        }
    }
    globfree(&files);
    size_t len = all.len > 0 ? LEN : 0;
    for (size_t i = 0; i < len; i++)
        text[i] = buf_str(&all)[i % all.len];
    buf_fini(&all);
    return len;
}

/* Han characters by chance, most of them from a few hundred, in sentences. */
static size_t chinese(void)
{
    uint64_t x = 1;
    size_t at = 0;
    while (at + 3 <= LEN) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t r = (uint32_t)(x >> 33), c = 0x4e00 + (r % 4 ? r / 4 % 300 : r / 4 % 6000);
        if (r % 11 == 0)
            c = r % 2 ? 0xff0c : 0x3002;
        text[at++] = (char)(0xe0 | c >> 12);
        text[at++] = (char)(0x80 | (c >> 6 & 63));
        text[at++] = (char)(0x80 | (c & 63));
    }
    return at;
}

static const struct {
    const char *name;
    const char *unit;  /* repeated */
    const char *files; /* or these; neither: Chinese */
} texts[] = {
    {"prose", NULL, PROSE},
    {"code", NULL, CODE},
    {"chinese", NULL, NULL},
    {"a", "a", NULL},
    {"7", "7", NULL},
    {"space", " ", NULL},
    {"newline", "\n", NULL},
    {"ab", "ab", NULL},
    {" ab", " ab", NULL},
    {"dots", ".", NULL},
    {"han", "\xe5\xad\x97", NULL},
    {"emoji", "\xf0\x9f\x98\x80", NULL},
    {"mark", "\xcc\x81", NULL},
    {"marks", "\xcc\x81\xcc\x96", NULL},
    {"e+mark", "e\xcc\x81", NULL},
    {"invalid", "\xff", NULL},
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static size_t make_text(int i)
{
    if (texts[i].unit)
        return repeat(texts[i].unit, strlen(texts[i].unit));
    return texts[i].files ? from_files(texts[i].files) : chinese();
}

/* ---- tokenizers ---- */

/* A tokenizer.json, or one of ours, which has it as member "tokenizer". */
static struct tokenizer *open_file(const char *path, struct err *err)
{
    struct tokenizer *t = NULL;
    json_t *file = json_load_file(path, JSON_ALLOW_NUL, NULL);
    json_t *inner = json_object_get(file, "tokenizer");
    char *bytes = file ? json_dumps(inner ? inner : file, JSON_COMPACT) : NULL;
    const struct tokenizer_json files = {.text = bytes, .len = bytes ? strlen(bytes) : 0};
    if (!bytes)
        err_set(err, STATUS_INVALID, "expected JSON");
    else
        tokenizer_open_json(&t, &files, err);
    free(bytes);
    json_decref(file);
    return t;
}

static double best_ms(const struct tokenizer *t, size_t len, struct err *err)
{
    double best = 0;
    for (int i = 0; i < REPEATS; i++) {
        struct tokens ids = {0};
        int64_t start = clock_now_us();
        enum status st = tokenizer_encode(t, text, len, NULL, TOKENIZE_SPECIAL, &ids, err);
        double ms = (double)(clock_now_us() - start) / 1000;
        tokens_fini(&ids);
        if (st)
            return -1;
        best = i == 0 || ms < best ? ms : best;
    }
    return best;
}

static void measure(const char *path)
{
    struct err err = {0};
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct tokenizer *t = open_file(path, &err);
    if (!t) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        return;
    }
    printf("%-16.*s", (int)strcspn(name, "."), name);
    for (int i = 0; i < TEXTS; i++) {
        printf("%8.0f", best_ms(t, make_text(i), &err));
        fflush(stdout);
    }
    printf("\n");
    tokenizer_close(t);
}

int main(int argc, char **argv)
{
    glob_t reduced = {0};
    log_set_level(LOG_ERROR);
    printf("%-16s", "ms for 1 MB");
    for (int i = 0; i < TEXTS; i++)
        printf("%8s", texts[i].name);
    printf("\n");
    for (int i = 1; i < argc; i++)
        measure(argv[i]);
    if (argc == 1 && glob(REDUCED, 0, NULL, &reduced) == 0)
        for (size_t i = 0; i < reduced.gl_pathc; i++)
            if (!strstr(reduced.gl_pathv[i], "texts.json"))
                measure(reduced.gl_pathv[i]);
    globfree(&reduced);
    return EXIT_SUCCESS;
}
