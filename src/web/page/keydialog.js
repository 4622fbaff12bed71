/** Asks for the API key. */

import { key, setKey } from './api.js';
import { openDialog } from './dialog.js';
import { el } from './dom.js';

let asking = null; /* one dialog at a time, whoever asks */

/** @returns {Promise<boolean>} true: there is another key */
export function askKey(why) {
    asking ??= ask(why).finally(() => {
        asking = null;
    });
    return asking;
}

function ask(why) {
    return new Promise((resolve) => {
        const input = el('input', {
            id: 'api-key',
            type: 'password',
            autocomplete: 'off',
            spellcheck: 'false',
            required: true,
            'aria-describedby': 'api-key-why',
        });
        const remember = el('input', { type: 'checkbox', id: 'api-key-remember' });
        input.value = key();
        const form = el(
            'form',
            { method: 'dialog', onsubmit: keep },
            el('p', { id: 'api-key-why' }, why),
            el('label', { for: 'api-key' }, 'API key'),
            input,
            el(
                'label',
                { class: 'check' },
                remember,
                'Remember it in this browser ' + '(else it is forgotten with the tab)',
            ),
            el(
                'div',
                { class: 'buttons' },
                el('button', { type: 'submit', class: 'primary' }, 'Use this key'),
            ),
        );
        const dialog = openDialog(
            { title: 'API key', kind: 'small', onclose: (value) => resolve(value === 'kept') },
            form,
        );
        input.focus();
        function keep(event) {
            event.preventDefault();
            setKey(input.value.trim(), remember.checked);
            dialog.close('kept');
        }
    });
}
