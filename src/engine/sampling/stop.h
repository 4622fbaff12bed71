/* Stop strings: a generation ends where one of them first becomes complete in its text.
 *
 *     visible text ...... | held back: may still become a stop string |
 *
 * One Knuth-Morris-Pratt automaton per string, fed byte by byte, so the result does not depend on
 * how tokens cut the text. Of several strings, the one that is complete first wins; of those
 * complete at the same byte, the longest. Held text begins where a stop string would, which is on a
 * character's first byte, so what is visible is whole characters whenever what was fed is.
 */
#ifndef FIRSTLIGHT_ENGINE_SAMPLING_STOP_H
#define FIRSTLIGHT_ENGINE_SAMPLING_STOP_H

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stop_string {
    const char *bytes; /* borrowed */
    uint16_t len;
    uint16_t matched;                /* bytes of it that the text fed so far ends with */
    uint16_t back[LIMIT_STOP_BYTES]; /* back[i]: longest proper border of its first i + 1 bytes */
};

struct stop {
    struct stop_string strings[LIMIT_STOP_STRINGS];
    uint32_t n;
    size_t fed;   /* bytes so far */
    bool unarmed; /* what becomes complete now does not count */
};

/* strings: n of 1 .. LIMIT_STOP_BYTES bytes each; they must outlive *s. */
void stop_init(struct stop *s, char *const *strings, uint32_t n);

/* Takes the next bytes of the text. True once a stop string is complete: *cut is how many bytes of
 * the whole text come before it; nothing may be fed after that. */
bool stop_feed(struct stop *s, const char *bytes, size_t len, size_t *cut);

/* How many bytes at the text's end must be held back. */
size_t stop_held(const struct stop *s);

#endif
