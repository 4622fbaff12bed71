/* Fuzzes the page's markdown: random and mutated texts, shown in a document that knows no markup.
 *
 *     node tests/page/markdown_fuzz.mjs [--seconds N] [--seed N] [--out FOLDER]
 *
 * Each text is shown whole and, as answers come, piece by piece. What is shown may have the tags and
 * attributes of ours alone, its links lead to http, https and mailto, everything that the text says
 * is text, both ways end with the same, and the time that a text takes when it is repeated grows
 * with its length. A finding is written to FOLDER, named, and the exit status is 1. The short run
 * is in units/markdown_fuzz.test.mjs.
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/* --- A document without a parser: what is not in it here, no text can use --- */

class Node {
    parent = null;
    childNodes = [];

    append(...nodes) {
        for (const node of nodes) {
            if (!(node instanceof Node)) throw new Error(`appended ${typeof node}, not a node`);
            const all = node.tag === '#fragment' ? node.childNodes.splice(0) : [node];
            all.forEach((n) => {
                n.parent = this;
            });
            this.childNodes.push(...all);
        }
    }

    remove() {
        this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1);
    }

    replaceChildren() {
        this.childNodes = [];
    }

    get firstChild() {
        return this.childNodes[0];
    }

    get lastChild() {
        return this.childNodes.at(-1);
    }

    get textContent() {
        return this.childNodes.map((n) => n.textContent).join('');
    }
}

class Text extends Node {
    constructor(data) {
        super();
        if (typeof data !== 'string') throw new Error(`a text of ${typeof data}`);
        this.data = data;
    }

    appendData(more) {
        this.data += more;
    }

    get textContent() {
        return this.data;
    }
}

class Element extends Node {
    attributes = new Map();

    constructor(tag) {
        super();
        this.tag = tag;
    }

    setAttribute(name, value) {
        this.attributes.set(name, value);
    }

    addEventListener(name, listener) {
        if (typeof listener !== 'function') throw new Error(`a listener that is no function: ${name}`);
    }

    /* Only `querySelector('code')` is needed. */
    querySelector(tag) {
        for (const child of this.childNodes) {
            if (child.tag === tag) return child;
            const found = child instanceof Element && child.querySelector(tag);
            if (found) return found;
        }
        return null;
    }
}

for (const name of ['innerHTML', 'outerHTML', 'insertAdjacentHTML', 'srcdoc'])
    Object.defineProperty(Element.prototype, name, {
        get() {
            throw new Error(`markup by ${name}`);
        },
        set() {
            throw new Error(`markup by ${name}`);
        },
    });

globalThis.Node = Node;
globalThis.document = {
    addEventListener() {},
    hidden: false,
    createElement: (tag) => new Element(tag),
    createElementNS: (_, tag) => new Element(tag),
    createDocumentFragment: () => new Element('#fragment'),
    createTextNode: (s) => new Text(s),
    write() {
        throw new Error('markup by document.write');
    },
};

const page = new URL('../../src/web/page/', import.meta.url);
const { parseMarkdown } = await import(new URL('markdown.js', page));
const { MarkdownView } = await import(new URL('markdownview.js', page));

/* --- What may be shown --- */

const TAGS = new Set(('p br a code pre figure figcaption span button svg path div table thead tbody tr th td ul ol li'
    + ' input em strong del blockquote hr h3 h4 h5 h6 #root').split(' '));
const ATTRIBUTES = new Set(('dir class start href title target rel type disabled checked aria-label aria-hidden tabindex'
    + ' role scope viewBox d').split(' '));
