/* The report of `firstlight inspect` for people: one line for each metadata pair and tensor. */
#include "cli/inspect_report.h"

#include <inttypes.h>
#include <string.h>
#include <utf8proc.h>

#define FIRST_ELEMENTS 6
/* Characters of a string that are shown: of one by itself, and of one in an array. */
#define LONG_STRING  72
#define SHORT_STRING 24

/* One character of s at i, as it is or, when it is a quote, a control character or no UTF-8 (any
 * could upset a terminal or mislead a reader), its first byte as \xNN. Returns the bytes passed. */
static size_t print_char(struct gguf_string s, size_t i, FILE *out)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)s.bytes + i;
    utf8proc_int32_t code;
    utf8proc_ssize_t n = utf8proc_iterate(p, (utf8proc_ssize_t)(s.len - i), &code);
    if (n > 0 && code != '"' && code != '\\') {
        utf8proc_category_t category = utf8proc_category(code);
        if (category != UTF8PROC_CATEGORY_CC && category != UTF8PROC_CATEGORY_CF &&
            category != UTF8PROC_CATEGORY_ZL && category != UTF8PROC_CATEGORY_ZP) {
            fwrite(p, 1, (size_t)n, out);
            return (size_t)n;
        }
    }
    fprintf(out, "\\x%02x", *p);
    return 1;
}

static void print_string(struct gguf_string s, int limit, FILE *out)
{
    size_t i = 0;
    fputc('"', out);
    for (int shown = 0; i < s.len && shown < limit; shown++)
        i += print_char(s, i, out);
    fputc('"', out);
    if (i < s.len)
        fprintf(out, "... (%zu bytes)", s.len);
}

static void print_value(const struct gguf_value *v, FILE *out);

static void print_array(const struct gguf_value *v, FILE *out)
{
    struct gguf_cursor c = {0, 0};
    fputc('[', out);
    for (uint64_t i = 0; i < v->count && i < FIRST_ELEMENTS; i++) {
        struct gguf_value element = gguf_element(v, i, &c);
        fputs(i ? ", " : "", out);
        if (v->element == GGUF_STRING)
            print_string(gguf_array_string(&element, 0, &(struct gguf_cursor){0, 0}), SHORT_STRING,
                         out);
        else
            print_value(&element, out);
    }
    if (v->count > FIRST_ELEMENTS)
        fprintf(out, ", ... (%" PRIu64 ")", v->count);
    fputc(']', out);
}

static void print_value(const struct gguf_value *v, FILE *out)
{
    struct gguf_cursor start = {0, 0};
    switch (v->type) {
    case GGUF_ARRAY:
        print_array(v, out);
        break;
    case GGUF_STRING:
        print_string(gguf_array_string(v, 0, &start), LONG_STRING, out);
        break;
    case GGUF_BOOL:
        fputs(gguf_integer(v, 0) ? "true" : "false", out);
        break;
    case GGUF_F32:
        fprintf(out, "%.7g", gguf_number(v, 0));
        break;
    case GGUF_F64:
        fprintf(out, "%.15g", gguf_number(v, 0));
        break;
    case GGUF_U64:
        fprintf(out, "%" PRIu64, gguf_unsigned(v, 0));
        break;
    default:
        fprintf(out, "%" PRId64, gguf_integer(v, 0));
    }
}

static void print_pair(const struct gguf_value *v, FILE *out)
{
    bool array = v->type == GGUF_ARRAY;
    fputs("  ", out);
    for (size_t i = 0; i < v->key.len;)
        i += print_char(v->key, i, out);
    fprintf(out, " (%s%s) = ", gguf_type_name(v->element), array ? "[]" : "");
    print_value(v, out);
    fputc('\n', out);
}

/* Tensor lines are aligned: names and shapes padded to the longest. */
static void print_tensors(const struct gguf *g, FILE *out)
{
    char shape[96];
    int name_width = 0, shape_width = 0;
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        int n = (int)strlen(t->name), m = (int)strlen(tensor_shape_text(t, shape, sizeof shape));
        name_width = n > name_width ? n : name_width;
        shape_width = m > shape_width ? m : shape_width;
    }
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        struct gguf_string name = {t->name, strlen(t->name)};
        fputs("  ", out);
        for (size_t k = 0; k < name.len;)
            k += print_char(name, k, out);
        fprintf(out, "%*s  %-4s  %-*s  %12zu bytes\n", name_width - (int)name.len, "",
                tensor_type_name(t->type), shape_width, tensor_shape_text(t, shape, sizeof shape),
                t->size);
    }
}

static void print_totals(const struct gguf *g, const struct inspect_totals *totals, FILE *out)
{
    fprintf(out, "  tensors     %zu\n", totals->tensors);
    fprintf(out, "  parameters  %" PRIu64 " (%.1f M)\n", totals->parameters,
            (double)totals->parameters / 1e6);
    for (int type = 0; type < TENSOR_TYPES; type++)
        if (totals->type_tensors[type] != 0)
            fprintf(out, "  %-10s  %" PRIu64 " bytes in %zu tensors\n",
                    tensor_type_name((enum tensor_type)type), totals->type_bytes[type],
                    totals->type_tensors[type]);
    fprintf(out, "  all types   %" PRIu64 " bytes (%.1f MiB)\n", totals->bytes,
            (double)totals->bytes / 0x1p20);
    fprintf(out, "  file        %zu bytes (%.1f MiB)\n", gguf_file_size(g),
            (double)gguf_file_size(g) / 0x1p20);
}

void inspect_text_print(const struct gguf *g, const struct inspect_totals *totals, FILE *out)
{
    fprintf(out, "%s: GGUF version %" PRIu32 "\n", gguf_path(g), gguf_version(g));
    fprintf(out, "\nmetadata (%zu)\n", gguf_value_count(g));
    for (size_t i = 0; i < gguf_value_count(g); i++)
        print_pair(gguf_value_at(g, i), out);
    fprintf(out, "\ntensors (%zu)\n", gguf_tensor_count(g));
    print_tensors(g, out);
    fputs("\ntotals\n", out);
    print_totals(g, totals, out);
}
