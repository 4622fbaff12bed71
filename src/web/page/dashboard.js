/** The dashboard: what the server does, live while it is looked at. */

import { TimeChart } from './charts.js';
import { el, fill, say } from './dom.js';
import { count, duration, percent, plural, short } from './format.js';
import { History, rate } from './history.js';
import { live } from './live.js';
import { RequestList } from './requests.js';
import { keepSetting, setting } from './store.js';
import { STREAMED_PARTS } from './waterfall.js';

const SPANS = [
    { ms: 60000, name: '1 min' },
    { ms: 300000, name: '5 min' },
    { ms: 900000, name: '15 min' },
];
const OLD_MS = 3000;

const CHARTS = [
    {
        title: 'Time to the first token',
        note: 'percentiles of the last minute',
        unit: 'ms',
        lines: [
            { name: 'p50', colour: '--line-2', value: (s) => s.ttft?.p50 },
            { name: 'p95', colour: '--line-1', value: (s) => s.ttft?.p95 },
            { name: 'p99', colour: '--line-3', value: (s) => s.ttft?.p99 },
        ],
    },
    {
        title: 'What it is spent on',
        note: 'mean of each part in the last minute',
        unit: 'ms',
        stacked: true,
        lines: STREAMED_PARTS.map(({ key, name }) => ({
            name,
            colour: `--part-${key}`,
            value: (s) => s.parts?.[key],
        })),
    },
    {
        title: 'Requests',
        note: 'running, and waiting for their turn',
        unit: 'requests',
        stepped: true,
        most: 4,
        lines: [
            { name: 'running', colour: '--line-1', value: (s) => s.running },
            { name: 'waiting', colour: '--part-queue', value: (s) => s.waiting },
        ],
    },
    {
        title: 'Throughput',
        note: 'tokens per second: computed of prompts, and generated',
        unit: 'prompt tokens/s',
        right: 'generated tokens/s',
        lines: [
            { name: 'prompt', colour: '--line-1', value: (s) => s.prompt },
            {
                name: 'generated (right)',
                colour: '--part-queue',
                axis: 'right',
                value: (s) => s.generated,
            },
        ],
    },
    {
        title: 'Pause of running streams',
        note: 'the gap between tokens, beside what 19 of 20 are promised',
        unit: 'ms',
        lines: [
            { name: 'p95', colour: '--line-1', value: (s) => s.gap },
            { name: 'p99', colour: '--line-4', value: (s) => s.gapWorst },
            { name: 'promised', colour: '--line-3', dashed: true, value: (s) => s.promised },
        ],
    },
    {
        title: 'Memory for keys and values',
        note: 'blocks in use, and kept for prompts that begin alike',
        unit: '%',
        stacked: true,
        most: 100,
        lines: [
            { name: 'in use', colour: '--line-1', value: (s) => s.kv?.used },
            { name: 'prefix cache', colour: '--part-cache', value: (s) => s.kv?.cached },
        ],
    },
    {
        title: 'Prefix cache hits',
        note: 'prompt tokens found in it, of those looked up',
        unit: '%',
        most: 100,
        lines: [{ name: 'hit rate', colour: '--part-cache', value: (s) => s.hitRate }],
    },
    {
        title: 'Refused',
        note: 'requests per second that were not taken',
        unit: 'requests/s',
        stepped: true,
        most: 2,
        lines: [
            { name: '429, full', colour: '--line-3', value: (s) => s.refused?.['429'] },
            { name: '503, not ready', colour: '--part-queue', value: (s) => s.refused?.['503'] },
            { name: 'other', colour: '--part-receive', value: (s) => s.refused?.other },
        ],
    },
];

export class Dashboard {
    #history = new History();
    #requests = new RequestList();
    #charts = CHARTS.map((what) => new TimeChart(what));
    #span = setting('span', 300000);
    #stop = null;
    #timer = 0;
    #server = ''; /* which one it is, once it has loaded */
    #serverState = '';

