/** System prompt and sampling parameters of a conversation, in a dialog. */

import { openDialog } from './dialog.js';
import { el } from './dom.js';
import { serverFacts } from './live.js';
import { SAMPLING_PARAMS } from './sampling_params.js';

/** A parameter of sampling as a field. What is below 0 of a whole number means what 0 means. */
function fieldOf({ name, whole, above, min, max, help }) {
    const lowest = whole ? Math.max(min, 0) : min;
    const range = `${above ? 'above ' : ''}${lowest}${above ? ', up' : ''} to ${max}`;
    return {
        name,
        label: (name[0].toUpperCase() + name.slice(1)).replaceAll('_', ' '),
        min: lowest,
        above,
        max,
        step: whole ? 1 : 'any',
        hint: `${whole ? 'whole, ' : ''}${range}; ${help}`,
    };
}

/** What may be set, with the server's own ranges. Empty: the model's default. */
export const FIELDS = [
    ...SAMPLING_PARAMS.map(fieldOf),
    {
        name: 'max_tokens',
        label: 'Max tokens',
        min: 1,
        max: Number.MAX_SAFE_INTEGER,
        step: 1,
        hint: 'whole; 512 when empty',
    },
    {
        name: 'seed',
        label: 'Seed',
        min: 0,
        max: Number.MAX_SAFE_INTEGER,
        step: 1,
        hint: 'whole; the same seed, the same answer',
    },
];

const MAX_STOPS = 4;

/**
 * A field's text to its value: undefined where it is empty.
 * @throws {RangeError} saying what is expected
 */
export function valueOf(field, text) {
    if (text.trim() === '') return undefined;
    const value = Number(text);
    const fits =
        Number.isFinite(value) &&
        value >= field.min &&
        value <= field.max &&
        !(field.above && value === field.min) &&
        (field.step !== 1 || Number.isInteger(value));
    if (!fits)
        throw new RangeError(`${field.label}: expected ${field.hint}, found "${text.trim()}"`);
    return value;
}

/** One a line; \n and \t stand for what they stand for in C. */
export function stopsOf(text) {
    const stops = text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) =>
            line.replace(/\\([nt\\])/g, (_, c) => ({ n: '\n', t: '\t', '\\': '\\' })[c]),
        );
    if (stops.length > MAX_STOPS)
        throw new RangeError(`Stop: at most ${MAX_STOPS} lines, found ${stops.length}`);
    return stops.length > 0 ? stops : undefined;
}

function stopText(stops = []) {
    return stops
        .map((s) => s.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\t', '\\t'))
        .join('\n');
}

/**
 * @param {{system: string, params: object}} settings
 * @param {{onKeep: (settings: object) => void, onDefault: (settings: object) => void}} actions
 */
export function openParams(settings, { onKeep, onDefault }) {
    const system = el('textarea', { id: 'system', rows: 5, dir: 'auto' });
    const stop = el('textarea', { id: 'param-stop', rows: 2, class: 'mono', spellcheck: 'false' });
    const inputs = FIELDS.map((field) =>
        el('input', {
            id: `param-${field.name}`,
            inputmode: 'decimal',
            autocomplete: 'off',
            'aria-describedby': `hint-${field.name}`,
        }),
    );
    const trouble = el('p', { class: 'invalid', role: 'alert' });
    show(settings);

    const form = el(
        'form',
        { method: 'dialog', onsubmit: keep },
        el('label', { for: 'system' }, 'System prompt'),
        system,
        el(
            'div',
            { class: 'fields' },
            FIELDS.map((field, i) => fieldView(field, inputs[i])),
        ),
        el('label', { for: 'param-stop' }, 'Stop'),
        stop,
        el(
            'p',
            { class: 'hint' },
            'Up to four texts that end the answer, one a line; \\n is a new line.',
        ),
        trouble,
        el(
            'div',
            { class: 'buttons' },
            el('button', { type: 'button', class: 'quiet', onclick: clear }, 'Clear all'),
            el(
                'button',
                { type: 'button', onclick: () => take(onDefault) },
                'Use for new chats too',
            ),
            el('button', { type: 'submit', class: 'primary' }, 'Use'),
        ),
    );
    const dialog = openDialog({ title: 'Parameters of this chat', kind: 'drawer' }, form);
    system.focus();
    showDefaults(inputs);

    function show({ system: text, params }) {
        system.value = text;
        FIELDS.forEach((field, i) => {
            inputs[i].value = params[field.name] ?? '';
        });
        stop.value = stopText(params.stop);
    }
    function clear() {
        show({ system: '', params: {} });
        system.focus();
    }
    function keep(event) {
        event.preventDefault();
        take();
    }
    function take(also) {
        try {
            const read = { system: system.value, params: readParams(inputs, stop) };
            onKeep(read);
            also?.(read);
            dialog.close('');
        } catch (error) {
            trouble.textContent = error.message;
        }
    }
}

function fieldView(field, input) {
    return el(
        'div',
        { class: 'field' },
        el('label', { for: input.id }, field.label),
        input,
        el('p', { class: 'hint', id: `hint-${field.name}` }, field.hint),
    );
}

function readParams(inputs, stop) {
    const params = {};
    inputs.forEach((input, i) => {
        input.removeAttribute('aria-invalid');
        try {
            params[FIELDS[i].name] = valueOf(FIELDS[i], input.value);
        } catch (error) {
            input.setAttribute('aria-invalid', 'true');
            input.focus();
            throw error;
        }
    });
    params.stop = stopsOf(stop.value);
    return JSON.parse(JSON.stringify(params)); /* without those that are absent */
}

/* What holds when a field is empty, as soon as the server says it. */
async function showDefaults(inputs) {
    const facts = await serverFacts();
    FIELDS.forEach((field, i) => {
        const value = facts?.sampling?.[field.name];
        if (value !== undefined && value !== null) inputs[i].placeholder = String(value);
    });
}
