/* Mapped files, and what becomes of those that are cut short while they are mapped. Each test runs
 * in a process of its own: cmocka takes SIGBUS for itself. */
#include "support/cmocka_all.h"
#include "weights/file_map.h"
#include "weights/map_guard.h"

#include "base/limits.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 64

static size_t page;

/* A file of PAGES pages, each full of its number, counted from 1. */
static void write_file(char path[static 32])
{
    strcpy(path, "/tmp/file-map-XXXXXX");
    int fd = mkstemp(path);
    unsigned char *bytes = malloc(page);
    for (int i = 0; i < PAGES; i++) {
        if (bytes)
            memset(bytes, i + 1, page);
        if (!bytes || write(fd, bytes, page) != (ssize_t)page)
            abort();
    }
    free(bytes);
    close(fd);
}

/* In the child: the place says what was wrong, and the parent sees the exit status. */
#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                             \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* How a child ended that ran the test with a file of its own and the default action for SIGBUS. */
static int run(void (*test)(const char *path))
{
    char path[32];
    int status;
    page = (size_t)sysconf(_SC_PAGESIZE);
    write_file(path);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGBUS, SIG_DFL);
        test(path);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(path);
    return status;
}

static unsigned char byte_of_page(const struct file_map *m, size_t i)
{
    return ((const volatile unsigned char *)m->bytes)[i * page + page / 2];
}

static void cut(const char *path, size_t n_pages)
{
    EXPECT(truncate(path, (off_t)(n_pages * page)) == 0);
}

/* --- tests ---------------------------------------------------------------------------------- */

static void cut_in_half(const char *path)
{
    struct file_map m, other;
    struct err err = {0};
    char whole[32];
    write_file(whole);
    EXPECT(file_map_open(&m, path, &err) == STATUS_OK);
    EXPECT(file_map_open(&other, whole, &err) == STATUS_OK);
    EXPECT(byte_of_page(&m, PAGES - 1) == PAGES);
    EXPECT(map_guard_check(&err) == STATUS_OK);
    cut(path, PAGES / 2);
    EXPECT(map_guard_check(&err) == STATUS_OK); /* nobody has read what is lost */
    EXPECT(byte_of_page(&m, PAGES - 2) == 0);
    EXPECT(map_guard_check(&err) == STATUS_UNAVAILABLE && strstr(err.text, path));
    EXPECT(byte_of_page(&m, PAGES / 2) == 0 && byte_of_page(&m, PAGES - 1) == 0);
    for (size_t i = 0; i < PAGES; i++)
        EXPECT(byte_of_page(&m, i) == (i < PAGES / 2 ? i + 1 : 0));
    for (size_t i = 0; i < PAGES; i++)
        EXPECT(byte_of_page(&other, i) == i + 1);
    file_map_close(&m);
    EXPECT(map_guard_check(&err) == STATUS_OK);
    file_map_close(&other);
    unlink(whole);
}

static void test_what_was_cut_off_reads_as_zeros(void **state)
{
    (void)state;
    assert_int_equal(run(cut_in_half), 0);
}

static void cut_to_nothing(const char *path)
{
    struct file_map m;
    struct err err = {0};
    for (int i = 0; i < 2; i++) { /* a place is used again, and forgets */
        EXPECT(file_map_open(&m, path, &err) == STATUS_OK);
        EXPECT(map_guard_check(&err) == STATUS_OK);
        cut(path, 0);
        EXPECT(byte_of_page(&m, 0) == 0 && byte_of_page(&m, PAGES - 1) == 0);
        EXPECT(map_guard_check(&err) == STATUS_UNAVAILABLE);
        cut(path, PAGES); /* it grew again: what is lost stays lost */
        EXPECT(map_guard_check(&err) == STATUS_UNAVAILABLE);
        file_map_close(&m);
    }
}

static void test_a_file_that_is_empty_and_grows_again(void **state)
{
    (void)state;
    assert_int_equal(run(cut_to_nothing), 0);
}

struct reader {
    pthread_t thread;
    const struct file_map *map;
    size_t first;
    unsigned sum;
};

static void *read_pages(void *arg)
{
    struct reader *r = arg;
    for (size_t i = 0; i < PAGES; i++)
        r->sum += byte_of_page(r->map, (r->first + i) % PAGES);
    return NULL;
}

static void cut_under_readers(const char *path)
{
    struct file_map m;
    struct reader readers[8];
    struct err err = {0};
    EXPECT(file_map_open(&m, path, &err) == STATUS_OK);
    cut(path, 0);
    for (size_t i = 0; i < 8; i++) {
        readers[i] = (struct reader){.map = &m, .first = i * PAGES / 8};
        EXPECT(pthread_create(&readers[i].thread, NULL, read_pages, &readers[i]) == 0);
    }
    for (size_t i = 0; i < 8; i++) {
        pthread_join(readers[i].thread, NULL);
        EXPECT(readers[i].sum == 0);
    }
    EXPECT(map_guard_check(&err) == STATUS_UNAVAILABLE);
    file_map_close(&m);
    EXPECT(map_guard_check(&err) == STATUS_OK);
}

static void test_threads_that_read_it_at_once(void **state)
{
    (void)state;
    assert_int_equal(run(cut_under_readers), 0);
}

/* Bugs, and the signal sent by hand, still end the process. */
static void fault_elsewhere(const char *path)
{
    struct file_map m;
    struct err err = {0};
    char other[32];
    EXPECT(file_map_open(&m, path, &err) == STATUS_OK);
    write_file(other);
    int fd = open(other, O_RDWR);
    unlink(other);
    const volatile unsigned char *bytes = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
    EXPECT(bytes != MAP_FAILED && ftruncate(fd, 0) == 0);
    cut(path, 0);
    EXPECT(byte_of_page(&m, 0) == 0); /* the guard is there */
    (void)bytes[0];
}

static void test_a_fault_elsewhere_ends_the_process(void **state)
{
    (void)state;
    int status = run(fault_elsewhere);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

static void signal_by_hand(const char *path)
{
    struct file_map m;
    struct err err = {0};
    EXPECT(file_map_open(&m, path, &err) == STATUS_OK);
    kill(getpid(), SIGBUS);
}

static void test_a_signal_by_hand_ends_the_process(void **state)
{
    (void)state;
    int status = run(signal_by_hand);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
}

static void map_too_many(const char *path)
{
    static struct file_map maps[2 * LIMIT_MODEL_FILES];
    struct err err = {0};
    size_t n = 0;
    while (n < 2 * LIMIT_MODEL_FILES && file_map_open(&maps[n], path, &err) == STATUS_OK)
        n++;
    EXPECT(n >= LIMIT_MODEL_FILES && n < 2 * LIMIT_MODEL_FILES);
    EXPECT(err.code == STATUS_TOO_LARGE && maps[n].bytes == NULL);
    file_map_close(&maps[0]);
    EXPECT(file_map_open(&maps[0], path, &err) == STATUS_OK);
    while (n > 0)
        file_map_close(&maps[--n]);
}

static void test_more_files_than_are_watched(void **state)
{
    (void)state;
    assert_int_equal(run(map_too_many), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_cut_off_reads_as_zeros),
        cmocka_unit_test(test_a_file_that_is_empty_and_grows_again),
        cmocka_unit_test(test_threads_that_read_it_at_once),
        cmocka_unit_test(test_a_fault_elsewhere_ends_the_process),
        cmocka_unit_test(test_a_signal_by_hand_ends_the_process),
        cmocka_unit_test(test_more_files_than_are_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
