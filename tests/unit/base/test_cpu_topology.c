/* Places from made-up machines: hyper-threads, fast and slow cores, and one that says nothing. */
#include "base/cpu_topology.h"

#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 16

static char sys_dir[] = "/tmp/firstlight-places-XXXXXX";

static void write_file(int cpu, const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/cpu%d", sys_dir, cpu);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/cpu%d/%s", sys_dir, cpu, folder);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/cpu%d/%s/%s", sys_dir, cpu, folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void forget(int cpu, const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/cpu%d/%s/%s", sys_dir, cpu, folder, name);
    unlink(path);
    snprintf(path, sizeof path, "%s/cpu%d/%s", sys_dir, cpu, folder);
    rmdir(path);
    snprintf(path, sizeof path, "%s/cpu%d", sys_dir, cpu);
    rmdir(path);
}

static cpu_set_t mask_of(const char *bits)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; bits[i]; i++)
        if (bits[i] == '1')
            CPU_SET(i, &set);
    return set;
}

static void expect(const char *mask, int n, const struct place *want)
{
    struct place found[MOST];
    cpu_set_t set = mask_of(mask);
    assert_int_equal(cpu_topology_find_in(sys_dir, &set, found, MOST), n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(found[i].cpu, want[i].cpu);
        assert_int_equal(found[i].core, want[i].core);
        assert_int_equal(found[i].turn, want[i].turn);
        assert_int_equal(found[i].speed, want[i].speed);
    }
}

static void one_of_each_core_first(void **state)
{
    static const char *const siblings[] = {"0,2\n", "1,3\n", "0,2\n", "1,3\n", "4-5\n", "4-5\n"};
    static const struct place all[] = {{0, 0, 0, 0}, {1, 1, 0, 0}, {4, 2, 0, 0},
                                       {2, 0, 1, 0}, {3, 1, 1, 0}, {5, 2, 1, 0}};
    static const struct place some[] = {{1, 0, 0, 0}, {2, 1, 0, 0}, {5, 2, 0, 0}, {3, 0, 1, 0}};
    (void)state;
    for (int i = 0; i < 6; i++)
        write_file(i, "topology", "thread_siblings_list", siblings[i]);
    expect("111111", 6, all);
    expect("011101", 4, some); /* a core's second thread is its first when that is not allowed */
    for (int i = 0; i < 6; i++)
        forget(i, "topology", "thread_siblings_list");
}

static void fast_cores_first(void **state)
{
    static const struct place want[] = {
        {3, 0, 0, 4800000}, {0, 1, 0, 3600000}, {1, 2, 0, 3600000}, {2, 3, 0, 3600000}};
    (void)state;
    for (int i = 0; i < 4; i++)
        write_file(i, "cpufreq", "cpuinfo_max_freq", i == 3 ? "4800000\n" : "3600000\n");
    expect("1111", 4, want);
    for (int i = 0; i < 4; i++)
        forget(i, "cpufreq", "cpuinfo_max_freq");
}

static void a_machine_that_says_nothing(void **state)
{
    static const struct place want[] = {{1, 0, 0, 0}, {4, 1, 0, 0}};
    (void)state;
    expect("01001", 2, want);
    expect("", 0, want);
}

static void no_more_than_there_is_room_for(void **state)
{
    struct place found[3] = {{0}, {0}, {77, 0, 0, 0}};
    (void)state;
    cpu_set_t set = mask_of("1111");
    assert_int_equal(cpu_topology_find_in(sys_dir, &set, found, 2), 2);
    assert_int_equal(found[2].cpu, 77);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(sys_dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(sys_dir); /* fails when a test left something */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_each_core_first),
        cmocka_unit_test(fast_cores_first),
        cmocka_unit_test(a_machine_that_says_nothing),
        cmocka_unit_test(no_more_than_there_is_room_for),
    };
    return cmocka_run_group_tests_name("places", tests, make_dir, remove_dir);
}
