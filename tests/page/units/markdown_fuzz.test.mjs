// A short run of the fuzzer of the page's markdown, and what it found.

import assert from 'node:assert/strict';
import test from 'node:test';

import { Random, check, checkTime, fuzz, shown } from '../markdown_fuzz.mjs';

test('random and mutated texts are shown as text alone', () => {
    for (const seed of [1, 2, 3]) assert.equal(fuzz(seed, (n) => n < 150), 150);
});

test('what the fuzzer found stays repaired', () => {
    const texts = [
        'a\n\n- \u05d0\n- b', // a list is as long as it grows from right to left when its first letter says so
    ];
    for (const text of texts) {
        check(text, new Random(1));
        assert.equal(shown([...text]), shown([text]), text);
    }
    for (const part of ['a:', 'xhttp://']) checkTime(part);
});

test('the fuzzer finds what it looks for', () => {
    const { createTextNode } = document;
    try {
        document.createTextNode = (s) => Object.assign(document.createElement('p'), { innerHTML: s });
        assert.throws(() => check('a', new Random(1)), /markup by innerHTML/);
        document.createTextNode = (s) => document.createElement(s);
        assert.throws(() => check('script', new Random(1)), /a <script>/);
    } finally {
        document.createTextNode = createTextNode;
    }
});
