/** Numbers and times as a person reads them. */

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** 1234567 -> "1,234,567" */
export function count(n) {
    return Number.isFinite(n) ? whole.format(n) : '–';
}

/** Three digits are enough: 0.42, 3.7, 128, 1,240. */
export function short(n) {
    if (!Number.isFinite(n)) return '–';
    if (n !== 0 && Math.abs(n) < 1) return n.toFixed(2);
    return Math.abs(n) < 100 ? fine.format(n) : whole.format(n);
}

/** Milliseconds with their unit: "0.42 ms", "64 ms", "1.24 s", "2 min 5 s". */
export function duration(ms) {
    if (!Number.isFinite(ms)) return '–';
    if (ms < 1000) return `${short(ms)} ms`;
    if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
    return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** plural(1, 'request') -> "1 request" */
export function plural(n, noun, many = `${noun}s`) {
    return `${count(n)} ${n === 1 ? noun : many}`;
}

export function percent(part, all) {
    return all > 0 ? `${short((100 * part) / all)} %` : '–';
}

/** Unix milliseconds -> "14:03:22", local. */
export function clockTime(ms) {
    return new Date(ms).toLocaleTimeString('en-GB');
}
