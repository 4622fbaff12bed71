/* SANITIZED: this program runs under a sanitizer, some ten times slower. A test over many rows that
 * take the same path may then take a part of them; the release build takes all. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_SANITIZED_H
#define FIRSTLIGHT_TESTS_SUPPORT_SANITIZED_H

#if defined(FIRSTLIGHT_DEBUG)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#endif
