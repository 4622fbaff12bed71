/** The list of recent requests, each with its timeline on an axis that all share. */

import { openDialog } from './dialog.js';
import { el, fill } from './dom.js';
import { clockTime, count, duration, plural } from './format.js';
import { keepSetting, setting } from './store.js';
import { AXES, cameAt, commonAxis, firstTokenMs, ticks } from './timeline.js';
import { STREAMED_PARTS, splitOf } from './waterfall.js';
import { partsTable } from './waterfallview.js';

const SHOWN = 40;
const KEPT = 256;

export class RequestList {
    /** @type {Map<string, object>} newest last */
    #entries = new Map();
    #waiting = [];
    #waitingCount = 0;
    #paused = false;
    #axis = setting('axis', 'first');
    #refused = setting('refused', true);

    constructor() {
        this.body = el('tbody');
        this.axisRow = el('td', { class: 'axis' });
        this.now = el('p', { class: 'hint', id: 'waiting-now' });
        this.pause = el(
            'button',
            { type: 'button', 'aria-pressed': 'false', onclick: () => this.#togglePause() },
            'Pause',
        );
        this.element = el(
            'section',
            { class: 'requests', 'aria-labelledby': 'requests-title' },
            el(
                'div',
                { class: 'section-head' },
                el('div', {}, el('h2', { id: 'requests-title' }, 'Recent requests'), this.now),
                this.#refusedToo(),
                this.#axisChoice(),
                this.pause,
            ),
            legend(),
            el(
                'div',
                { class: 'table', tabindex: 0, role: 'region', 'aria-label': 'Recent requests' },
                el('table', {}, el('thead', {}, this.#head()), this.body),
            ),
        );
    }

    #head() {
        const names = ['came', 'prompt', 'cached', 'answer', 'first token'];
        return el(
            'tr',
            {},
            names.map((n) => el('th', { scope: 'col', class: n.replace(' ', '-') }, n)),
            this.axisRow,
        );
    }

    #axisChoice() {
        return el(
            'fieldset',
            { class: 'choice' },
            el('legend', { class: 'offscreen' }, 'Time axis'),
            AXES.map(({ key, name }) =>
                el(
                    'label',
                    {},
                    el('input', {
                        type: 'radio',
                        name: 'axis',
                        value: key,
                        checked: key === this.#axis,
                        onchange: () => this.#setAxis(key),
                    }),
                    el('span', {}, name),
                ),
            ),
        );
    }

    #refusedToo() {
        const box = el('input', {
            type: 'checkbox',
            checked: this.#refused,
            onchange: () => {
                this.#refused = box.checked;
                keepSetting('refused', box.checked);
                this.draw(true);
            },
        });
        return el('label', { class: 'check' }, box, 'Refused ones too');
    }

