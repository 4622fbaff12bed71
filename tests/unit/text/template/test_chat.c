/* Chat prompts: what the template writes becomes special tokens, what a message spells does not. */
#include "support/cmocka_all.h"
#include "support/gguf_writer.h"
#include "text/template/chat.h"

#include <string.h>

/* 'a' .. 'z', then these; begin is bos, end is eos. */
enum { LESS = 26, MORE, SLASH, AB, BEGIN, END, ASK, VOCAB };
static const char *const others[] = {"<", ">", "/", "ab", "<s>", "</s>", "<ask>"};

static const char source[] = "{{ bos_token }}{% for m in messages %}<ask>{{ m.content }}"
                             "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<ask>"
                             "{% endif %}{{ more }}";

static struct gguf_writer writer;
static struct gguf *gguf;
static struct tokenizer *tokenizer;
static struct template *template;

static void write_vocabulary(void)
{
    int32_t types[VOCAB];
    gguf_writer_string(&writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_string(&writer, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_array(&writer, "tokenizer.ggml.tokens", GGUF_STRING, VOCAB, NULL, 0);
    for (int i = 0; i < LESS; i++)
        gguf_writer_put_string(&writer.pairs, (char[]){(char)('a' + i), '\0'});
    for (int i = LESS; i < VOCAB; i++)
        gguf_writer_put_string(&writer.pairs, others[i - LESS]);
    for (int i = 0; i < VOCAB; i++)
        types[i] = i >= BEGIN ? 3 : 1;
    gguf_writer_array(&writer, "tokenizer.ggml.token_type", GGUF_I32, VOCAB, types, sizeof types);
}

static int open_all(void **state)
{
    (void)state;
    struct err err = {0};
    size_t len;
    gguf_writer_init(&writer, 3);
    write_vocabulary();
    gguf_writer_array(&writer, "tokenizer.ggml.merges", GGUF_STRING, 1, NULL, 0);
    gguf_writer_put_string(&writer.pairs, "a b");
    gguf_writer_u32(&writer, "tokenizer.ggml.bos_token_id", BEGIN);
    gguf_writer_u32(&writer, "tokenizer.ggml.eos_token_id", END);
    const void *bytes = gguf_writer_finish(&writer, &len);
    if (gguf_parse(&gguf, bytes, len, &err) || tokenizer_open(&tokenizer, gguf, &err) ||
        template_compile(&template, source, strlen(source), &err))
        print_error("%s\n", err.text);
    return template ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    template_free(template);
    tokenizer_close(tokenizer);
    gguf_close(gguf);
    gguf_writer_fini(&writer);
    return 0;
}

static void expect(const char *content, json_t *extra, bool generate, const int32_t *ids, size_t n)
{
    struct tokens tokens = {0};
    struct err err = {0};
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", content);
    assert_int_equal(chat_tokens(template, tokenizer, messages, extra, generate, &tokens, &err),
                     STATUS_OK);
    assert_int_equal(tokens.count, n);
    assert_memory_equal(tokens.ids, ids, n * sizeof *ids);
    tokens_fini(&tokens);
    json_decref(messages);
}

static void template_text_becomes_special_tokens(void **state)
{
    (void)state;
    expect("hi", NULL, true, (int32_t[]){BEGIN, ASK, 7, 8, END, ASK}, 6);
    expect("hi", NULL, false, (int32_t[]){BEGIN, ASK, 7, 8, END}, 5);
}

static void message_text_stays_text(void **state)
{
    (void)state;
    expect("x</s>y", NULL, false, (int32_t[]){BEGIN, ASK, 23, LESS, SLASH, 18, MORE, 24, END}, 9);
    expect("<s>ab", NULL, false, (int32_t[]){BEGIN, ASK, LESS, 18, MORE, AB, END}, 7);
}

static void extra_cannot_replace_the_tokens(void **state)
{
    (void)state;
    json_t *extra = json_pack("{s:s, s:s}", "bos_token", "<ask>", "more", "z");
    expect("a", extra, false, (int32_t[]){BEGIN, ASK, 0, END, 25}, 5);
    json_decref(extra);
}

static void a_model_without_template_is_told_apart(void **state)
{
    (void)state;
    struct tokens tokens = {0};
    struct err err = {0};
    json_t *messages = json_array();
    assert_int_equal(chat_tokens(NULL, tokenizer, messages, NULL, true, &tokens, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "no chat template"));
    json_decref(messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(template_text_becomes_special_tokens),
        cmocka_unit_test(message_text_stays_text),
        cmocka_unit_test(extra_cannot_replace_the_tokens),
        cmocka_unit_test(a_model_without_template_is_told_apart),
    };
    return cmocka_run_group_tests_name("chat", tests, open_all, close_all);
}
