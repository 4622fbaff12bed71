/**
 * Text inside a block to tokens, in time linear in its length. Pure.
 *
 *   {t: 'text', s}   {t: 'code', s}   {t: 'br'}
 *   {t: 'open', tag: 'em' | 'strong' | 'del'}   {t: 'open', tag: 'a', href, image}   {t: 'close'}
 *
 * Emphasis is CommonMark's delimiter algorithm: a run of * or _ waits in a list until a run that
 * closes it comes; for each kind of closer it is remembered how far back there was no opener, so
 * the list is not walked twice.
 */

const MAX_URL = 2000;
const MAX_PARENS = 32; /* in each other, in an address */

const PLAIN = /[^\\`*_~[\]!<&\n:]+/y;
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,6}));/y;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/iy;
const BARE = /:\/\/[^\s<>"`\\]{1,2000}/y;
const TAIL = 7; /* what may stand before an address: a character, and "https" */
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const ENTITIES = {
    amp: '&',
    lt: '<',
    gt: '>',
    quot: '"',
    apos: "'",
    nbsp: '\u00a0',
    copy: '©',
    mdash: '—',
    ndash: '–',
    hellip: '…',
    times: '×',
};

/**
 * @param {string} src
 * @returns {Array<{t: string, [more: string]: *}>}
 */
export function inline(src) {
    const scan = { src, at: 0, nodes: [], brackets: [], last: null, ticks: null };
    while (scan.at < src.length) {
        if (!plain(scan) && !SPECIAL[src[scan.at]](scan)) {
            text(scan, src[scan.at]);
            scan.at++;
        }
    }
    emphasize(scan, null);
    return emit(scan.nodes);
}

function plain(scan) {
    PLAIN.lastIndex = scan.at;
    const found = PLAIN.exec(scan.src);
    if (!found) return false;
    text(scan, found[0]);
    scan.at = PLAIN.lastIndex;
    return true;
}

function text(scan, s) {
    const last = scan.nodes.at(-1);
    if (last?.t !== 'text') {
        scan.nodes.push(textNode(s));
        return;
    }
    last.s += s;
    last.tail = (last.tail + s).slice(-TAIL);
}

/* Of the whole text nothing is read while it grows: the engine would copy all of it each time. */
function textNode(s) {
    return { t: 'text', s, tail: s.slice(-TAIL) };
}

/* Each takes what begins at scan.at and returns true, or returns false: then it is a character. */
const SPECIAL = {
    '\\': escape,
    '`': code,
    '*': run,
    _: run,
    '~': run,
    '[': openBracket,
    '!': openImage,
    ']': closeBracket,
    '<': angle,
    '&': entity,
    '\n': newline,
    ':': bareUrl,
};

function escape(scan) {
    const next = scan.src[scan.at + 1];
    if (next === '\n') scan.nodes.push({ t: 'br' });
    else if (next !== undefined && PUNCTUATION.test(next)) text(scan, next);
    else return false;
    scan.at += 2;
    return true;
}

/* A reader of chats wants the lines that were written. */
function newline(scan) {
    const last = scan.nodes.at(-1);
    if (last?.t === 'text') last.s = last.s.trimEnd();
    scan.nodes.push({ t: 'br' });
    scan.at++;
    while (scan.src[scan.at] === ' ') scan.at++;
    return true;
}

function entity(scan) {
    ENTITY.lastIndex = scan.at;
    const found = ENTITY.exec(scan.src);
    if (!found) return false;
    const s = found[3]
        ? ENTITIES[found[3]]
        : codePoint(parseInt(found[1] ?? found[2], found[1] ? 10 : 16));
    if (s === undefined) return false;
    text(scan, s);
    scan.at = ENTITY.lastIndex;
    return true;
}

function codePoint(n) {
    const valid = n > 0 && n <= 0x10ffff && !(n >= 0xd800 && n < 0xe000);
    return valid ? String.fromCodePoint(n) : '\ufffd';
}

/* --- Code --- */

