/* The body of a function: text whose colour is nearer to what is behind it than WCAG 2.2 AA allows
 * (1.4.3: 4.5 to 1, large text 3 to 1). */

function rgba(colour) {
    const v = colour.match(/[\d.]+/g).map(Number);
    const scale = colour.startsWith('color(srgb') ? 255 : 1;
    return [v[0] * scale, v[1] * scale, v[2] * scale, v[3] ?? 1];
}

function over(a, b) {
    return [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
}

function behind(element) {
    const layers = [];
    for (let e = element; e && layers.at(-1)?.[3] !== 1; e = e.parentElement)
        layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, c) => over(c, below), [255, 255, 255, 1]);
}

function luminance(colour) {
    const [r, g, b] = colour.slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function isText(e) {
    return [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim())
        && e.checkVisibility({ opacityProperty: true, visibilityProperty: true })
        && !e.closest('.offscreen, .skip, :disabled, noscript');
}

const bad = [];
for (const e of [...document.querySelectorAll('body *')].filter(isText)) {
    const style = getComputedStyle(e);
    const under = behind(e);
    const [high, low] = [luminance(over(rgba(style.color), under)), luminance(under)]
        .sort((x, y) => y - x);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5))
        bad.push(`${e.tagName}.${e.className}: ${e.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
}
return bad;
