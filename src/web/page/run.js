/** One answer on its way: asks, collects, keeps. Knows nothing of how it is shown. */

import { ApiError, ask } from './api.js';
import { newId } from './conversation.js';
import { live } from './live.js';
import { troubleOf } from './trouble.js';

const SAVE_EVERY_MS = 2000; /* so that a reload in the middle keeps what had come */
const WAIT_WORTH_MS = 400; /* a shorter wait is not worth a second stream */

/**
 * Events: `text` (it grew), `state` (see below), `end`.
 *
 *   sending    no headers yet
 *   waiting    accepted; its turn has not come, or its prompt is being computed
 *   answering  text comes
 *   ended
 */
export class Run extends EventTarget {
    state = 'sending';
    /** While waiting: how many are before it, once the server has said so; null: it is its turn. */
    ahead = undefined;
    started = performance.now();
    #control = new AbortController();
    #requestId = newId();
    #saved = -Infinity;
    #stopWatching = null;

    /**
     * @param {import('./conversation.js').Message} message the answer, as empty as it begins
     * @param {(final: boolean) => Promise<void>} save
     */
    constructor(message, save) {
        super();
        this.message = message;
        this.save = save;
    }

    /** Ends it; what came is kept. */
    stop() {
        this.#control.abort();
    }

    /** @param {object} body the request, but for what concerns the stream */
    async start(body) {
        const watch = setTimeout(() => this.#watchQueue(), WAIT_WORTH_MS);
        try {
            const answer = await ask(body, {
                signal: this.#control.signal,
                requestId: this.#requestId,
                onAccepted: () => this.#set('waiting'),
                onText: (text) => this.#take(text),
            });
            const { finish, ...meta } = answer;
            Object.assign(this.message, { finish, meta });
        } catch (error) {
            this.#failed(error);
        }
        clearTimeout(watch);
        this.#endWatch();
        this.#set('ended');
        this.dispatchEvent(new Event('end'));
        this.save(true);
    }

    #take(text) {
        this.message.text += text;
        if (this.state !== 'answering') {
            this.#endWatch();
            this.#set('answering');
        }
        this.dispatchEvent(new Event('text'));
        if (performance.now() - this.#saved > SAVE_EVERY_MS) {
            this.#saved = performance.now();
            this.save(false);
        }
    }

    #failed(error) {
        if (error.name === 'AbortError') this.message.finish = 'stopped';
        else if (error instanceof ApiError)
            this.message.trouble = {
                ...troubleOf(error, this.message.text !== ''),
                at: Date.now(),
            };
        else
            this.message.trouble = {
                what: 'This page failed.',
                todo: 'Reload it and try again.',
                detail: String(error),
            };
    }

    #set(state) {
        this.state = state;
        this.dispatchEvent(new Event('state'));
    }

    /* --- The queue --- */

    #watchQueue() {
        if (this.state === 'answering' || this.state === 'ended') return;
        this.#stopWatching = live.listen({
            onEvent: (name, data) => name === 'waiting' && this.#takeQueue(data.requests),
        });
    }

    #takeQueue(requests) {
        const mine = requests.find((r) => r.request_id === this.#requestId);
        this.ahead = mine ? mine.ahead : null;
        this.dispatchEvent(new Event('state'));
    }

    #endWatch() {
        this.#stopWatching?.();
        this.#stopWatching = null;
    }
}

/** What is shown until the first words come. */
export function waitWords(run) {
    if (run.state === 'sending') return 'Sending';
    if (run.ahead === undefined || run.ahead === null)
        return run.ahead === null ? 'Reading the prompt' : 'Waiting for the first token';
    return run.ahead === 0
        ? 'Waiting: next in line'
        : `Waiting behind ${run.ahead} ${run.ahead === 1 ? 'request' : 'requests'}`;
}
