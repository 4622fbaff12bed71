// What the page computes without a document: `node --test tests/page/units/*`.

import assert from 'node:assert/strict';
import test from 'node:test';

const page = new URL('../../../src/web/page/', import.meta.url);
globalThis.crypto ??= (await import('node:crypto')).webcrypto; // node 18
globalThis.document = { addEventListener() {}, hidden: false };
const { SseParser } = await import(new URL('sse.js', page));
const { parseMarkdown } = await import(new URL('markdown.js', page));
const { inline, safeHref } = await import(new URL('inline.js', page));
const { facts, places, roundTogether, splitOf } = await import(new URL('waterfall.js', page));
const { addMessage, newConversation, path, requestMessages, select, siblings, titleOf }
    = await import(new URL('conversation.js', page));
const { backoff } = await import(new URL('live.js', page));
const { History } = await import(new URL('history.js', page));
const { commonAxis, firstTokenMs, segmentsOf, ticks } = await import(new URL('timeline.js', page));
const { troubleOf } = await import(new URL('trouble.js', page));
const { duration, short } = await import(new URL('format.js', page));

test('a stream cut anywhere gives the same events', () => {
    const stream = ': hi\r\n\r\ndata: {"a":1}\r\n\r\nevent: stats\ndata: x\ndata:y\n\nid: 3\rdata: z\r\r\n';
    const whole = [{ event: 'message', data: '{"a":1}' }, { event: 'stats', data: 'x\ny' },
        { event: 'message', data: 'z' }];
    for (let size = 1; size <= stream.length; size++) {
        const parser = new SseParser();
        const events = [];
        for (let at = 0; at < stream.length; at += size)
            events.push(...parser.push(stream.slice(at, at + size)));
        assert.deepEqual(events, whole, `pieces of ${size}`);
    }
});

test('an event of a megabyte in small pieces takes no quadratic time', () => {
    const parser = new SseParser();
    const begin = performance.now();
    for (let i = 0; i < 16384; i++)
        parser.push(`${i === 0 ? 'data: ' : ''}${'x'.repeat(64)}`);
    assert.equal(parser.push('\n\n')[0].data.length, 1 << 20);
    assert.ok(performance.now() - begin < 5000);
});

const shown = (tokens) => tokens.map((t) => ({ text: t.s, code: `{${t.s}}`, br: '/', close: '<' }[t.t]
    ?? `>${t.tag}${t.href ? `=${t.href}` : ''}>`)).join('');

test('inline markdown', () => {
    const cases = {
        '*a* **b** ***c***': '>em>a< >strong>b< >em>>strong>c<<',
        'snake_case_name 2*3*4': 'snake_case_name 2>em>3<4',
        '*foo**bar* **foo*bar**': '>em>foo**bar< >strong>foo*bar<',
        '`a` ``b`c`` `open': '{a} {b`c} `open',
        '~~gone~~ ~not~': '>del>gone< ~not~',
        '\\*not\\* &amp;&lt;&#65;': '*not* &<A',
        '[t](https://e.org/a(b) "T")': '>a=https://e.org/a(b)>t<',
        '[*t](https://e.org) u*': '>a=https://e.org/>*t< u*',
        'see https://e.org/a_b_(c).': 'see >a=https://e.org/a_b_(c)>https://e.org/a_b_(c)<.',
        'a  \nb\\\nc': 'a/b/c',
        '[x](javascript:alert(1)) <b>': '[x](javascript:alert(1)) <b>',
        '** not strong ** _ nor _': '** not strong ** _ nor _',
    };
    for (const [text, expected] of Object.entries(cases))
        assert.equal(shown(inline(text)), expected, text);
});

test('only whole addresses of three schemes are links', () => {
    for (const bad of ['javascript:x', ' javascript:x', 'java\tscript:x', 'data:text/html,x', '//e.org', '/x',
        'file:///etc', 'blob:x', 'vbscript:x', '', 'https://'])
        assert.equal(safeHref(bad), null, bad);
    assert.equal(safeHref('HTTPS://e.org'), 'https://e.org/');
    assert.equal(safeHref('mailto:a@b.c'), 'mailto:a@b.c');
});

const outline = (blocks) => blocks.map((b) => b.type
    + (b.blocks ? `(${outline(b.blocks)})` : '')
    + (b.items ? `(${b.items.map((i) => outline(i.blocks)).join('|')})` : '')).join(' ');

