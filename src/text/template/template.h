/* Chat templates: the Jinja that model files carry, compiled once, rendered per request.
 *
 * Rendering equals jinja2 with transformers' settings (trim_blocks, lstrip_blocks). Values are
 * taken from a jansson object. The interpreter is bounded in steps, output and nesting
 * (base/limits.h); an error names the template's line. A compiled template is immutable: any thread
 * may render at once.
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_TEMPLATE_H
#define FIRSTLIGHT_TEXT_TEMPLATE_TEMPLATE_H

#include "base/buf.h"
#include "base/err.h"

#include <jansson.h>
#include <stdint.h>

struct template;

/* Compiles `len` bytes of source. STATUS_INVALID names line and what was expected;
 * STATUS_UNSUPPORTED names a construct that is not implemented. */
enum status template_compile(struct template **out, const char *source, size_t len,
                             struct err *err);
void template_free(struct template *t);

/* Renders with `context` (an object whose members are the template's variables) into *text.
 * trusted (may be NULL) receives one byte per byte of text: 1 where the template's own source wrote
 * it, 0 where it came from the context; the variables bos_token and eos_token count as template:
 * they must be the model's own, never a client's. See tokenizer_encode. */
enum status template_render(const struct template *t, json_t *context, struct buf *text,
                            struct buf *trusted, struct err *err);

#endif