    #setAxis(key) {
        this.#axis = key;
        keepSetting('axis', key);
        this.draw(true);
    }

    #togglePause() {
        this.#paused = !this.#paused;
        this.pause.setAttribute('aria-pressed', String(this.#paused));
        this.pause.textContent = this.#paused ? 'Go on' : 'Pause';
        this.draw();
    }

    /** An entry of /v1/debug/requests; the start of a stream repeats known ones. */
    add(entry) {
        this.#entries.set(entry.request_id + entry.id, entry);
        if (this.#entries.size > KEPT) this.#entries.delete(this.#entries.keys().next().value);
    }

    /** Those that wait, the first ones; and how many there are. */
    setWaiting(requests, count) {
        this.#waiting = requests;
        this.#waitingCount = count;
    }

    clear() {
        this.#entries.clear();
        this.#waiting = [];
    }

    /** @param {boolean} [again] though it is paused */
    draw(again = false) {
        if (this.#paused && !again) return;
        const entries = [...this.#entries.values()]
            .filter((e) => this.#refused || e.finish !== 'refused')
            .slice(-SHOWN)
            .reverse();
        const axis = commonAxis(entries, this.#axis);
        const focused = document.activeElement?.closest?.('tr[data-id]')?.dataset.id;
        fill(
            this.body,
            entries.map((e, i) => row(e, axis, i)),
        );
        if (entries.length === 0)
            fill(
                this.body,
                el('tr', {}, el('td', { colspan: 6, class: 'hint' }, 'No request yet.')),
            );
        fill(
            this.axisRow,
            ticks(axis.length).map((at) =>
                el('span', { style: { left: `${(100 * at) / axis.length}%` } }, duration(at)),
            ),
        );
        this.#drawWaiting();
        if (focused)
            this.body.querySelector(`tr[data-id="${CSS.escape(focused)}"] button`)?.focus();
    }

    #drawWaiting() {
        const longest = this.#waiting[0];
        const tokens = this.#waiting.reduce((sum, r) => sum + r.prompt_tokens, 0);
        this.now.textContent = longest
            ? `${plural(this.#waitingCount, 'request')} waiting, ${plural(tokens, 'prompt token')}; ` +
              `the first for ${duration(longest.waited_ms)}`
            : 'None is waiting.';
    }
}

function legend() {
    const names = [...STREAMED_PARTS, { key: 'decode', name: 'the rest of the answer' }];
    return el(
        'ul',
        { class: 'legend' },
        names.map((p) =>
            el(
                'li',
                {},
                el('span', { class: 'swatch', style: { '--swatch': `var(--part-${p.key})` } }),
                p.name,
            ),
        ),
    );
}

function row(entry, axis, i) {
    const words = entry.waited?.words;
    const first = firstTokenMs(entry);
    return el(
        'tr',
        { 'data-id': entry.id, class: isFine(entry) ? '' : 'failed' },
        el(
            'td',
            { class: 'came' },
            el(
                'button',
                {
                    type: 'button',
                    class: 'quiet',
                    'aria-label': `Request of ${clockTime(cameAt(entry))}: details`,
                    onclick: () => details(entry),
                },
                clockTime(cameAt(entry)),
            ),
        ),
        el('td', { class: 'prompt' }, count(entry.prompt_tokens)),
        el('td', { class: 'cached' }, count(entry.cached_tokens ?? 0)),
        el(
            'td',
            { class: 'answer' },
            isFine(entry) ? count(entry.completion_tokens) : outcome(entry),
        ),
        el('td', { class: 'first-token' }, first === null ? '–' : duration(first)),
        el('td', { class: 'track' }, bars(axis, i), words && el('span', { class: 'words' }, words)),
    );
}

function isFine(entry) {
    return entry.finish === 'stop' || entry.finish === 'length';
}

function outcome(entry) {
    return entry.finish === 'refused' ? `refused, ${entry.status}` : entry.finish;
}

function bars(axis, i) {
    const percent = (ms) => `${(100 * ms) / axis.length}%`;
    return el(
        'span',
        { class: 'bars', 'aria-hidden': 'true' },
        axis.segments[i].map((s) =>
            el('span', {
                class: `part part-${s.key}`,
                title: `${s.key}: ${duration(s.to - s.from)}`,
                style: { left: percent(axis.begins[i] + s.from), width: percent(s.to - s.from) },
            }),
        ),
    );
}

function details(entry) {
    const fact = (name, value) => [el('dt', {}, name), el('dd', {}, value)];
    openDialog(
        { title: `Request of ${clockTime(cameAt(entry))}` },
        entry.ttft ? partsTable(splitOf(entry.ttft)) : el('p', {}, 'It had no first token.'),
        el(
            'dl',
            { class: 'pairs' },
            fact('outcome', isFine(entry) ? entry.finish : outcome(entry)),
            fact('waited', entry.waited?.words || 'not worth a word'),
            fact(
                'prefix cache',
                `${entry.cache ?? '–'}, ${count(entry.cached_tokens ?? 0)} of ` +
                    `${count(entry.prompt_tokens)} tokens`,
            ),
            fact(
                'answer',
                `${plural(entry.completion_tokens, 'token')}, ${entry.route}` +
                    `${entry.stream ? ', streamed' : ''}`,
            ),
            fact('whole time', duration(entry.timeline?.finished_ms ?? NaN)),
            fact('id', entry.id),
            fact('request id', entry.request_id),
        ),
    );
}
