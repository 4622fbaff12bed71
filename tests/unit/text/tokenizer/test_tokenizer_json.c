/* tokenizer.json files, whole and with something wrong. */
#include "support/cmocka_all.h"

#include "base/buf.h"
#include "base/log.h"
#include "text/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* A SentencePiece-like BPE: ids 0 to 9. */
#define VOCAB                                                                                      \
    "{'<unk>':0,'<s>':1,'</s>':2,'<0x41>':3,'\xe2\x96\x81':4,'a':5,'b':6,'ab':7,"                  \
    "'\xe2\x96\x81"                                                                                \
    "ab':8,'c':9}"
#define MERGES "['a b',['\xe2\x96\x81','ab']]"
#define ADDED                                                                                      \
    "[{'id':0,'content':'<unk>','special':true,'normalized':false},"                               \
    "{'id':1,'content':'<s>','special':true,'normalized':false},"                                  \
    "{'id':2,'content':'</s>','special':true,'normalized':false}]"
#define SPACES                                                                                     \
    "{'type':'Sequence','normalizers':[{'type':'Prepend','prepend':'\xe2\x96\x81'},"               \
    "{'type':'Replace','pattern':{'String':' '},'content':'\xe2\x96\x81'}]}"
#define DECODER                                                                                    \
    "{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':'\xe2\x96\x81'},"        \
    "'content':' '},{'type':'ByteFallback'},{'type':'Fuse'},"                                      \
    "{'type':'Strip','content':' ','start':1,'stop':0}]}"
#define MODEL(more) "{'type':'BPE','unk_token':'<unk>','vocab':" VOCAB ",'merges':" MERGES more "}"

/* The members of a file; NULL is left out. */
struct parts {
    const char *normalizer, *pre_tokenizer, *decoder, *added, *model, *post, *config;
};

static void put(struct buf *out, const char *name, const char *value)
{
    if (value)
        buf_printf(out, "%s'%s':%s", out->len > 1 ? "," : "", name, value);
}

static void quote(struct buf *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] == '\'')
            text->data[i] = '"';
}

static enum status open_parts(const struct parts *p, struct tokenizer **t, struct err *err)
{
    struct buf text = {0}, config = {0};

    buf_putc(&text, '{');
    put(&text, "normalizer", p->normalizer);
    put(&text, "pre_tokenizer", p->pre_tokenizer);
    put(&text, "decoder", p->decoder);
    put(&text, "added_tokens", p->added);
    put(&text, "model", p->model);
    put(&text, "post_processor", p->post);
    buf_putc(&text, '}');
    quote(&text);
    if (p->config)
        buf_puts(&config, p->config);
    quote(&config);
    struct tokenizer_json files = {text.data, text.len, config.data, config.len, NULL, 0};
    enum status status = tokenizer_open_json(t, &files, err);
    buf_fini(&text);
    buf_fini(&config);
    return status;
}

