/**
 * /v1/debug/stream: open while somebody on a visible page listens, and only then, so that a page
 * left open costs the server nothing. fetch, not EventSource, which cannot send the key.
 */

import { ApiError, request } from './api.js';
import { sseEvents } from './sse.js';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15000;
const SILENT_MS = 5000; /* stats come every second: a stream silent for so long is broken */

/**
 * Pause before the nth try in a row, somewhat random so that not all pages come back at once.
 * @param {number} failures from 1
 * @param {number} random 0 to 1
 */
export function backoff(failures, random) {
    const most = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
    return most * (0.5 + random / 2);
}

/**
 * @typedef {{state: 'off'|'connecting'|'live'|'waiting'|'refused', since: number, retryAt: number,
 *            lastEvent: number, error: ApiError|null}} LiveState
 * @typedef {{onEvent?: (name: string, data: object) => void,
 *            onState?: (s: LiveState) => void}} Listener
 */
export class Live {
    /** @type {Set<Listener>} */
    #listeners = new Set();
    #control = null;
    #timer = 0;
    #failures = 0;
    /** @type {LiveState} */
    status = { state: 'off', since: 0, retryAt: 0, lastEvent: 0, error: null };

    constructor() {
        document.addEventListener('visibilitychange', () => this.#review());
    }

    /**
     * @param {Listener} listener
     * @param {boolean} [fromStart] it needs the events that only the start of a stream has
     * @returns {() => void} which ends it
     */
    listen(listener, fromStart = false) {
        this.#listeners.add(listener);
        if (fromStart && this.#control) this.#close();
        this.#review();
        return () => {
            this.#listeners.delete(listener);
            this.#review();
        };
    }

    /** Tries now instead of after the pause. */
    retry() {
        this.#failures = 0;
        clearTimeout(this.#timer);
        this.#timer = 0;
        this.#review();
    }

    #review() {
        const wanted = this.#listeners.size > 0 && !document.hidden;
        if (!wanted) this.#close();
        else if (!this.#control && !this.#timer) this.#read();
    }

    #close() {
        this.#control?.abort();
        this.#control = null;
        clearTimeout(this.#timer);
        this.#timer = 0;
        this.#set({ state: 'off', error: null });
    }

    async #read() {
        const control = (this.#control = new AbortController());
        this.#set({ state: 'connecting' });
        let error = null;
        let watch = 0;
        try {
            const response = await request('/v1/debug/stream', { signal: control.signal });
            watch = setInterval(() => this.#abortIfSilent(control), 1000);
            for await (const event of sseEvents(response.body)) this.#take(control, event);
        } catch (e) {
            error = e;
        }
        clearInterval(watch);
        if (this.#control === control) this.#pause(error);
    }

    #take(control, { event, data }) {
        if (this.#control !== control) return;
        this.#failures = 0;
        this.#set({ state: 'live', error: null, lastEvent: Date.now() });
        const value = JSON.parse(data);
        this.#tell((listener) => listener.onEvent?.(event, value));
    }

    /* A listener that fails is a fault of the page, not of the stream. */
    #tell(say) {
        for (const listener of [...this.#listeners]) {
            try {
                say(listener);
            } catch (error) {
                reportError(error);
            }
        }
    }

    #abortIfSilent(control) {
        if (this.status.state === 'live' && Date.now() - this.status.lastEvent > SILENT_MS)
            control.abort();
    }

    /* A key or a path that is refused will not get better by itself. */
    #pause(error) {
        this.#control = null;
        if (error instanceof ApiError && [401, 404, 405].includes(error.status)) {
            this.#set({ state: 'refused', error });
            return;
        }
        const pause = backoff(++this.#failures, Math.random());
        this.#set({ state: 'waiting', error, retryAt: Date.now() + pause });
        this.#timer = setTimeout(() => {
            this.#timer = 0;
            this.#review();
        }, pause);
    }

    #set(change) {
        const before = this.status.state;
        Object.assign(this.status, change);
        if (before !== this.status.state) this.status.since = Date.now();
        this.#tell((listener) => listener.onState?.(this.status));
    }
}

export const live = new Live();

/** The first `server` event: what the model and its sampling defaults are. null: not to be had. */
export function serverFacts(timeoutMs = 4000) {
    return new Promise((resolve) => {
        const end = (value) => {
            clearTimeout(timer);
            stop();
            resolve(value);
        };
        const timer = setTimeout(() => end(null), timeoutMs);
        const stop = live.listen(
            {
                onEvent: (name, data) => name === 'server' && end(data),
                onState: (s) => s.state === 'refused' && queueMicrotask(() => end(null)),
            },
            true,
        );
    });
}
