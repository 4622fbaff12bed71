/* One fake world for all tests of a program: the set-up and tear-down of its group. */
#ifndef FIRSTLIGHT_TESTS_UNIT_ENGINE_GROUP_WORLD_H
#define FIRSTLIGHT_TESTS_UNIT_ENGINE_GROUP_WORLD_H

#include "unit/engine/fake_backend.h"

static struct fake_world world;

static int open_world(void **state)
{
    (void)state;
    fake_world_open(&world);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    fake_world_close(&world);
    return 0;
}

#endif
