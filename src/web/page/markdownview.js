/**
 * Blocks of markdown as nodes of the document. Strings only ever become text nodes, so what a model
 * writes can look like anything but do nothing.
 */

import { copyButton, el } from './dom.js';
import { parseMarkdown } from './markdown.js';

const MAX_NESTED = 16; /* of emphasis in emphasis: browsers lay deep trees out slowly */

const LETTER = /\p{L}/u;
const RTL_LETTER =
    /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/* Of a block of blocks: `auto` looks only at text that is the element's own. */
function directionOf(text) {
    return RTL_LETTER.test(LETTER.exec(text)?.[0] ?? '') ? 'rtl' : 'ltr';
}

/* --- Inline --- */

function inlineNodes(tokens) {
    const root = document.createDocumentFragment();
    const open = [root];
    for (const token of tokens) {
        if (token.t === 'open') {
            open.push(open.length > MAX_NESTED ? open.at(-1) : opened(token));
            if (open.at(-1) !== open.at(-2)) open.at(-2).append(open.at(-1));
        } else if (token.t === 'close') {
            open.pop();
        } else {
            open.at(-1).append(leaf(token));
        }
    }
    return root;
}

function leaf(token) {
    if (token.t === 'code') return el('code', { dir: 'auto' }, token.s);
    return token.t === 'br' ? el('br') : document.createTextNode(token.s);
}

/* Pictures are not loaded: the address is shown as a link. */
function opened(token) {
    if (token.tag !== 'a') return el(token.tag);
    return el(
        'a',
        {
            href: token.href,
            title: token.href,
            target: '_blank',
            rel: 'noopener noreferrer nofollow',
        },
        token.image && 'picture: ',
    );
}

/* --- Blocks --- */

const MAKERS = {
    paragraph: (b) => el('p', { dir: 'auto' }, inlineNodes(b.inline)),
    heading: (b) =>
        el(
            `h${Math.min(6, b.level + 2)}`,
            { dir: 'auto', class: `level-${b.level}` },
            inlineNodes(b.inline),
        ),
    rule: () => el('hr'),
    quote: (b) => patched(el('blockquote', { dir: directionOf(b.src) }), b.blocks),
    list: makeList,
    code: makeCode,
    table: makeTable,
};

function makeBlock(block) {
    return MAKERS[block.type](block);
}

function patched(element, blocks) {
    patch(element, [], blocks);
    return element;
}

function makeList(block) {
    const list = el(block.ordered ? 'ol' : 'ul', {
        dir: directionOf(block.src),
        class: block.tight && 'tight',
        start: block.ordered && block.first !== 1 ? block.first : undefined,
    });
    list.append(...block.items.map(makeItem));
    return list;
}

function makeItem(item) {
    const element = el('li', { class: item.task && `task ${item.task}` });
    if (item.task)
        element.append(
            el('input', {
                type: 'checkbox',
                disabled: true,
                checked: item.task === 'done',
                'aria-label': item.task,
            }),
        );
    return item.task
        ? (patch(element, [], item.blocks, 1), element)
        : patched(element, item.blocks);
}

function makeCode(block) {
    const text = document.createTextNode(block.text);
    const code = el('code', {}, text);
    return el(
        'figure',
        { class: 'code', dir: 'ltr' },
        el(
            'figcaption',
            {},
            el('span', {}, block.lang || 'text'),
            copyButton('Copy', () => code.textContent),
        ),
        el(
            'pre',
            { tabindex: 0, 'aria-label': `code, ${block.lang || 'text'}`, role: 'region' },
            code,
        ),
    );
}

function makeTable(block) {
    const cell = (tag) => (tokens, i) =>
        el(
            tag,
            {
                dir: 'auto',
                scope: tag === 'th' && 'col',
                class: block.align[i] && `align-${block.align[i]}`,
            },
            inlineNodes(tokens),
        );
    return el(
        'div',
        { class: 'table', tabindex: 0, role: 'region', 'aria-label': 'table' },
        el(
            'table',
            {},
            el('thead', {}, el('tr', {}, block.head.map(cell('th')))),
            el(
                'tbody',
                {},
                block.rows.map((row) => el('tr', {}, row.map(cell('td')))),
            ),
        ),
    );
}

/* --- Growing --- */

/**
 * Makes the children of `parent`, which show `before`, show `after`: those whose lines are the same
 * stay as they are, so that a growing answer touches only its end.
 */
function patch(parent, before, after, skip = 0) {
    let same = 0;
    while (same < before.length && same < after.length && isSame(before[same], after[same])) same++;
    const grows =
        same === before.length - 1 &&
        same < after.length &&
        grow(parent.childNodes[skip + same], before[same], after[same]);
    const keep = same + (grows ? 1 : 0);
    while (parent.childNodes.length > skip + keep) parent.lastChild.remove();
    parent.append(...after.slice(keep).map(makeBlock));
}

function isSame(a, b) {
    return a.type === b.type && a.src === b.src && a.closed === b.closed;
}

/* In its place, if it is a code block or a list that became longer. */
function grow(node, before, after) {
    if (before.type !== after.type) return false;
    if (after.type === 'code') return growCode(node, before, after);
    return after.type === 'list' && growList(node, before, after);
}

function growCode(node, before, after) {
    if (before.lang !== after.lang || !after.text.startsWith(before.text)) return false;
    node.querySelector('code').firstChild.appendData(after.text.slice(before.text.length));
    return true;
}

function growList(node, before, after) {
    if (
        before.ordered !== after.ordered ||
        before.tight !== after.tight ||
        before.first !== after.first ||
        directionOf(before.src) !== directionOf(after.src)
    )
        return false;
    let same = 0;
    while (same < before.items.length && before.items[same].src === after.items[same]?.src) same++;
    while (node.childNodes.length > same) node.lastChild.remove();
    node.append(...after.items.slice(same).map(makeItem));
    return true;
}

/**
 * A text that grows, shown in an element. Only the last two blocks are parsed again: what comes may
 * still change the last one, or make it part of the one before.
 */
export class MarkdownView {
    #element;
    #text = '';
    #settled = 0; /* the text before this is in blocks that stay */
    #kept = 0; /* so many of them */
    #tail = []; /* the blocks of the text behind it */

    constructor(element) {
        this.#element = element;
    }

    /** Shows the text; quick if it begins with the one shown before. */
    set(text) {
        if (!text.startsWith(this.#text)) this.#reset();
        this.#text = text;
        const tail = parseMarkdown(text.slice(this.#settled));
        patch(this.#element, this.#tail, tail, this.#kept);
        this.#tail = tail;
        if (tail.length > 2) this.#settle(tail.length - 2);
    }

    /** The whole text once more, where cutting it at blocks made a difference. */
    finish(text) {
        this.set(text);
        const whole = parseMarkdown(text);
        const shown = this.#kept + this.#tail.length;
        const begins = whole[this.#kept]?.start ?? text.length;
        if (
            whole.length === shown &&
            (this.#tail.length === 0 || begins === this.#settled + this.#tail[0].start)
        )
            return;
        this.#reset();
        this.set(text);
    }

    #settle(n) {
        this.#settled += this.#tail[n].start;
        this.#kept += n;
        this.#tail = this.#tail.slice(n);
        const moved = this.#tail[0].start;
        this.#tail.forEach((b) => {
            b.start -= moved;
        });
    }

    #reset() {
        this.#element.replaceChildren();
        this.#settled = this.#kept = 0;
        this.#tail = [];
        this.#text = '';
    }
}
