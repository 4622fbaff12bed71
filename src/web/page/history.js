/** What the dashboard remembers: one sample a second, of the last quarter of an hour. Pure. */

import { SERVER_PARTS } from './waterfall.js';

export const KEPT_MS = 15 * 60 * 1000;
const GAP_MS = 3500; /* samples further apart than this are not joined by a line */

/**
 * A `stats` event with what changed since the one before.
 * @param {object} stats
 * @param {object|null} before the stats before it, if they are of the same start of the server
 */
export function sampleOf(stats, before) {
    const some = (n) => (stats.ttft?.count > 0 ? n : null);
    const sample = {
        t: stats.now_ms,
        ttft: some({ p50: stats.ttft?.p50_ms, p95: stats.ttft?.p95_ms, p99: stats.ttft?.p99_ms }),
        parts: some(
            Object.fromEntries(
                SERVER_PARTS.map((p) => [p.key, stats.parts?.[p.key]?.mean_ms ?? 0]),
            ),
        ),
        running: stats.running,
        waiting: stats.waiting,
        prompt: stats.rates?.prompt,
        generated: stats.rates?.generated,
        requests: stats.rates?.requests,
        gap: stats.itl?.count > 0 ? stats.gap?.p95_ms : null,
        gapWorst: stats.itl?.count > 0 ? stats.gap?.p99_ms : null,
        promised: stats.gap?.promised_ms || null,
        kv: kvOf(stats.kv),
        hitRate: null,
        refused: null,
    };
    if (before) {
        sample.hitRate = rate(
            stats.prefix.hits - before.prefix.hits,
            stats.prefix.queries - before.prefix.queries,
        );
        sample.refused = differences(stats.refused, before.refused);
    }
    return sample;
}

/* Blocks that only the prefix cache holds count as free: they make room at once. */
function kvOf({ total, free, cached }) {
    return { used: (100 * (total - free)) / total, cached: (100 * cached) / total };
}

/** In percent; null: nothing was asked. */
export function rate(hits, queries) {
    return queries > 0 ? (100 * hits) / queries : null;
}

function differences(now, before) {
    return Object.fromEntries(
        Object.keys(now).map((k) => [k, Math.max(0, now[k] - (before[k] ?? 0))]),
    );
}

export class History {
    #samples = [];
    #before = null;

    /** @param {object} stats */
    add(stats) {
        const last = this.#samples.at(-1);
        if (last && stats.now_ms <= last.t)
            return; /* the start of a stream repeats what is known */
        const joined = last && stats.now_ms - last.t < GAP_MS;
        if (last && !joined) this.#samples.push({ t: last.t + 1, gap: null });
        this.#samples.push(sampleOf(stats, joined ? this.#before : null));
        this.#before = stats;
        const old = this.#samples.findIndex((s) => s.t >= stats.now_ms - KEPT_MS);
        this.#samples.splice(0, old);
    }

    /** Another server: nothing that was before is of it. */
    clear() {
        this.#samples = [];
        this.#before = null;
    }

    /**
     * @param {number} ms the last so many
     * @param {(sample: object) => number|null|undefined} value
     * @returns {{x: number, y: number|null}[]} x in seconds before the last sample
     */
    series(ms, value) {
        const now = this.#samples.at(-1)?.t ?? 0;
        return this.#samples
            .filter((s) => s.t >= now - ms)
            .map((s) => ({ x: (s.t - now) / 1000, y: value(s) ?? null }));
    }

    /** How far back it goes, in ms. */
    get age() {
        return this.#samples.length > 0 ? this.#samples.at(-1).t - this.#samples[0].t : 0;
    }

    get last() {
        return this.#samples.at(-1);
    }
}
