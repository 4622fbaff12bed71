/* Markup: strings that count as HTML already, which `safe` and `escape` make (markupsafe's Markup).
 *
 * transformers renders without autoescaping, so that nothing is escaped on its way out. But what is
 * added to markup is: "<b>"|safe + "<" is "<b>&lt;". Templates do that by mistake, and the model
 * was trained on what came of it. Strips, slices and splits of markup are markup; `~`, join and
 * replace make plain strings.
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_MARKUP_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_MARKUP_H

#include "text/template/jinja_run.h"

/* The string, as markup or as a plain one. */
bool jinja_markup_set(struct jinja_run *r, const struct jinja_string *s, bool markup,
                      struct jinja_value *out);

/* What str() makes of v, with & < > ' and " as entities unless it is markup already: markup. */
bool jinja_markup_escape(struct jinja_run *r, struct jinja_value v, struct jinja_value *out);

/* a + b, of which at least one is markup and both are strings. */
bool jinja_markup_add(struct jinja_run *r, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out);

#endif
