/** A message as it is shown: text, what went wrong, waterfall, and what can be done with it. */

import { copyButton, el, fill, icon, iconButton, say } from './dom.js';
import { MarkdownView } from './markdownview.js';
import { waitWords } from './run.js';
import { keepSetting, setting } from './store.js';
import { endWords } from './trouble.js';
import { waterfallView } from './waterfallview.js';

const BUSY_SHARE = 4; /* drawing takes at most one part in so many of the time */

/**
 * @typedef {object} Actions
 * @property {(message: object) => void} regenerate asks again for this answer
 * @property {(message: object, text: string) => void} edit sends another text in this one's place
 * @property {(id: string) => void} select shows this variant
 * @property {() => void} askKey
 */
export class MessageView {
    #markdown = null;
    #run = null;
    #drawTimer = 0;
    #cost = 0;
    #tick = 0;

    /**
     * @param {object} message
     * @param {object[]} variants those that stand in one place with it
     * @param {Actions} actions
     * @param {() => void} changed its height may have changed
     */
    constructor(message, variants, actions, changed) {
        Object.assign(this, { message, variants, actions, changed });
        this.body = el('div', { class: 'text', dir: 'auto' });
        this.below = el('div', { class: 'below' });
        this.element = el(
            'article',
            {
                class: `message ${message.role}`,
                'data-id': message.id,
                'aria-label': message.role === 'user' ? 'You' : 'Answer',
                tabindex: -1,
            },
            this.body,
            this.below,
        );
        if (message.role === 'assistant') this.#markdown = new MarkdownView(this.body);
        this.draw();
    }

    /** Follows an answer that is on its way. */
    follow(run) {
        this.#run = run;
        this.element.setAttribute('aria-busy', 'true');
        run.addEventListener('text', () => this.#soon());
        run.addEventListener('state', () => this.#drawState());
        run.addEventListener('end', () => this.#ended());
        this.#tick = setInterval(() => this.#drawState(), 200);
        this.draw();
    }

    /** It is no longer shown. */
    leave() {
        clearInterval(this.#tick);
        clearTimeout(this.#drawTimer);
        this.#run = null;
    }

    draw() {
        if (this.#markdown) this.#markdown.finish(this.message.text);
        else fill(this.body, this.message.text);
        this.#drawBelow();
    }

    #soon() {
        this.#drawTimer ||= setTimeout(
            () => {
                this.#drawTimer = 0;
                const begin = performance.now();
                this.#markdown.set(this.message.text);
                this.changed();
                this.#cost = performance.now() - begin;
            },
            Math.max(16, this.#cost * BUSY_SHARE),
        );
    }

    #ended() {
        this.leave();
        this.#drawTimer = 0;
        this.element.removeAttribute('aria-busy');
        this.draw();
        this.changed();
        this.#sayEnd();
    }

    #sayEnd() {
        const { text, trouble, finish } = this.message;
        if (trouble) say(`${trouble.what} ${trouble.todo}`);
        else if (finish === 'stopped') say('Stopped.');
        else say(text.length < 400 ? `Answer: ${text}` : 'The answer is complete.');
    }

    /* --- What stands below the text --- */

    #drawBelow() {
        if (this.#run)
            return fill(
                this.below,
                (this.waiting = el(
                    'p',
                    { class: 'waiting' },
                    el('span', { class: 'pulse', 'aria-hidden': 'true' }),
                    el('span'),
                )),
            );
        const { message } = this;
        return fill(
            this.below,
            message.trouble && troubleView(message, this.actions),
            !message.trouble &&
                endWords(message.finish) &&
                el('p', { class: 'note' }, endWords(message.finish)),
            message.role === 'assistant' &&
                waterfallView(message.meta, {
                    open: setting('waterfall', false),
                    onToggle: toggled,
                }),
            this.#tools(),
        );
    }

    #drawState() {
        const run = this.#run;
        if (!run) return;
        const waits = run.state === 'sending' || run.state === 'waiting';
        this.waiting.hidden = !waits;
        this.waiting.lastChild.textContent = `${waitWords(run)} · ${clock(run)}`;
        if (waits && run.ahead > 0 && this.said !== run.ahead) say(waitWords(run));
        this.said = run.ahead;
    }

    #tools() {
        const { message, actions } = this;
        const redo =
            message.role === 'assistant' &&
            !message.trouble /* which has a button for it */ &&
            toolButton('redo', 'Regenerate', 'regenerate', () => actions.regenerate(message));
        const edit =
            message.role === 'user' && toolButton('edit', 'Edit', 'edit', () => this.edit());
        return el(
            'div',
            { class: 'tools' },
            this.#variants(),
            message.text && copyButton('Copy', () => message.text),
            edit,
            redo,
        );
    }

    #variants() {
        const { variants, message, actions } = this;
        const at = variants.findIndex((m) => m.id === message.id);
        if (variants.length < 2) return false;
        const step = (by, name, label) =>
            iconButton(name, label, () => actions.select(variants[at + by].id), {
                disabled: !variants[at + by],
            });
        return el(
            'span',
            { class: 'variants', role: 'group', 'aria-label': 'Variants' },
            step(-1, 'left', 'Previous variant'),
            el('span', {}, `${at + 1} of ${variants.length}`),
            step(1, 'right', 'Next variant'),
        );
    }

