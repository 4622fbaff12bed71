#include "bench/result/machine.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "kernels/peak.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES ((size_t)64 << 20) /* what runs between two tries throws it out of any cache */
#define PIECE      ((size_t)256 << 10)
#define ROUNDS     20000 /* between two looks at the clock: some 30 us */

/* --- time that was stolen ------------------------------------------------------------------- */

struct machine_time machine_time(void)
{
    /* user nice system idle iowait irq softirq steal; guest time is in user's already */
    uint64_t v[8] = {0};
    struct machine_time t = {0};
    FILE *f = fopen("/proc/stat", "r");
    int n = f ? fscanf(f, "cpu %lu %lu %lu %lu %lu %lu %lu %lu", &v[0], &v[1], &v[2], &v[3], &v[4],
                       &v[5], &v[6], &v[7])
              : 0;
    if (f)
        fclose(f);
    if (n != 8)
        return t;
    for (int i = 0; i < 8; i++)
        t.all += v[i];
    t.stolen = v[7];
    return t;
}

double machine_stolen(struct machine_time from, struct machine_time to)
{
    if (from.all == 0 || to.all <= from.all || to.stolen < from.stolen)
        return NAN;
    return 100 * (double)(to.stolen - from.stolen) / (double)(to.all - from.all);
}

/* --- processes ------------------------------------------------------------------------------ */

double machine_process_s(pid_t pid)
{
    clockid_t clock;
    struct timespec t;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return NAN;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The inode of the socket that listens there, by proc(5); 0: none. */
static unsigned long find_socket(const char *table, uint16_t port)
{
    char line[512];
    unsigned long inode = 0;
    FILE *f = fopen(table, "r");
    while (f && inode == 0 && fgets(line, sizeof line, f)) {
        unsigned local, state;
        unsigned long node;
        const unsigned listens = 0x0a;
        if (sscanf(line,
                   " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu",
                   &local, &state, &node) == 3 &&
            local == port && state == listens)
            inode = node;
    }
    if (f)
        fclose(f);
    return inode;
}

static bool holds_socket(const char *pid, const char *socket)
{
    char path[300], target[64];
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *fds = opendir(path);
    bool found = false;
    for (struct dirent *e; fds && !found && (e = readdir(fds));) {
        snprintf(path, sizeof path, "/proc/%.16s/fd/%.255s", pid, e->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strcmp(target, socket) == 0;
    }
    if (fds)
        closedir(fds);
    return found;
}

pid_t machine_listener(uint16_t port)
{
    unsigned long inode = find_socket("/proc/net/tcp", port);
    char socket[64];
    pid_t pid = 0;
    if (inode == 0)
        inode = find_socket("/proc/net/tcp6", port);
    snprintf(socket, sizeof socket, "socket:[%lu]", inode);
    DIR *processes = inode ? opendir("/proc") : NULL;
    for (struct dirent *e; processes && pid == 0 && (e = readdir(processes));)
        if (atoi(e->d_name) > 0 && holds_socket(e->d_name, socket))
            pid = atoi(e->d_name);
    if (processes)
        closedir(processes);
    return pid;
}

/* --- how fast it is ------------------------------------------------------------------------- */

void machine_open(struct machine *m)
{
    void *data = mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *m = (struct machine){0};
    if (data == MAP_FAILED)
        return;
    madvise(data, READ_BYTES, MADV_HUGEPAGE);
    memset(data, 1, READ_BYTES);
    *m = (struct machine){.data = data, .bytes = READ_BYTES};
}

void machine_close(struct machine *m)
{
    if (m->data)
        munmap(m->data, m->bytes);
    *m = (struct machine){0};
}

/* Its results are needed for the compiler alone. */
static volatile uint64_t sink;

static double try_arithmetic(void)
{
    const struct peak *peak = peak_best(PEAK_F32, cpu_detect());
    int64_t start = clock_real_ns(), took = 0;
    double done = 0;
    while (peak && took < MACHINE_TRY_MS * INT64_C(1000000)) {
        sink = peak->run(ROUNDS);
        done += 2.0 * ROUNDS * (double)peak->macs;
        took = clock_real_ns() - start;
    }
    return took > 0 ? done / (double)took : NAN;
}

static double try_reading(const struct machine *m)
{
    peak_read_fn *read = peak_reader(cpu_detect());
    int64_t start = clock_real_ns(), took = 0;
    size_t done = 0;
    while (m->data && took < MACHINE_TRY_MS * INT64_C(1000000)) {
        sink = read(m->data + done % m->bytes, PIECE);
        done += PIECE;
        took = clock_real_ns() - start;
    }
    return took > 0 ? (double)done / (double)took : NAN;
}

struct machine_speed machine_try(const struct machine *m)
{
    return (struct machine_speed){.arithmetic = try_arithmetic(), .reading = try_reading(m)};
}
