/* Names for requests: random, so that they never repeat across restarts. */
#ifndef FIRSTLIGHT_HTTP_REQUEST_ID_H
#define FIRSTLIGHT_HTTP_REQUEST_ID_H

#define REQUEST_ID_DIGITS 24

/* Writes REQUEST_ID_DIGITS hexadecimal digits and a NUL. */
void request_id_random(char out[REQUEST_ID_DIGITS + 1]);

#endif
