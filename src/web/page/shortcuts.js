/** Keys, and the list of them. */

import { openDialog } from './dialog.js';
import { el } from './dom.js';
import { keepSetting, setting } from './store.js';

const IN_FIELDS = [
    ['Enter', 'send'],
    ['Shift + Enter', 'new line'],
    ['↑ in an empty field', 'edit your last message'],
    ['Escape', 'stop the answer; close what is open'],
];

/**
 * @typedef {{key: string, words: string, does: () => void}} Shortcut single keys, outside of fields
 */

/**
 * @param {Shortcut[]} shortcuts
 * @param {() => boolean} onEscape
 */
export function listenToKeys(shortcuts, onEscape) {
    document.addEventListener('keydown', (event) => {
        if (document.querySelector('dialog[open]') || event.isComposing) return;
        if (event.key === 'Escape') {
            if (onEscape()) event.preventDefault();
            return;
        }
        if (
            event.ctrlKey ||
            event.metaKey ||
            event.altKey ||
            isField(event.target) ||
            !setting('single-keys', true)
        )
            return;
        const shortcut = shortcuts.find((s) => s.key === event.key);
        if (shortcut) {
            event.preventDefault();
            shortcut.does();
        }
    });
}

function isField(element) {
    return (
        element instanceof HTMLElement &&
        (element.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(element.tagName))
    );
}

/** @param {Shortcut[]} shortcuts */
export function openHelp(shortcuts) {
    const single = el('input', {
        type: 'checkbox',
        checked: setting('single-keys', true),
        onchange: () => keepSetting('single-keys', single.checked),
    });
    const row = ([keys, words]) =>
        el(
            'tr',
            {},
            el(
                'th',
                { scope: 'row' },
                keys.split(' + ').map((k, i) => [i > 0 && ' + ', el('kbd', {}, k)]),
            ),
            el('td', {}, words),
        );
    openDialog(
        { title: 'Keyboard shortcuts' },
        el(
            'table',
            { class: 'keys' },
            el('tbody', {}, IN_FIELDS.map(row)),
            el(
                'tbody',
                {},
                shortcuts.map((s) => row([s.key, s.words])),
            ),
        ),
        el('label', { class: 'check' }, single, 'Single keys work outside of fields'),
    );
}
