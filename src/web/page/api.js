/** Asking the server: the key, errors in words, and the stream of an answer. */

import { sseEvents } from './sse.js';

/* --- The key --- */

const KEY = 'firstlight.key';
let keyOfThisPage = ''; /* where nothing can be stored */

/** The API key, or ''. */
export function key() {
    return (
        kept(() => sessionStorage.getItem(KEY)) ||
        kept(() => localStorage.getItem(KEY)) ||
        keyOfThisPage
    );
}

/** Keeps it until the tab is closed, or in this browser if `remember`. '' forgets it. */
export function setKey(value, remember) {
    keyOfThisPage = value;
    kept(() => sessionStorage.removeItem(KEY));
    kept(() => localStorage.removeItem(KEY));
    if (value) kept(() => (remember ? localStorage : sessionStorage).setItem(KEY, value));
}

function kept(action) {
    try {
        return action();
    } catch {
        return '';
    }
}

/* --- Errors --- */

/** What went wrong, as the server or the browser has it. */
export class ApiError extends Error {
    /**
     * @param {number} status HTTP's; 0: there was no answer
     * @param {string} message
     * @param {{type?: string, param?: string, code?: string, retryMs?: number}} [more]
     */
    constructor(status, message, more = {}) {
        super(message);
        Object.assign(this, { status, ...more });
    }
}

/** Reads the error of a response: {"error": {...}}, or whatever else it is. */
async function errorOf(response) {
    const body = await response.text().catch(() => '');
    let error = {};
    try {
        error = JSON.parse(body).error ?? {};
    } catch {
        /* a proxy's page, say */
    }
    return new ApiError(
        response.status,
        error.message ?? `the server answered ${response.status}`,
        { type: error.type, param: error.param, code: error.code, retryMs: retryMs(response) },
    );
}

/** Retry-After in milliseconds (the finer header first); undefined: none. */
function retryMs(response) {
    const fine = Number(response.headers.get('Retry-After-Ms') ?? NaN);
    const seconds = Number(response.headers.get('Retry-After') ?? NaN);
    return fine >= 0 ? fine : seconds >= 0 ? seconds * 1000 : undefined;
}

/* --- Requests --- */

/**
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<Response>} one with a status of 2xx
 * @throws {ApiError} and AbortError
 */
export async function request(path, options = {}) {
    const headers = new Headers(options.headers);
    if (key()) headers.set('Authorization', `Bearer ${key()}`);
    const response = await fetch(path, {
        cache: 'no-store',
        credentials: 'omit',
        ...options,
        headers,
    }).catch((error) => {
        throw error.name === 'AbortError' ? error : new ApiError(0, 'no answer');
    });
    if (!response.ok) throw await errorOf(response);
    return response;
}

/** @returns {Promise<string>} the model's name */
export async function modelName() {
    const list = await (await request('/v1/models')).json();
    return list.data[0]?.id ?? '';
}

/** @returns {Promise<string>} "loading", "ok", "draining", "failed"; "unreachable" */
export async function serverState() {
    try {
        return (await (await request('/health')).json()).status;
    } catch (error) {
        return error.status === 503 ? 'failed' : 'unreachable';
    }
}

/**
 * @typedef {object} Answer
 * @property {string} finish why it ended
 * @property {number} client_ms from sending to the first content
 * @property {object} [usage] and ttft, timings, metrics, waited, cache: as the server has them
 */

/**
 * Asks and reads the answer.
 * @param {object} body of /v1/chat/completions, without `stream`
 * @param {{signal: AbortSignal, requestId: string, onAccepted: () => void,
 *          onText: (text: string) => void}} how
 * @returns {Promise<Answer>}
 * @throws {ApiError} with `lost` when the connection broke off in the middle; AbortError
 */
export async function ask(body, { signal, requestId, onAccepted, onText }) {
    const sent = performance.now();
    const response = await request('/v1/chat/completions', {
        method: 'POST',
        signal,
        headers: { 'Content-Type': 'application/json', 'X-Request-Id': requestId },
        body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    });
    onAccepted();
    const answer = { finish: '' };
    for await (const { data } of eventsOrLost(response.body)) {
        if (data === '[DONE]') return answer;
        takeChunk(JSON.parse(data), answer, sent, onText);
    }
    throw lost();
}

function lost() {
    return new ApiError(0, 'the connection was lost', { lost: true });
}

async function* eventsOrLost(body) {
    try {
        yield* sseEvents(body);
    } catch (error) {
        throw error.name === 'AbortError' ? error : lost();
    }
}

/* An error inside a stream has no status of its own. */
const STATUS_OF = { timeout_error: 408, rate_limit_error: 429, service_unavailable_error: 503 };

const MEASURED = ['usage', 'ttft', 'timings', 'metrics', 'waited', 'cache'];

function takeChunk(chunk, answer, sent, onText) {
    if (chunk.error)
        throw new ApiError(STATUS_OF[chunk.error.type] ?? 500, chunk.error.message, chunk.error);
    const choice = chunk.choices?.[0];
    if (choice?.delta?.content) {
        answer.client_ms ??= performance.now() - sent;
        onText(choice.delta.content);
    }
    if (choice?.finish_reason) answer.finish = choice.finish_reason;
    for (const name of MEASURED) if (chunk[name]) answer[name] = chunk[name];
}
