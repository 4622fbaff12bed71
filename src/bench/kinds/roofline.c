#include "bench/kinds/roofline.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/pool.h"
#include "bench/result/table.h"

#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 20000               /* between two looks at the clock: some 30 us */
#define PIECE  ((size_t)256 << 10) /* the same of reading */
#define PAGE   ((size_t)4096)
#define MIB    1048576.0

static const char *const kind_names[] = {
    [PEAK_INT8] = "int8", [PEAK_F32] = "f32", [PEAK_BF16] = "bf16"};

/* --- one point ------------------------------------------------------------------------------ */

struct lane {
    alignas(64) char *data; /* this worker's part, and where in it the next run begins */
    size_t bytes, at;
    double rate;   /* per ns, of the last run */
    uint64_t sink; /* results, so that they are needed */
};

struct probe {
    const struct peak *peak; /* NULL: reading */
    peak_read_fn *read;
    struct pool *pool;
    struct lane *lanes; /* (threads) */
    char *data;         /* (bytes) */
    size_t bytes;
    int64_t run_ns;
};

static double compute(const struct probe *p, struct lane *lane)
{
    lane->sink += p->peak->run(ROUNDS);
    return 2.0 * ROUNDS * (double)p->peak->macs;
}

static double read_piece(const struct probe *p, struct lane *lane)
{
    for (size_t done = 0, part; done < PIECE; done += part) {
        part = lane->bytes - lane->at;
        part = part < PIECE - done ? part : PIECE - done;
        lane->sink ^= p->read(lane->data + lane->at, part);
        lane->at = (lane->at + part) % lane->bytes;
    }
    return (double)PIECE;
}

static void run_lane(void *arg, int worker)
{
    const struct probe *p = arg;
    struct lane *lane = &p->lanes[worker];
    double done = 0;
    pool_barrier(p->pool);
    int64_t start = clock_now_ns(), took;
    do {
        done += p->peak ? compute(p, lane) : read_piece(p, lane);
        took = clock_now_ns() - start;
    } while (took < p->run_ns);
    lane->rate = done / (double)took;
}

/* The thread that will read it writes it first, so that it lies near. */
static void fill_lane(void *arg, int worker)
{
    const struct probe *p = arg;
    struct lane *lane = &p->lanes[worker];
    size_t begin, end;
    pool_slice(p->bytes, PAGE, worker, pool_threads(p->pool), &begin, &end);
    lane->data = p->data + begin;
    lane->bytes = end - begin;
    memset(lane->data, 1, lane->bytes);
}

static enum status map_memory(struct probe *p, struct err *err)
{
    void *data = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %.1f MiB to read",
                       (double)p->bytes / MIB);
    madvise(data, p->bytes, MADV_HUGEPAGE);
    p->data = data;
    pool_run(p->pool, fill_lane, p);
    return STATUS_OK;
}

static enum status roofline_run_all(struct roofline_point *point, struct probe *p,
                                    const struct roofline_options *o, struct err *err)
{
    enum status st = p->peak ? STATUS_OK : map_memory(p, err);
    for (uint32_t run = 0; !st && run < o->warmup_runs + o->repeat_runs; run++) {
        double rate = 0;
        pool_run(p->pool, run_lane, p);
        for (uint32_t i = 0; i < point->threads; i++)
            rate += p->lanes[i].rate;
        if (run >= o->warmup_runs)
            series_add(&point->rates, rate);
    }
    if (point->rates.failed)
        st = err_set(err, STATUS_NO_MEMORY, "no memory for %u runs", o->repeat_runs);
    return st;
}

enum status roofline_measure(struct roofline_point *point, const struct roofline_options *o,
                             struct err *err)
{
    size_t grain = PAGE * point->threads;
    struct probe p = {
        .peak = point->peak,
        .read = peak_reader(o->cpu_levels),
        .bytes = (point->bytes + grain - 1) / grain * grain,
        .run_ns = (int64_t)o->run_ms * 1000000,
    };
    p.lanes = mem_aligned(point->threads * sizeof *p.lanes);
    if (!p.lanes)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u threads", point->threads);
    enum status st = pool_create(&p.pool, (int)point->threads, err);
    if (!st)
        st = roofline_run_all(point, &p, o, err);
    pool_destroy(p.pool);
    if (p.data)
        munmap(p.data, p.bytes);
    mem_free(p.lanes);
    return st;
}

/* --- all of them ---------------------------------------------------------------------------- */

size_t roofline_memory(size_t bytes)
{
    size_t most = mem_available() / 2;
    most = most < ROOFLINE_DRAM ? most : ROOFLINE_DRAM;
    bytes = bytes < most ? bytes : most;
    return bytes < PAGE ? PAGE : bytes;
}

/* Half a cache, so that nothing else pushes it out, and far more than the one before it holds. 0:
 * there is no such size here. */
static size_t cache_bytes(int level, uint32_t threads)
{
    size_t size = cpu_cache_bytes(level), before = cpu_cache_bytes(level - 1);
    if (level == 2)
        return size / 2 * threads;
    return size / 2 / threads >= 2 * before ? size / 2 : 0;
}

