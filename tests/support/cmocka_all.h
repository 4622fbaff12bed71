/* What cmocka.h wants before it, in one place. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_CMOCKA_ALL_H
#define FIRSTLIGHT_TESTS_SUPPORT_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
