/** Light, dark, or as the system says. Runs before the first paint (blocking="render"). */

const KEY = 'firstlight.theme';
export const THEMES = ['system', 'light', 'dark'];

/** @returns {string} one of THEMES */
export function theme() {
    try {
        const kept = localStorage.getItem(KEY);
        return THEMES.includes(kept) ? kept : 'system';
    } catch {
        return 'system';
    }
}

/** Shows it, keeps it where that is possible, and tells whoever draws on a canvas. */
export function setTheme(name) {
    try {
        localStorage.setItem(KEY, name);
    } catch {
        /* it holds until the page is closed */
    }
    apply(name);
    document.dispatchEvent(new CustomEvent('themechange'));
}

function apply(name) {
    const root = document.documentElement;
    if (name === 'system') delete root.dataset.theme;
    else root.dataset.theme = name;
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
    document.dispatchEvent(new CustomEvent('themechange')),
);
apply(theme());
