/** Modal dialogs: <dialog> keeps the focus inside, closes on Escape and gives the focus back. */

import { el, iconButton } from './dom.js';

/**
 * Opens one; it leaves the document when it closes.
 * @param {{title: string, kind?: string, onclose?: (value: string) => void}} how
 * @param {...(Node|string|Array)} content
 * @returns {HTMLDialogElement}
 */
export function openDialog({ title, kind = '', onclose }, ...content) {
    const dialog = el(
        'dialog',
        { class: `dialog ${kind}`, 'aria-labelledby': 'dialog-title' },
        el(
            'div',
            { class: 'dialog-head' },
            el('h2', { id: 'dialog-title' }, title),
            iconButton('close', 'Close', () => dialog.close('')),
        ),
        content,
    );
    dialog.addEventListener('click', (event) => {
        if (event.target === dialog) dialog.close(''); /* beside it */
    });
    const before = document.activeElement;
    dialog.addEventListener('close', () => {
        dialog.remove();
        focusAnew(before);
        onclose?.(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
}

/* Chromium gives the focus back, but to a text field without its caret: typing would do nothing. */
function focusAnew(element) {
    element?.blur();
    element?.focus();
}

/**
 * @returns {Promise<boolean>}
 */
export function confirmed(title, text, action) {
    return new Promise((resolve) => {
        const yes = el(
            'button',
            { type: 'button', class: 'danger', onclick: () => dialog.close('yes') },
            action,
        );
        const no = el('button', { type: 'button', onclick: () => dialog.close('') }, 'Cancel');
        const dialog = openDialog(
            { title, kind: 'small', onclose: (value) => resolve(value === 'yes') },
            el('p', {}, text),
            el('div', { class: 'buttons' }, no, yes),
        );
        no.focus();
    });
}
