#include "engine/sampling/token_counts.h"

#include "base/err.h"
#include "base/mem.h"

bool token_counts_init(struct token_counts *c, uint32_t n_vocab, uint32_t n_tokens)
{
    *c = (struct token_counts){.cap = n_tokens < n_vocab ? n_tokens : n_vocab};
    c->place = mem_array(n_vocab, sizeof *c->place);
    c->seen = mem_array(c->cap, sizeof *c->seen);
    if (c->place && c->seen)
        return true;
    token_counts_fini(c);
    return false;
}

void token_counts_fini(struct token_counts *c)
{
    mem_free(c->place);
    mem_free(c->seen);
    *c = (struct token_counts){0};
}

void token_counts_add(struct token_counts *c, int32_t token, bool generated)
{
    if (c->place[token] == 0) {
        REQUIRE(c->n < c->cap);
        c->seen[c->n++] = (struct token_counts_entry){.token = token};
        c->place[token] = c->n;
    }
    c->seen[c->place[token] - 1].generated += generated;
}
