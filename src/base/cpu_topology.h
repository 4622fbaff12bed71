/* Where threads that compute together belong: the processors that a thread may use, one of each
 * core before a second one of any (hyper-threads share what computes), fast cores before slow ones.
 *
 * Read from Linux' sysfs; what it does not say (in a container, in a virtual machine) is taken as
 * cores of one thread and one speed.
 */
#ifndef FIRSTLIGHT_BASE_CPU_TOPOLOGY_H
#define FIRSTLIGHT_BASE_CPU_TOPOLOGY_H

#include <sched.h>

struct place {
    int cpu;
    int core;  /* 0, 1, ..: the places of turn 0, in order, are the cores */
    int turn;  /* places of its core before it */
    int speed; /* the core's capacity or highest frequency, 0: unknown */
};

/* Those of a mask, best first; returns how many, at most `cap`. */
int cpu_topology_find(const cpu_set_t *allowed, struct place *out, int cap);

/* The same with `sys` for /sys/devices/system/cpu. */
int cpu_topology_find_in(const char *sys, const cpu_set_t *allowed, struct place *out, int cap);

#endif
