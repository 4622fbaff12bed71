/* A budget of bytes that many share: what all hold together never passes it, and one client holds
 * at most half, so that a client that fills its half shuts nobody else out.
 *
 *     struct hold ─┐
 *     struct hold ─┼─► budget: held <= most, and per client (a hash of it) <= most / 2
 *     struct hold ─┘
 *
 * Clients are told apart by a keyed hash into BYTE_BUDGET_SHARES places: two may share one by
 * chance, and nobody can choose with whom. I/O thread only.
 */
#ifndef FIRSTLIGHT_HTTP_BYTE_BUDGET_H
#define FIRSTLIGHT_HTTP_BYTE_BUDGET_H

#include "base/siphash.h"
#include "http/client_limit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BYTE_BUDGET_SHARES 4096

struct byte_budget {
    size_t most, held; /* most 0: no bound */
    uint64_t refused;  /* how often somebody was told that it is full */
    struct siphash_key key;
    size_t shares[BYTE_BUDGET_SHARES]; /* held by each */
};

void byte_budget_init(struct byte_budget *b, size_t most);
/* What is held stays held, also above a smaller maximum. */
void byte_budget_resize(struct byte_budget *b, size_t most);

/* What one request holds; zeroed, it counts and belongs to no budget. */
struct hold {
    struct byte_budget *of; /* NULL: none yet */
    uint32_t share;
    size_t bytes;
};

/* From now on it is held of this budget, as this client. False: the bytes that it has do not fit;
 * then it has none. */
bool byte_budget_open(struct hold *h, struct byte_budget *b, const struct client *who);
/* Would so many bytes fit, in place of those that it has? */
bool byte_budget_fits(const struct hold *h, size_t bytes);
/* Holds so many, in place of those that it had. False: they do not fit, and nothing has changed. */
bool byte_budget_set(struct hold *h, size_t bytes);
/* Somebody was told that there is no room. */
void byte_budget_refuse(const struct hold *h);
/* The same as byte_budget_set without asking; for what has been written already. */
void byte_budget_force(struct hold *h, size_t bytes);
void byte_budget_move(struct hold *to, struct hold *from); /* what `to` had is given back */
void byte_budget_end(struct hold *h);                      /* gives all of it back; h is zeroed */

#endif
