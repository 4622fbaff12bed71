/* The prefix cache: what it gives a request is what the request would have computed, whatever else
 * happened; it gives all there is; and it forgets what was unused for longest.
 *
 * A storage of tokens stands in for keys and values: position i of a sequence is written as the
 * hash of its tokens 0 .. i, which is what keys and values depend on, with the salt under which it
 * was computed beside it.
 */
#include "base/mem.h"
#include "engine/prefix.h"
#include "support/cmocka_all.h"
#include "support/random.h"

#include <string.h>

#define N_BLOCKS 64
#define N_SLOTS  8
#define N_CTX    320

#define MAX_PUBLISHED 2000

struct sequence {
    int32_t tokens[N_CTX];
    uint32_t n_prompt, n_past, n_published;
    struct prefix_salt salt;
    bool running;
};

struct written {
    uint64_t hash;
    struct prefix_salt by;
};

/* Somebody published the first n of these tokens. */
struct published {
    struct prefix_salt by;
    uint32_t n;
    int32_t tokens[N_CTX];
};

struct world {
    struct kv kv;
    struct prefix prefix;
    struct written stored[N_BLOCKS][KV_BLOCK];
    struct sequence seq[N_SLOTS];
    struct random random;
    struct published *published; /* (MAX_PUBLISHED); NULL: nobody keeps a record */
    uint32_t n_published;
    uint64_t hits; /* tokens that were found */
};

static bool same_salt(const struct prefix_salt *a, const struct prefix_salt *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* May a request under this salt have what was computed under the other? */
static bool may_find(const struct prefix_salt *salt, const struct prefix_salt *by)
{
    return same_salt(salt, by) || same_salt(by, &prefix_salt_public);
}

static uint64_t hash_of(const struct sequence *s, uint32_t position)
{
    uint64_t h = 14695981039346656037u;
    for (uint32_t i = 0; i <= position; i++)
        h = (h ^ (uint32_t)s->tokens[i]) * 1099511628211u;
    return h;
}

static struct written *place(struct world *w, uint32_t slot, uint32_t position)
{
    return &w->stored[kv_table(&w->kv, slot)[position / KV_BLOCK]][position % KV_BLOCK];
}

static void check(struct world *w)
{
    assert_true(kv_check(&w->kv));
    assert_true(prefix_check(&w->prefix));
    for (uint32_t slot = 0; slot < N_SLOTS; slot++)
        for (uint32_t i = 0; w->seq[slot].running && i < w->seq[slot].n_past; i++) {
            assert_true(place(w, slot, i)->hash == hash_of(&w->seq[slot], i));
            assert_true(may_find(&w->seq[slot].salt, &place(w, slot, i)->by));
        }
}

/* Attaches what there is and copies; false when the blocks for the rest are not to be had. */
static bool start(struct world *w, uint32_t slot, uint32_t *n_hit)
{
    struct sequence *s = &w->seq[slot];
    struct prefix_hit hit;
    uint32_t found = prefix_lookup(&w->prefix, &s->salt, s->tokens, s->n_prompt - 1);
    prefix_attach(&w->prefix, slot, &s->salt, s->tokens, s->n_prompt - 1, &hit);
    assert_int_equal(hit.n_tokens, found);
    assert_true(hit.n_tokens < s->n_prompt);
    *n_hit = hit.n_tokens;
    w->hits += hit.n_tokens;
    uint32_t missing = kv_blocks_for(s->n_prompt) - w->kv.lens[slot];
    bool room = prefix_make_room(&w->prefix, missing);
    if (room) {
        assert_true(kv_grow(&w->kv, slot, kv_blocks_for(s->n_prompt)));
        for (uint32_t i = 0; i < hit.n_copy; i++)
            *place(w, slot, hit.n_tokens - hit.n_copy + i) = w->stored[hit.copy_from][i];
    }
    prefix_copied(&w->prefix, &hit);
    s->n_past = hit.n_tokens;
    s->n_published = hit.n_tokens / KV_BLOCK;
    s->running = room;
    if (!room)
        kv_release(&w->kv, slot);
    return room;
}

static void record(struct world *w, const struct sequence *s, bool partial)
{
    if (!w->published)
        return;
    assert_true(w->n_published < MAX_PUBLISHED);
    struct published *p = &w->published[w->n_published++];
    *p = (struct published){.by = s->salt, .n = s->n_past};
    if (!partial)
        p->n -= p->n % KV_BLOCK;
    memcpy(p->tokens, s->tokens, sizeof p->tokens);
}

static bool run(struct world *w, uint32_t slot, uint32_t n, bool partial)
{
    struct sequence *s = &w->seq[slot];
    uint32_t blocks = kv_blocks_for(s->n_past + n);
    uint32_t missing = blocks > w->kv.lens[slot] ? blocks - w->kv.lens[slot] : 0;
    if (!prefix_make_room(&w->prefix, missing))
        return false;
    assert_true(kv_grow(&w->kv, slot, blocks));
    for (uint32_t i = 0; i < n; i++, s->n_past++)
        *place(w, slot, s->n_past) = (struct written){hash_of(s, s->n_past), s->salt};
    const struct prefix_text text = {s->tokens, s->n_prompt, s->tokens + s->n_prompt};
    prefix_publish(&w->prefix, slot, &s->n_published, &s->salt, &text, s->n_past, partial);
    record(w, s, partial);
    return true;
}

static void end(struct world *w, uint32_t slot)
{
    kv_release(&w->kv, slot);
    w->seq[slot].running = false;
}

static void fill(struct sequence *s, uint32_t n, int32_t first)
{
    *s = (struct sequence){.n_prompt = n};
    for (uint32_t i = 0; i < N_CTX; i++)
        s->tokens[i] = first + (int32_t)i;
}

static struct world *open_world(uint32_t n_blocks)
{
    struct world *w = mem_zalloc(sizeof *w);
    assert_non_null(w);
    assert_int_equal(kv_init(&w->kv, n_blocks, N_SLOTS, N_CTX, NULL), STATUS_OK);
    assert_int_equal(prefix_init(&w->prefix, &w->kv, NULL), STATUS_OK);
    return w;
}

static void close_world(struct world *w)
{
    prefix_fini(&w->prefix);
    kv_fini(&w->kv);
    mem_free(w);
}

/* Computes a whole prompt in slot 0 and ends it; returns how much of it was cached. */
static uint32_t once(struct world *w, uint32_t n, int32_t first)
{
    uint32_t n_hit;
    fill(&w->seq[0], n, first);
    assert_true(start(w, 0, &n_hit));
    assert_true(run(w, 0, n - n_hit, true));
    check(w);
    end(w, 0);
    return n_hit;
}

static void a_second_time_only_the_last_token_is_computed(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    const uint32_t lengths[] = {1, 2, 31, 32, 33, 64, 65, 100};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        int32_t first = 1000 * (int32_t)(i + 1);
        assert_int_equal(once(w, lengths[i], first), 0);
        assert_int_equal(once(w, lengths[i], first), lengths[i] - 1);
    }
    check(w);
    close_world(w);
}

