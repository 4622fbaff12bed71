/** The chat: which conversation is shown, what is asked, and the messages on the screen. */

import { modelName } from './api.js';
import { Composer } from './composer.js';
import {
    addMessage,
    messageOf,
    newConversation,
    path,
    requestMessages,
    select,
    siblings,
} from './conversation.js';
import { byId, el, fill } from './dom.js';
import { askKey } from './keydialog.js';
import { MessageView } from './messageview.js';
import { openParams } from './params.js';
import { Run } from './run.js';
import { Follow } from './scroll.js';
import { Sidebar } from './sidebar.js';
import { keepSetting, setting, Store, storeTrouble } from './store.js';

const EXAMPLES = [
    'Explain what a prefix cache is in two sentences.',
    'Write a short poem about the first light of day.',
    'Give me a table of three prime numbers and their squares.',
];

export class Chat {
    #store = new Store();
    #conversations = [];
    #current = newConversation(Date.now(), setting('defaults', {}));
    #views = [];
    /** @type {Map<string, {run: Run, message: object}>} by conversation */
    #runs = new Map();
    #model = '';

    /** @param {{banner: (text: string) => void, closeSide: () => void}} page */
    constructor(page) {
        this.page = page;
        this.log = byId('log');
        this.follow = new Follow(this.log, byId('latest'));
        this.composer = new Composer(byId('composer'), {
            send: (text) => this.send(text),
            stop: () => this.stop(),
            params: () => this.params(),
            editLast: () => this.editLast(),
        });
        this.sidebar = new Sidebar(byId('side'), {
            create: () => this.create(),
            open: (id) => this.goTo(id),
            rename: (c, title) => this.#rename(c, title),
            remove: (c) => this.#remove(c),
        });
    }

