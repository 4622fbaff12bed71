/* A model file that is cut short while it is loaded. */
#include "model/load/loader.h"
#include "support/cmocka_all.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODEL "tests/golden/tiny/base.gguf"

static char path[32];

static void copy_model(void)
{
    strcpy(path, "/tmp/loader-XXXXXX");
    int fd = mkstemp(path);
    FILE *in = fopen(MODEL, "rb");
    assert_true(fd >= 0 && in);
    char bytes[4096];
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(write(fd, bytes, n), n);
    fclose(in);
    close(fd);
}

/* As soon as that is being done, and once. */
static void cut_then(void *arg, const char *what, double fraction)
{
    (void)fraction;
    const char **when = arg;
    if (!*when || strcmp(what, *when) != 0)
        return;
    *when = NULL;
    if (truncate(path, 0) != 0)
        abort();
}

/* In a process of its own, since cmocka takes SIGBUS for itself. Its exit status. */
static int load_and_cut(const char *when, bool whole)
{
    int status;
    copy_model();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct loader l;
        struct err err = {0};
        signal(SIGBUS, SIG_DFL);
        enum status st = loader_open(&l, path, cut_then, &when, &err);
        bool named = strstr(err.text, path) != NULL;
        if (when) /* it was not cut */
            _exit(2);
        _exit(whole ? st != STATUS_OK : !(st == STATUS_UNAVAILABLE && named));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(path);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_cut_before_its_tokenizer_is_read(void **state)
{
    (void)state;
    assert_int_equal(load_and_cut("reading tokenizer", false), 0);
}

/* All that is asked for was there: the one step of so small a file is done. */
static void test_cut_after_its_weights_were_read(void **state)
{
    (void)state;
    assert_int_equal(load_and_cut("reading weights", true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_before_its_tokenizer_is_read),
        cmocka_unit_test(test_cut_after_its_weights_were_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