static void a_prefix_is_shared_to_the_token(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    once(w, 80, 1);
    for (uint32_t same = 1; same < 80; same++) {
        uint32_t n_hit;
        fill(&w->seq[1], 90, 1);
        w->seq[1].tokens[same] = -1;
        assert_true(start(w, 1, &n_hit));
        assert_int_equal(n_hit, same);
        check(w);
        end(w, 1);
    }
    close_world(w);
}

static void nothing_is_found_before_it_is_published(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    uint32_t n_hit;
    fill(&w->seq[0], 100, 1);
    fill(&w->seq[1], 100, 1);
    assert_true(start(w, 0, &n_hit));
    assert_int_equal(prefix_lookup(&w->prefix, &w->seq[1].salt, w->seq[1].tokens, 99), 0);
    assert_true(run(w, 0, 70, false));
    assert_int_equal(prefix_lookup(&w->prefix, &w->seq[1].salt, w->seq[1].tokens, 99), 64);
    assert_true(run(w, 0, 20, true));
    assert_int_equal(prefix_lookup(&w->prefix, &w->seq[1].salt, w->seq[1].tokens, 99), 90);
    assert_true(run(w, 0, 10, true)); /* the same block is published anew, full */
    assert_int_equal(prefix_lookup(&w->prefix, &w->seq[1].salt, w->seq[1].tokens, 99), 99);
    check(w);
    close_world(w);
}

static void two_who_compute_the_same_end_up_sharing(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    uint32_t n_hit;
    for (uint32_t slot = 0; slot < 2; slot++) {
        fill(&w->seq[slot], 96, 1);
        assert_true(start(w, slot, &n_hit));
        assert_int_equal(n_hit, 0);
    }
    for (uint32_t slot = 0; slot < 2; slot++) {
        assert_true(run(w, slot, 40, true));
        assert_true(run(w, slot, 56, true));
        check(w);
    }
    assert_memory_equal(kv_table(&w->kv, 0), kv_table(&w->kv, 1), 3 * sizeof(uint32_t));
    end(w, 0);
    end(w, 1);
    assert_int_equal(w->kv.n_idle, 3);
    check(w);
    close_world(w);
}

