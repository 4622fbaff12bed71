/** The timelines of requests beside each other: where each bar begins and ends. Pure. */

import { SERVER_PARTS } from './waterfall.js';

const STAMPS = [
    'received',
    'parsed',
    'tokenized',
    'queued',
    'admitted',
    'prefill_started',
    'first_token',
    'decoded',
    'first_content',
];

/**
 * @typedef {{key: string, from: number, to: number}} Segment in ms since the request's first byte
 */

/**
 * What an entry of /v1/debug/requests spent its time on: the parts of TTFT, of a streamed answer
 * then `decode`. A request that ended before its first content spent the rest on the part that was
 * under way.
 * @param {object} entry
 * @returns {Segment[]}
 */
export function segmentsOf(entry) {
    const at = (name) => entry.timeline?.[`${name}_ms`] ?? null;
    const segments = [];
    let from = 0;
    for (let i = 1; i < STAMPS.length; i++) {
        const to = at(STAMPS[i]);
        if (entry.stream && STAMPS[i] === 'decoded') continue;
        if (to === null) return ended(segments, SERVER_PARTS[i - 1].key, from, at('finished'));
        segments.push({ key: SERVER_PARTS[i - 1].key, from, to });
        from = to;
    }
    return ended(segments, 'decode', from, at('finished'));
}

function ended(segments, key, from, finished) {
    return finished !== null && finished > from
        ? [...segments, { key, from, to: finished }]
        : segments;
}

/* Without what comes after the first token was computed (whole answers) or sent (streams). */
function upToFirst(segments) {
    const n = segments.findIndex((s) => s.key === 'decode');
    return n < 0 ? segments : segments.slice(0, n);
}

/**
 * How long its first token took: to be on its way, or to be computed where the answer comes whole.
 * @param {object} entry
 * @returns {?number} null: it had none
 */
export function firstTokenMs(entry) {
    if (!entry.ttft) return null;
    const computed = entry.stream ? null : entry.timeline?.first_token_ms;
    return computed ?? entry.ttft.total_ms;
}

/** Unix milliseconds of its first byte. */
export function cameAt(entry) {
    return entry.received_unix_ms ?? entry.created * 1000;
}

export const AXES = [
    { key: 'first', name: 'To the first token' },
    { key: 'whole', name: 'Whole answer' },
    { key: 'clock', name: 'By the clock' },
];

/**
 * One axis for all: where each entry begins on it and how long the axis is, in ms.
 * @param {object[]} entries
 * @param {string} kind of AXES
 * @returns {{begins: number[], length: number, segments: Segment[][]}}
 */
export function commonAxis(entries, kind) {
    const segments = entries.map((e) =>
        kind === 'first' ? upToFirst(segmentsOf(e)) : segmentsOf(e),
    );
    const first = Math.min(...entries.map(cameAt));
    const begins = entries.map((e) => (kind === 'clock' ? cameAt(e) - first : 0));
    const ends = segments.map((list, i) => begins[i] + (list.at(-1)?.to ?? 0));
    return { begins, length: Math.max(1e-3, ...ends), segments };
}

/** Round numbers for about four marks on an axis of that length. */
export function ticks(length) {
    const rough = length / 4;
    const unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 2.5, 5, 10].find((n) => n * unit >= rough);
    const list = [];
    for (let at = 0; at < 0.93 * length; at += step) /* its words need room */ list.push(at);
    return list;
}
