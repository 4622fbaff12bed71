/** Errors as a person wants them: what happened, and what to do. Pure. */

/**
 * @typedef {{what: string, todo: string, detail: string, retryMs?: number,
 *            needsKey?: boolean}} Trouble
 *   detail: the server's own words, where they say more
 */

const BY_STATUS = {
    401: () => ({
        what: 'The server wants an API key.',
        todo: 'Enter one and send again.',
        needsKey: true,
    }),
    404: () => ({
        what: 'The server has no such model.',
        todo: 'Reload the page: it may have another.',
    }),
    408: () => ({
        what: 'The time for this answer was up.',
        todo: 'Ask for less, or again when less is going on.',
    }),
    413: () => ({
        what: 'The conversation is too large to send.',
        todo: 'Begin a new one, or shorten a message.',
    }),
    429: (e) => ({ what: 'The server is full.', todo: later(e) }),
    503: (e) => ({ what: 'The server takes no requests at the moment.', todo: later(e) }),
};

/**
 * @param {{status: number, message: string, lost?: boolean, code?: string, retryMs?: number}} error
 * @param {boolean} hasText something of the answer had come
 * @returns {Trouble}
 */
export function troubleOf(error, hasText) {
    const trouble = { detail: error.message, retryMs: error.retryMs, ...words(error, hasText) };
    if (hasText) trouble.todo = `What had come is kept. ${trouble.todo}`;
    return trouble;
}

function words(error, hasText) {
    if (error.status === 0) return connection(error, hasText);
    if (error.code === 'context_length_exceeded')
        return {
            what: 'The conversation is longer than the model can read.',
            todo: 'Begin a new one, or shorten a message.',
        };
    if (BY_STATUS[error.status]) return BY_STATUS[error.status](error);
    if (error.status >= 500)
        return { what: 'The server failed.', todo: 'Try again; its log says more.' };
    return {
        what: 'The server did not take the request.',
        todo: 'Change what it names and try again.',
    };
}

function connection(error, hasText) {
    const what =
        error.lost && hasText
            ? 'The connection was lost in the middle of the answer.'
            : error.lost
              ? 'The connection was lost before the answer began.'
              : 'The server cannot be reached.';
    return { what, todo: 'See whether it still runs, then try again.', detail: '' };
}

function later(error) {
    return error.retryMs === undefined
        ? 'Try again in a while.'
        : `It says to come back in ${Math.max(1, Math.ceil(error.retryMs / 1000))} s.`;
}

/** Why an answer ended early, if it did. */
export function endWords(finish) {
    if (finish === 'length') return 'Ended at the limit of tokens (max tokens, or the context).';
    if (finish === 'stopped') return 'Stopped here.';
    return '';
}
