/* The memory of the KV pool, whose pages the kernel gives ahead of their first use.
 *
 * A page that is written for the first time stops the prefill that writes it and, at the next
 * barrier, every worker: 0.2 ms for 2 MiB, in a virtual machine whose host gives memory only then
 * 5 ms, which was a tenth of a prompt's TTFT. To back the whole pool at start would take memory
 * that a small load never needs. So some bytes beyond the highest used block are backed:
 * what there is time for at start, the rest by a thread that waits until no step has run for a
 * while, as backing takes a processor from the workers. Blocks are given out from the first on. */
#ifndef FIRSTLIGHT_BACKEND_CPU_KV_PAGES_H
#define FIRSTLIGHT_BACKEND_CPU_KV_PAGES_H

#include "base/err.h"

#include <stddef.h>

struct kv_pages;

/* `bytes` zeroed bytes, `ahead` of them backed beyond what is used. */
enum status kv_pages_open(struct kv_pages **out, size_t bytes, size_t ahead, struct err *err);
void kv_pages_close(struct kv_pages *p); /* NULL is fine */

char *kv_pages_base(const struct kv_pages *p);
size_t kv_pages_bytes(const struct kv_pages *p); /* whole huge pages */

/* A step begins whose blocks lie below the byte `end`; it is done. One thread; steps may nest. */
void kv_pages_step(struct kv_pages *p, size_t end);
void kv_pages_step_done(struct kv_pages *p);

#endif
