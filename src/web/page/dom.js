/**
 * Making elements. Every string becomes a text node or an attribute of a fixed name, so nothing
 * that a model or a person wrote is ever parsed as markup; nothing here assigns innerHTML.
 */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * el('button', {class: 'quiet', type: 'button', onclick: f}, 'Stop'): properties are attributes,
 * but for on<event> (listeners), style (an object, set through the CSSOM: the policy forbids style
 * attributes), and values of true (present), false, null and undefined (absent).
 * @param {string} tag
 * @param {Object<string, *>} [properties]
 * @param {...(Node|string|number|null|undefined|false|Array)} children
 */
export function el(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) setProperty(element, name, value);
    append(element, children);
    return element;
}

function setProperty(element, name, value) {
    if (value === undefined || value === null || value === false) return;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style')
        Object.entries(value).forEach(([key, v]) => element.style.setProperty(key, v));
    else element.setAttribute(name, value === true ? '' : String(value));
}

function append(element, children) {
    for (const child of children.flat(Infinity)) {
        if (child instanceof Node) element.append(child);
        else if (child !== null && child !== undefined && child !== false)
            element.append(document.createTextNode(String(child)));
    }
}

/** Puts the children in the place of all that the element has. */
export function fill(element, ...children) {
    element.replaceChildren();
    append(element, children);
    return element;
}

/** @returns {HTMLElement} the element of that id, which the page is known to have. */
export function byId(id) {
    const element = document.getElementById(id);
    if (!element) throw new Error(`the page has no #${id}`);
    return element;
}

/* Strokes of 24 x 24 drawings. */
const ICONS = {
    menu: 'M4 7h16M4 12h16M4 17h16',
    plus: 'M12 5v14M5 12h14',
    send: 'M12 19V6M6 11l6-6 6 6',
    stop: 'M7 7h10v10H7z',
    copy: 'M9 9h10v11H9zM6 15H5V4h10v2',
    check: 'M5 13l4 4L19 7',
    edit: 'M5 19l1-4L16 5l3 3L9 18zM14 7l3 3',
    redo: 'M19 12a7 7 0 1 1-2-5M18 3v5h-5',
    trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
    save: 'M12 4v11M7 11l5 5 5-5M5 20h14',
    left: 'M14 6l-6 6 6 6',
    right: 'M10 6l6 6-6 6',
    down: 'M6 10l6 6 6-6',
    close: 'M6 6l12 12M18 6L6 18',
    sliders: 'M4 8h9M17 8h3M4 16h3M11 16h9M15 6v4M9 14v4',
    theme: 'M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8',
    help: 'M9 9a3 3 0 1 1 4 3c-1 .5-1 1-1 2M12 17.5v.5',
};

/** A drawing that says nothing to a screen reader: the button around it has the words. */
export function icon(name) {
    const svg = document.createElementNS(SVG, 'svg');
    const path = document.createElementNS(SVG, 'path');
    svg.setAttribute('viewBox', '0 0 24 24');
    svg.setAttribute('class', 'icon');
    svg.setAttribute('aria-hidden', 'true');
    path.setAttribute('d', ICONS[name]);
    svg.append(path);
    return svg;
}

/** A button of an icon alone. */
export function iconButton(name, label, onclick, properties = {}) {
    return el(
        'button',
        {
            type: 'button',
            class: 'icon-button',
            'aria-label': label,
            title: label,
            onclick,
            ...properties,
        },
        icon(name),
    );
}

/** Copies text; where the clipboard may not be used (plain http from elsewhere) by a selection. */
export async function copyText(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        return copyBySelection(text);
    }
}

function copyBySelection(text) {
    const focused = document.activeElement;
    const area = el('textarea', { class: 'offscreen', readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    focused?.focus();
    return done;
}

/** A button that copies what text() returns and says so for a moment. */
export function copyButton(label, text) {
    const words = el('span', {}, label);
    const button = el(
        'button',
        { type: 'button', class: 'quiet copy', onclick: copy },
        icon('copy'),
        words,
    );
    let timer = 0;
    async function copy() {
        words.textContent = (await copyText(text())) ? 'Copied' : 'Could not copy';
        say(words.textContent);
        clearTimeout(timer);
        timer = setTimeout(() => {
            words.textContent = label;
        }, 1500);
    }
    return button;
}

/** Says it to a screen reader, politely; the same words again are said again. */
export function say(words) {
    fill(byId('status'), el('span', {}, words));
}

/** Offers a file for saving. */
export function download(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = el('a', { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}
