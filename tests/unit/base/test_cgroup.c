/* Control groups of made-up machines: version 1, version 2, both, containers, and nonsense. */
#include "base/cgroup.h"

#include "support/cmocka_all.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB       ((size_t)1 << 20)
#define UNLIMITED "9223372036854771712\n" /* as version 1 has it */

static char root[] = "/tmp/firstlight-cgroup-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    return at->level > 0 ? remove(path) : 0;
}

static int empty_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    return empty_root(state) || rmdir(root);
}

static void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        mkdir(whole, 0755);
    }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* /proc/self/cgroup and /proc/self/mountinfo */
static void put_proc(const char *groups, const char *mounts)
{
    put("/proc/self/cgroup", groups);
    put("/proc/self/mountinfo", mounts);
}

#define V2_MOUNT "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define OTHERS                                                                                     \
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"                                     \
    "23 22 0:20 / /sys rw - sysfs sysfs rw\n"

static void put_v2(const char *folder, const char *max, const char *current, const char *stat)
{
    char path[256];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", folder);
    put(path, max);
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", folder);
    put(path, current);
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", folder);
    put(path, stat);
}

static void test_none(void **state)
{
    (void)state;
    assert_true(cgroup_memory_room_in(root) == SIZE_MAX);
    assert_int_equal(cgroup_processors_in(root), INT_MAX);
    put_proc("0::/a\n", OTHERS);
    assert_true(cgroup_memory_room_in(root) == SIZE_MAX);
    put_proc("0::/a\n", OTHERS V2_MOUNT);
    assert_true(cgroup_memory_room_in(root) == SIZE_MAX);
    assert_int_equal(cgroup_processors_in(root), INT_MAX);
}

/* Own group, those above it, and what of each can be dropped. */
static void test_v2_nested(void **state)
{
    (void)state;
    put_proc("0::/a.slice/b.service\n", OTHERS V2_MOUNT);
    put_v2("/a.slice/b.service", "max\n", "104857600\n", "anon 1\n");
    assert_true(cgroup_memory_room_in(root) == SIZE_MAX);
    put_v2("/a.slice/b.service", "943718400\n", "104857600\n",
           "anon 52428800\nfile 52428800\nshmem 10485760\ninactive_file 31457280\n"
           "active_file 10485760\nunevictable 0\n");
    assert_int_equal(cgroup_memory_room_in(root), (900 - 100 + 40) * MIB);
    put_v2("/a.slice", "209715200\n", "136314880\n", "anon 136314880\n"); /* 200 less 130 MiB */
    assert_int_equal(cgroup_memory_room_in(root), 70 * MIB);
    put_v2("/a.slice", "104857600\n", "136314880\n", "anon 136314880\n");
    assert_int_equal(cgroup_memory_room_in(root), 0);
    put_v2("/a.slice", "max\n", "136314880\n", "");
    put("/sys/fs/cgroup/a.slice/memory.high", "146800640\n"); /* it throttles from there on */
    assert_int_equal(cgroup_memory_room_in(root), 10 * MIB);
    put_v2("/other.slice", "1\n", "0\n", "");
    assert_int_equal(cgroup_memory_room_in(root), 10 * MIB);

    put("/sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n");
    assert_int_equal(cgroup_processors_in(root), INT_MAX);
    put("/sys/fs/cgroup/a.slice/cpu.max", "250000 100000\n");
    assert_int_equal(cgroup_processors_in(root), 3);
    put("/sys/fs/cgroup/a.slice/b.service/cpu.max", "50000 100000\n");
    assert_int_equal(cgroup_processors_in(root), 1);
}

#define V1_MOUNTS                                                                                  \
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"                  \
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"                            \
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define V1_GROUPS "4:memory:/a/b\n3:cpuset:/\n2:cpu,cpuacct:/c\n1:name=systemd:/d\n"

static void put_v1(const char *folder, const char *limit, const char *usage, const char *stat)
{
    char path[256];
    snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", folder);
    put(path, limit);
    snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.usage_in_bytes", folder);
    put(path, usage);
    snprintf(path, sizeof path, "/sys/fs/cgroup/memory%s/memory.stat", folder);
    put(path, stat);
}

static void test_v1(void **state)
{
    (void)state;
    put_proc(V1_GROUPS, OTHERS V1_MOUNTS);
    put_v1("", UNLIMITED, "1048576000\n", "");
    put_v1("/a/b", UNLIMITED, "104857600\n", "");
    assert_true(cgroup_memory_room_in(root) == SIZE_MAX);
    put_v1("/a", "943718400\n", "524288000\n",
           "inactive_file 1\nactive_file 1\ntotal_inactive_file 104857600\n"
           "total_active_file 209715200\n");
    assert_int_equal(cgroup_memory_room_in(root), (900 - 500 + 300) * MIB);
    put_v1("/a/b", "419430400\n", "104857600\n", "");
    assert_int_equal(cgroup_memory_room_in(root), 300 * MIB);

    put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cgroup_processors_in(root), INT_MAX);
    put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "400000\n");
    assert_int_equal(cgroup_processors_in(root), 4);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cgroup_processors_in(root), 2);
}

