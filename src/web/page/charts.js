/** Charts over time by Chart.js, which Debian ships; loaded when the dashboard is first opened. */

import { el } from './dom.js';
import { duration, short } from './format.js';

const SHORTEST_MS = 60000; /* the axis grows with what is known, from this on */

let library = null;

/** Chart.js is a classic script: it leaves a global. */
function load() {
    library ??= new Promise((resolve, reject) => {
        const script = el('script', { src: '/page/chart.js' });
        script.addEventListener('load', () => resolve(window.Chart));
        script.addEventListener('error', () => reject(new Error('chart.js did not come')));
        document.head.append(script);
    });
    return library;
}

function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {string} colour a custom property: '--part-queue'
 * @property {(sample: object) => number|null} value
 * @property {boolean} [dashed]
 * @property {'left'|'right'} [axis]
 */
export class TimeChart {
    #chart = null;

    /**
     * @param {{title: string, note: string, unit: string, right?: string, stacked?: boolean,
     *          most?: number, lines: Line[]}} what  unit and right: those of the axes
     */
    constructor(what) {
        this.what = what;
        this.canvas = el('canvas', { role: 'img', 'aria-label': what.title });
        this.element = el(
            'figure',
            { class: 'chart' },
            el('figcaption', {}, el('h3', {}, what.title), el('p', { class: 'hint' }, what.note)),
            el('div', { class: 'canvas' }, this.canvas),
            el(
                'ul',
                { class: 'legend' },
                what.lines.map((line) =>
                    el(
                        'li',
                        {},
                        el('span', {
                            class: `swatch ${line.dashed ? 'dashed' : ''}`,
                            style: { '--swatch': `var(${line.colour})` },
                        }),
                        line.name,
                    ),
                ),
            ),
        );
    }

    async show() {
        const Chart = await load();
        this.#chart ??= new Chart(this.canvas, {
            type: 'line',
            data: { datasets: this.#datasets() },
            options: this.#options(),
        });
        this.restyle();
    }

    #datasets() {
        const { lines, stacked } = this.what;
        return lines.map((line) => ({
            label: line.name,
            data: [],
            borderWidth: stacked ? 0 : 1.8,
            pointRadius: 0,
            pointHitRadius: 6,
            fill: stacked ? 'stack' : false,
            tension: 0,
            borderDash: line.dashed ? [5, 4] : [],
            yAxisID: line.axis ?? 'left',
            stepped: this.what.stepped,
        }));
    }

    #options() {
        const { unit, right, stacked, most } = this.what;
        const axis = (position, title) => ({
            position,
            beginAtZero: true,
            stacked,
            suggestedMax: most,
            title: { display: title !== 'ms', text: title },
            ticks: { maxTicksLimit: 5, callback: title === 'ms' ? duration : short },
            grid: { drawOnChartArea: position === 'left' },
            border: { display: false },
        });
        return {
            animation: false,
            parsing: false,
            normalized: true,
            maintainAspectRatio: false,
            responsive: true,
            interaction: { mode: 'index', intersect: false },
            plugins: {
                legend: { display: false },
                tooltip: {
                    callbacks: {
                        title: (items) => `${Math.round(-items[0].parsed.x)} s ago`,
                        label: (item) =>
                            ` ${item.dataset.label}: ${withUnit(
                                item.parsed.y,
                                item.dataset.yAxisID === 'right' ? right : unit,
                            )}`,
                    },
                },
            },
            scales: {
                x: {
                    type: 'linear',
                    max: 0,
                    ticks: { maxTicksLimit: 8, maxRotation: 0, callback: ago },
                    grid: { display: false },
                },
                left: axis('left', unit),
                ...(right && { right: axis('right', right) }),
            },
        };
    }

    /** Colours of the theme. */
    restyle() {
        if (!this.#chart) return;
        const { scales, plugins } = this.#chart.options;
        this.#chart.data.datasets.forEach((dataset, i) => {
            dataset.borderColor = dataset.backgroundColor = colour(this.what.lines[i].colour);
        });
        for (const scale of Object.values(scales)) {
            scale.ticks.color = colour('--quiet');
            scale.title.color = colour('--quiet');
            scale.grid.color = colour('--edge');
            scale.grid.borderColor = colour('--edge');
        }
        plugins.tooltip.backgroundColor = colour('--text');
        plugins.tooltip.titleColor = plugins.tooltip.bodyColor = colour('--page');
        this.#chart.update('none');
    }

    /** @param {import('./history.js').History} history */
    draw(history, ms) {
        if (!this.#chart) return;
        this.#chart.data.datasets.forEach((dataset, i) => {
            dataset.data = history.series(ms, this.what.lines[i].value);
        });
        const { x } = this.#chart.options.scales;
        x.min = -Math.min(ms, Math.max(SHORTEST_MS, history.age)) / 1000;
        x.ticks.stepSize = x.min < -300 ? 180 : x.min < -60 ? 60 : 15;
        this.#chart.update('none');
        this.#describe(history.last);
    }

    /* What a screen reader reads when it comes by; nothing announces it. */
    #describe(sample) {
        const values = sample
            ? this.what.lines.map((line) => `${line.name} ${short(line.value(sample) ?? NaN)}`)
            : [];
        this.canvas.setAttribute('aria-label', `${this.what.title}, now: ${values.join(', ')}`);
    }
}

function ago(seconds) {
    if (seconds === 0) return 'now';
    const past = -seconds;
    return past % 60 === 0 ? `−${past / 60} min` : past % 15 === 0 ? `−${past} s` : '';
}

function withUnit(value, unit) {
    return unit === 'ms' ? duration(value) : `${short(value)} ${unit}`;
}
