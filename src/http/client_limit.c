#include "http/client_limit.h"

#include "base/mem.h"
#include "base/siphash.h"

#include <netinet/in.h>
#include <string.h>

/* Open addressing with linear probing, never more than half full (Knuth, TAOCP 6.4). */
struct entry {
    struct client who;
    uint32_t n; /* 0: free */
};

struct client_limit {
    uint32_t max_each, max_clients, count;
    uint32_t mask; /* entries - 1 */
    struct siphash_key key;
    struct entry *entries;
};

#define KEYS UINT64_MAX /* word[0] of those with a key: no address begins so */

struct client client_limit_of_key(uint64_t id)
{
    return (struct client){.word = {KEYS, id}};
}

/* IPv4 as IPv6 has it (RFC 4291, 2.5.5.2), whichever socket it came to. */
struct client client_limit_of_address(const struct sockaddr *address)
{
    struct client who = {{0}};
    unsigned char bytes[16] = {[10] = 0xff, [11] = 0xff};
    if (!address)
        return who;
    if (address->sa_family == AF_INET6)
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    else if (address->sa_family == AF_INET)
        memcpy(bytes + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    memcpy(who.word, bytes, sizeof bytes);
    bool mapped = who.word[0] == 0 && bytes[10] == 0xff && bytes[11] == 0xff;
    if (!mapped)
        who.word[1] = 0;
    return who;
}

enum status client_limit_open(struct client_limit **out, uint32_t max_each, uint32_t max_clients,
                              struct err *err)
{
    uint64_t n = 2;
    while (n < 2 * (uint64_t)max_clients)
        n *= 2;
    struct client_limit *c = mem_zalloc(sizeof *c);
    struct entry *entries = mem_array(n, sizeof *entries);
    if (!c || !entries) {
        mem_free(c);
        mem_free(entries);
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u clients", max_clients);
    }
    *c = (struct client_limit){.max_each = max_each,
                               .max_clients = max_clients,
                               .mask = (uint32_t)(n - 1),
                               .key = siphash_key_random(),
                               .entries = entries};
    *out = c;
    return STATUS_OK;
}

void client_limit_free(struct client_limit *c)
{
    if (c)
        mem_free(c->entries);
    mem_free(c);
}

static uint32_t home(const struct client_limit *c, const struct client *who)
{
    return (uint32_t)siphash_bytes(&c->key, who, sizeof *who) & c->mask;
}

/* The client's entry, or the free one that would be its. */
static uint32_t client_limit_find(const struct client_limit *c, const struct client *who)
{
    uint32_t i = home(c, who);
    while (c->entries[i].n > 0 && memcmp(&c->entries[i].who, who, sizeof *who) != 0)
        i = (i + 1) & c->mask;
    return i;
}

enum status client_limit_enter_all(struct client_limit *c, const struct client *who, uint32_t n,
                                   struct err *err)
{
    struct entry *e = &c->entries[client_limit_find(c, who)];
    if (n == 0)
        return STATUS_OK;
    if (n > c->max_each - e->n)
        return err_set(err, STATUS_OVERLOADED,
                       "this client has %u requests under way and asks for %u more, one may have "
                       "%u (--max-requests-per-client)",
                       e->n, n, c->max_each);
    if (e->n == 0 && c->count == c->max_clients)
        return err_set(err, STATUS_OVERLOADED, "%u other clients have requests under way",
                       c->count);
    c->count += e->n == 0;
    e->who = *who;
    e->n += n;
    return STATUS_OK;
}

enum status client_limit_enter(struct client_limit *c, const struct client *who, struct err *err)
{
    return client_limit_enter_all(c, who, 1, err);
}

/* Closes the gap: whoever was pushed past it by probing moves back (Knuth's algorithm R). */
static void remove_entry(struct client_limit *c, uint32_t gap)
{
    for (uint32_t i = (gap + 1) & c->mask; c->entries[i].n > 0; i = (i + 1) & c->mask) {
        uint32_t from_home = (i - home(c, &c->entries[i].who)) & c->mask;
        if (from_home < ((i - gap) & c->mask))
            continue;
        c->entries[gap] = c->entries[i];
        gap = i;
    }
    c->entries[gap] = (struct entry){0};
}

void client_limit_leave_all(struct client_limit *c, const struct client *who, uint32_t n)
{
    uint32_t i = client_limit_find(c, who);
    if (n == 0)
        return;
    REQUIRE(c->entries[i].n >= n);
    c->entries[i].n -= n;
    if (c->entries[i].n > 0)
        return;
    c->count--;
    c->entries[i].n = 1; /* in use, until those behind it have moved */
    remove_entry(c, i);
}

void client_limit_leave(struct client_limit *c, const struct client *who)
{
    client_limit_leave_all(c, who, 1);
}

uint32_t client_limit_count(const struct client_limit *c)
{
    return c->count;
}