    /** Reads what is kept. Before it, the page shows an empty chat that can be written to. */
    async open() {
        if (!(await this.#store.open()))
            this.page.banner(
                'This browser keeps no data for this page: conversations last until it is closed.',
            );
        const kept = await this.#store.all().catch(() => []);
        this.#conversations = [...kept, ...this.#conversations];
        this.#store.onOthers((id) => this.#reload(id));
        this.#drawSide();
    }

    /** Shows that conversation, or a new one; from the address. */
    show(id) {
        const found = this.#conversations.find((c) => c.id === id);
        if (id && id === this.#current.id) return;
        if (found || this.#current.messages.length > 0)
            this.#current = found ?? newConversation(Date.now(), setting('defaults', {}));
        this.#drawAll();
        this.follow.toEnd();
    }

    /* --- What a person does --- */

    create() {
        this.page.closeSide();
        this.goTo('');
        this.composer.focus();
    }

    goTo(id) {
        this.page.closeSide();
        location.hash = id ? `#/chat/${id}` : '#/chat';
    }

    /** by 1: the next in the list; -1: the one before. */
    step(by) {
        const ids = [...document.querySelectorAll('.conversations li')].map((li) => li.dataset.id);
        const next = ids[ids.indexOf(this.#current.id) + by];
        if (next) this.goTo(next);
    }

    send(text) {
        this.#ask(path(this.#current).at(-1)?.id ?? null, text);
    }

    /** @returns {boolean} something was stopped */
    stop() {
        const running = this.#runs.get(this.#current.id);
        running?.run.stop();
        return running !== undefined;
    }

    editLast() {
        this.#views.findLast((v) => v.message.role === 'user')?.edit();
    }

    regenerateLast() {
        const last = path(this.#current).findLast((m) => m.role === 'assistant');
        if (last) this.regenerate(last);
    }

    /* An answer of which nothing came makes room for the next try. */
    regenerate(message) {
        const conversation = this.#current;
        if (this.#runs.has(conversation.id)) return;
        if (message.text === '')
            conversation.messages = conversation.messages.filter((m) => m !== message);
        this.#answer(messageOf(conversation, message.parent));
    }

    params() {
        const conversation = this.#current;
        openParams(conversation, {
            onKeep: (settings) => {
                Object.assign(conversation, settings);
                this.#drawComposer();
                if (conversation.messages.length > 0) this.#save(conversation);
            },
            onDefault: (settings) => keepSetting('defaults', settings),
        });
    }

    focus() {
        this.composer.focus();
    }

    async key() {
        if (await askKey('The server asks for an API key.')) {
            this.#model = '';
            document.dispatchEvent(new CustomEvent('keychange'));
        }
    }

    setModel(name) {
        this.#model = name;
    }

    /* --- Asking --- */

    #ask(parent, text) {
        const conversation = this.#current;
        if (this.#runs.has(conversation.id)) return;
        const question = addMessage(conversation, parent, 'user', text, Date.now());
        if (!this.#conversations.includes(conversation)) this.#conversations.push(conversation);
        this.#answer(question);
        if (!location.hash.endsWith(conversation.id))
            history.replaceState(null, '', `#/chat/${conversation.id}`);
    }

    async #answer(question) {
        const conversation = this.#current;
        const message = addMessage(conversation, question.id, 'assistant', '', Date.now());
        const run = new Run(message, () => this.#save(conversation));
        this.#runs.set(conversation.id, { run, message });
        run.addEventListener('end', () => this.#ended(conversation));
        this.#drawAll();
        this.#keepFocus();
        this.follow.toEnd();
        this.#save(conversation);
        run.start({ ...(await this.#body(conversation, question)) });
    }

    /* The button that asked may be gone; on a phone the field would bring the keyboard up. */
    #keepFocus() {
        if (document.activeElement !== document.body) return;
        if (matchMedia('(pointer: coarse)').matches) this.log.focus({ preventScroll: true });
        else this.composer.focus();
    }

    async #body(conversation, question) {
        this.#model ||= await modelName().catch(() => '');
        return {
            ...conversation.params,
            ...(this.#model && { model: this.#model }),
            messages: requestMessages(conversation, question),
        };
    }

    #ended(conversation) {
        this.#runs.delete(conversation.id);
        conversation.updated = Date.now();
        this.#drawSide();
        if (conversation === this.#current) this.#drawComposer();
    }

    /* --- Keeping --- */

    async #save(conversation) {
        try {
            await this.#store.put(conversation);
        } catch (error) {
            this.page.banner(storeTrouble(error));
        }
    }

    async #reload(id) {
        if (this.#runs.has(id)) return;
        const kept = await this.#store.get(id);
        this.#conversations = this.#conversations.filter((c) => c.id !== id);
        if (kept) this.#conversations.push(kept);
        if (id === this.#current.id && kept) {
            this.#current = kept;
            this.#drawAll();
        }
        this.#drawSide();
    }

    #rename(conversation, title) {
        if (title !== conversation.title) {
            Object.assign(conversation, { title, named: true });
            this.#save(conversation);
        }
        this.#drawSide();
    }

    #remove(conversation) {
        this.#runs.get(conversation.id)?.run.stop();
        this.#conversations = this.#conversations.filter((c) => c !== conversation);
        this.#store.remove(conversation.id).catch((e) => this.page.banner(storeTrouble(e)));
        this.#drawSide();
        if (conversation === this.#current) {
            this.goTo('');
            this.show('');
        }
        byId('new-chat').focus();
    }

    /* --- Drawing --- */

    #drawAll() {
        const kept = new Map(this.#views.map((v) => [v.message.id, v]));
        const messages = path(this.#current);
        this.#views = messages.map((m) => this.#view(m, kept));
        kept.forEach((view) => view.leave());
        if (messages.length > 0) this.log.replaceChildren(...this.#views.map((v) => v.element));
        else fill(this.log, this.#welcome());
        this.#drawSide();
        this.#drawComposer();
    }

    /* A message that is on the screen stays there, unless it has another number of variants. */
    #view(message, kept) {
        const variants = siblings(this.#current, message);
        const old = kept.get(message.id);
        if (
            old &&
            old.variants.length === variants.length &&
            old.message === message &&
            !old.element.classList.contains('editing')
        ) {
            kept.delete(message.id);
            return old;
        }
        const view = new MessageView(
            message,
            variants,
            {
                regenerate: (m) => this.regenerate(m),
                edit: (m, text) => this.#ask(m.parent, text),
                select: (id) => this.#select(id),
                askKey: () => this.key(),
            },
            () => this.follow.grown(),
        );
        const running = this.#runs.get(this.#current.id);
        if (running?.message === message) view.follow(running.run);
        return view;
    }

    #select(id) {
        select(this.#current, id);
        this.#drawAll();
        this.#save(this.#current);
        const shown = this.#views.find((v) => v.message.id === id);
        shown?.element.querySelector('.variants button:not(:disabled)')?.focus();
    }

    #welcome() {
        return el(
            'div',
            { class: 'welcome' },
            el('h1', {}, 'Ask the model, see where the time went'),
            el(
                'p',
                {},
                'Under each answer stands what the time to its first token was spent on. ',
                'The ',
                el('a', { href: '#/dashboard' }, 'dashboard'),
                ' shows the same for all requests.',
            ),
            el(
                'ul',
                { class: 'examples' },
                EXAMPLES.map((text) =>
                    el(
                        'li',
                        {},
                        el('button', { type: 'button', onclick: () => this.send(text) }, text),
                    ),
                ),
            ),
        );
    }

    #drawSide() {
        this.sidebar.draw(this.#conversations, this.#current.id, this.#runs);
    }

    #drawComposer() {
        const { system, params, id, messages } = this.#current;
        byId('tab-chat').hash = messages.length > 0 ? `#/chat/${id}` : '#/chat';
        this.composer.setRunning(this.#runs.has(id));
        this.composer.setParams(Object.keys(params).length + (system.trim() ? 1 : 0));
    }
}
