#include "http/request_id.h"

#include "base/err.h"

#include <stdio.h>
#include <sys/random.h>

void request_id_random(char out[REQUEST_ID_DIGITS + 1])
{
    unsigned char bytes[REQUEST_ID_DIGITS / 2];
    /* so few bytes never block once the system is up, and are never cut */
    REQUIRE(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}
