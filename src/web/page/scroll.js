/** Follows what grows at the end of a scroller, until its reader scrolls up. */

const NEAR = 48; /* so many pixels from the end still count as there */

export class Follow {
    #last = 0;
    following = true;

    /**
     * @param {HTMLElement} scroller
     * @param {HTMLElement} button goes back to the end; shown while the reader is away from it
     */
    constructor(scroller, button) {
        this.scroller = scroller;
        this.button = button;
        scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
        button.addEventListener('click', () => {
            this.toEnd();
            scroller.focus({ preventScroll: true });
        });
        new ResizeObserver(() => this.grown()).observe(scroller);
    }

    /** Something was added. */
    grown() {
        if (this.following) this.toEnd();
        this.#show();
    }

    toEnd() {
        this.following = true;
        this.scroller.scrollTop = this.scroller.scrollHeight;
        this.#last = this.scroller.scrollTop;
        this.#show();
    }

    /* Only going up lets go: what grows below moves nobody. */
    #scrolled() {
        const { scrollTop } = this.scroller;
        const atEnd = this.#left() < NEAR;
        if (atEnd) this.following = true;
        else if (scrollTop < this.#last - 1) this.following = false;
        this.#last = scrollTop;
        this.#show();
    }

    #left() {
        const { scrollHeight, scrollTop, clientHeight } = this.scroller;
        return scrollHeight - scrollTop - clientHeight;
    }

    #show() {
        this.button.hidden = this.following || this.#left() < NEAR;
    }
}
