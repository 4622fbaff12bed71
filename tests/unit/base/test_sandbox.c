/* The sandbox: what each version of Landlock can deny, and, in a child process of its own since
 * nothing of it can be undone, what every thread may do and may not. */
#include "base/sandbox.h"

#include "support/cmocka_all.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Below a fresh folder: allowed/file is a row, replaced/ is a folder's row, link leads to
 * allowed/file, forbidden is none. */
static char folder[] = "/tmp/firstlight-sandbox-XXXXXX";
static struct sockaddr_in listener = {.sin_family = AF_INET}; /* somebody else's, who takes all */
static int listener_fd;

static const char *path(const char *name)
{
    static _Thread_local char text[128];
    snprintf(text, sizeof text, "%s/%s", folder, name);
    return text;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(path(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    socklen_t len = sizeof listener;
    if (!mkdtemp(folder))
        return -1;
    mkdir(path("allowed"), 0755);
    mkdir(path("replaced"), 0755);
    mkdir(path("beside"), 0755);
    write_file("allowed/file", "one");
    write_file("allowed/other", "two");
    write_file("replaced/file", "three");
    write_file("beside/target", "four");
    write_file("forbidden", "five");
    write_file("program", "\177ELF");
    chmod(path("program"), 0755);
    if (symlink("../beside/target", path("replaced/link")) != 0)
        return -1;
    listener.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener_fd = socket(AF_INET, SOCK_STREAM, 0);
    return bind(listener_fd, (struct sockaddr *)&listener, sizeof listener) ||
           listen(listener_fd, 64) || getsockname(listener_fd, (struct sockaddr *)&listener, &len);
}

static int tear_down(void **state)
{
    static const char *const names[] = {"allowed/file", "allowed/other", "replaced/file",
                                        "replaced/new", "replaced/link", "beside/target",
                                        "forbidden",    "program",       "allowed",
                                        "replaced",     "beside"};
    (void)state;
    close(listener_fd);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(path(names[i]));
    return rmdir(folder);
}

/* --- attempts: 0, or the errno ---------------------------------------------------------------- */

static int result(long r)
{
    return r < 0 ? errno : 0;
}

static int open_as(const char *file, int flags)
{
    int fd = open(file, flags | O_CLOEXEC, 0600), e = result(fd);
    if (fd >= 0)
        close(fd);
    return e;
}

static int read_row(void)
{
    return open_as(path("allowed/file"), O_RDONLY);
}
static int read_folder(void)
{
    return open_as(path("replaced/file"), O_RDONLY);
}
static int read_link(void)
{
    return open_as(path("replaced/link"), O_RDONLY);
}
static int read_null(void)
{
    return open_as("/dev/null", O_RDONLY);
}
static int read_self(void)
{
    return open_as("/proc/self/stat", O_RDONLY);
}
static int read_sibling(void)
{
    return open_as(path("allowed/other"), O_RDONLY);
}
static int read_passwd(void)
{
    return open_as("/etc/passwd", O_RDONLY);
}
static int read_forbidden(void)
{
    return open_as(path("forbidden"), O_RDONLY);
}
static int read_around(void)
{
    return open_as("/proc/self/root/etc/passwd", O_RDONLY);
}
static int write_row(void)
{
    return open_as(path("allowed/file"), O_WRONLY);
}
static int cut_row(void)
{
    return open_as(path("allowed/file"), O_RDONLY | O_TRUNC);
}
static int write_null(void)
{
    return open_as("/dev/null", O_RDWR);
}
static int make_file(void)
{
    return open_as(path("replaced/new"), O_RDWR | O_CREAT);
}
static int remove_file(void)
{
    return result(unlink(path("replaced/none")));
}

/* A program that no system can run, so that the attempt comes back when it is let through. */
static int run_program(void)
{
    char *const argv[] = {(char[]){"x"}, NULL};
    return result(execve(path("program"), argv, NULL));
}

static int run_program_at(void)
{
    char *const argv[] = {(char[]){"x"}, NULL};
    return result(syscall(SYS_execveat, AT_FDCWD, path("program"), argv, NULL, 0));
}

static int process(long pid)
{
    if (pid == 0)
        _exit(0);
    int e = result(pid);
    if (pid > 0)
        waitpid((pid_t)pid, NULL, 0);
    return e;
}

static int start_fork(void)
{
    return process(syscall(SYS_fork));
}
static int start_clone(void)
{
    return process(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}
static int start_clone3(void)
{
    return result(syscall(SYS_clone3, NULL, 0));
}
static int trace(void)
{
    return result(ptrace(PTRACE_DETACH, getppid(), 0, 0));
}

static int with_socket(int (*f)(int, const struct sockaddr *, socklen_t), in_port_t port)
{
    struct sockaddr_in to = listener;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    to.sin_port = port;
    int e = result(f(fd, (struct sockaddr *)&to, sizeof to));
    close(fd);
    return e;
}

static int connect_out(void)
{
    return with_socket(connect, listener.sin_port);
}
static int bind_any(void)
{
    return with_socket(bind, 0);
}
static int bind_taken(void)
{
    return with_socket(bind, listener.sin_port);
}
static int signal_parent(void)
{
    return result(kill(getppid(), 0));
}
static int signal_itself(void)
{
    return result(syscall(SYS_tgkill, getpid(), gettid(), 0));
}
static int unknown_call(void)
{
    return result(syscall(9999));
}
static int type_in(void)
{
    return result(ioctl(listener_fd, TIOCSTI, "x"));
}
static int count_bytes(void)
{
    int pair[2], n, e = result(pipe(pair));
    if (!e)
        e = result(ioctl(pair[0], FIONREAD, &n));
    close(pair[0]);
    close(pair[1]);
    return e;
}

static int map(int protection)
{
    void *p = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int e = p == MAP_FAILED ? errno : 0;
    if (!e)
        munmap(p, 4096);
    return e;
}

static int map_code(void)
{
    return map(PROT_READ | PROT_EXEC);
}
static int map_data(void)
{
    return map(PROT_READ | PROT_WRITE);
}

static int make_code(void)
{
    static char page[8192];
    char *at = (char *)(((uintptr_t)page + 4095) & ~(uintptr_t)4095);
    return result(mprotect(at, 4096, PROT_READ | PROT_EXEC));
}

static int use_memory(void)
{
    for (size_t n = 1000; n < 100000000; n *= 10) { /* brk, arenas, mmap, mremap, trim */
        char *p = malloc(n), *q = p ? realloc(p, 2 * n) : NULL;
        if (!q)
            return ENOMEM;
        memset(q, 1, 2 * n);
        free(q);
    }
    return 0;
}

static void *nothing(void *arg)
{
    return arg;
}

static int start_thread(void)
{
    pthread_t thread;
    int e = pthread_create(&thread, NULL, nothing, NULL);
    return e ? e : pthread_join(thread, NULL);
}

static int random_bytes(void)
{
    char bytes[16];
    return result(getrandom(bytes, sizeof bytes, 0));
}

static int wake(void)
{
    int fd = eventfd(1, EFD_CLOEXEC), e = result(fd);
    close(fd);
    return e;
}

/* What is expected of it. */
struct attempt {
    const char *name;
    int (*try)(void);
    int plain;    /* not confined */
    int abi;      /* from which on Landlock denies it; 0: never */
    int landlock; /* with this errno */
    int seccomp;  /* the errno; LET: as without */
};

enum { LET = -1 };

static const struct attempt attempts[] = {
    {"read a row", read_row, 0, 0, 0, LET},
    {"read below a row", read_folder, 0, 0, 0, LET},
    {"read what a link leads to", read_link, 0, 0, 0, LET},
    {"read a device that is a row", read_null, 0, 0, 0, LET},
    {"read of /proc", read_self, 0, 0, 0, LET},
    {"read beside a row", read_sibling, 0, 1, EACCES, LET},
    {"read /etc/passwd", read_passwd, 0, 1, EACCES, LET},
    {"read another file", read_forbidden, 0, 1, EACCES, LET},
    {"read through /proc/self/root", read_around, 0, 1, EACCES, LET},
    {"write a row", write_row, 0, 1, EACCES, EACCES},
    {"cut a row", cut_row, 0, 3, EACCES, EACCES},
    {"write a device that is a row", write_null, 0, 0, 0, EACCES},
    {"make a file", make_file, 0, 1, EACCES, EACCES},
    {"remove a file", remove_file, ENOENT, 0, 0, EPERM},
    {"run a program", run_program, ENOEXEC, 1, EACCES, EPERM},
    {"run a program by execveat", run_program_at, ENOEXEC, 1, EACCES, EPERM},
    {"fork", start_fork, 0, 0, 0, EPERM},
    {"clone a process", start_clone, 0, 0, 0, EPERM},
    {"clone3", start_clone3, EINVAL, 0, 0, ENOSYS},
    {"trace", trace, ESRCH, 0, 0, EPERM},
    {"connect", connect_out, 0, 4, EACCES, EPERM},
    {"bind a free port", bind_any, 0, 0, 0, EPERM},
    {"bind another port", bind_taken, EADDRINUSE, 4, EACCES, EPERM},
    {"signal another process", signal_parent, 0, 6, EPERM, EPERM},
    {"signal itself", signal_itself, 0, 0, 0, LET},
    {"an unknown call", unknown_call, ENOSYS, 0, 0, LET},
    {"type into a terminal", type_in, ENOTTY, 0, 0, ENOSYS},
    {"count bytes", count_bytes, 0, 0, 0, LET},
    {"map code", map_code, 0, 0, 0, EPERM},
    {"make data code", make_code, 0, 0, 0, EPERM},
    {"map data", map_data, 0, 0, 0, LET},
    {"use memory", use_memory, 0, 0, 0, LET},
    {"start a thread", start_thread, 0, 0, 0, LET},
    {"random bytes", random_bytes, 0, 0, 0, LET},
    {"an eventfd", wake, 0, 0, 0, LET},
};
enum { N_ATTEMPTS = sizeof attempts / sizeof *attempts, N_THREADS = 4 };

/* --- the child -------------------------------------------------------------------------------- */

enum { NOT_TRIED = -1 };

/* Shared with the child. A thread's row is the main thread, two that started before the process
 * was sealed, and one after. */
struct seen {
    struct sandbox sandbox;
    char text[256];
    int errors[N_THREADS][N_ATTEMPTS];
    int replaced; /* errno of reading a row's file after a rename put another one there */
    int no_new_privs;
};

struct turn {
    struct seen *seen;
    int thread;
    atomic_bool go;
};

static void try_all(struct turn *t)
{
    for (int i = 0; i < N_ATTEMPTS; i++)
        t->seen->errors[t->thread][i] = attempts[i].try();
}

static void *wait_and_try(void *arg)
{
    struct turn *t = arg;
    while (!atomic_load(&t->go))
        sched_yield();
    try_all(t);
    return NULL;
}

static void go_on(pthread_t thread, struct turn *t)
{
    atomic_store(&t->go, true);
    pthread_join(thread, NULL);
}

/* One attempt at a time, since some of them are of the whole process. */
static void live(struct seen *seen, int abi, bool seal, int renamed)
{
    struct sandbox *s = &seen->sandbox;
    struct turn turns[N_THREADS];
    pthread_t threads[N_THREADS];
    char byte;
    for (int i = 0; i < N_THREADS; i++) {
        turns[i] = (struct turn){.seen = seen, .thread = i};
        atomic_init(&turns[i].go, false);
    }
    sandbox_open(s, abi);
    sandbox_allow(s, path("allowed/file"), SANDBOX_READ);
    sandbox_allow_folder_of(s, path("replaced/link"), SANDBOX_READ);
    sandbox_allow(s, "/proc", SANDBOX_READ);
    sandbox_allow(s, "/dev/null", SANDBOX_READ | SANDBOX_WRITE | SANDBOX_IOCTL);
    sandbox_allow(s, path("does not exist"), SANDBOX_READ);
    sandbox_allow_bind(s, 0);
    sandbox_confine(s);
    seen->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    for (int i = 1; i <= 2; i++)
        pthread_create(&threads[i], NULL, wait_and_try, &turns[i]);
    if (seal)
        sandbox_seal(s);
    pthread_create(&threads[3], NULL, wait_and_try, &turns[3]);
    for (int i = 1; i < N_THREADS; i++)
        go_on(threads[i], &turns[i]);
    try_all(&turns[0]);
    if (read(renamed, &byte, 1) == 1)
        seen->replaced = read_folder();
    sandbox_describe(s, seen->text, sizeof seen->text);
}

/* What a child saw that is confined with this version of Landlock and, with `seal`, seccomp. */
static struct seen *child(int abi, bool seal)
{
    struct seen *seen =
        mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status, renamed[2];
    assert_true(seen != MAP_FAILED);
    memset(seen->errors, NOT_TRIED, sizeof seen->errors);
    seen->replaced = NOT_TRIED;
    assert_int_equal(pipe(renamed), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        live(seen, abi, seal, renamed[0]);
        _exit(0);
    }
    write_file("allowed/other", "three again");
    assert_int_equal(rename(path("allowed/other"), path("replaced/file")), 0);
    write_file("allowed/other", "two");
    assert_int_equal(write(renamed[1], "!", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(renamed[0]);
    close(renamed[1]);
    return seen;
}

static void give_back(struct seen *seen)
{
    munmap(seen, sizeof *seen);
}

static int expected(const struct attempt *a, const struct sandbox *s)
{
    if (s->sealed && a->seccomp != LET)
        return a->seccomp;
    return s->confined && a->abi > 0 && s->abi >= a->abi ? a->landlock : a->plain;
}

static void check(const struct seen *seen)
{
    for (int t = 0; t < N_THREADS; t++)
        for (int i = 0; i < N_ATTEMPTS; i++) {
            int got = seen->errors[t][i], want = expected(&attempts[i], &seen->sandbox);
            if (got != want)
                fail_msg("%s: thread %d: %s: expected \"%s\", found \"%s\"", seen->text, t,
                         attempts[i].name, strerror(want),
                         got == NOT_TRIED ? "not tried" : strerror(got));
        }
    assert_int_equal(seen->replaced, 0);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_rights(void **state)
{
    (void)state;
    static const struct {
        uint64_t files, net, scope;
    } want[] = {{0, 0, 0},      {0x1fff, 0, 0}, {0x3fff, 0, 0}, {0x7fff, 0, 0},
                {0x7fff, 3, 0}, {0xffff, 3, 0}, {0xffff, 3, 3}};
    for (int abi = -1; abi < 100; abi++) {
        int i = abi < 0 ? 0 : abi > SANDBOX_ABI_MOST ? SANDBOX_ABI_MOST : abi;
        struct sandbox_rights got = sandbox_rights(abi);
        assert_int_equal(got.files, want[i].files);
        assert_int_equal(got.net, want[i].net);
        assert_int_equal(got.scope, want[i].scope);
    }
}

static void test_describe(void **state)
{
    (void)state;
    char text[256];
    struct sandbox s = {.abi = 7, .confined = true, .sealed = true};
    assert_string_equal(sandbox_describe(&s, text, sizeof text), "landlock=7 seccomp=on");
    s = (struct sandbox){.landlock_off = "Function not implemented", .seccomp_off = "No such"};
    assert_string_equal(sandbox_describe(&s, text, sizeof text),
                        "landlock=off landlock_reason=\"Function not implemented\" seccomp=off "
                        "seccomp_reason=\"No such\"");
}

/* The version of Landlock here; the reason of a test that is skipped is printed. */
static int version_or_skip(void)
{
    struct sandbox s;
    sandbox_open(&s, INT_MAX);
    if (s.rules < 0) {
        print_message("skipped: no Landlock here: %s\n", s.landlock_off);
        skip();
    }
    close(s.rules);
    return s.abi;
}

static void skip_without_seccomp(struct seen *seen)
{
    if (seen->sandbox.sealed)
        return;
    print_message("skipped: no seccomp here: %s\n", seen->sandbox.seccomp_off);
    give_back(seen);
    skip();
}

static void skip_if_sanitized(void)
{
#ifdef FIRSTLIGHT_SANITIZED
    print_message("skipped: a sanitizer does not survive bare clones\n");
    skip();
#endif
}

/* As the server does it, and with each older version of Landlock. */
static void test_every_thread(void **state)
{
    (void)state;
    for (int abi = version_or_skip(); abi >= 1; abi--) {
        struct seen *seen = child(abi, true);
        skip_without_seccomp(seen);
        assert_true(seen->sandbox.confined);
        assert_int_equal(seen->sandbox.abi, abi);
        assert_int_equal(seen->no_new_privs, 1);
        check(seen);
        give_back(seen);
    }
}

/* While a model loads there is no seccomp yet. */
static void test_landlock_alone(void **state)
{
    (void)state;
    for (int abi = version_or_skip(); abi >= 1; abi--) {
        struct seen *seen = child(abi, false);
        assert_true(seen->sandbox.confined && !seen->sandbox.sealed);
        check(seen);
        give_back(seen);
    }
}

/* As on a kernel without Landlock: files are still opened to be read only. */
static void test_seccomp_alone(void **state)
{
    (void)state;
    skip_if_sanitized();
    struct seen *seen = child(0, true);
    skip_without_seccomp(seen);
    assert_false(seen->sandbox.confined);
    assert_string_equal(seen->text, "landlock=off landlock_reason=\"left out\" seccomp=on");
    check(seen);
    give_back(seen);
}

/* The attempts themselves work, so that a refusal above is the sandbox's. */
static void test_nothing(void **state)
{
    (void)state;
    skip_if_sanitized();
    struct seen *seen = child(0, false);
    assert_false(seen->sandbox.confined || seen->sandbox.sealed);
    check(seen);
    give_back(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rights),        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_every_thread),  cmocka_unit_test(test_landlock_alone),
        cmocka_unit_test(test_seccomp_alone), cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