static void salts_keep_tenants_apart(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    uint32_t n_hit;
    once(w, 100, 1);
    fill(&w->seq[1], 100, 1);
    w->seq[1].salt.word[1] = 1;
    assert_true(start(w, 1, &n_hit));
    assert_int_equal(n_hit, 0);
    assert_true(run(w, 1, 100, true));
    check(w);
    end(w, 1);
    assert_int_equal(prefix_lookup(&w->prefix, &w->seq[1].salt, w->seq[1].tokens, 99), 99);
    w->seq[1].salt.word[0] = 1;
    assert_int_equal(prefix_lookup(&w->prefix, &w->seq[1].salt, w->seq[1].tokens, 99), 0);
    close_world(w);
}

static void what_was_unused_for_longest_goes_first(void **state)
{
    (void)state;
    struct world *w = open_world(12);
    once(w, 96, 1000); /* 3 blocks each */
    once(w, 96, 2000);
    once(w, 96, 3000);
    once(w, 96, 1000);                 /* used again */
    assert_int_equal(w->kv.n_free, 3); /* the copied block gave way to the one it was copied from */
    fill(&w->seq[2], 128, 4000);
    uint32_t n_hit;
    assert_true(start(w, 2, &n_hit));
    check(w);
    fill(&w->seq[3], 96, 1000);
    assert_int_equal(prefix_lookup(&w->prefix, &w->seq[3].salt, w->seq[3].tokens, 95), 95);
    fill(&w->seq[3], 96, 2000);
    /* from its end */
    assert_int_equal(prefix_lookup(&w->prefix, &w->seq[3].salt, w->seq[3].tokens, 95), 64);
    assert_false(prefix_make_room(&w->prefix, 13));
    assert_true(prefix_make_room(&w->prefix, w->kv.n_free + w->kv.n_idle));
    assert_int_equal(w->prefix.n_nodes, 0);
    check(w);
    close_world(w);
}

/* --- the public part ------------------------------------------------------------------------ */

/* What prefix_lookup says of tokens first, first + 1, ... under salt `who`. */
static uint32_t found(struct world *w, uint64_t who, uint32_t n, int32_t first)
{
    struct sequence s;
    fill(&s, n, first);
    s.salt.word[0] = who;
    return prefix_lookup(&w->prefix, &s.salt, s.tokens, n);
}

/* Computes the first n tokens of first, first + 1, ... of which the last `own` are others, under a
 * salt; returns how many were cached. */
static uint32_t once_by(struct world *w, struct prefix_salt salt, uint32_t n, int32_t first,
                        uint32_t own)
{
    struct sequence *s = &w->seq[0];
    uint32_t n_hit;
    fill(s, n, first);
    s->salt = salt;
    for (uint32_t i = n - own; i < n; i++)
        s->tokens[i] = -1 - (int32_t)i;
    assert_true(start(w, 0, &n_hit));
    assert_true(run(w, 0, n - n_hit, true));
    check(w);
    end(w, 0);
    return n_hit;
}

static struct prefix_salt salt_of(uint64_t who)
{
    return (struct prefix_salt){.word = {who, 0}};
}

static void everybody_finds_the_public_part(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    once_by(w, prefix_salt_public, 70, 1, 0); /* two blocks, and 6 tokens of the third */
    for (uint64_t who = 0; who < 3; who++)
        for (uint32_t n = 1; n < 100; n++)
            assert_int_equal(found(w, who, n, 1), n < 70 ? n : 70);
    close_world(w);
}

static void behind_the_public_part_salts_keep_apart(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    once_by(w, prefix_salt_public, 70, 1, 0);
    for (uint64_t who = 0; who < 3; who++) /* each has the same text behind it */
        assert_int_equal(once_by(w, salt_of(who), 200, 1, 0), 70);
    for (uint64_t who = 0; who < 3; who++)
        assert_int_equal(found(w, who, 300, 1), 200);
    assert_int_equal(found(w, 7, 300, 1), 70);
    assert_int_equal(w->prefix.n_nodes, 3 + 3 * 5); /* no block of their own is shared */
    close_world(w);
}

