#include "bench/client/child_server.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SAYS_READY 'R' /* then the URL */
#define SAYS_ERROR 'E' /* then a struct err */

/* The server's side of the pipe. */
struct mouth {
    const struct server_options *options; /* the caller's */
    int fd;
};

static void say(const struct mouth *m, char what, const void *bytes, size_t len)
{
    if (write(m->fd, &what, 1) != 1 || write(m->fd, bytes, len) != (ssize_t)len)
        _exit(EXIT_FAILURE); /* nobody listens */
    close(m->fd);
}

static void child_server_ready(void *arg, const struct server_ready *r)
{
    say(arg, SAYS_READY, r->url, strlen(r->url));
}

static enum status child_server_load(void *arg, struct loader *out, struct err *err)
{
    const struct mouth *m = arg;
    return m->options->load(m->options->arg, out, err);
}

void child_server_detach(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE); /* it died before the line above */
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL);
    unsetenv("FIRSTLIGHT_API_KEY"); /* the client has none */
}

/* The child's whole life. */
static void serve(const struct server_options *options, int fd, pid_t parent)
{
    struct mouth mouth = {.options = options, .fd = fd};
    struct server_options own = *options;
    struct err err = {0};
    child_server_detach(parent);
    log_set_level(LOG_WARN);
    own.load = child_server_load;
    own.ready = child_server_ready;
    own.arg = &mouth;
    if (server_run(&own, &err) == STATUS_OK)
        _exit(EXIT_SUCCESS);
    say(&mouth, SAYS_ERROR, &err, sizeof err);
    _exit(EXIT_FAILURE);
}

/* All that the child says, up to `size` bytes. */
static enum status listen_to(int fd, char *said, size_t size, size_t *len, struct err *err)
{
    for (*len = 0; *len < size;) {
        ssize_t n = read(fd, said + *len, size - *len);
        if (n == 0)
            return STATUS_OK;
        if (n < 0 && errno == EINTR)
            return err_set(err, STATUS_CANCELLED, "interrupted while the server started");
        if (n < 0)
            return err_set(err, STATUS_IO, "the server's pipe: %s", strerror(errno));
        *len += (size_t)n;
    }
    return STATUS_OK;
}

static enum status child_server_take_news(struct child_server *c, const char *said, size_t len,
                                          struct err *err)
{
    struct err theirs;
    if (len > 1 && len - 1 < sizeof c->url && said[0] == SAYS_READY) {
        memcpy(c->url, said + 1, len - 1);
        c->url[len - 1] = '\0';
        return STATUS_OK;
    }
    if (len != 1 + sizeof theirs || said[0] != SAYS_ERROR)
        return err_set(err, STATUS_UNAVAILABLE, "the server ended before it was ready");
    memcpy(&theirs, said + 1, sizeof theirs);
    if (err)
        *err = theirs;
    return theirs.code;
}

enum status child_server_start(struct child_server *out, const struct server_options *options,
                               struct err *err)
{
    int fds[2];
    char said[1 + sizeof(struct err)];
    size_t len;
    *out = (struct child_server){0};
    if (pipe2(fds, O_CLOEXEC) != 0)
        return err_set(err, STATUS_IO, "pipe: %s", strerror(errno));
    pid_t parent = getpid();
    fflush(NULL); /* or both processes write what is buffered */
    out->pid = fork();
    if (out->pid == 0) {
        close(fds[0]);
        serve(options, fds[1], parent);
    }
    close(fds[1]);
    enum status status = STATUS_OK;
    if (out->pid < 0)
        status = err_set(err, STATUS_NO_MEMORY, "fork: %s", strerror(errno));
    if (status == STATUS_OK)
        status = listen_to(fds[0], said, sizeof said, &len, err);
    if (status == STATUS_OK)
        status = child_server_take_news(out, said, len, err);
    close(fds[0]);
    if (status != STATUS_OK)
        child_server_stop(out);
    return status;
}

void child_server_end(pid_t pid)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    int64_t deadline = clock_now_us() + CHILD_SERVER_STOP_SECONDS * 1000000;
    if (pid <= 0)
        return;
    setpgid(pid, pid); /* in case it did not come to that itself */
    kill(-pid, SIGTERM);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (clock_now_us() > deadline)
            kill(-pid, SIGKILL);
        nanosleep(&nap, NULL);
    }
    kill(-pid, SIGKILL); /* what outlived it */
}

void child_server_stop(struct child_server *c)
{
    child_server_end(c->pid);
    *c = (struct child_server){0};
}
