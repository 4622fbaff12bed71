#include "http/byte_budget.h"

#include "base/err.h"

#include <string.h>

void byte_budget_init(struct byte_budget *b, size_t most)
{
    *b = (struct byte_budget){.most = most, .key = siphash_key_random()};
}

void byte_budget_resize(struct byte_budget *b, size_t most)
{
    b->most = most;
}

static uint32_t share_of(const struct byte_budget *b, const struct client *who)
{
    return (uint32_t)(siphash_bytes(&b->key, who, sizeof *who) % BYTE_BUDGET_SHARES);
}

/* More in place of less, of what is held. */
static bool byte_budget_own_fits(size_t held, size_t less, size_t more, size_t most)
{
    return more <= less || (held - less <= most && more <= most - (held - less));
}

bool byte_budget_fits(const struct hold *h, size_t bytes)
{
    const struct byte_budget *b = h->of;
    return !b || b->most == 0 ||
           (byte_budget_own_fits(b->held, h->bytes, bytes, b->most) &&
            byte_budget_own_fits(b->shares[h->share], h->bytes, bytes, b->most / 2));
}

void byte_budget_refuse(const struct hold *h)
{
    if (h->of)
        h->of->refused++;
}

void byte_budget_force(struct hold *h, size_t bytes)
{
    if (h->of) {
        h->of->held += bytes - h->bytes;
        h->of->shares[h->share] += bytes - h->bytes;
    }
    h->bytes = bytes;
}

bool byte_budget_set(struct hold *h, size_t bytes)
{
    if (!byte_budget_fits(h, bytes)) {
        byte_budget_refuse(h);
        return false;
    }
    byte_budget_force(h, bytes);
    return true;
}

bool byte_budget_open(struct hold *h, struct byte_budget *b, const struct client *who)
{
    size_t bytes = h->bytes;
    REQUIRE(!h->of);
    *h = (struct hold){.of = b, .share = share_of(b, who)};
    return byte_budget_set(h, bytes);
}

void byte_budget_move(struct hold *to, struct hold *from)
{
    byte_budget_end(to);
    *to = *from;
    *from = (struct hold){0};
}

void byte_budget_end(struct hold *h)
{
    byte_budget_force(h, 0);
    *h = (struct hold){0};
}
