/**
 * Conversations in this browser: IndexedDB, one record each. Nothing leaves the browser. Where
 * there is no IndexedDB (some private windows) they last as long as the page.
 */

const NAME = 'firstlight';
const STORE = 'conversations';

function promised(request) {
    return new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
    });
}

function open() {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: 'id' });
    return promised(request);
}

export class Store {
    #db = null;
    #others = 'BroadcastChannel' in globalThis ? new BroadcastChannel(NAME) : null;

    /** @returns {Promise<boolean>} false: nothing can be kept */
    async open() {
        try {
            this.#db = await open();
            return true;
        } catch {
            return false;
        }
    }

    /** Calls back when another tab changed a conversation. */
    onOthers(changed) {
        this.#others?.addEventListener('message', (event) => changed(event.data));
    }

    /** @returns {Promise<object[]>} */
    async all() {
        return this.#db ? promised(this.#transaction('readonly').getAll()) : [];
    }

    /** @returns {Promise<object|undefined>} */
    async get(id) {
        return this.#db ? promised(this.#transaction('readonly').get(id)) : undefined;
    }

    async put(conversation) {
        await this.#change(conversation.id, (store) => store.put(conversation));
    }

    async remove(id) {
        await this.#change(id, (store) => store.delete(id));
    }

    /* It is kept only once the transaction has completed: that is where a full disk shows. */
    async #change(id, action) {
        if (!this.#db) return;
        const store = this.#transaction('readwrite');
        const done = new Promise((resolve, reject) => {
            store.transaction.oncomplete = resolve;
            store.transaction.onabort = () => reject(store.transaction.error);
            store.transaction.onerror = () => reject(store.transaction.error);
        });
        done.catch(() => {});
        action(store);
        await done;
        this.#others?.postMessage(id);
    }

    #transaction(mode) {
        return this.#db.transaction(STORE, mode).objectStore(STORE);
    }
}

/** What is to be said when keeping failed. */
export function storeTrouble(error) {
    return error?.name === 'QuotaExceededError'
        ? 'This browser has no room left for conversations: export and delete some. ' +
              'The last change is not kept.'
        : 'This browser could not keep the last change of the conversation.';
}

/* --- Settings: small, and read before anything is drawn --- */

/** @returns {*} what was kept under the name, or `otherwise` */
export function setting(name, otherwise) {
    try {
        return JSON.parse(localStorage.getItem(`${NAME}.${name}`)) ?? otherwise;
    } catch {
        return otherwise;
    }
}

export function keepSetting(name, value) {
    try {
        localStorage.setItem(`${NAME}.${name}`, JSON.stringify(value));
    } catch {
        /* it holds until the page is closed */
    }
}
