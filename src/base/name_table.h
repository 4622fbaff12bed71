/* Names that a user chooses from, as a table lists them. */
#ifndef FIRSTLIGHT_BASE_NAME_TABLE_H
#define FIRSTLIGHT_BASE_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The i-th name and what it is for; false past the end. */
typedef bool name_table_at(size_t i, const char **name, const char **about);

#define NAME_TABLE_NONE SIZE_MAX

/* Which of them `name` is. When it is none: NAME_TABLE_NONE, and `known` has them all, "a, b, c",
 * for the error; cut when `size` is too small. */
size_t name_table_find(name_table_at *at, const char *name, char *known, size_t size);

#endif