test('blocks of markdown', () => {
    const cases = {
        '# a\nb\n\nc': 'heading paragraph paragraph',
        'a\n- b\n- c\n  - d\n\n  e\n1. f': 'paragraph list(paragraph|paragraph list(paragraph) paragraph) list(paragraph)',
        '> a\nb\n\nc': 'quote(paragraph) paragraph',
        '```\n# no\n```\nx': 'code paragraph',
        '```\nopen': 'code',
        '|a|b|\n|-|-|\n|1|2|\nx': 'table paragraph',
        'a\n---\n---': 'heading rule',
        '    code\n\n    more\ntext': 'code paragraph',
        '- ```\n  x\n  ```\n- y': 'list(code|paragraph)',
    };
    for (const [text, expected] of Object.entries(cases))
        assert.equal(outline(parseMarkdown(text)), expected, text);
});

test('time grows with length, whatever the text', () => {
    const kinds = ['*a ', '**a', '[', '[a](', '<', '_a', '>', '- ', '|', '`', '``a`', '\\', '&#1', 'http://', ':',
        '[a](<b', '![a](http://x "t', '*a_b`c[d]~~e', ' ', '# ', '> - 1. ', '~~~ ', '|-', '*[a](http://x.y) '];
    for (const kind of kinds) {
        const text = kind.repeat(Math.ceil(60000 / kind.length));
        const begin = performance.now();
        parseMarkdown(text);
        parseMarkdown(`${text}\n`.repeat(2));
        parseMarkdown([...text].slice(0, 20000).join('\n'));
        assert.ok(performance.now() - begin < 5000, `${kind} took ${performance.now() - begin} ms`);
    }
});

test('parts add up to the total, as shown too', () => {
    const ttft = { receive_ms: 0.123, tokenize_ms: 0.104, submit_ms: 0.008, queue_ms: 0.088, cache_ms: 0.001,
        prefill_ms: 57.321, first_write_ms: 6.311, total_ms: 63.956 };
    for (const client of [undefined, 0, 64, 71.35, 70000]) {
        const split = splitOf(ttft, client);
        const sum = split.parts.reduce((s, p) => s + parseFloat(p.shown), 0);
        assert.equal(sum.toFixed(3), parseFloat(split.shown).toFixed(3));
        assert.ok(Math.abs(split.total - Math.max(client ?? 0, 63.956)) < 1e-9);
        const places_ = places(split);
        assert.ok(Math.abs(places_.at(-1).left + places_.at(-1).width - 100) < 1e-9);
    }
    assert.deepEqual(roundTogether([0.4, 0.4, 0.4], 0), [1, 0, 0]);
    assert.equal(splitOf({}, 0).shown, '0.00 ms');
    assert.equal(splitOf(ttft, 29493.4).shown, '29.49 s');
    const keys = (t) => splitOf(t).parts.map((p) => p.key);
    assert.deepEqual(keys({ ...ttft, decode_ms: 0 }), keys(ttft), 'a stream has no such row');
    assert.deepEqual(keys({ ...ttft, decode_ms: 5 }).slice(-3), ['prefill', 'decode', 'first_write']);
});

test('the facts of an answer', () => {
    assert.deepEqual(facts({ usage: { prompt_tokens: 40, completion_tokens: 12,
        prompt_tokens_details: { cached_tokens: 8 } }, metrics: { tokens_per_second: 70.46 },
    waited: { words: 'waited 3 ms' }, cache: 'hit' }),
    ['70.5 tokens/s', '12 tokens', '8 of 40 prompt tokens cached', 'waited 3 ms']);
    assert.deepEqual(facts({}), []);
});

test('a conversation is a tree with one path shown', () => {
    const c = newConversation(0);
    const a = addMessage(c, null, 'user', 'a', 1);
    const b = addMessage(c, a.id, 'assistant', 'b', 2);
    const d = addMessage(c, b.id, 'user', 'd', 3);
    const e = addMessage(c, a.id, 'assistant', 'e', 4);
    assert.deepEqual(path(c).map((m) => m.text), ['a', 'e']);
    assert.deepEqual(siblings(c, e).map((m) => m.text), ['b', 'e']);
    select(c, b.id);
    assert.deepEqual(path(c).map((m) => m.text), ['a', 'b', 'd']);
    c.system = 's';
    assert.deepEqual(requestMessages(c, d).map((m) => m.content), ['s', 'a', 'b', 'd']);
    assert.equal(c.title, 'a');
    assert.equal(titleOf(`# ${'word '.repeat(30)}`).length <= 61, true);
});