/* Ids end in -1. */
static void check(const struct parts *p, const char *text, const uint8_t *trusted, unsigned flags,
                  const int32_t *expected)
{
    struct tokenizer *t = NULL;
    struct tokens ids = {0};
    struct err err = {0};
    size_t n = 0;

    if (open_parts(p, &t, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(tokenizer_encode(t, text, strlen(text), trusted, flags, &ids, &err),
                     STATUS_OK);
    for (; expected[n] >= 0; n++)
        if (n >= ids.count || ids.ids[n] != expected[n])
            fail_msg("'%s': id %zu is %d, expected %d", text, n, n < ids.count ? ids.ids[n] : -1,
                     expected[n]);
    assert_int_equal(ids.count, n);
    tokens_fini(&ids);
    tokenizer_close(t);
}

#define CHECK(p, text, flags, ...) check(p, text, NULL, flags, (const int32_t[]){__VA_ARGS__, -1})

static void refuse(const struct parts *p, enum status status, const char *part)
{
    struct tokenizer *t = NULL;
    struct err err = {0};

    assert_int_equal(open_parts(p, &t, &err), status);
    assert_null(t);
    if (strstr(err.text, part) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, part);
}

static const struct parts llama = {
    .normalizer = SPACES,
    .decoder = DECODER,
    .added = ADDED,
    .model = MODEL(",'byte_fallback':true,'fuse_unk':true"),
};

static void pieces_bytes_and_unknown_ones(void **state)
{
    struct parts p = llama;
    (void)state;

    CHECK(&p, "ab", 0, 8);
    CHECK(&p, "ab ab", 0, 8, 8);
    CHECK(&p, " abc", 0, 4, 8, 9);
    CHECK(&p, "aA", 0, 4, 5, 3);
    CHECK(&p, "aXYa", 0, 4, 5, 0, 5); /* in a row they are one */
    CHECK(&p, "ab</s>ab", TOKENIZE_SPECIAL, 8, 2, 8);
    CHECK(&p, "<s>", 0, 4, 0); /* ordinary text, of which nothing is known */
    p.model = MODEL("");
    CHECK(&p, "aXYA", 0, 4, 5, 0, 0, 0);
}

static void decoding(void **state)
{
    static const int32_t ids[] = {1, 8, 3, 8};
    struct tokenizer *t = NULL;
    struct buf out = {0};
    struct err err = {0};
    (void)state;

    assert_int_equal(open_parts(&llama, &t, &err), STATUS_OK);
    assert_true(tokenizer_decode(t, ids, 4, false, &out));
    assert_string_equal(buf_str(&out), "abA ab");
    buf_clear(&out);
    assert_true(tokenizer_decode(t, ids, 4, true, &out));
    assert_string_equal(buf_str(&out), "<s> abA ab");
    buf_fini(&out);
    tokenizer_close(t);
}

static void bos_by_template_or_by_configuration(void **state)
{
    struct parts p = llama;
    (void)state;

    p.post = "{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':'<s>','type_id':0}},"
             "{'Sequence':{'id':'A','type_id':0}}],'pair':[],"
             "'special_tokens':{'<s>':{'id':'<s>','ids':[1],'tokens':['<s>']}}}";
    CHECK(&p, "ab", TOKENIZE_ADD, 1, 8);
    CHECK(&p, "ab", 0, 8);
    p.config = "{'bos_token':'<s>','eos_token':{'content':'</s>'},'add_bos_token':false,"
               "'add_eos_token':true}";
    CHECK(&p, "ab", TOKENIZE_ADD, 8, 2);
    p.config = "{'bos_token':'<s>','add_bos_token':true}";
    CHECK(&p, "ab", TOKENIZE_ADD, 1, 8);
    p.post = NULL;
    CHECK(&p, "ab", TOKENIZE_ADD, 1, 8);
    p.config = "{'add_bos_token':true}";
    refuse(&p, STATUS_INVALID, "tokenizer_config.json: add_bos_token: expected false");
    p.config = "{'eos_token':'nothing'}";
    refuse(&p, STATUS_INVALID, "eos_token: expected a token of tokenizer.json, found 'nothing'");
}

static void added_tokens(void **state)
{
    struct parts p = llama;
    (void)state;

    p.added = "[{'id':10,'content':'<x>','special':true,'normalized':false,'lstrip':true,"
              "'rstrip':true},{'id':11,'content':'ca','special':false,'normalized':true,"
              "'single_word':true}]";
    CHECK(&p, "ab <x>  ab", TOKENIZE_SPECIAL, 8, 10, 8);
    CHECK(&p, "! ca", TOKENIZE_SPECIAL, 4, 0, 11);      /* it too has a space before it */
    CHECK(&p, "c ca", TOKENIZE_SPECIAL, 4, 9, 4, 9, 5); /* which c stands beside */
    CHECK(&p, "c caa", TOKENIZE_SPECIAL, 4, 9, 4, 9, 5, 5);
}

/* "\u0041\u030a<x>" as a normalized special token: found after NFC, and only where it is trusted.
 */
static void trust_goes_through_the_normalizer(void **state)
{
    struct parts p = {
        .normalizer = "{'type':'NFC'}",
        .added = "[{'id':10,'content':'\xc3\x85','special':true,'normalized':true}]",
        .model = MODEL(""),
    };
    uint8_t trusted[] = {1, 1, 1, 1, 1};
    (void)state;

    check(&p,
          "aA\xcc\x8a"
          "b",
          trusted, TOKENIZE_SPECIAL, (int32_t[]){5, 10, 6, -1});
    trusted[2] = 0;
    check(&p,
          "aA\xcc\x8a"
          "b",
          trusted, TOKENIZE_SPECIAL, (int32_t[]){5, 0, 6, -1});
}

static void chat_template(void **state)
{
    static const char *const configs[] = {"{'chat_template':'one'}",
                                          "{'chat_template':[{'name':'x','template':'two'},"
                                          "{'name':'default','template':'one'}]}"};
    struct parts p = llama;
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct tokenizer *t = NULL;
        struct err err = {0};
        p.config = configs[i];
        assert_int_equal(open_parts(&p, &t, &err), STATUS_OK);
        assert_string_equal(tokenizer_chat_template(t), "one");
        tokenizer_close(t);
    }
    p.config = "{'chat_template':5}";
    refuse(&p, STATUS_INVALID, "tokenizer_config.json: chat_template: expected a string");
}

/* As the module `tokenizers` does: an id without a token is one of no text, and added tokens may
 * come in any order. */
static void ids_without_tokens(void **state)
{
    struct parts p = {.model = "{'type':'BPE','vocab':{'a':0,'b':2,'ab':5},'merges':['a b']}",
                      .added = "[{'id':9,'content':'<y>','special':true},"
                               "{'id':7,'content':'<x>','special':true}]"};
    static const int32_t ids[] = {3, 0, 8, 9, 1, 2};
    struct tokenizer *t;
    struct buf out = {0};
    struct err err = {0};
    size_t len;
    (void)state;

    assert_int_equal(open_parts(&p, &t, &err), STATUS_OK);
    assert_int_equal(tokenizer_vocab_size(t), 10);
    assert_true(tokenizer_decode(t, ids, 6, true, &out));
    assert_string_equal(buf_str(&out), "a<y>b");
    (void)tokenizer_piece(t, 4, &len);
    assert_int_equal(len, 0);
    buf_fini(&out);
    tokenizer_close(t);
    CHECK(&p, "ab<x>b<y>", TOKENIZE_SPECIAL, 5, 7, 2, 9);
}

static void bad_models(void **state)
{
    static const struct {
        const char *model;
        enum status status;
        const char *part;
    } cases[] = {
        {NULL, STATUS_INVALID, "model: expected an object, found nothing"},
        {"[]", STATUS_INVALID, "model: expected an object, found an array"},
        {"{'type':'WordPiece','vocab':{'a':0}}", STATUS_UNSUPPORTED, "'WordPiece'"},
        {"{'type':7,'vocab':{'a':0}}", STATUS_INVALID, "model.type: expected a string, found 7"},
        {"{'type':'BPE','vocab':{'a':0,'b':0},'merges':[]}", STATUS_INVALID,
         "one token with id 0, found 'a' and 'b'"},
        {"{'type':'BPE','vocab':{'a':-1},'merges':[]}", STATUS_INVALID, "model.vocab.a: expected"},
        {"{'type':'BPE','vocab':{'a':'x'},'merges':[]}", STATUS_INVALID, "found 'x'"},
        {"{'type':'BPE','vocab':{'a':99999999},'merges':[]}", STATUS_INVALID, "found 99999999"},
        {"{'type':'BPE','vocab':{},'merges':[]}", STATUS_INVALID, "one token at least"},
        {"{'type':'BPE','vocab':5,'merges':[]}", STATUS_INVALID, "model.vocab: expected"},
        {"{'type':'BPE','vocab':{'a':0}}", STATUS_INVALID, "model.merges: expected an array"},
        {"{'type':'BPE','vocab':{'a':0},'merges':['a a']}", STATUS_INVALID, "model.merges[0]"},
        {"{'type':'BPE','vocab':{'a':0},'merges':[7]}", STATUS_INVALID, "found 7"},
        {"{'type':'BPE','vocab':{'a':0},'merges':[],'dropout':0.1}", STATUS_UNSUPPORTED,
         "model.dropout"},
        {"{'type':'BPE','vocab':{'a':0},'merges':[],'end_of_word_suffix':'</w>'}",
         STATUS_UNSUPPORTED, "model.end_of_word_suffix: '</w>'"},
        {"{'type':'Unigram','vocab':[['a',1]],'unk_id':1}", STATUS_INVALID, "model.unk_id"},
        {"{'type':'Unigram','vocab':[['a']],'unk_id':0}", STATUS_INVALID, "model.vocab[0]"},
        {"{'type':'Unigram','vocab':{'a':0},'unk_id':0}", STATUS_INVALID, "model.vocab"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse(&(struct parts){.model = cases[i].model}, cases[i].status, cases[i].part);
    refuse(&(struct parts){.model = MODEL(""), .added = "[{'id':5,'content':'x'}]"}, STATUS_INVALID,
           "id 5, found 'a' and 'x'");
    refuse(&(struct parts){.model = MODEL(""), .added = "[{'id':10}]"}, STATUS_INVALID,
           "added_tokens[0].content");
}

static void bad_steps(void **state)
{
    static const struct {
        const char *normalizer, *pre_tokenizer, *decoder;
        enum status status;
        const char *part;
    } cases[] = {
        {"{'type':'Precompiled'}", NULL, NULL, STATUS_UNSUPPORTED, "normalizer: 'Precompiled'"},
        {"{'type':'Nmt'}", NULL, NULL, STATUS_UNSUPPORTED, "'Nmt'"},
        {"5", NULL, NULL, STATUS_INVALID, "normalizer: expected an object, found 5"},
        {"{'type':'Sequence','normalizers':[{'type':'Prepend'}]}", NULL, NULL, STATUS_INVALID,
         "normalizer.normalizers[0].prepend: expected a string"},
        {"{'type':'Replace','pattern':{},'content':''}", NULL, NULL, STATUS_INVALID,
         "normalizer.pattern"},
        {"{'type':'Replace','pattern':{'Regex':'('},'content':''}", NULL, NULL, STATUS_INVALID,
         "normalizer: expected a regular expression"},
        {NULL, "{'type':'Split','pattern':{'Regex':'[a&&b]'}}", NULL, STATUS_UNSUPPORTED, "&&"},
        {NULL, "{'type':'Split','pattern':{'Regex':'[a[b]]'}}", NULL, STATUS_UNSUPPORTED,
         "a class in a class"},
        {NULL, "{'type':'Split','pattern':{'Regex':'*'}}", NULL, STATUS_INVALID, "found '*'"},
        {NULL, "{'type':'Split','pattern':{'String':' '},'behavior':'Gone'}", NULL, STATUS_INVALID,
         "pre_tokenizer.behavior"},
        {NULL, "{'type':'Sequence','pretokenizers':[{'type':'UnicodeScripts'}]}", NULL,
         STATUS_UNSUPPORTED, "pretokenizers[0]: 'UnicodeScripts'"},
        {NULL, "{'type':'Metaspace','replacement':'_','prepend_scheme':'last'}", NULL,
         STATUS_INVALID, "always, first or never"},
        {NULL, NULL, "{'type':'ByteLevel'}", STATUS_UNSUPPORTED, "decoder: 'ByteLevel'"},
        {NULL, NULL, "{'type':'CTC'}", STATUS_UNSUPPORTED, "decoder: 'CTC'"},
        {NULL, NULL, "{'type':'Strip','content':' ','start':0,'stop':1}", STATUS_UNSUPPORTED,
         "decoder: 'Strip'"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse(&(struct parts){.normalizer = cases[i].normalizer,
                               .pre_tokenizer = cases[i].pre_tokenizer,
                               .decoder = cases[i].decoder,
                               .model = MODEL("")},
               cases[i].status, cases[i].part);
}

static void bad_text(void **state)
{
    static const char *const texts[] = {"", "{", "[]",
                                        "{\"model\": {\"vocab\": {\"a\":0,\"a\":1}}}"};
    (void)state;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct tokenizer_json files = {texts[i], strlen(texts[i]), NULL, 0, NULL, 0};
        struct tokenizer *t = NULL;
        struct err err = {0};
        assert_int_equal(tokenizer_open_json(&t, &files, &err), STATUS_INVALID);
        assert_null(t);
        assert_memory_equal(err.text, "tokenizer.json: ", 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_bytes_and_unknown_ones),
        cmocka_unit_test(decoding),
        cmocka_unit_test(bos_by_template_or_by_configuration),
        cmocka_unit_test(added_tokens),
        cmocka_unit_test(trust_goes_through_the_normalizer),
        cmocka_unit_test(chat_template),
        cmocka_unit_test(ids_without_tokens),
        cmocka_unit_test(bad_models),
        cmocka_unit_test(bad_steps),
        cmocka_unit_test(bad_text),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