/* Where runs of each length are, found once: an opener without a closer costs no search. */
function tickRuns(src) {
    const runs = new Map();
    for (const found of src.matchAll(/`+/g)) {
        const n = found[0].length;
        if (!runs.has(n)) runs.set(n, { at: [], next: 0 });
        runs.get(n).at.push(found.index);
    }
    return runs;
}

function code(scan) {
    scan.ticks ??= tickRuns(scan.src);
    let n = 1;
    while (scan.src[scan.at + n] === '`') n++;
    const runs = scan.ticks.get(n) ?? { at: [], next: 0 }; /* an escaped one splits a run */
    while (runs.next < runs.at.length && runs.at[runs.next] < scan.at + n) runs.next++;
    const close = runs.at[runs.next];
    if (close === undefined) {
        text(scan, '`'.repeat(n));
        scan.at += n;
        return true;
    }
    scan.nodes.push({ t: 'code', s: trimCode(scan.src.slice(scan.at + n, close)) });
    scan.at = close + n;
    return true;
}

function trimCode(s) {
    const line = s.replaceAll('\n', ' ');
    return line.startsWith(' ') && line.endsWith(' ') && /[^ ]/.test(line)
        ? line.slice(1, -1)
        : line;
}

/* --- Links --- */

/**
 * Only http, https and mailto, whole: anything else that a model calls a link stays text.
 * @returns {string|null}
 */
export function safeHref(address) {
    try {
        const url = new URL(address);
        /* The name of a host keeps quotes, which no real one has. */
        return ['http:', 'https:', 'mailto:'].includes(url.protocol) && !/["<>\s]/.test(url.href) ? url.href : null;
    } catch {
        return null;
    }
}

function link(scan, href, words) {
    scan.nodes.push({ t: 'open', tag: 'a', href }, { t: 'text', s: words }, { t: 'close' });
}

function angle(scan) {
    ANGLE.lastIndex = scan.at;
    const found = ANGLE.exec(scan.src);
    const href = found && safeHref(found[1]);
    if (!href) return false;
    link(scan, href, found[1]);
    scan.at = ANGLE.lastIndex;
    return true;
}

function bareUrl(scan) {
    const last = scan.nodes.at(-1);
    const scheme =
        last?.t === 'text' && /(?:^|[^\p{L}\p{N}_])(https?)$/iu.exec(last.tail)?.[1];
    BARE.lastIndex = scan.at;
    const found = scheme && BARE.exec(scan.src);
    if (!found) return false;
    const rest = trimUrl(found[0]);
    const href = rest.length > 3 && safeHref(scheme + rest);
    if (!href) return false;
    last.s = last.s.slice(0, -scheme.length);
    link(scan, href, scheme + rest);
    scan.at += rest.length;
    return true;
}

/* A sentence's end is not the address's, nor is a bracket that it did not open. */
function trimUrl(url) {
    let opened = url.split('(').length - url.split(')').length;
    let end = url.length;
    for (; end > 0; end--) {
        const c = url[end - 1];
        if (c === ')' && opened < 0) opened++;
        else if (!".,;:!?'*_~]|".includes(c)) break;
    }
    return url.slice(0, end);
}

function openBracket(scan) {
    return bracket(scan, false, 1);
}

function openImage(scan) {
    return scan.src[scan.at + 1] === '[' && bracket(scan, true, 2);
}

function bracket(scan, image, n) {
    const node = textNode(image ? '![' : '[');
    scan.nodes.push(node, textNode(''));
    scan.brackets.push({ node, at: scan.nodes.length - 2, image, before: scan.last });
    scan.at += n;
    return true;
}

function closeBracket(scan) {
    const open = scan.brackets.pop();
    if (!open) return false;
    const [address, end] = destination(scan.src, scan.at + 1);
    const href = end > 0 && safeHref(address);
    if (!href) return false; /* the words stay as they were written */
    emphasize(scan, open.before);
    const tag = { t: 'open', tag: 'a', href, image: open.image };
    scan.nodes[open.at] = tag;
    scan.nodes.push({ t: 'close' });
    scan.brackets = []; /* a link holds no link, and no bracket before it goes on behind it */
    scan.at = end;
    return true;
}

/* "(address "title")" from at: the address and the place behind, or 0. */
function destination(src, at) {
    if (src[at] !== '(') return ['', 0];
    let i = at + 1,
        depth = 0;
    const most = Math.min(src.length, i + MAX_URL);
    while (i < most && /[ \n]/.test(src[i])) i++;
    const pointed = src[i] === '<';
    const from = pointed ? ++i : i;
    for (; i < most; i++) {
        const c = src[i];
        if (pointed ? c === '>' : /\s/.test(c) || (c === ')' && depth === 0)) break;
        depth += pointed ? 0 : Number(c === '(') - Number(c === ')');
        if (depth > MAX_PARENS || c === '\n') return ['', 0];
    }
    const address = src.slice(from, i);
    return [address, titleEnd(src, pointed ? i + 1 : i, most)];
}

function titleEnd(src, at, most) {
    const rest = src.slice(at, Math.min(src.length, Math.max(at, most) + 1));
    const found = /^\s{0,16}(?:"[^"]*"|'[^']*')?\s{0,16}\)/.exec(rest);
    return found ? at + found[0].length : 0;
}

/* --- Emphasis --- */

function run(scan) {
    const { src, at } = scan;
    const c = src[at];
    let n = 1;
    while (src[at + n] === c) n++;
    scan.at += n;
    if (c === '~' && n !== 2) {
        text(scan, c.repeat(n));
        return true;
    }
    const node = {
        t: 'run',
        c,
        n,
        whole: n,
        pos: scan.nodes.length,
        opens: [],
        closes: [],
        before: scan.last,
        after: null,
        ...flanks(c, charBefore(src, at), charAt(src, at + n)),
    };
    if (scan.last) scan.last.after = node;
    scan.last = node;
    scan.nodes.push(node);
    return true;
}

function charAt(src, i) {
    return i < src.length ? String.fromCodePoint(src.codePointAt(i)) : ' ';
}

function charBefore(src, i) {
    const low = i > 1 && /[\udc00-\udfff]/.test(src[i - 1]);
    return i > 0 ? src.slice(i - (low ? 2 : 1), i) : ' ';
}

const isSpace = (c) => /\s/u.test(c);
const isPunctuation = (c) => /[\p{P}\p{S}]/u.test(c);

/* CommonMark 6.2: left- and right-flanking runs. */
function flanks(c, before, after) {
    const left =
        !isSpace(after) && (!isPunctuation(after) || isSpace(before) || isPunctuation(before));
    const right =
        !isSpace(before) && (!isPunctuation(before) || isSpace(after) || isPunctuation(after));
    if (c !== '_') return { canOpen: left, canClose: right };
    return {
        canOpen: left && (!right || isPunctuation(before)),
        canClose: right && (!left || isPunctuation(after)),
    };
}

/* Pairs the runs behind `floor` (null: all) and takes them off the list. */
function emphasize(scan, floor) {
    const bottoms = new Map();
    let closer = firstBehind(scan.last, floor);
    while (closer) {
        if (!closer.canClose || closer.n === 0) {
            closer = closer.after;
            continue;
        }
        const kind = `${closer.c}${closer.canOpen}${closer.whole % 3}`;
        const bottom = bottoms.get(kind) ?? floor?.pos ?? -1;
        const opener = openerOf(closer, bottom);
        if (opener) {
            pair(opener, closer);
        } else {
            bottoms.set(kind, closer.before?.pos ?? -1);
            closer = closer.after;
        }
    }
    scan.last = floor;
    if (floor) floor.after = null;
}

function firstBehind(last, floor) {
    let first = null;
    for (let node = last; node && node !== floor; node = node.before) first = node;
    return first;
}

function openerOf(closer, bottom) {
    for (let node = closer.before; node && node.pos > bottom; node = node.before)
        if (node.c === closer.c && node.canOpen && node.n > 0 && fits(node, closer)) return node;
    return null;
}

/* The rule of three: *a**b* is one em around a**b. */
function fits(opener, closer) {
    const both = opener.canClose || closer.canOpen;
    return (
        !both ||
        (opener.whole + closer.whole) % 3 !== 0 ||
        (opener.whole % 3 === 0 && closer.whole % 3 === 0)
    );
}

function pair(opener, closer) {
    const n = opener.n >= 2 && closer.n >= 2 ? 2 : 1;
    const tag = opener.c === '~' ? 'del' : n === 2 ? 'strong' : 'em';
    opener.opens.push(tag);
    closer.closes.push(tag);
    opener.n -= n;
    closer.n -= n;
    opener.after = closer; /* what stood between them pairs with nothing any more */
    closer.before = opener;
    if (opener.n === 0 && opener.before) opener.before.after = closer;
    if (opener.n === 0) closer.before = opener.before;
}

/* --- Tokens --- */

/* A run closes what it closes, shows what is left of it, and opens: the last that was paired is the
 * outermost. */
function emit(nodes) {
    const out = [];
    const put = (s) => {
        if (out.at(-1)?.t === 'text') out.at(-1).s += s;
        else if (s !== '') out.push({ t: 'text', s });
    };
    for (const node of nodes) {
        if (node.t === 'text') {
            put(node.s);
        } else if (node.t === 'run') {
            node.closes.forEach(() => out.push({ t: 'close' }));
            put(node.c.repeat(node.n));
            node.opens.reverse().forEach((tag) => out.push({ t: 'open', tag }));
        } else {
            out.push(node);
        }
    }
    return out;
}