    /**
     * @param {HTMLElement} element
     * @param {() => void} askKey
     */
    constructor(element, askKey) {
        this.askKey = askKey;
        this.state = el('p', { class: 'live' });
        this.about = el('dl', { class: 'about' });
        this.tiles = el('div', { class: 'tiles' });
        fill(
            element,
            el(
                'div',
                { class: 'section-head' },
                el('h1', {}, 'Dashboard'),
                this.state,
                this.#spanChoice(),
            ),
            this.about,
            this.tiles,
            el(
                'div',
                { class: 'charts' },
                this.#charts.map((c) => c.element),
            ),
            this.#requests.element,
        );
        document.addEventListener('themechange', () => this.#charts.forEach((c) => c.restyle()));
        document.addEventListener('keychange', () => this.#stop && live.retry());
    }

    #spanChoice() {
        return el(
            'fieldset',
            { class: 'choice' },
            el('legend', { class: 'offscreen' }, 'Time shown'),
            SPANS.map(({ ms, name }) =>
                el(
                    'label',
                    {},
                    el('input', {
                        type: 'radio',
                        name: 'span',
                        value: ms,
                        checked: ms === this.#span,
                        onchange: () => this.#setSpan(ms),
                    }),
                    el('span', {}, name),
                ),
            ),
        );
    }

    #setSpan(ms) {
        this.#span = ms;
        keepSetting('span', ms);
        this.#drawCharts();
    }

    /** It is looked at: the stream opens. */
    async show() {
        if (this.#stop) return;
        this.#stop = live.listen(
            { onEvent: (name, data) => this.#take(name, data), onState: (s) => this.#drawState(s) },
            true,
        );
        this.#timer = setInterval(() => this.#drawState(live.status), 1000);
        await Promise.all(this.#charts.map((c) => c.show()));
        this.#drawCharts();
    }

    /** It is not looked at: nothing is asked any more. */
    hide() {
        this.#stop?.();
        this.#stop = null;
        clearInterval(this.#timer);
    }

    #take(name, data) {
        if (name === 'server') this.#takeServer(data);
        else if (name === 'request') this.#requests.add(data);
        else if (name === 'waiting')
            this.#requests.setWaiting(data.requests, data.count ?? data.requests.length);
        else if (name === 'stats') this.#takeStats(data);
        this.#drawRequestsSoon();
    }

    #takeServer(server) {
        this.#serverState = server.state;
        if (server.model) {
            const identity = `${server.model} ${server.engine} ${server.commit}`;
            if (this.#server && this.#server !== identity) {
                this.#history.clear();
                this.#requests.clear();
            }
            this.#server = identity;
        }
        fill(
            this.about,
            (server.model ? aboutServer(server) : []).map(([name, value]) =>
                el('div', {}, el('dt', {}, name), el('dd', {}, value)),
            ),
        );
    }

    #takeStats(stats) {
        this.#history.add(stats);
        fill(
            this.tiles,
            tilesOf(stats).map(({ name, value, more, bad }) =>
                el(
                    'div',
                    { class: bad ? 'tile bad' : 'tile' },
                    el('h3', {}, name),
                    el('p', {}, value),
                    el('p', { class: 'hint' }, more),
                ),
            ),
        );
        this.#drawCharts();
    }

    #drawCharts() {
        this.#charts.forEach((c) => c.draw(this.#history, this.#span));
    }

    /* Many requests may end at once: they are drawn together. */
    #drawRequestsSoon() {
        this.soon ??= setTimeout(() => {
            this.soon = null;
            this.#requests.draw();
        }, 250);
    }

    /* --- Is it live? --- */

    #drawState(status) {
        const old = status.lastEvent > 0 ? Date.now() - status.lastEvent : 0;
        const [kind, words] = stateWords(status, old, this.#serverState);
        const button = buttonOf(status, this.askKey);
        const text = `${kind} ${words} ${button?.textContent ?? ''}`;
        if (text === this.shown) return;
        this.shown = text;
        if (kind !== this.state.dataset.kind) say(words);
        this.state.dataset.kind = kind;
        fill(this.state, el('span', { class: 'dot', 'aria-hidden': 'true' }), words, button);
    }
}