    /** Puts a field in the place of the text. */
    edit() {
        const area = el('textarea', {
            class: 'edit',
            rows: 3,
            dir: 'auto',
            'aria-label': 'Edit the message',
        });
        area.value = this.message.text;
        const end = () => {
            this.element.classList.remove('editing');
            this.draw();
            this.element.querySelector('.edit-button')?.focus();
        };
        const send = () => {
            if (area.value.trim() !== '') this.actions.edit(this.message, area.value);
        };
        area.addEventListener('keydown', (event) => {
            if (event.key === 'Escape') {
                event.stopPropagation();
                end();
            } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
                event.preventDefault();
                send();
            }
        });
        this.element.classList.add('editing');
        fill(this.body, area);
        fill(
            this.below,
            el(
                'div',
                { class: 'buttons' },
                el('button', { type: 'button', onclick: end }, 'Cancel'),
                el('button', { type: 'button', class: 'primary', onclick: send }, 'Send'),
            ),
        );
        area.focus();
        area.setSelectionRange(area.value.length, area.value.length);
    }
}

function clock(run) {
    return `${((performance.now() - run.started) / 1000).toFixed(1)} s`;
}

function toggled(open) {
    keepSetting('waterfall', open);
}

function toolButton(name, label, kind, onclick) {
    return el(
        'button',
        { type: 'button', class: `quiet ${kind}-button`, onclick },
        icon(name),
        el('span', {}, label),
    );
}

/* --- Trouble --- */

function troubleView(message, actions) {
    const { what, todo, detail, needsKey } = message.trouble;
    return el(
        'div',
        { class: 'trouble' },
        el('p', {}, el('strong', {}, what), ` ${todo}`),
        detail && el('p', { class: 'detail' }, detail),
        el(
            'div',
            { class: 'buttons' },
            needsKey &&
                el(
                    'button',
                    { type: 'button', class: 'primary', onclick: actions.askKey },
                    'Enter a key',
                ),
            el(
                'button',
                { type: 'button', class: 'retry', onclick: () => actions.regenerate(message) },
                message.text ? 'Ask again' : 'Try again',
            ),
            retryLater(message, actions),
        ),
    );
}

/* Counts down what Retry-After said, and on request tries again when it is over. */
function retryLater(message, actions) {
    const { retryMs, at = 0 } = message.trouble;
    const until = at + (retryMs ?? 0);
    if (retryMs === undefined || Date.now() >= until) return false;
    const button = el('button', {
        type: 'button',
        class: 'retry-later',
        'aria-pressed': 'false',
        onclick: () =>
            button.setAttribute(
                'aria-pressed',
                String(button.getAttribute('aria-pressed') !== 'true'),
            ),
    });
    const count = () => {
        const left = Math.ceil((until - Date.now()) / 1000);
        const armed = button.getAttribute('aria-pressed') === 'true';
        if (left > 0 && (button.isConnected || !button.textContent)) {
            const words = armed ? `Tries again in ${left} s` : `Try again in ${left} s, by itself`;
            if (button.textContent !== words) button.textContent = words;
            return;
        }
        clearInterval(timer);
        if (armed && button.isConnected) actions.regenerate(message);
        button.remove();
    };
    const timer = setInterval(count, 200);
    count();
    return button;
}
