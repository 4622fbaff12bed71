#include "text/tokenizer/vocab.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "text/tokenizer/byte_level.h"

#include <string.h>

/* Eight bytes at a time; the low and the high half of the result depend on all of them. */
static uint32_t hash_bytes(const char *bytes, size_t len)
{
    uint64_t h = len * 0x9e3779b97f4a7c15u, eight;
    for (; len >= sizeof eight; bytes += sizeof eight, len -= sizeof eight) {
        memcpy(&eight, bytes, sizeof eight);
        h = (h ^ eight) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    eight = 0;
    for (size_t i = 0; i < len; i++)
        eight = eight << 8 | (unsigned char)bytes[i];
    h = (h ^ eight) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds the key, or the empty one where it belongs. */
static struct vocab_slot *vocab_find_slot(const struct vocab *v, const char *key, size_t len,
                                          uint32_t hash, bool literal)
{
    for (uint32_t at = hash;; at++) {
        struct vocab_slot *slot = &v->slots[at & v->slot_mask];
        size_t found_len;
        if (slot->id_plus_one == 0)
            return slot;
        if (slot->hash != hash || v->literal[slot->id_plus_one - 1] != literal)
            continue;
        const char *found = vocab_key(v, (int32_t)(slot->id_plus_one - 1), &found_len);
        if (found_len == len && memcmp(found, key, len) == 0)
            return slot;
    }
}

int32_t vocab_find(const struct vocab *v, const char *key, size_t len, bool literal)
{
    return (int32_t)vocab_find_slot(v, key, len, hash_bytes(key, len), literal)->id_plus_one - 1;
}

static int vocab_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int vocab_byte(const char *text, size_t len)
{
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    int high = vocab_hex_digit(text[3]), low = vocab_hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* --- opening -------------------------------------------------------------------------------- */

/* Strings being collected. */
struct collected {
    struct buf bytes;
    uint32_t *offsets;
    size_t longest;
};

static void end_string(struct collected *c, uint32_t id)
{
    size_t len = c->bytes.len - c->offsets[id];
    c->offsets[id + 1] = (uint32_t)c->bytes.len;
    if (len > c->longest)
        c->longest = len;
}

static enum status vocab_no_memory(const struct vocab *v, struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for a vocabulary of %u tokens", v->count);
}

static enum status check_entries(const struct vocab_entry *entries, uint32_t count,
                                 const struct vocab_rules *rules, struct err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!entries[i].text)
            return err_param(err, STATUS_INVALID, rules->what,
                             "%s: expected a token for every id below %u, id %u has none",
                             rules->what, count, i);
        if (entries[i].len > LIMIT_TOKEN_BYTES)
            return err_param(err, STATUS_INVALID, rules->what,
                             "%s: token %u has %u bytes, the limit is %d", rules->what, i,
                             entries[i].len, LIMIT_TOKEN_BYTES);
    }
    return STATUS_OK;
}

static enum status vocab_allocate(struct vocab *v, struct err *err)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)v->count)
        slots *= 2;
    v->slot_mask = (uint32_t)(slots - 1);
    v->types = mem_array(v->count, sizeof *v->types);
    v->literal = mem_array(v->count, sizeof *v->literal);
    v->slots = mem_array(slots, sizeof *v->slots);
    return v->types && v->literal && v->slots ? STATUS_OK : vocab_no_memory(v, err);
}

/* The text with the rules' replacements made one after the other in every place. At most two
 * buffers' worth: `from` of a later rule may be in what an earlier one wrote. */
static void append_replaced(struct buf *out, const struct vocab_rules *rules, int rule,
                            const char *text, size_t len)
{
    if (rule == rules->n_replaces) {
        buf_append(out, text, len);
        return;
    }
    const char *from = rules->replaces[rule].from;
    size_t from_len = strlen(from), start = 0;
    for (size_t at = 0; at + from_len <= len;) {
        if (memcmp(text + at, from, from_len) != 0) {
            at++;
            continue;
        }
        append_replaced(out, rules, rule + 1, text + start, at - start);
        append_replaced(out, rules, rule + 1, rules->replaces[rule].to,
                        strlen(rules->replaces[rule].to));
        start = at += from_len;
    }
    append_replaced(out, rules, rule + 1, text + start, len - start);
}