const SERVER_STATES = {
    loading: ': the model is loading',
    draining: ': the server is shutting down',
    failed: ': the server lost its model file and cannot answer any more',
};

function stateWords(status, old, serverState) {
    const age =
        old > OLD_MS ? ` What is shown is ${duration(Math.floor(old / 1000) * 1000)} old.` : '';
    switch (status.state) {
        case 'live':
            return old > OLD_MS
                ? ['old', `Nothing came lately.${age}`]
                : ['live', `Live${SERVER_STATES[serverState] ?? ''}`];
        case 'waiting':
            return [
                'old',
                `Not connected; tries again in ${Math.max(
                    0,
                    Math.ceil((status.retryAt - Date.now()) / 1000),
                )} s.${age}`,
            ];
        case 'refused':
            return [
                'old',
                status.error.status === 401
                    ? 'The server wants an API key.'
                    : 'This server has no live data.',
            ];
        default:
            return ['old', `Connecting.${age}`];
    }
}

function buttonOf(status, askKey) {
    if (status.state === 'refused' && status.error.status === 401)
        return el('button', { type: 'button', onclick: askKey }, 'Enter a key');
    return (
        status.state === 'waiting' &&
        el('button', { type: 'button', onclick: () => live.retry() }, 'Now')
    );
}

/* --- What is told of the server --- */

function aboutServer(s) {
    return [
        ['model', s.model],
        ['engine', s.engine],
        ['policy', s.policy],
        ['profile', s.profile],
        ['context', `${count(s.n_ctx)} tokens`],
        ['slots', count(s.slots)],
        ['threads', `${s.threads}, ${s.cpu}`],
        ['keys and values', `${s.kv_type}, ${count(s.kv_blocks)} blocks`],
        ['prefix cache', s.prefix_cache ? 'on' : 'off'],
        ['version', `${s.version}, ${s.commit}`],
    ];
}

function tilesOf(s) {
    const of = (ms) => (s.ttft.count > 0 ? duration(ms) : '–');
    const { refused } = s;
    const turned = Object.values(refused).reduce((a, b) => a + b, 0);
    const promised = s.gap.promised_ms;
    return [
        {
            name: 'First token, p50',
            value: of(s.ttft.p50_ms),
            more:
                s.ttft.count > 0
                    ? `${plural(s.ttft.count, 'request')} in ${short(s.window_s)} s`
                    : 'no request in the last minute',
        },
        { name: 'First token, p95', value: of(s.ttft.p95_ms), more: `p99 ${of(s.ttft.p99_ms)}` },
        {
            name: 'Running',
            value: count(s.running),
            more: `${count(s.waiting)} waiting, engine ${percent(s.utilisation.engine, 1)} busy`,
        },
        {
            name: 'Generated',
            value: `${short(s.rates.generated)}/s`,
            more: `prompts ${short(s.rates.prompt)}/s, requests ${short(s.rates.requests)}/s`,
        },
        {
            name: 'Gap, p95',
            value: s.itl.count > 0 ? duration(s.gap.p95_ms) : '–',
            bad: promised > 0 && s.itl.count > 0 && s.gap.p95_ms > promised,
            more:
                promised > 0
                    ? `promised ${duration(promised)}, p99 ${s.itl.count > 0 ? duration(s.gap.p99_ms) : '–'}`
                    : 'none is promised',
        },
        {
            name: 'Memory in use',
            value: percent(s.kv.total - s.kv.free, s.kv.total),
            more: `${percent(s.kv.cached, s.kv.total)} prefix cache`,
        },
        {
            name: 'Prefix cache hits',
            value: percentOf(rate(s.prefix.hits, s.prefix.queries)),
            more: `of ${count(s.prefix.queries)} prompt tokens, ${count(s.prefix.evictions)} blocks dropped`,
        },
        {
            name: 'Refused',
            value: count(turned),
            bad: turned > 0,
            more: `429: ${count(refused['429'])}, 503: ${count(refused['503'])}, preempted ${count(s.preemptions)}`,
        },
    ];
}

function percentOf(value) {
    return value === null ? '–' : `${short(value)} %`;
}
