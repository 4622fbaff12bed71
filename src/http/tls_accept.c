#include "http/tls_accept.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/text_worker.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

#define SECOND_US INT64_C(1000000)

struct tls_accept {
    struct text_job job;
    struct client who;
    struct tls_accepts *of;
    struct tls_accept *next, *prev;
    SSL *ssl; /* the worker's, while `works` */
    int fd;
    struct event ready;
    int64_t until_us;
    enum { MADE, WANTS_READ, WANTS_WRITE, FAILED } state; /* after the last step */
    bool works;
    bool over; /* nobody waits for its end any more */
};

static struct tls_accept *accept_of(struct text_job *job)
{
    return (struct tls_accept *)((char *)job - offsetof(struct tls_accept, job));
}

static void unlink_accept(struct tls_accept *a)
{
    *(a->prev ? &a->prev->next : &a->of->first) = a->next;
    if (a->next)
        a->next->prev = a->prev;
    a->of->count--;
    event_del(&a->ready);
}

static void close_accept(struct tls_accept *a)
{
    SSL_free(a->ssl);
    close(a->fd);
    mem_free(a);
}

static void tls_accept_fail(struct tls_accept *a)
{
    struct tls_accepts *of = a->of;
    struct client who = a->who;
    unlink_accept(a);
    close_accept(a);
    of->done(of->arg, NULL, -1, &who);
}

static void succeed(struct tls_accept *a)
{
    unlink_accept(a);
    a->of->done(a->of->arg, a->ssl, a->fd, &a->who);
    mem_free(a);
}

/* On a worker. */
static void tls_accept_step(struct text_job *job)
{
    struct tls_accept *a = accept_of(job);
    int rc = SSL_do_handshake(a->ssl), why = SSL_get_error(a->ssl, rc);
    ERR_clear_error(); /* of this thread; nobody else looks */
    a->state = rc == 1                       ? MADE
               : why == SSL_ERROR_WANT_READ  ? WANTS_READ
               : why == SSL_ERROR_WANT_WRITE ? WANTS_WRITE
                                             : FAILED;
}

static void on_ready(evutil_socket_t fd, short what, void *arg);

static void wait_until_ready(struct tls_accept *a)
{
    int64_t left_us = a->until_us - clock_now_us();
    struct timeval left = {.tv_sec = left_us / SECOND_US, .tv_usec = left_us % SECOND_US};
    short what = a->state == WANTS_WRITE ? EV_WRITE : EV_READ;
    event_assign(&a->ready, a->of->base, a->fd, what, on_ready, a);
    if (left_us <= 0 || event_add(&a->ready, &left) != 0)
        tls_accept_fail(a);
}

static void on_step(struct text_job *job)
{
    struct tls_accept *a = accept_of(job);
    a->works = false;
    if (a->over)
        close_accept(a);
    else if (a->state == MADE)
        succeed(a);
    else if (a->state == FAILED)
        tls_accept_fail(a);
    else
        wait_until_ready(a);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct tls_accept *a = arg;
    (void)fd;
    a->works = true;
    if (!(what & EV_TIMEOUT) && text_worker_submit(a->of->workers, &a->job))
        return;
    a->works = false;
    log_info("connection.refused", "reason=\"%s\"",
             what & EV_TIMEOUT ? "its TLS handshake took too long"
                               : "too many wait for the workers");
    tls_accept_fail(a);
}

/* An address has an account and a line of its own for handshakes: its texts have theirs. */
static struct client account_of(const struct client *who)
{
    return (struct client){{who->word[0], ~who->word[1]}};
}

bool tls_accept_start(struct tls_accepts *of, SSL_CTX *tls, int fd, const struct client *who)
{
    struct tls_accept *a = mem_zalloc(sizeof *a);
    SSL *ssl = a ? SSL_new(tls) : NULL;
    if (!ssl || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        mem_free(a);
        ERR_clear_error();
        return false;
    }
    SSL_set_accept_state(ssl);
    a->job = (struct text_job){
        .work = tls_accept_step, .done = on_step, .client = account_of(who), .no_text = true};
    a->who = *who;
    a->of = of;
    a->ssl = ssl;
    a->fd = fd;
    a->state = WANTS_READ;
    a->until_us = clock_now_us() + LIMIT_REQUEST_SECONDS * SECOND_US;
    a->next = of->first;
    if (a->next)
        a->next->prev = a;
    of->first = a;
    of->count++;
    wait_until_ready(a);
    return true;
}

void tls_accept_end(struct tls_accepts *all)
{
    struct tls_accept *a;
    while ((a = all->first)) {
        unlink_accept(a);
        a->over = true;
        if (!a->works || text_worker_drop(all->workers, &a->job))
            close_accept(a);
    }
}
