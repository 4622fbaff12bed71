/* What jansson allocates while it reads.
 *
 * jansson's lexer does not look whether a byte of a string or a number found room: short of memory
 * it loses bytes, or calls the text invalid. So an allocation that fails while a text is read ends
 * the reading at once (longjmp), and everything that it had taken is given back. Every program that
 * links this file has its allocations made so, from before main on.
 *
 *     json_memory_try ─► jansson ─► take ─► json_memory_source
 *             └─────────── longjmp ───┘ no memory
 *
 * Values are as jansson's always are: any thread may free them, and free() what json_dumps gave.
 */
#ifndef FIRSTLIGHT_BASE_JSON_MEMORY_H
#define FIRSTLIGHT_BASE_JSON_MEMORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Calls make(arg), which makes values of jansson and takes no other memory. False: there was none,
 * and all that it made is gone. */
bool json_memory_try(void (*make)(void *arg), void *arg);
/* json_loadb. NULL: *no_memory, or *fault says what is wrong. */
json_t *json_memory_read(const char *text, size_t len, size_t flags, json_error_t *fault,
                         bool *no_memory);

/* Where the memory comes from: base/mem.h, but in tests of what happens without. */
struct json_memory_source {
    void *(*take)(size_t size);
    void (*give_back)(void *p);
};
extern struct json_memory_source json_memory_source;

#endif
