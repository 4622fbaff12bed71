/** The field to write in, with what sends and stops. */

import { el, icon } from './dom.js';

export class Composer {
    /**
     * @param {HTMLFormElement} form
     * @param {{send: (text: string) => void, stop: () => void, params: () => void,
     *          editLast: () => void}} actions
     */
    constructor(form, actions) {
        this.actions = actions;
        this.running = false;
        this.area = el('textarea', {
            id: 'prompt',
            rows: 1,
            dir: 'auto',
            'aria-label': 'Message',
            placeholder: 'Ask something',
            enterkeyhint: 'send',
        });
        this.params = el(
            'button',
            { type: 'button', id: 'params', class: 'quiet', onclick: actions.params },
            icon('sliders'),
            el('span', {}, 'Parameters'),
        );
        this.button = el('button', { type: 'submit', id: 'send', class: 'primary round' });
        form.append(
            el(
                'div',
                { class: 'box' },
                this.area,
                el(
                    'div',
                    { class: 'box-row' },
                    this.params,
                    (this.hint = el('span', { class: 'hint' })),
                    this.button,
                ),
            ),
        );
        form.addEventListener('submit', (event) => this.#submit(event));
        this.area.addEventListener('keydown', (event) => this.#key(event));
        this.area.addEventListener('input', () => this.#grow());
        this.setRunning(false);
    }

    focus() {
        this.area.focus();
    }

    /** What is written but not sent. */
    get draft() {
        return this.area.value;
    }

    set draft(text) {
        this.area.value = text;
        this.#grow();
    }

    setRunning(running) {
        this.running = running;
        const label = running ? 'Stop' : 'Send';
        this.button.replaceChildren(icon(running ? 'stop' : 'send'));
        this.button.setAttribute('aria-label', label);
        this.button.title = running ? 'Stop (Escape)' : 'Send (Enter)';
        this.button.dataset.does = label.toLowerCase();
    }

    /** How many parameters this chat has of its own. */
    setParams(n) {
        this.hint.textContent = n > 0 ? `${n} set` : '';
    }

    #submit(event) {
        event.preventDefault();
        if (this.running) this.actions.stop();
        else this.#send();
    }

    #send() {
        const text = this.area.value.trim();
        if (text === '') return;
        this.draft = '';
        this.actions.send(text);
    }

    /* Enter that ends the composition of a character (an input method) sends nothing. */
    #key(event) {
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            if (!this.running) this.#send();
        } else if (event.key === 'ArrowUp' && this.area.value === '') {
            event.preventDefault();
            this.actions.editLast();
        }
    }

    #grow() {
        this.area.style.height = 'auto';
        this.area.style.height = `${Math.min(this.area.scrollHeight, 240)}px`;
    }
}