test('tries become rarer, with some chance in it', () => {
    assert.equal(backoff(1, 1), 500);
    assert.equal(backoff(3, 0), 1000);
    assert.equal(backoff(50, 1), 15000);
});

const stats = (now, hits, refused) => ({ now_ms: now, ttft: { count: 1, p50_ms: 1 }, parts: {}, itl: { count: 0 },
    gap: {}, kv: { total: 10, free: 5, cached: 2 }, prefix: { queries: 2 * hits, hits }, refused: { 429: refused } });

test('history: differences, gaps, and what is too old', () => {
    const history = new History();
    history.add(stats(1000, 1, 0));
    history.add(stats(1000, 1, 0));
    history.add(stats(2000, 5, 3));
    assert.equal(history.last.hitRate, 50);
    assert.equal(history.last.refused['429'], 3);
    history.add(stats(60000, 9, 3));
    assert.equal(history.last.refused, null, 'nothing is known of the time between');
    assert.deepEqual(history.series(1e6, (s) => s.ttft?.p50).map((p) => p.y), [1, 1, null, 1]);
    history.add(stats(60000 + 16 * 60000, 9, 3));
    assert.equal(history.age, 0);
});

test('timelines', () => {
    const entry = { created: 2, timeline: { received_ms: 0, parsed_ms: 1, tokenized_ms: 2, queued_ms: 3,
        admitted_ms: null, finished_ms: 9 } };
    assert.deepEqual(segmentsOf(entry).at(-1), { key: 'queue', from: 3, to: 9 });
    const times = { ...entry.timeline, admitted_ms: 4, prefill_started_ms: 5, first_token_ms: 6, decoded_ms: null,
        first_content_ms: 7 };
    const from = (e, n) => segmentsOf(e).slice(n).map((s) => [s.key, s.from, s.to]);
    assert.deepEqual(from({ stream: true, timeline: times }, 6), [['first_write', 6, 7], ['decode', 7, 9]]);
    const whole = { stream: false, timeline: { ...times, decoded_ms: 9, first_content_ms: 10 } };
    assert.deepEqual(from(whole, 6), [['decode', 6, 9], ['first_write', 9, 10]]);
    assert.deepEqual(from({ stream: false, timeline: { ...times, first_content_ms: null } }, 6), [['decode', 6, 9]]);
    assert.equal(commonAxis([{ ...whole, created: 2 }], 'first').length, 6);
    assert.equal(firstTokenMs({ ...whole, ttft: { total_ms: 10 } }), 6, 'not the whole answer');
    assert.equal(firstTokenMs({ ...whole, stream: true, ttft: { total_ms: 7 } }), 7);
    assert.equal(firstTokenMs(entry), null);
    const later = { ...entry, created: 3 };
    const axis = commonAxis([entry, later], 'clock');
    assert.deepEqual([axis.begins, axis.length], [[0, 1000], 1009]);
    assert.deepEqual(ticks(90), [0, 25, 50, 75]);
    assert.deepEqual(ticks(40), [0, 10, 20, 30]);
    assert.equal(commonAxis([], 'first').length > 0, true);
});

test('what went wrong, in words', () => {
    const full = troubleOf({ status: 429, message: 'm', retryMs: 2500 }, false);
    assert.equal(`${full.what} ${full.todo}`, 'The server is full. It says to come back in 3 s.');
    assert.match(troubleOf({ status: 0, lost: true }, true).todo, /^What had come is kept/);
    assert.match(troubleOf({ status: 400, code: 'context_length_exceeded', message: '' }, false).what, /longer/);
});

test('numbers', () => {
    assert.deepEqual([0.421, 3.72, 128.4, 1240].map(short), ['0.42', '3.7', '128', '1,240']);
    assert.deepEqual([0.5, 64, 1240, 125000].map(duration), ['0.50 ms', '64 ms', '1.24 s', '2 min 5 s']);
});
