#include "base/name_table.h"

#include <stdio.h>
#include <string.h>

size_t name_table_find(name_table_at *at, const char *name, char *known, size_t size)
{
    const char *one, *about;
    size_t len = 0;
    known[0] = '\0';
    for (size_t i = 0; at(i, &one, &about); i++) {
        if (strcmp(one, name) == 0)
            return i;
        snprintf(known + len, size - len, "%s%s", i > 0 ? ", " : "", one);
        len = strlen(known);
    }
    return NAME_TABLE_NONE;
}
