/** Puts the page together: views by the address, the top bar, keys, the state of the server. */

import { modelName, serverState } from './api.js';
import { Chat } from './chat.js';
import { byId, fill, icon, say } from './dom.js';
import { listenToKeys, openHelp } from './shortcuts.js';
import { setTheme, theme, THEMES } from './theme.js';

const LOADING_LOOK_MS = 1000;
const STATES = {
    loading: 'The model is loading. You can write already; it answers when it is there.',
    draining: 'The server is shutting down: it finishes what runs and takes nothing new.',
    failed: 'The server lost its model file and cannot answer any more: it has to be started again.',
};

const chat = new Chat({ banner, closeSide: () => openSide(false) });
let dashboard = null; /* loaded when it is first looked at */

/* --- Banner --- */

function banner(text) {
    const element = byId('banner');
    element.hidden = text === '';
    if (element.textContent !== text) element.textContent = text;
}

/* --- Views --- */

async function route() {
    const [, view = 'chat', id = ''] = location.hash.split('/');
    const isDashboard = view === 'dashboard';
    byId('chat').hidden = isDashboard;
    byId('dashboard').hidden = !isDashboard;
    byId('menu').hidden = isDashboard;
    mark('tab-chat', !isDashboard);
    mark('tab-dashboard', isDashboard);
    document.title = isDashboard ? 'Dashboard · firstlight' : 'firstlight';
    openSide(false);
    if (isDashboard) {
        dashboard ??= new (await import('./dashboard.js')).Dashboard(byId('dashboard'), () =>
            chat.key(),
        );
        if (location.hash.startsWith('#/dashboard')) dashboard.show();
    } else {
        dashboard?.hide();
        chat.show(id);
    }
}

function mark(id, current) {
    if (current) byId(id).setAttribute('aria-current', 'page');
    else byId(id).removeAttribute('aria-current');
}

/* --- The list of conversations, which lies over the chat on a narrow screen --- */

const narrow = matchMedia('(max-width: 52rem)');

function openSide(open) {
    const side = byId('side');
    side.classList.toggle('open', open);
    side.inert = narrow.matches && !open;
    byId('veil').hidden = !(narrow.matches && open);
    byId('menu').setAttribute('aria-expanded', String(open));
    if (open) byId('new-chat').focus();
}

function isSideOpen() {
    return narrow.matches && byId('side').classList.contains('open');
}

/* --- The top bar --- */

function nextTheme() {
    const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
    setTheme(next);
    showTheme();
    say(`Colours: ${next}`);
}

function showTheme() {
    byId('theme').setAttribute('aria-label', `Colours: ${theme()}`);
    byId('theme').title = `Colours: ${theme()}. Light, dark, or as the system says (t)`;
}

function topBar() {
    fill(byId('menu'), icon('menu')).addEventListener('click', () => openSide(!isSideOpen()));
    fill(byId('theme'), icon('theme')).addEventListener('click', nextTheme);
    fill(byId('help'), icon('help')).addEventListener('click', () => openHelp(shortcuts));
    byId('veil').addEventListener('click', () => openSide(false));
    narrow.addEventListener('change', () => openSide(false));
    showTheme();
    openSide(false);
}

/* --- The server --- */

async function greet() {
    const state = await serverState();
    if (state === 'loading') {
        banner(STATES.loading);
        setTimeout(greet, LOADING_LOOK_MS);
        return;
    }
    banner(STATES[state] ?? '');
    try {
        const name = await modelName();
        byId('model').textContent = name;
        chat.setModel(name);
    } catch (error) {
        if (error.status === 401) await chat.key();
    }
}

/* --- Keys --- */

const shortcuts = [
    { key: '/', words: 'write a message', does: () => inChat(() => chat.focus()) },
    { key: 'n', words: 'new chat', does: () => inChat(() => chat.create()) },
    {
        key: 'r',
        words: 'regenerate the last answer',
        does: () => inChat(() => chat.regenerateLast()),
    },
    { key: 'e', words: 'edit your last message', does: () => inChat(() => chat.editLast()) },
    { key: 'p', words: 'parameters', does: () => inChat(() => chat.params()) },
    { key: ']', words: 'next conversation in the list', does: () => inChat(() => chat.step(1)) },
    { key: '[', words: 'the one before', does: () => inChat(() => chat.step(-1)) },
    {
        key: 'd',
        words: 'dashboard',
        does: () => {
            location.hash = '#/dashboard';
        },
    },
    { key: 'c', words: 'chat', does: () => byId('tab-chat').click() },
    { key: 't', words: 'light, dark, or as the system says', does: nextTheme },
    { key: '?', words: 'this list', does: () => openHelp(shortcuts) },
];

function inChat(action) {
    if (!byId('chat').hidden) action();
}

function escape() {
    if (!isSideOpen()) return !byId('chat').hidden && chat.stop();
    openSide(false);
    byId('menu').focus();
    return true;
}

/* --- Start --- */

topBar();
listenToKeys(shortcuts, escape);
addEventListener('hashchange', route);
document.addEventListener('keychange', greet);
await chat.open();
await route();
if (!byId('chat').hidden) chat.focus();
greet();
document.documentElement.dataset.ready = 'true';
