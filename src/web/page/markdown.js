/**
 * Markdown to blocks and tokens: what models write of CommonMark and GFM (headings, fences, lists,
 * quotes, tables, emphasis, code, links). Pure; markdownview.js makes nodes of it.
 *
 * Any text is valid, and none takes more than time linear in its length: nothing backtracks without
 * a bound, nesting ends at MAX_DEPTH. Raw HTML is text. Reference links are text.
 */

import { inline } from './inline.js';

const MAX_DEPTH = 8; /* of quotes and lists in each other; what is deeper is a paragraph */
const MAX_COLUMNS = 64; /* a table with more is a paragraph */

/**
 * @typedef {{type: string, src: string, start?: number, [more: string]: *}} Block
 *   src: the lines it was made of, by which a later parse knows it again
 *   start: where they begin in the text (top level only)
 *
 *   heading {level, inline}   code {lang, text, closed}   rule {}   paragraph {inline}
 *   quote {blocks}   list {ordered, first, tight, items: [{src, task, blocks}]}
 *   table {align: [], head: [inline], rows: [[inline]]}
 */

/**
 * @param {string} text
 * @returns {Block[]}
 */
export function parseMarkdown(text) {
    const lines = text.split(/\r\n|\n|\r/);
    const blocks = parseLines(lines, 0);
    const offsets = lineOffsets(text);
    blocks.forEach((b) => {
        b.start = offsets[b.line];
    });
    return blocks;
}

function lineOffsets(text) {
    const offsets = [0];
    const ends = /\r\n|\n|\r/g;
    while (ends.exec(text)) offsets.push(ends.lastIndex);
    return offsets;
}

/* A reader is asked in turn whether a block of its kind begins at lines[i]; it returns the block
 * and the line behind it, or null. */
const READERS = [readFence, readHeading, readRule, readQuote, readList, readTable, readIndented];

function parseLines(lines, depth) {
    const blocks = [];
    for (let i = 0; i < lines.length;) {
        if (isBlank(lines[i])) {
            i++;
            continue;
        }
        const [block, next] = readBlock(lines, i, depth);
        block.line = i;
        block.src = lines.slice(i, next).join('\n');
        blocks.push(block);
        i = next;
    }
    return blocks;
}

function readBlock(lines, i, depth) {
    for (const reader of READERS) {
        const found = reader(lines, i, depth);
        if (found) return found;
    }
    return readParagraph(lines, i, depth);
}

const isBlank = (line) => /^[ \t]*$/.test(line);

/* --- Leaves --- */

const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;

function readFence(lines, i) {
    const open = FENCE.exec(lines[i]);
    if (!open) return null;
    const [, indent, mark, info] = open;
    const text = [];
    let next = i + 1;
    for (; next < lines.length && !closesFence(lines[next], mark); next++)
        text.push(unindent(lines[next], indent.length));
    const closed = next < lines.length;
    const lang = info.trim().split(/\s/, 1)[0].slice(0, 40);
    return [{ type: 'code', lang, text: text.join('\n'), closed }, closed ? next + 1 : next];
}

