/* The log's writer: lines come whole, what does not fit is counted, and nobody waits for a reader.
 */
#include "base/log_writer.h"

#include "base/limits.h"
#include "base/log.h"

#include "support/cmocka_all.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_BYTES 4096
#define THREADS    4
#define LINES      4000 /* of each: several times LIMIT_LOG_BYTES */

/* Standard error is a small pipe while a test runs. */
struct terminal {
    int saved, reader;
};

static void redirect(struct terminal *t)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
    t->saved = dup(STDERR_FILENO);
    t->reader = ends[0];
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
}

static void restore(struct terminal *t)
{
    dup2(t->saved, STDERR_FILENO); /* closes the pipe's other end, too */
    close(t->saved);
}

static void *log_lines(void *arg)
{
    for (int i = 0; i < LINES; i++)
        log_info("test.line", "thread=%d line=%d text=%060d", *(int *)arg, i, 0);
    return NULL;
}

/* What was read: lines of test.line, and the sum of what log.dropped says. */
struct seen {
    unsigned long lines, dropped;
    int last[THREADS]; /* line of each thread */
};

static void see(struct seen *s, const char *line)
{
    int thread, number;
    unsigned long n;
    const char *at;
    if ((at = strstr(line, " warn log.dropped ")) &&
        sscanf(at, " warn log.dropped lines=%lu", &n) == 1) {
        s->dropped += n;
        return;
    }
    at = strstr(line, " info test.line ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, " info test.line thread=%d line=%d", &thread, &number), 2);
    assert_true(thread >= 0 && thread < THREADS && number > s->last[thread]);
    assert_int_equal(strlen(at), strlen(" info test.line thread=0 line= text=\n") + 60 +
                                     (size_t)snprintf(NULL, 0, "%d", number));
    s->last[thread] = number;
    s->lines++;
}

static void *read_all(void *arg)
{
    struct seen *s = arg;
    char line[4096];
    FILE *f = fdopen(s->last[0], "r");
    for (int i = 0; i < THREADS; i++)
        s->last[i] = -1;
    while (fgets(line, sizeof line, f))
        see(s, line);
    fclose(f);
    return NULL;
}

/* LIMIT_LOG_BYTES */
static void test_unread(void **state)
{
    (void)state;
    struct terminal t;
    struct seen seen = {0};
    pthread_t threads[THREADS], reader;
    int numbers[THREADS];
    redirect(&t);
    enum status st = log_writer_start(NULL);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, log_lines, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL); /* though nobody reads */
    unsigned long dropped = log_writer_dropped();
    seen.last[0] = t.reader;
    pthread_create(&reader, NULL, read_all, &seen);
    log_writer_settle(60000);
    log_writer_stop();
    restore(&t);
    pthread_join(reader, NULL);
    assert_int_equal(st, STATUS_OK);
    assert_true(dropped > 0);
    assert_int_equal(seen.dropped, dropped);
    assert_int_equal(seen.lines + seen.dropped, THREADS * LINES);
    assert_true(seen.lines * 100 > LIMIT_LOG_BYTES / 2);
}

/* Without a writer a line is out when log_event returns. */
static void test_direct(void **state)
{
    (void)state;
    struct terminal t;
    char before[256] = {0}, between[256] = {0}, after[256] = {0};
    redirect(&t);
    log_info("one", NULL);
    bool ok = read(t.reader, before, sizeof before - 1) > 0;
    ok = ok && log_writer_start(NULL) == STATUS_OK;
    log_info("two", NULL);
    log_writer_settle(60000);
    ok = ok && read(t.reader, between, sizeof between - 1) > 0;
    log_writer_stop();
    log_writer_stop(); /* once more does nothing */
    log_info("three", NULL);
    ok = ok && read(t.reader, after, sizeof after - 1) > 0;
    restore(&t);
    close(t.reader);
    assert_true(ok);
    assert_non_null(strstr(before, " info one\n"));
    assert_non_null(strstr(between, " info two\n"));
    assert_non_null(strstr(after, " info three\n"));
}

/* A broken invariant ends the process, whoever reads; if somebody does, it says why. */
static void test_abort(void **state)
{
    (void)state;
    for (int full = 0; full <= 1; full++) {
        struct terminal t;
        char bytes[PIPE_BYTES] = {0}, said[PIPE_BYTES] = {0};
        int how = 0;
        redirect(&t);
        bool ok = !full || write(STDERR_FILENO, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
        pid_t child = fork();
        if (child == 0) {
            setrlimit(RLIMIT_CORE, &(struct rlimit){0});
            log_writer_start(NULL);
            log_info("before", NULL);
            if (!full)
                log_writer_settle(60000);
            err_abort("pigs fly", "file.c", 7);
        }
        ok = ok && waitpid(child, &how, 0) == child;
        ok = ok && read(t.reader, said, sizeof said - 1) > 0;
        restore(&t);
        close(t.reader);
        assert_true(ok && WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
        assert_true(full || strstr(said, "broken invariant at file.c:7: pigs fly\n"));
        assert_true(full || strstr(said, " info before\n"));
    }
}

/* Lines wait, and nobody comes: the end does not wait for them, nor does what is said after it. */
static void test_end(void **state)
{
    (void)state;
    struct terminal t;
    char full[PIPE_BYTES] = {0};
    redirect(&t);
    bool ok = write(STDERR_FILENO, full, sizeof full) == (ssize_t)sizeof full;
    ok = ok && log_writer_start(NULL) == STATUS_OK;
    log_info("one", NULL);
    log_writer_stop();
    log_info("two", NULL);
    restore(&t);
    close(t.reader); /* lets the thread that was left go */
    assert_true(ok);
}

static char put_line[256];
static bool put_takes;

static bool put_once(const char *line, size_t len)
{
    snprintf(put_line, sizeof put_line, "%.*s", (int)len, line);
    return put_takes;
}

static void settle_tells(int milliseconds)
{
    log_plain(milliseconds > 0 ? "settled" : "in no time");
}

/* Whoever is registered gets each line; one that it does not take is written as without it. */
static void test_registered(void **state)
{
    (void)state;
    struct terminal t;
    char said[PIPE_BYTES] = {0};
    redirect(&t);
    log_set_writer(put_once);
    put_takes = true;
    log_info("taken", NULL);
    bool ok = strstr(put_line, " info taken\n") != NULL;
    put_takes = false;
    log_info("left", NULL);
    ok = ok && strstr(put_line, " info left\n") && read(t.reader, said, sizeof said - 1) > 0;
    log_set_writer(NULL);
    restore(&t);
    close(t.reader);
    assert_true(ok);
    assert_non_null(strstr(said, " info left\n"));
    assert_null(strstr(said, "taken"));
}

/* An abort calls whoever is registered, after its own message. */
static void test_abort_settles(void **state)
{
    (void)state;
    struct terminal t;
    char said[PIPE_BYTES] = {0};
    int how = 0;
    redirect(&t);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        log_set_writer(NULL);
        err_on_abort(settle_tells);
        err_abort("pigs fly", "file.c", 7);
    }
    bool ok = waitpid(child, &how, 0) == child && read(t.reader, said, sizeof said - 1) > 0;
    restore(&t);
    close(t.reader);
    assert_true(ok && WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    const char *message = strstr(said, "pigs fly");
    assert_true(message && strstr(message, "settled\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registered),
        cmocka_unit_test(test_abort_settles),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_end), /* the last one: its thread stays */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
