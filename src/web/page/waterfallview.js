/** The waterfall under an answer: one bar at a glance, and a table with a bar for each part. */

import { el } from './dom.js';
import { facts, places, splitOf } from './waterfall.js';

/**
 * @param {object} meta what came with the last chunk (`ttft`, `usage`, ...) and `client_ms`
 * @param {{open: boolean, onToggle: (open: boolean) => void}} options
 * @returns {HTMLElement|null} null: nothing was measured
 */
export function waterfallView(meta, { open, onToggle }) {
    if (!meta?.ttft) return null;
    const split = splitOf(meta.ttft, meta.client_ms);
    const details = el(
        'details',
        { class: 'waterfall', open },
        el('summary', {}, headline(split), stackedBar(split), factsLine(meta)),
        partsTable(split),
    );
    details.addEventListener('toggle', () => onToggle(details.open));
    return details;
}

function headline(split) {
    const largest = split.parts.reduce((a, b) => (b.ms > a.ms ? b : a));
    return el(
        'span',
        { class: 'waterfall-head' },
        'First token after ',
        el('strong', {}, split.shown),
        el('span', { class: 'waterfall-most' }, `, most of it ${largest.name}`),
    );
}

function factsLine(meta) {
    const list = facts(meta);
    return (
        list.length > 0 &&
        el(
            'span',
            { class: 'facts' },
            list.map((fact) => el('span', {}, fact)),
        )
    );
}

/** All parts in one line, as long as they took. The table has the words for it. */
export function stackedBar(split) {
    const at = places(split);
    return el(
        'span',
        { class: 'stack', 'aria-hidden': 'true' },
        split.parts.map((part, i) =>
            el('span', {
                class: `part part-${part.key}`,
                title: `${part.name}: ${part.shown}`,
                style: { width: `${at[i].width}%` },
            }),
        ),
    );
}

/** A row for each part: its name, a bar where it lies, and its milliseconds. */
export function partsTable(split) {
    const at = places(split);
    return el(
        'table',
        { class: 'parts' },
        el('caption', { class: 'offscreen' }, 'Time to the first token, part by part'),
        el(
            'thead',
            { class: 'offscreen' },
            el(
                'tr',
                {},
                el('th', { scope: 'col' }, 'part'),
                el('td', {}),
                el('th', { scope: 'col' }, 'time'),
            ),
        ),
        el(
            'tbody',
            {},
            split.parts.map((part, i) => partRow(part, at[i])),
        ),
        el(
            'tfoot',
            {},
            el(
                'tr',
                {},
                el('th', { scope: 'row' }, 'total'),
                el('td', {}),
                el('td', { class: 'ms total' }, split.shown),
            ),
        ),
    );
}

function partRow(part, place) {
    return el(
        'tr',
        { 'data-part': part.key, title: part.what },
        el('th', { scope: 'row' }, part.name),
        el(
            'td',
            { class: 'track', 'aria-hidden': 'true' },
            el('span', {
                class: `part part-${part.key}`,
                style: { left: `${place.left}%`, width: `${place.width}%` },
            }),
        ),
        el('td', { class: 'ms' }, part.shown),
    );
}
