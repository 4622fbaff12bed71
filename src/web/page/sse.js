/** Server-sent events (WHATWG HTML, 9.2.6) out of a body that is read as it comes. Pure. */

/**
 * @typedef {{event: string, data: string}} SseEvent
 */

export class SseParser {
    #rest = []; /* pieces of the line that has not ended: joined once, when its end comes */
    #cr = false; /* the last line ended with a CR: a LF that follows belongs to it */
    #event = '';
    #data = [];

    /**
     * @param {string} text
     * @returns {SseEvent[]} those that it completes
     */
    push(text) {
        const events = [];
        let from = this.#cr && text.startsWith('\n') ? 1 : 0;
        if (text !== '') this.#cr = false;
        const ends = /\r\n|\n|\r/g;
        ends.lastIndex = from;
        for (let end; (end = ends.exec(text)); from = ends.lastIndex) {
            this.#rest.push(text.slice(from, end.index));
            this.#line(this.#rest.join(''), events);
            this.#rest = [];
            this.#cr = end[0] === '\r' && ends.lastIndex === text.length;
        }
        if (from < text.length) this.#rest.push(text.slice(from));
        return events;
    }

    #line(line, events) {
        if (line === '') return this.#dispatch(events);
        const colon = line.indexOf(':');
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1));
        if (field === 'data') this.#data.push(value);
        else if (field === 'event') this.#event = value;
    }

    #dispatch(events) {
        if (this.#data.length > 0)
            events.push({ event: this.#event || 'message', data: this.#data.join('\n') });
        this.#event = '';
        this.#data = [];
    }
}

/**
 * The events of a response, until its body ends. Leaving the loop cancels the body.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<SseEvent>}
 */
export async function* sseEvents(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = new SseParser();
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) return;
            yield* parser.push(decoder.decode(value, { stream: true }));
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}