const HREF = /^(?:https?:\/\/[^\s<>"]|mailto:)[^\s<>"]*$/;

function checkElement(e) {
    if (!TAGS.has(e.tag)) throw new Error(`a <${e.tag}>`);
    for (const [name, value] of e.attributes) {
        if (!ATTRIBUTES.has(name)) throw new Error(`an attribute ${name} of <${e.tag}>`);
        if (typeof value !== 'string') throw new Error(`${name} of <${e.tag}> is no text`);
    }
    if (e.attributes.has('href') !== (e.tag === 'a')) throw new Error(`<${e.tag}> and its href`);
    if (e.tag === 'a' && !HREF.test(e.attributes.get('href')))
        throw new Error(`a link to ${JSON.stringify(e.attributes.get('href'))}`);
    if (e.tag === 'input' && e.attributes.get('type') !== 'checkbox') throw new Error('a field');
    e.childNodes.filter((n) => n instanceof Element).forEach(checkElement);
}

function markupOf(node) {
    if (node instanceof Text) return JSON.stringify(node.data);
    const attributes = [...node.attributes].map(([name, value]) => ` ${name}=${JSON.stringify(value)}`);
    /* Texts beside each other are one. */
    const inner = node.childNodes.map(markupOf).join('').replaceAll('""', '');
    return `<${node.tag}${attributes.join('')}>${inner}</>`;
}

export function shown(pieces) {
    const root = new Element('#root');
    const view = new MarkdownView(root);
    let text = '';
    for (const piece of pieces) {
        text += piece;
        view.set(text);
        checkElement(root);
    }
    view.finish(text);
    checkElement(root);
    return markupOf(root);
}

/* --- Linear time: of the processor, so that a busy machine does not count --- */

const SHORT = 10000;
const TIMES = 8; /* as long takes 8 times as long; 64 times if it is quadratic */
const MOST = 24;
const LEAST_MS = 5; /* for SHORT: below it chance decides */

function cpuMs(text) {
    const begin = process.cpuUsage();
    parseMarkdown(text);
    const { user, system } = process.cpuUsage(begin);
    return (user + system) / 1000;
}

/* Once may be chance, or the collector. */
function isLinear(short, long) {
    for (let tries = 0; tries < 3; tries++)
        if (cpuMs(long) <= MOST * Math.max(LEAST_MS, cpuMs(short))) return true;
    return false;
}

export function checkTime(part) {
    const short = part.repeat(Math.ceil(SHORT / part.length));
    if (!isLinear(short, short.repeat(TIMES)))
        throw new Error(`the time for ${JSON.stringify(part)}, again and again, is not linear in its length`);
}

/** Throws what is wrong with this text. */
export function check(text, random) {
    const whole = shown([text]);
    const pieces = [];
    for (let at = 0; at < text.length;) {
        const n = 1 + random.below(random.below(4) ? 6 : 40);
        pieces.push(text.slice(at, at + n));
        at += n;
    }
    if (shown(pieces) !== whole) throw new Error('piece by piece it is shown otherwise');
    if (text && random.below(16) === 0)
        checkTime(random.of([text.slice(0, 5), `${text.slice(0, 5)}\n`, text.slice(0, 40), `${text}\n`]));
}

/* --- Texts --- */

export class Random {
    constructor(seed) {
        this.state = seed >>> 0;
    }

    /* mulberry32 (Tommy Ettinger, public domain) */
    next() {
        this.state = (this.state + 0x6d2b79f5) >>> 0;
        let t = this.state;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return (t ^ (t >>> 14)) >>> 0;
    }

    below(n) {
        return this.next() % n;
    }

    of(list) {
        return list[this.below(list.length)];
    }
}

const PIECES = ['*', '**', '***', '_', '__', '~~', '`', '``', '```', '~~~', '```js', '[', ']', '(', ')', '](', '![', '<', '>',
    '|', '|-|-|', '|:-:|', '-', '- ', '+ ', '* ', '1. ', '12) ', '- [ ] ', '- [x] ', '# ', '###### ', '> ', '>', '---', '===',
    '***', '\n', '\n', '\n\n', '\r\n', '\r', ' ', '  ', '    ', '\t', '\\', '&amp;', '&#60;', '&#x3c;', '&lt;', '&#0;', '&#55296;',
    '&nope;', 'a', 'word', 'two words', 'x_y_z', '\u00e9', '\u05d0', '\u{1f600}', '\ud800', '\udc00', '\0', '\u200b', '\u202e', '\u2028', '"', "'",
    ':', '://', 'http', 'https://e.org/', 'http://e.org/a_(b)', 'mailto:a@b.c', 'javascript:alert(1)', 'JaVaScRiPt:x',
    'java\tscript:x', 'data:text/html,x', 'vbscript:x', '//evil.example', '&#106;avascript:x', 'http://a\u0000b', 'http://[::1]/',
    'https://u:p@e.org/"onclick="x', '<script>', '</script>', '<img src=x onerror=x>', '<a href=javascript:x>', '<svg/onload=x>',
    '<https://e.org>', '<javascript:x>', '<!--', '-->', '<![CDATA[', '</code></pre>', '" onmouseover="x', ' "title")', '.', ',', '!', '?'];
const TEMPLATES = ['[x](javascript:alert(1))', '[x](<javascript:x>)', '![x](data:text/html,x "t")', '| a | b |\n|---|:-:|\n| 1 | 2 |',
    '- a\n  - b\n\n    c\n- d', '> - 1. x\n>   y', '```js\nlet a;\n```', '# a\n\nb *c* **d** `e`', '1. a\n2. b\n   ```\n   c\n   ```',
    '[a *b](https://e.org) c*', '***a** b*', '- [ ] todo\n- [x] done', 'a\n---\nb', 'see https://e.org/a_b_(c).'];

function made(random) {
    let text = random.below(2) ? random.of(TEMPLATES) : '';
    for (let n = random.below(random.below(5) ? 12 : 80); n > 0; n--) text += random.of(PIECES);
    return text;
}

function mutated(text, random) {
    const at = random.below(text.length + 1),
        n = random.below(12);
    const ways = [
        () => text.slice(0, at) + random.of(PIECES) + text.slice(at),
        () => text.slice(0, at) + text.slice(at + n),
        () => text.slice(0, at) + text.slice(at, at + n).repeat(1 + random.below(20)) + text.slice(at + n),
        () => text.slice(0, at) + String.fromCharCode(random.below(random.below(2) ? 128 : 65536)) + text.slice(at + 1),
        () => text.slice(0, at) + made(random).slice(0, 60) + text.slice(at),
        () => text.split('\n').map((l) => random.of(PIECES) + l).join('\n'),
    ];
    return random.of(ways)().slice(0, 600);
}

/** Checks texts until `goOn` says no; returns how many, or throws {text, error}. */
export function fuzz(seed, goOn) {
    const random = new Random(seed);
    const pool = [...TEMPLATES];
    let n = 0;
    for (; goOn(n); n++) {
        const text = random.below(3) ? mutated(random.of(pool), random) : made(random);
        try {
            check(text, random);
        } catch (error) {
            throw Object.assign(new Error(`${error.message}: ${JSON.stringify(text)}`, { cause: error }), { text });
        }
        if (pool.length < 400) pool.push(text);
        else pool[random.below(pool.length)] = text;
    }
    return n;
}

function main(argv) {
    const options = { seconds: '10', seed: String(Date.now() % 2 ** 32), out: 'build/fuzz/findings' };
    for (let i = 0; i < argv.length; i += 2) {
        if (!argv[i + 1] || !(argv[i].slice(2) in options)) throw new Error(`unknown option ${argv[i]}`);
        options[argv[i].slice(2)] = argv[i + 1];
    }
    const end = Date.now() + Number(options.seconds) * 1000;
    try {
        const n = fuzz(Number(options.seed), () => Date.now() < end);
        console.log(`markdown: ${n} texts from seed ${options.seed}, nothing found`);
    } catch (error) {
        if (error.text === undefined) throw error;
        const file = path.join(options.out, `markdown-${options.seed}.md`);
        mkdirSync(options.out, { recursive: true });
        writeFileSync(file, error.text);
        console.error(`markdown: seed ${options.seed}: ${error.message}\nwritten to ${file}`);
        console.error(error.cause.stack);
        process.exitCode = 1;
    }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) main(process.argv.slice(2));
