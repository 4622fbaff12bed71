/** Where the time to the first token went: the sums behind the drawings. Pure. */

/**
 * The parts in the order in which they happen; `key` is also the name of the colour (--part-KEY),
 * the same in the chat, the dashboard and the list of requests.
 */
export const PARTS = [
    { key: 'receive', name: 'receive', what: 'reading and checking the request' },
    { key: 'tokenize', name: 'tokenize', what: 'chat template and tokenizer' },
    { key: 'submit', name: 'submit', what: 'handing it to the engine' },
    { key: 'queue', name: 'queue', what: 'waiting for its turn' },
    { key: 'cache', name: 'cache load', what: 'taking what the prefix cache has' },
    { key: 'prefill', name: 'prefill', what: 'computing the prompt, first token included' },
    { key: 'decode', name: 'decode', what: 'computing the rest, of an answer that comes whole' },
    { key: 'first_write', name: 'first write', what: 'until the first bytes of it were sent' },
    { key: 'network', name: 'network', what: 'the way there and back, and this browser' },
];

/** Those that the server measures. */
export const SERVER_PARTS = PARTS.slice(0, -1);

/** Those of an answer that is streamed. */
export const STREAMED_PARTS = SERVER_PARTS.filter((p) => p.key !== 'decode');

/**
 * @typedef {{key: string, name: string, what: string, ms: number, shown: string}} Part
 * @typedef {{parts: Part[], total: number, shown: string}} Split  shown: with the unit
 */

/**
 * The parts of one answer. They add up to the total, and so do the numbers as shown: they are
 * rounded together. What the browser measured less the server's total is the network's; clocks of
 * different fineness can make it negative, which counts as none.
 * @param {Object<string, number>} ttft the server's `ttft` object
 * @param {number} [clientMs] from sending to the first content; absent: no network part
 * @returns {Split}
 */
export function splitOf(ttft, clientMs) {
    const own = ttft.decode_ms > 0 ? SERVER_PARTS : STREAMED_PARTS;
    const parts = own.map((p) => ({ ...p, ms: positive(ttft[`${p.key}_ms`]) }));
    const server = parts.reduce((sum, p) => sum + p.ms, 0);
    if (Number.isFinite(clientMs))
        parts.push({ ...PARTS.at(-1), ms: Math.max(0, clientMs - server) });
    const total = parts.reduce((sum, p) => sum + p.ms, 0);
    const { digits, unit } = scaleOf(total);
    const show = (n) =>
        `${(n / 10 ** (unit === 's' ? digits + 3 : digits)).toFixed(
            unit === 's' ? digits + 3 : digits,
        )} ${unit}`;
    const units = roundTogether(
        parts.map((p) => p.ms),
        digits,
    );
    parts.forEach((p, i) => {
        p.shown = show(units[i]);
    });
    return { parts, total, shown: show(units.reduce((a, b) => a + b, 0)) };
}

function positive(ms) {
    return Number.isFinite(ms) && ms > 0 ? ms : 0;
}

/* Decimals of a millisecond that are worth reading beside such a total: -1 are hundredths of a
 * second. */
function scaleOf(total) {
    if (total >= 10000) return { digits: -1, unit: 's' };
    return { digits: total < 10 ? 2 : total < 1000 ? 1 : 0, unit: 'ms' };
}

/**
 * Whole units (of 10^-digits) that add up to the rounded sum: those with the largest remainders are
 * rounded up, as seats are given to parties.
 * @param {number[]} values
 * @param {number} digits
 * @returns {number[]}
 */
export function roundTogether(values, digits) {
    const scaled = values.map((v) => v * 10 ** digits);
    const units = scaled.map(Math.floor);
    const sum = Math.round(scaled.reduce((a, b) => a + b, 0));
    let missing = sum - units.reduce((a, b) => a + b, 0);
    const order = scaled.map((v, i) => [v - units[i], i]).sort((a, b) => b[0] - a[0]);
    for (const [, i] of order.slice(0, Math.max(0, missing))) units[i]++;
    return units;
}

/**
 * Each part's place on the axis of the whole, in percent.
 * @param {Split} split
 */
export function places(split) {
    let at = 0;
    return split.parts.map((p) => {
        const place = { left: percentOf(at, split.total), width: percentOf(p.ms, split.total) };
        at += p.ms;
        return place;
    });
}

function percentOf(ms, total) {
    return total > 0 ? (100 * ms) / total : 0;
}

const CACHE_WORDS = {
    dropped: 'its beginning was cached once, but had to make room',
    off: 'the prefix cache is off',
};

/**
 * The facts of an answer, each a short phrase.
 * @param {{metrics?: object, usage?: object, waited?: {words?: string}, cache?: string}} meta
 */
export function facts(meta) {
    const { usage, metrics, waited, cache } = meta;
    const list = [];
    if (metrics?.tokens_per_second > 0)
        list.push(`${metrics.tokens_per_second.toFixed(1)} tokens/s`);
    if (usage) list.push(`${usage.completion_tokens} tokens`, cachedWords(usage));
    if (CACHE_WORDS[cache]) list.push(CACHE_WORDS[cache]);
    if (waited?.words) list.push(waited.words);
    return list;
}

function cachedWords(usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    return `${cached} of ${usage.prompt_tokens} prompt tokens cached`;
}
