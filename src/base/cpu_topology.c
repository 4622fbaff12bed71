#include "base/cpu_topology.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The first number in the file, -1 when there is none: of a list, its lowest. */
static int first_number(const char *sys, int cpu, const char *name)
{
    char path[512];
    int value = -1;
    snprintf(path, sizeof path, "%s/cpu%d/%s", sys, cpu, name);
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    if (fscanf(f, "%d", &value) != 1)
        value = -1;
    fclose(f);
    return value;
}

static int speed_of(const char *sys, int cpu)
{
    int speed = first_number(sys, cpu, "cpu_capacity");
    if (speed < 0)
        speed = first_number(sys, cpu, "cpufreq/cpuinfo_max_freq");
    return speed < 0 ? 0 : speed;
}

static int by_worth(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->turn != y->turn)
        return x->turn - y->turn;
    if (x->speed != y->speed)
        return x->speed > y->speed ? -1 : 1;
    return x->cpu - y->cpu;
}

/* Cores by their order: the first processor of each comes before any second one. */
static void number_cores(struct place *places, int n)
{
    for (int i = n - 1; i >= 0; i--) {
        int first = 0;
        while (places[first].core != places[i].core)
            first++;
        places[i].core = first;
    }
}

int cpu_topology_find_in(const char *sys, const cpu_set_t *allowed, struct place *out, int cap)
{
    int n = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && n < cap; cpu++) {
        if (!CPU_ISSET((size_t)cpu, allowed))
            continue;
        int core = first_number(sys, cpu, "topology/thread_siblings_list"), turn = 0;
        core = core < 0 ? cpu : core;
        for (int i = 0; i < n; i++)
            turn += out[i].core == core;
        out[n++] = (struct place){cpu, core, turn, speed_of(sys, cpu)};
    }
    qsort(out, (size_t)n, sizeof *out, by_worth);
    number_cores(out, n);
    return n;
}

int cpu_topology_find(const cpu_set_t *allowed, struct place *out, int cap)
{
    return cpu_topology_find_in("/sys/devices/system/cpu", allowed, out, cap);
}
