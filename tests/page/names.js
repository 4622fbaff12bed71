/* The body of a function: controls without a name, ids that are there twice, references that lead
 * nowhere. */

const CONTROLS = 'button, a[href], input, textarea, select, canvas, [role=region]';
const REFERENCES = ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for'];

const bad = [];
for (const e of document.querySelectorAll(CONTROLS)) {
    const label = e.labels?.[0]?.innerText ?? '';
    if (!(e.getAttribute('aria-label') || e.textContent.trim() || label
        || e.getAttribute('aria-labelledby')))
        bad.push(`no name: ${e.outerHTML.slice(0, 80)}`);
}
const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => bad.push(`twice: ${id}`));
for (const name of REFERENCES)
    for (const e of document.querySelectorAll(`[${name}]`))
        for (const id of e.getAttribute(name).split(/\s+/).filter(Boolean))
            if (!document.getElementById(id))
                bad.push(`${name} leads nowhere: ${id}`);
return bad;