static void nothing_that_others_compute_becomes_public(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    once_by(w, prefix_salt_public, 64, 1, 0);
    once_by(w, salt_of(1), 160, 1, 0);
    assert_int_equal(found(w, 2, 160, 1), 64);
    fill(&w->seq[1], 160, 1);
    assert_int_equal(prefix_lookup(&w->prefix, &prefix_salt_public, w->seq[1].tokens, 160), 64);
    close_world(w);
}

static void the_longer_of_both_parts_is_found(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    once_by(w, prefix_salt_public, 50, 1, 0);
    once_by(w, salt_of(1), 60, 1, 20); /* 40 as above, then its own */
    once_by(w, salt_of(1), 60, 1, 0);
    assert_int_equal(found(w, 1, 64, 1), 60);
    assert_int_equal(found(w, 2, 64, 1), 50);
    assert_int_equal(once_by(w, salt_of(1), 60, 1, 20), 59);
    assert_int_equal(once_by(w, salt_of(2), 60, 1, 20), 40);
    close_world(w);
}

static void the_public_part_goes_last(void **state)
{
    (void)state;
    struct world *w = open_world(12);
    once_by(w, prefix_salt_public, 70, 1, 0); /* 3 blocks, the longest unused */
    once_by(w, salt_of(1), 128, 1, 0);        /* 2 more, and a copy of the third */
    once_by(w, salt_of(1), 96, 2000, 0);
    assert_true(prefix_make_room(&w->prefix, 9));
    check(w);
    assert_int_equal(w->prefix.n_nodes, 3);
    assert_int_equal(found(w, 1, 128, 1), 70);
    assert_true(prefix_make_room(&w->prefix, 11)); /* from its end */
    check(w);
    assert_int_equal(found(w, 1, 128, 1), 32);
    assert_int_equal(once_by(w, salt_of(1), 128, 1, 0), 32);
    assert_int_equal(found(w, 1, 128, 1), 128); /* what is missing of it is computed by each */
    assert_int_equal(found(w, 2, 128, 1), 32);
    assert_true(prefix_make_room(&w->prefix, 12));
    assert_int_equal(w->prefix.n_nodes, 0);
    check(w);
    close_world(w);
}

static void what_was_evicted_of_the_public_part_is_remembered(void **state)
{
    (void)state;
    struct world *w = open_world(12);
    struct sequence s;
    once_by(w, prefix_salt_public, 70, 1, 0);
    once_by(w, salt_of(1), 70, 1000, 0);
    assert_true(prefix_make_room(&w->prefix, 12));
    fill(&s, 70, 1);
    assert_true(prefix_was_evicted(&w->prefix, &s.salt, s.tokens, 70)); /* for everybody */
    fill(&s, 70, 1000);
    assert_false(prefix_was_evicted(&w->prefix, &s.salt, s.tokens, 70)); /* for it alone */
    s.salt = salt_of(1);
    assert_true(prefix_was_evicted(&w->prefix, &s.salt, s.tokens, 70));
    close_world(w);
}

static void check_finds_a_chain_of_two_salts(void **state)
{
    (void)state;
    struct world *w = open_world(N_BLOCKS);
    once_by(w, salt_of(1), 32, 1, 0);
    fill(&w->seq[1], 64, 1);
    w->seq[1].salt = salt_of(2);
    w->seq[1].n_past = 32;
    w->seq[1].n_published = 1;
    kv_share(&w->kv, 1, w->kv.idle_first); /* a block of somebody else's */
    assert_true(run(w, 1, 32, false));
    assert_int_equal(w->prefix.n_nodes, 2);
    assert_false(prefix_check(&w->prefix));
    end(w, 1);
    close_world(w);
}

/* --- at random ------------------------------------------------------------------------------ */

/* Prompts from a small tree of texts, so that everything is shared with everything. */
static void random_sequence(struct world *w, struct sequence *s)
{
    struct random *r = &w->random;
    *s = (struct sequence){.n_prompt = 1 + random_below(r, N_CTX - 80)};
    s->salt.word[0] = random_below(r, 8) == 0;
    int32_t branch = (int32_t)random_below(r, 3);
    for (uint32_t i = 0; i < N_CTX; i++) {
        if (random_below(r, 40) == 0)
            branch = (branch * 3 + (int32_t)random_below(r, 3)) % 1000;
        s->tokens[i] = branch;
    }
}

