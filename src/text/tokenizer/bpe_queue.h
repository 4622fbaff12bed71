/* What waits to be merged in a word: keys of 64 bits, the smallest first. Private to bpe.c.
 *
 * A heap of four children a node: half the levels of two, and the four are most often in one cache
 * line. A long word's heap leaves the caches, and long words are runs of one thing or of a few,
 * whose keys come nearly in order. So beside a heap that is large already there are some ascending
 * lists: a key joins the first whose last one is not larger, at no search; only what fits none goes
 * to the heap.
 *
 *     lists  3 ─ 5 ─ 9 ─ 12     heads[0] = 3   lasts[0] = 12
 *            4 ─ 4 ─ 20         heads[1] = 4   lasts[1] = 20       heap  2 7 8 ...
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_BPE_QUEUE_H
#define FIRSTLIGHT_TEXT_TOKENIZER_BPE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BPE_QUEUE_LISTS 8
#define BPE_QUEUE_SMALL 256 /* keys of a heap that needs no lists */
#define BPE_QUEUE_NONE  UINT64_MAX
#define BPE_QUEUE_END   UINT32_MAX

struct bpe_queue_node {
    uint64_t key;
    uint32_t next;
};

struct bpe_queue {
    uint64_t *heap; /* (heap_len), room for every key that waits at once */
    size_t heap_len;
    struct bpe_queue_node *nodes; /* (n_nodes), room for every key that waits at once */
    uint32_t n_nodes;
    uint32_t unused;                 /* nodes that were given back, linked; BPE_QUEUE_END: none */
    int n_lists;                     /* that were ever used */
    uint64_t heads[BPE_QUEUE_LISTS]; /* BPE_QUEUE_NONE: empty */
    uint64_t lasts[BPE_QUEUE_LISTS];
    uint32_t first[BPE_QUEUE_LISTS], tail[BPE_QUEUE_LISTS];
};

static inline void bpe_queue_clear(struct bpe_queue *q)
{
    q->heap_len = 0;
    q->n_nodes = 0;
    q->unused = BPE_QUEUE_END;
    q->n_lists = 0;
}

/* --- the heap ------------------------------------------------------------------------------- */

static inline void bpe_queue_sift_down(uint64_t *heap, size_t len)
{
    uint64_t key = heap[0];
    size_t at = 0;
    for (size_t child; (child = 4 * at + 1) < len; at = child) {
        size_t end = child + 4 < len ? child + 4 : len;
        for (size_t other = child + 1; other < end; other++)
            if (heap[other] < heap[child])
                child = other;
        if (key <= heap[child])
            break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}

static inline void bpe_queue_heap_push(struct bpe_queue *q, uint64_t key)
{
    size_t at = q->heap_len++;
    for (; at > 0 && q->heap[(at - 1) / 4] > key; at = (at - 1) / 4)
        q->heap[at] = q->heap[(at - 1) / 4];
    q->heap[at] = key;
}

static inline uint64_t bpe_queue_heap_pop(struct bpe_queue *q)
{
    uint64_t top = q->heap[0];
    q->heap[0] = q->heap[--q->heap_len];
    if (q->heap_len > 0)
        bpe_queue_sift_down(q->heap, q->heap_len);
    return top;
}

/* --- the lists ------------------------------------------------------------------------------ */

static inline bool bpe_queue_append(struct bpe_queue *q, uint64_t key)
{
    int k = 0;
    while (k < q->n_lists && q->heads[k] != BPE_QUEUE_NONE && q->lasts[k] > key)
        k++;
    if (k == BPE_QUEUE_LISTS || q->n_nodes == BPE_QUEUE_END)
        return false;
    uint32_t node = q->unused;
    if (node == BPE_QUEUE_END)
        node = q->n_nodes++;
    else
        q->unused = q->nodes[node].next;
    q->nodes[node].key = key;
    if (k == q->n_lists || q->heads[k] == BPE_QUEUE_NONE) {
        q->heads[k] = key;
        q->first[k] = node;
        q->n_lists += k == q->n_lists;
    } else {
        q->nodes[q->tail[k]].next = node;
    }
    q->tail[k] = node;
    q->lasts[k] = key;
    return true;
}

static inline uint64_t bpe_queue_take(struct bpe_queue *q, int k)
{
    uint64_t key = q->heads[k];
    uint32_t node = q->first[k];
    if (node == q->tail[k]) {
        q->heads[k] = BPE_QUEUE_NONE;
    } else {
        q->first[k] = q->nodes[node].next;
        q->heads[k] = q->nodes[q->first[k]].key;
    }
    q->nodes[node].next = q->unused;
    q->unused = node;
    return key;
}

/* --- both ----------------------------------------------------------------------------------- */

/* key < BPE_QUEUE_NONE */
static inline void bpe_queue_push(struct bpe_queue *q, uint64_t key)
{
    if (q->heap_len < BPE_QUEUE_SMALL || !bpe_queue_append(q, key))
        bpe_queue_heap_push(q, key);
}

/* The smallest key; BPE_QUEUE_NONE when there is none. */
static inline uint64_t bpe_queue_pop(struct bpe_queue *q)
{
    uint64_t least = q->heap_len > 0 ? q->heap[0] : BPE_QUEUE_NONE;
    int from = -1;
    for (int k = 0; k < q->n_lists; k++) {
        if (q->heads[k] < least) {
            least = q->heads[k];
            from = k;
        }
    }
    if (from >= 0)
        return bpe_queue_take(q, from);
    return least == BPE_QUEUE_NONE ? least : bpe_queue_heap_pop(q);
}

#endif