function closesFence(line, mark) {
    const found = /^ {0,3}(`+|~+)[ \t]*$/.exec(line);
    return found !== null && found[1][0] === mark[0] && found[1].length >= mark.length;
}

function unindent(line, most) {
    let n = 0;
    while (n < most && line[n] === ' ') n++;
    return line.slice(n);
}

function readHeading(lines, i) {
    const marks = /^ {0,3}(#{1,6})(?=[ \t]|$)/.exec(lines[i]);
    if (!marks) return null;
    const text = withoutClosingMarks(lines[i].slice(marks[0].length).trim());
    return [{ type: 'heading', level: marks[1].length, inline: inline(text) }, i + 1];
}

function withoutClosingMarks(text) {
    let end = text.length;
    while (end > 0 && text[end - 1] === '#') end--;
    return end === 0 || /[ \t]/.test(text[end - 1]) ? text.slice(0, end).trimEnd() : text;
}

const isRule = (line) => /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/.test(line);

function readRule(lines, i) {
    return isRule(lines[i]) ? [{ type: 'rule' }, i + 1] : null;
}

const isIndented = (line) => /^(?: {4}| {0,3}\t)/.test(line);

function readIndented(lines, i) {
    if (!isIndented(lines[i])) return null;
    const text = [];
    let next = i,
        end = i; /* blank lines belong to it only when more follows */
    for (; next < lines.length && (isIndented(lines[next]) || isBlank(lines[next])); next++) {
        text.push(lines[next].replace(/^(?: {4}| {0,3}\t)/, ''));
        if (!isBlank(lines[next])) end = next + 1;
    }
    return [{ type: 'code', lang: '', text: text.slice(0, end - i).join('\n'), closed: true }, end];
}

function readParagraph(lines, i, depth) {
    let next = i + 1,
        level = 0;
    for (; next < lines.length && !isBlank(lines[next]); next++) {
        level = underlineLevel(lines[next]);
        if (level > 0 || interrupts(lines, next, depth)) break;
    }
    const text = lines
        .slice(i, next)
        .map((line) => line.trimStart())
        .join('\n')
        .trimEnd();
    if (level > 0) return [{ type: 'heading', level, inline: inline(text) }, next + 1];
    return [{ type: 'paragraph', inline: inline(text) }, next];
}

/* Three marks at least: one would make a heading of every paragraph whose list just begins. */
function underlineLevel(line) {
    return /^ {0,3}={3,}[ \t]*$/.test(line) ? 1 : /^ {0,3}-{3,}[ \t]*$/.test(line) ? 2 : 0;
}

/* What begins a block though a paragraph's line stands right before it. */
function interrupts(lines, i, depth) {
    const line = lines[i];
    if (FENCE.test(line) || /^ {0,3}#{1,6}(?:[ \t]|$)/.test(line) || isRule(line)) return true;
    if (depth >= MAX_DEPTH) return false;
    const item = itemOf(line);
    return (
        /^ {0,3}>/.test(line) ||
        beginsTable(lines, i) ||
        (item !== null && item.rest !== '' && (!item.ordered || item.number === 1))
    );
}

/* --- Quotes and lists --- */

const QUOTED = /^ {0,3}> ?/;

function readQuote(lines, i, depth) {
    if (depth >= MAX_DEPTH || !QUOTED.test(lines[i])) return null;
    const inner = [];
    let next = i;
    for (; next < lines.length; next++) {
        const line = lines[next];
        if (QUOTED.test(line)) inner.push(line.replace(QUOTED, ''));
        else if (!isBlank(line) && !isBlank(inner.at(-1)) && !interrupts(lines, next, depth))
            inner.push(line); /* a lazy line goes on with the paragraph */
        else break;
    }
    return [{ type: 'quote', blocks: parseLines(inner, depth + 1) }, next];
}

/** An item's marker: what kind, and where its text begins. */
function itemOf(line) {
    const found = /^( {0,3})(?:([-*+])|(\d{1,9})([.)]))(?:([ \t]+)([^]*))?$/.exec(line);
    if (!found) return null;
    const [, indent, bullet, number, dot, gap = '', rest = ''] = found;
    const marker = indent.length + (bullet ? 1 : number.length + 1);
    const deep = gap.length > 4 || rest === ''; /* then code, or nothing, follows the marker */
    return {
        kind: bullet ?? dot,
        ordered: !bullet,
        number: Number(number ?? 0),
        indent: marker + (deep ? 1 : gap.length),
        rest: deep && rest ? gap.slice(1) + rest : rest,
    };
}

function readList(lines, i, depth) {
    const first = itemOf(lines[i]);
    if (!first || depth >= MAX_DEPTH) return null;
    const items = [];
    let next = i,
        loose = false;
    for (let item = first; item && item.kind === first.kind;) {
        const [inner, end, blankBehind] = itemLines(lines, next, item, depth);
        items.push(makeItem(inner, depth));
        loose ||= hasBlankBetween(inner);
        next = end + blankBehind;
        item = next < lines.length && !isRule(lines[next]) ? itemOf(lines[next]) : null;
        if (item && item.kind === first.kind) loose ||= blankBehind > 0;
        else next = end;
    }
    return [
        { type: 'list', ordered: first.ordered, first: first.number, tight: !loose, items },
        next,
    ];
}

/* The lines of one item without their indent, the line behind them, and how many blanks follow. */
function itemLines(lines, i, item, depth) {
    const inner = [item.rest];
    let next = i + 1,
        blanks = 0;
    for (; next < lines.length; next++) {
        const line = lines[next];
        if (isBlank(line)) {
            blanks++;
            continue;
        }
        const belongs = indentOf(line) >= item.indent;
        const lazy =
            blanks === 0 &&
            !itemOf(line) &&
            !isBlank(inner.at(-1)) &&
            !interrupts(lines, next, depth);
        if (!belongs && !lazy) break;
        for (; blanks > 0; blanks--) inner.push('');
        inner.push(belongs ? unindent(line.replace(/^ *\t/, '    '), item.indent) : line);
    }
    return [inner, next - blanks, blanks];
}

function indentOf(line) {
    const spaces = /^ */.exec(line)[0].length;
    return line[spaces] === '\t' ? Math.max(4, spaces) : spaces;
}

function makeItem(inner, depth) {
    const task = /^\[([ xX])\][ \t]+/.exec(inner[0]);
    const src = inner.join('\n');
    if (task) inner[0] = inner[0].slice(task[0].length);
    return {
        src,
        task: task && task[1] !== ' ' ? 'done' : task ? 'open' : '',
        blocks: parseLines(inner, depth + 1),
    };
}

/* Blank lines inside a fence do not loosen a list. */
function hasBlankBetween(inner) {
    let fenced = false;
    return inner.some((line, i) => {
        if (FENCE.test(line)) fenced = !fenced;
        return (
            !fenced &&
            isBlank(line) &&
            i > 0 &&
            i + 1 < inner.length &&
            indentOf(inner[i + 1]) === 0 &&
            !itemOf(inner[i + 1])
        );
    });
}

/* --- Tables (GFM) --- */

/** Cells of a line; a bar behind a backslash is text. */
function cells(line) {
    const list = [];
    let from = 0;
    const row = line.trim().replace(/^\|/, '');
    const put = (end) => list.push(row.slice(from, end).trim().replaceAll('\\|', '|'));
    for (let i = 0; i < row.length; i++) {
        if (row[i] === '\\') {
            i++;
        } else if (row[i] === '|') {
            put(i);
            from = i + 1;
        }
    }
    put(row.length);
    if (list.length > 1 && list.at(-1) === '') list.pop();
    return list;
}

function alignmentsOf(line) {
    if (line === undefined || !/^[ \t]*[|:-][ \t|:-]*$/.test(line) || !line.includes('-'))
        return null;
    const marks = cells(line);
    if (marks.length > MAX_COLUMNS || !marks.every((m) => /^:?-+:?$/.test(m))) return null;
    return marks.map((m) => {
        const left = m.startsWith(':'),
            right = m.endsWith(':');
        return left && right ? 'center' : right ? 'right' : '';
    });
}

function beginsTable(lines, i) {
    if (!lines[i].includes('|')) return false;
    const align = alignmentsOf(lines[i + 1]);
    return align !== null && cells(lines[i]).length === align.length;
}

function readTable(lines, i, depth) {
    if (!beginsTable(lines, i)) return null;
    const align = alignmentsOf(lines[i + 1]);
    const rows = [];
    let next = i + 2;
    for (
        ;
        next < lines.length &&
        !isBlank(lines[next]) &&
        lines[next].includes('|') &&
        !FENCE.test(lines[next]) &&
        !(depth < MAX_DEPTH && QUOTED.test(lines[next]));
        next++
    )
        rows.push(fitted(cells(lines[next]), align.length).map(inline));
    return [{ type: 'table', align, head: cells(lines[i]).map(inline), rows }, next];
}

function fitted(row, n) {
    return Array.from({ length: n }, (_, i) => row[i] ?? '');
}