static size_t dram_bytes(size_t wanted)
{
    size_t bytes = roofline_memory(wanted);
    return bytes >= 4 * cpu_cache_bytes(3) ? bytes : 0;
}

/* 1, 2, 4 .. n; returns how many. */
static uint32_t thread_counts(uint32_t n, uint32_t *counts)
{
    uint32_t at = 0;
    for (uint32_t t = 1; t < n; t *= 2)
        counts[at++] = t;
    counts[at++] = n;
    return at;
}

#define MAX_COUNTS 33
#define MAX_PEAKS  32
#define N_MEMORIES 4

/* Rows: the peaks of these levels, then the memories. */
static uint32_t list_points(struct roofline_point *out, const struct roofline_options *o)
{
    uint32_t counts[MAX_COUNTS], n_counts = thread_counts(o->n_threads, counts), n = 0;
    const struct peak *peak;
    for (size_t i = 0; (peak = peak_at(i)); i++)
        for (uint32_t c = 0; c < n_counts && peak_is_there(peak, o->cpu_levels); c++)
            out[n++] = (struct roofline_point){.peak = peak, .threads = counts[c]};
    for (uint32_t i = 0; i < N_MEMORIES * n_counts; i++) {
        uint32_t threads = counts[i % n_counts];
        const struct roofline_point rows[N_MEMORIES] = {
            {.memory = "l2", .bytes = cache_bytes(2, threads)},
            {.memory = "l3", .bytes = cache_bytes(3, threads)},
            {.memory = "footprint", .bytes = roofline_memory(o->footprint)},
            {.memory = "dram", .bytes = dram_bytes(o->dram)},
        };
        out[n] = rows[i / n_counts];
        out[n++].threads = threads;
    }
    return n;
}

enum status roofline_run(struct roofline *out, const struct roofline_options *o, struct err *err)
{
    *out = (struct roofline){0};
    out->points = mem_array((MAX_PEAKS + N_MEMORIES) * MAX_COUNTS, sizeof *out->points);
    if (!out->points)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the roofline");
    out->n = list_points(out->points, o);
    enum status st = STATUS_OK;
    for (uint32_t i = 0; i < out->n && !st; i++) {
        struct roofline_point *p = &out->points[i];
        if (o->progress)
            o->progress(i, out->n);
        if (p->peak || p->bytes > 0)
            st = roofline_measure(p, o, err);
    }
    return st;
}

void roofline_fini(struct roofline *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        series_fini(&r->points[i].rates);
    mem_free(r->points);
    *r = (struct roofline){0};
}

/* --- what is shown -------------------------------------------------------------------------- */

static bool same_row(const struct roofline_point *a, const struct roofline_point *b)
{
    return a->peak == b->peak && a->memory == b->memory;
}

static void roofline_put_head(struct buf *out, const struct roofline *r)
{
    buf_printf(out, "%-24s", "");
    for (uint32_t i = 0; i < r->n && same_row(&r->points[0], &r->points[i]); i++) {
        char text[32];
        uint32_t threads = r->points[i].threads;
        snprintf(text, sizeof text, "%u thread%s", threads, threads == 1 ? "" : "s");
        buf_printf(out, " %11s", text);
    }
    buf_putc(out, '\n');
}

void roofline_table(struct buf *out, const struct roofline *r)
{
    size_t bytes = 0; /* of a row: the second caches of more threads are more */
    roofline_put_head(out, r);
    for (uint32_t i = 0; i < r->n; i++) {
        const struct roofline_point *p = &r->points[i];
        bool first = i == 0 || !same_row(p, p - 1);
        bool last = i + 1 == r->n || !same_row(p, p + 1);
        bytes = first || p->bytes > bytes ? p->bytes : bytes;
        if (first && p->peak)
            buf_printf(out, "%-6s %-17s", kind_names[p->peak->kind], p->peak->name);
        else if (first)
            buf_printf(out, "%-6s %-9s %7s", "read", p->memory, "");
        table_number(out, 11, 1, series_median(&p->rates));
        if (last && p->peak)
            buf_printf(out, "  GOP/s\n");
        else if (last)
            buf_printf(out, "  GB/s of %.1f MiB\n", (double)bytes / MIB);
    }
}

json_t *roofline_workload(const struct roofline_options *o)
{
    return json_pack("{s:I, s:I}", "footprint_bytes", (json_int_t)o->footprint, "run_ms",
                     (json_int_t)o->run_ms);
}

void roofline_result(const struct roofline *r, struct result *out)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const struct roofline_point *p = &r->points[i];
        char name[64];
        snprintf(name, sizeof name, "%s_%s_t%u", p->peak ? kind_names[p->peak->kind] : "read",
                 p->peak ? p->peak->name : p->memory, p->threads);
        for (size_t run = 0; run < p->rates.n; run++)
            result_metric(out, name, p->peak ? "GOP/s" : "GB/s", RESULT_HIGHER, p->rates.v[run]);
    }
}
