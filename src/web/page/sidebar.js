/** The list of conversations. */

import { confirmed } from './dialog.js';
import { download, el, fill, icon, iconButton, say } from './dom.js';
import { exported, fileName } from './conversation.js';

export class Sidebar {
    #renaming = null;

    /**
     * @param {HTMLElement} element
     * @param {{create: () => void, open: (id: string) => void,
     *          rename: (c: object, title: string) => void,
     *          remove: (c: object) => void}} actions
     */
    constructor(element, actions) {
        this.actions = actions;
        this.list = el('ul', { class: 'conversations' });
        element.append(
            el(
                'button',
                { type: 'button', id: 'new-chat', class: 'new', onclick: actions.create },
                icon('plus'),
                'New chat',
            ),
            this.list,
            el('p', { class: 'hint' }, 'Conversations are kept in this browser only.'),
        );
    }

    /** Shows them, the one that changed last first. */
    draw(conversations, current, running) {
        const focused = this.list.contains(document.activeElement)
            ? document.activeElement.closest('li')?.dataset.id
            : null;
        if (this.#renaming && conversations.some((c) => c.id === this.#renaming)) return;
        const sorted = [...conversations].sort((a, b) => b.updated - a.updated);
        fill(
            this.list,
            sorted.map((c) => this.#item(c, c.id === current, running.has(c.id))),
        );
        if (focused) this.list.querySelector(`[data-id="${focused}"] .open`)?.focus();
    }

    #item(conversation, isCurrent, isRunning) {
        const title = conversation.title || 'New chat';
        const open = el(
            'button',
            {
                type: 'button',
                class: 'open',
                dir: 'auto',
                title,
                'aria-current': isCurrent && 'true',
                onclick: () => this.actions.open(conversation.id),
            },
            title,
            isRunning && el('span', { class: 'pulse', title: 'answering' }),
        );
        return el(
            'li',
            { 'data-id': conversation.id, class: isCurrent && 'current' },
            open,
            el(
                'span',
                { class: 'item-tools' },
                iconButton('edit', `Rename ${title}`, () => this.#rename(conversation)),
                iconButton('save', `Export ${title} as JSON`, () => exportFile(conversation)),
                iconButton('trash', `Delete ${title}`, () => this.#remove(conversation)),
            ),
        );
    }

    #rename(conversation) {
        const item = this.list.querySelector(`[data-id="${conversation.id}"]`);
        const input = el('input', {
            value: conversation.title,
            'aria-label': 'Title',
            dir: 'auto',
            maxlength: 120,
        });
        const end = (keep) => {
            if (this.#renaming !== conversation.id) return;
            this.#renaming = null;
            const title = keep ? input.value.trim() : '';
            this.actions.rename(conversation, title || conversation.title);
            this.list.querySelector(`[data-id="${conversation.id}"] .open`)?.focus();
        };
        input.addEventListener('keydown', (event) => {
            if (event.key !== 'Enter' && event.key !== 'Escape') return;
            event.stopPropagation();
            event.preventDefault();
            end(event.key === 'Enter');
        });
        input.addEventListener('blur', () => end(true));
        this.#renaming = conversation.id;
        fill(item, input);
        input.select();
    }

    async #remove(conversation) {
        const title = conversation.title || 'New chat';
        if (
            !(await confirmed(
                'Delete this conversation?',
                `“${title}” is kept nowhere else.`,
                'Delete',
            ))
        )
            return;
        this.actions.remove(conversation);
        say(`${title} deleted`);
    }
}

function exportFile(conversation) {
    download(fileName(conversation), 'application/json', exported(conversation));
}