static void turn(struct world *w)
{
    uint32_t slot = random_below(&w->random, N_SLOTS), n_hit;
    struct sequence *s = &w->seq[slot];
    if (!s->running) {
        random_sequence(w, s);
        start(w, slot, &n_hit);
    } else if (random_below(&w->random, 6) == 0 || s->n_past + 50 >= N_CTX) {
        end(w, slot);
    } else {
        uint32_t left = s->n_past < s->n_prompt ? s->n_prompt - s->n_past : 1;
        uint32_t n = 1 + random_below(&w->random, left);
        if (!run(w, slot, n, s->n_past + n >= s->n_prompt && random_below(&w->random, 3) == 0))
            end(w, slot); /* preempted */
    }
}

static void random_use_never_mixes_sequences(void **state)
{
    (void)state;
    uint64_t hits = 0, evictions = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world *w = open_world(seed % 2 ? N_BLOCKS : 24);
        w->random.state = seed;
        for (int i = 0; i < 500; i++) {
            turn(w);
            check(w);
        }
        for (uint32_t slot = 0; slot < N_SLOTS; slot++)
            end(w, slot);
        assert_int_equal(w->kv.n_free + w->kv.n_idle, w->kv.n_blocks);
        check(w);
        hits += w->hits;
        evictions += w->prefix.evictions;
        close_world(w);
    }
    assert_true(hits > 10000 && evictions > 100); /* the test tests something */
}

/* The most of these tokens that was ever published by whom this salt may find. */
static uint32_t most(const struct world *w, const struct sequence *s, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < w->n_published; i++) {
        const struct published *p = &w->published[i];
        uint32_t same = 0;
        while (may_find(&s->salt, &p->by) && same < n && same < p->n &&
               p->tokens[same] == s->tokens[same])
            same++;
        best = same > best ? same : best;
    }
    return best;
}

static void a_random_visit(struct world *w, struct prefix_salt salt)
{
    uint32_t slot = random_below(&w->random, N_SLOTS), n_hit;
    struct sequence *s = &w->seq[slot];
    if (s->running) {
        end(w, slot);
        return;
    }
    random_sequence(w, s);
    s->salt = salt;
    uint32_t expected = most(w, s, s->n_prompt - 1);
    uint32_t n = prefix_lookup(&w->prefix, &s->salt, s->tokens, s->n_prompt - 1);
    assert_true(w->kv.n_blocks == N_BLOCKS && w->prefix.evictions == 0 ? n == expected
                                                                       : n <= expected);
    if (start(w, slot, &n_hit) &&
        !run(w, slot, s->n_prompt - n_hit, random_below(&w->random, 3) > 0))
        end(w, slot);
}

/* Against the plain list of all that was published, with room for everything and without. */
static void nobody_finds_what_only_another_salt_computed(void **state)
{
    (void)state;
    uint64_t hits = 0, evictions = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world *w = open_world(seed % 2 ? N_BLOCKS : 24);
        w->random.state = seed;
        w->published = mem_array(MAX_PUBLISHED, sizeof *w->published);
        assert_non_null(w->published);
        for (int i = 0; i < 4; i++)
            a_random_visit(w, prefix_salt_public);
        for (int i = 0; i < 300; i++) {
            struct prefix_salt salt = salt_of(random_below(&w->random, 3));
            bool late = seed % 2 == 0 && random_below(&w->random, 50) == 0;
            a_random_visit(w, late ? prefix_salt_public : salt);
            check(w);
        }
        hits += w->hits;
        evictions += w->prefix.evictions;
        mem_free(w->published);
        close_world(w);
    }
    assert_true(hits > 10000 && evictions > 100); /* the test tests something */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_time_only_the_last_token_is_computed),
        cmocka_unit_test(a_prefix_is_shared_to_the_token),
        cmocka_unit_test(nothing_is_found_before_it_is_published),
        cmocka_unit_test(two_who_compute_the_same_end_up_sharing),
        cmocka_unit_test(salts_keep_tenants_apart),
        cmocka_unit_test(what_was_unused_for_longest_goes_first),
        cmocka_unit_test(everybody_finds_the_public_part),
        cmocka_unit_test(behind_the_public_part_salts_keep_apart),
        cmocka_unit_test(nothing_that_others_compute_becomes_public),
        cmocka_unit_test(the_longer_of_both_parts_is_found),
        cmocka_unit_test(the_public_part_goes_last),
        cmocka_unit_test(what_was_evicted_of_the_public_part_is_remembered),
        cmocka_unit_test(check_finds_a_chain_of_two_salts),
        cmocka_unit_test(random_use_never_mixes_sequences),
        cmocka_unit_test(nobody_finds_what_only_another_salt_computed),
    };
    return cmocka_run_group_tests_name("prefix", tests, NULL, NULL);
}
