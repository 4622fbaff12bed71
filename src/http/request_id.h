/* Names for requests: random, so that they never repeat across restarts. */
#ifndef FIRSTLIGHT_HTTP_REQUEST_ID_H
#define FIRSTLIGHT_HTTP_REQUEST_ID_H

#define ID_DIGITS 24

/* Writes ID_DIGITS hexadecimal digits and a NUL. */
void id_random(char out[ID_DIGITS + 1]);

#endif
