/**
 * A conversation as data. Pure. Messages form a tree: editing or asking again makes a sibling, and
 * what was there before stays.
 *
 *   user "a" ── assistant "b" ── user "c"  ── assistant "d"
 *            └─ assistant "b2"             └─ assistant "d2"  <- leaf: the path that is shown
 *
 * @typedef {{id: string, parent: string|null, role: string, text: string, at: number,
 *            finish?: string, trouble?: object, meta?: object}} Message
 * @typedef {{id: string, title: string, named: boolean, created: number, updated: number,
 *            system: string, params: object, messages: Message[], leaf: string|null}} Conversation
 */

export const MAX_TITLE = 60;

export function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

/** @returns {Conversation} */
export function newConversation(now, defaults = {}) {
    return {
        id: newId(),
        title: '',
        named: false,
        created: now,
        updated: now,
        system: defaults.system ?? '',
        params: { ...defaults.params },
        messages: [],
        leaf: null,
    };
}

/** @returns {Message|undefined} */
export function messageOf(conversation, id) {
    return conversation.messages.find((m) => m.id === id);
}

/** The messages that are shown, the first one first. */
export function path(conversation) {
    const byId = new Map(conversation.messages.map((m) => [m.id, m]));
    const list = [];
    for (let m = byId.get(conversation.leaf); m; m = byId.get(m.parent)) list.push(m);
    return list.reverse();
}

/** Adds a message behind `parent` (null: at the beginning) and shows it. */
export function addMessage(conversation, parent, role, text, now) {
    const message = { id: newId(), parent, role, text, at: now };
    conversation.messages.push(message);
    conversation.leaf = message.id;
    conversation.updated = now;
    if (role === 'user' && !conversation.named && !conversation.title)
        conversation.title = titleOf(text);
    return message;
}

/** Those in whose place the message stands, itself included, oldest first. */
export function siblings(conversation, message) {
    return conversation.messages.filter(
        (m) => m.parent === message.parent && m.role === message.role,
    );
}

/** Shows the message, and of what followed it the newest. */
export function select(conversation, id) {
    let leaf = id;
    for (let next = id; next; next = conversation.messages.findLast((m) => m.parent === leaf)?.id)
        leaf = next;
    conversation.leaf = leaf;
}

/** The first line, shortened at a word. */
export function titleOf(text) {
    const line = text
        .trim()
        .split('\n', 1)[0]
        .replace(/[#*_`>\s]+/g, ' ')
        .trim();
    if (line.length <= MAX_TITLE) return line;
    const cut = line.slice(0, MAX_TITLE);
    const space = cut.lastIndexOf(' ');
    return `${(space > MAX_TITLE / 2 ? cut.slice(0, space) : cut).trimEnd()}…`;
}

/** What is sent: the messages up to `last`. Broken answers without text are left out. */
export function requestMessages(conversation, last) {
    const shown = path({ ...conversation, leaf: last.id });
    const list = shown.filter((m) => m.text !== '').map((m) => ({ role: m.role, content: m.text }));
    return conversation.system.trim() === ''
        ? list
        : [{ role: 'system', content: conversation.system }, ...list];
}

/** A file for people and programs: everything, in a form that says what it is. */
export function exported(conversation) {
    return JSON.stringify(
        { format: 'firstlight-conversation', version: 1, ...conversation },
        null,
        2,
    );
}

export function fileName(conversation) {
    const name = (conversation.title || 'conversation')
        .toLowerCase()
        .replace(/[^\p{L}\p{N}]+/gu, '-')
        .replace(/^-|-$/g, '')
        .slice(0, 40);
    return `${name || 'conversation'}.json`;
}