static void collect_piece(struct collected *pieces, const struct vocab_entry *e,
                          const struct vocab_rules *rules)
{
    int byte = rules->bytes && e->type == VOCAB_BYTE ? vocab_byte(e->text, e->len) : -1;
    if (byte >= 0)
        buf_putc(&pieces->bytes, (char)byte);
    else if (e->type == VOCAB_CONTROL || e->type == VOCAB_UNKNOWN)
        buf_append(&pieces->bytes, e->text, e->len);
    else
        append_replaced(&pieces->bytes, rules, 0, e->text, e->len);
}

/* Byte-level: one array for both. */
static void collect_bytes(struct vocab *v, struct collected *pieces, const struct vocab_entry *e,
                          uint32_t id)
{
    char bytes[LIMIT_TOKEN_BYTES];
    size_t len;
    v->literal[id] = e->literal || !byte_level_decode(e->text, e->len, bytes, &len);
    if (v->literal[id])
        buf_append(&pieces->bytes, e->text, e->len);
    else
        buf_append(&pieces->bytes, bytes, len);
}

static bool vocab_collect(struct vocab *v, const struct vocab_entry *entries,
                          const struct vocab_rules *rules)
{
    struct collected pieces = {.bytes.limit = UINT32_MAX}, keys = {.bytes.limit = UINT32_MAX};
    pieces.offsets = mem_array((size_t)v->count + 1, sizeof *pieces.offsets);
    if (!rules->byte_level)
        keys.offsets = mem_array((size_t)v->count + 1, sizeof *keys.offsets);
    bool done = pieces.offsets && (rules->byte_level || keys.offsets);
    for (uint32_t i = 0; done && i < v->count; i++) {
        v->types[i] = entries[i].type;
        v->literal[i] = entries[i].literal;
        if (rules->byte_level) {
            collect_bytes(v, &pieces, &entries[i], i);
        } else {
            collect_piece(&pieces, &entries[i], rules);
            buf_append(&keys.bytes, entries[i].text, entries[i].len);
            end_string(&keys, i);
        }
        end_string(&pieces, i);
    }
    done = done && !pieces.bytes.failed && !keys.bytes.failed;
    v->pieces = (struct vocab_strings){pieces.offsets, buf_take(&pieces.bytes), pieces.longest};
    v->keys = v->pieces;
    if (!rules->byte_level)
        v->keys = (struct vocab_strings){keys.offsets, buf_take(&keys.bytes), keys.longest};
    return done && v->pieces.bytes && (v->keys.bytes || v->keys.longest == 0);
}

static enum status index_keys(struct vocab *v, const struct vocab_rules *rules, struct err *err)
{
    for (uint32_t i = 0; i < v->count; i++) {
        size_t len;
        const char *key = vocab_key(v, (int32_t)i, &len);
        if (len == 0)
            continue; /* padding: never in any text */
        uint32_t hash = hash_bytes(key, len);
        struct vocab_slot *slot = vocab_find_slot(v, key, len, hash, v->literal[i]);
        if (slot->id_plus_one != 0)
            return err_param(err, STATUS_INVALID, rules->what,
                             "%s: tokens %u and %u are the same text '%.*s'", rules->what,
                             slot->id_plus_one - 1, i, (int)len, key);
        *slot = (struct vocab_slot){.id_plus_one = i + 1, .hash = hash};
    }
    return STATUS_OK;
}

enum status vocab_open(struct vocab *v, const struct vocab_entry *entries, uint32_t count,
                       const struct vocab_rules *rules, struct err *err)
{
    *v = (struct vocab){.count = count};
    enum status status = check_entries(entries, count, rules, err);
    if (status == STATUS_OK)
        status = vocab_allocate(v, err);
    if (status == STATUS_OK && !vocab_collect(v, entries, rules))
        status = vocab_no_memory(v, err);
    if (status == STATUS_OK)
        status = index_keys(v, rules, err);
    if (status != STATUS_OK)
        vocab_close(v);
    return status;
}

void vocab_close(struct vocab *v)
{
    if (v->keys.offsets != v->pieces.offsets) {
        mem_free(v->keys.offsets);
        mem_free(v->keys.bytes);
    }
    mem_free(v->pieces.offsets);
    mem_free(v->pieces.bytes);
    mem_free(v->types);
    mem_free(v->literal);
    mem_free(v->slots);
    *v = (struct vocab){0};
}