/* Memory by version 1, processors by version 2, as systemd has had it. */
static void test_hybrid(void **state)
{
    (void)state;
    put_proc("4:memory:/a\n1:name=systemd:/a\n0::/a\n",
             OTHERS "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                    "41 31 0:38 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n");
    put_v1("/a", "104857600\n", "0\n", "");
    put("/sys/fs/cgroup/unified/a/cpu.max", "200000 100000\n");
    assert_int_equal(cgroup_memory_room_in(root), 100 * MIB);
    assert_int_equal(cgroup_processors_in(root), 2);
}

/* Containers: with a namespace of their own, without one, and with a mount of somebody else's. */
static void test_containers(void **state)
{
    (void)state;
    put_proc("0::/\n", OTHERS V2_MOUNT);
    put_v2("", "104857600\n", "0\n", "");
    assert_int_equal(cgroup_memory_room_in(root), 100 * MIB);

    put_proc("0::/docker/abc/inner\n",
             OTHERS "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n");
    put_v2("/inner", "10485760\n", "0\n", "");
    assert_int_equal(cgroup_memory_room_in(root), 10 * MIB);
    put_v2("/inner", "max\n", "0\n", "");
    assert_int_equal(cgroup_memory_room_in(root), 100 * MIB);

    /* /docker/abcd is not below /docker/abc; the mount that shows the group is the one to take */
    put_proc("0::/docker/abcd\n",
             OTHERS "31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n"
                    "32 23 0:28 / /host\\040groups ro - cgroup2 cgroup ro\n");
    put("/host groups/docker/abcd/memory.max", "20971520\n");
    assert_int_equal(cgroup_memory_room_in(root), 20 * MIB);

    put_proc("0::/../elsewhere\n", OTHERS V2_MOUNT);
    put_v2("/../elsewhere", "1\n", "0\n", "");
    assert_int_equal(cgroup_memory_room_in(root), 100 * MIB);
    put_proc("0::/\n", OTHERS "31 23 0:28 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    assert_int_equal(cgroup_memory_room_in(root), 100 * MIB);
    put_proc("0::/gone (deleted)\n", OTHERS V2_MOUNT);
    assert_int_equal(cgroup_memory_room_in(root), 100 * MIB);
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "\n", "max", "-5\n", "12x\n", "0x10\n", "99999999999999999999999\n", " \n1\n", "x\0y"};
    put_proc("0::/a\n", OTHERS V2_MOUNT);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_v2("/a", texts[i], texts[i], texts[i]);
        put("/sys/fs/cgroup/a/cpu.max", texts[i]);
        size_t room = cgroup_memory_room_in(root);
        assert_true(room == SIZE_MAX || room == 0); /* " \n1\n" is 1 after an empty line */
        assert_int_equal(cgroup_processors_in(root), INT_MAX);
    }
    put("/sys/fs/cgroup/a/cpu.max", "0 0\n");
    assert_int_equal(cgroup_processors_in(root), INT_MAX);
    put("/sys/fs/cgroup/a/cpu.max", "9223372036854775807 1\n");
    assert_int_equal(cgroup_processors_in(root), INT_MAX);
    static const char *const lines[] = {"",
                                        "0",
                                        "0:",
                                        "0::",
                                        ":::::\n",
                                        "0::no slash\n",
                                        "0::/..\n",
                                        "\n",
                                        " - \n",
                                        " - cgroup2",
                                        "a b - cgroup2 c d\n",
                                        "1 2 3 4 5 - cgroup2\n",
                                        "1 2 3 / \\"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (size_t j = 0; j < sizeof lines / sizeof *lines; j++) {
            put_proc(lines[i], lines[j]);
            assert_true(cgroup_memory_room_in(root) == SIZE_MAX);
            assert_int_equal(cgroup_processors_in(root), INT_MAX);
        }
    }
}

static void count_path(void *arg, const char *path)
{
    int *n = arg;
    assert_int_equal(path[0], '/');
    ++*n;
}

/* This machine, whatever it has. */
static void test_here(void **state)
{
    (void)state;
    int n = 0;
    assert_true(cgroup_processors() >= 1);
    assert_true(cgroup_memory_room() > 0);
    cgroup_each_path(count_path, &n);
    assert_true(n >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_none, empty_root),
        cmocka_unit_test_teardown(test_v2_nested, empty_root),
        cmocka_unit_test_teardown(test_v1, empty_root),
        cmocka_unit_test_teardown(test_hybrid, empty_root),
        cmocka_unit_test_teardown(test_containers, empty_root),
        cmocka_unit_test_teardown(test_nonsense, empty_root),
        cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
