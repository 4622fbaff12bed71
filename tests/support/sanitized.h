/* SANITIZED: this program runs under a sanitizer, some ten times slower. A test over many rows that
 * take the same path may then take a part of them; the release build takes all. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_SANITIZED_H
#define FIRSTLIGHT_TESTS_SUPPORT_SANITIZED_H

#if defined(FIRSTLIGHT_DEBUG)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* The one that finds races, which code of a single thread has not, and that is the slowest. */
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZED true
#else
#define THREAD_SANITIZED false
#endif

#endif
