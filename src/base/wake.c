#include "base/wake.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum status wake_init(struct wake *w, struct err *err)
{
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->fd < 0)
        return err_set(err, STATUS_IO, "eventfd: %s", strerror(errno));
    return STATUS_OK;
}

void wake_fini(struct wake *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

void wake_signal(struct wake *w)
{
    uint64_t one = 1;
    /* EAGAIN means the counter is full: the sleeper is woken anyway. */
    ssize_t ignored = write(w->fd, &one, sizeof one);
    (void)ignored;
}

void wake_clear(struct wake *w)
{
    uint64_t count;
    ssize_t ignored = read(w->fd, &count, sizeof count);
    (void)ignored;
}

void wake_wait(struct wake *w)
{
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
    wake_clear(w);
}
