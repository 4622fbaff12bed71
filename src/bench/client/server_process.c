#include "bench/client/server_process.h"

#include "base/buf.h"
#include "base/clock.h"
#include "bench/client/child_server.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS     20000000 /* between two looks at whether it is there */
#define SHOWN_BYTES 400      /* of the end of what it printed, in an error */

/* One that was free a moment ago; 0: none. */
static uint16_t free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &len) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? ntohs(at.sin_port) : 0;
}

/* The shell becomes the program, so that its pid is the program's. */
static void put_command(struct buf *out, const char *command, uint16_t port)
{
    static const char mark[] = "{port}";
    const char *from = command;
    buf_puts(out, "exec env "); /* variables may stand before the program */
    for (const char *at; (at = strstr(from, mark)); from = at + strlen(mark)) {
        buf_append(out, from, (size_t)(at - from));
        buf_printf(out, "%u", port);
    }
    buf_puts(out, from);
    if (!strstr(command, mark))
        buf_printf(out, " --host 127.0.0.1 --port %u", port);
}

/* The child's life until it is the program. */
static void become(const char *command, int output, pid_t parent)
{
    int none = open("/dev/null", O_RDONLY);
    sigset_t no_signals;
    child_server_detach(parent);
    sigemptyset(&no_signals);
    sigprocmask(SIG_SETMASK, &no_signals, NULL);
    signal(SIGXFSZ, SIG_DFL); /* main's, and outlives exec */
    dup2(none, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(EXIT_FAILURE);
}

/* HTTP status of a question for its models; 0: nobody answers. */
static long server_process_ask_models(const char *url)
{
    char models[80];
    long status = 0;
    CURL *easy = curl_easy_init();
    snprintf(models, sizeof models, "%s/v1/models", url);
    if (!easy)
        return 0;
    curl_easy_setopt(easy, CURLOPT_URL, models);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 5L);
    FILE *nowhere = fopen("/dev/null", "w");
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, nowhere ? nowhere : stderr);
    if (curl_easy_perform(easy) == CURLE_OK)
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    if (nowhere)
        fclose(nowhere);
    return status;
}

/* With the last lines that it printed. */
static enum status did_not_come_up(const struct server_process *p, const char *what,
                                   struct err *err)
{
    char text[SHOWN_BYTES + 1] = "";
    off_t end = lseek(p->output, 0, SEEK_END), from = end > SHOWN_BYTES ? end - SHOWN_BYTES : 0;
    ssize_t n = pread(p->output, text, SHOWN_BYTES, from);
    text[n > 0 ? n : 0] = '\0';
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    return err_set(err, STATUS_UNAVAILABLE, "%s; it printed: %s", what, *text ? text : "nothing");
}

static enum status wait_until_there(struct server_process *p, uint32_t timeout_seconds,
                                    const atomic_bool *stop, struct err *err)
{
    int64_t until_us = clock_now_us() + timeout_seconds * INT64_C(1000000);
    while (true) {
        long status = server_process_ask_models(p->url);
        if (status >= 200 && status < 500) /* 503: it is loading the model */
            return STATUS_OK;
        if (stop && atomic_load(stop))
            return err_set(err, STATUS_CANCELLED, "interrupted while the server started");
        if (waitpid(p->pid, NULL, WNOHANG) == p->pid) {
            kill(-p->pid, SIGKILL); /* what it left behind */
            p->pid = 0;
            return did_not_come_up(p, "the server ended before it was ready", err);
        }
        if (clock_now_us() > until_us)
            return did_not_come_up(p, "the server was not ready in time", err);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
}

static enum status spawn(struct server_process *p, const char *command, uint16_t port,
                         struct err *err)
{
    struct buf line = {0};
    pid_t parent = getpid();
    put_command(&line, command, port);
    fflush(NULL); /* or both processes write what is buffered */
    p->pid = line.failed ? -1 : fork();
    if (p->pid == 0)
        become(buf_str(&line), p->output, parent);
    buf_fini(&line);
    if (p->pid > 0)
        return STATUS_OK;
    p->pid = 0;
    return err_set(err, STATUS_NO_MEMORY, "fork: %s", strerror(errno));
}

enum status server_process_start(struct server_process *out, const char *command,
                                 uint32_t timeout_seconds, const atomic_bool *stop, struct err *err)
{
    uint16_t port = free_port();
    *out = (struct server_process){.output = memfd_create("output", MFD_CLOEXEC)};
    enum status st = STATUS_OK;
    if (out->output < 0 || port == 0)
        st = err_set(err, STATUS_IO, "no port or file for a server: %s", strerror(errno));
    snprintf(out->url, sizeof out->url, "http://127.0.0.1:%u", port);
    if (!st)
        st = spawn(out, command, port, err);
    if (!st)
        st = wait_until_there(out, timeout_seconds, stop, err);
    if (st)
        server_process_stop(out);
    return st;
}

void server_process_stop(struct server_process *p)
{
    child_server_end(p->pid);
    if (p->output > 0)
        close(p->output);
    *p = (struct server_process){0};
}
