/* A library that a program is started with (LD_PRELOAD) to make its calls fail: the n-th
 * allocation, read, write, open, mmap or new thread, from whichever library it comes.
 *
 * The file named by FIRSTLIGHT_SHIM holds the counters below; whoever started the program maps it
 * too, arms a kind of call at any time, and sees what failed (tests/faults/shim.py).
 *
 * With FIRSTLIGHT_SHIM_TELLS the stack of each call that fails is written to standard error.
 *
 * The calls that only wake a thread (eventfd, pipe, socketpair) never fail: the kernel's do not,
 * either.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { ALLOC, READ, WRITE, OPEN, MMAP, THREAD, KINDS };

#define MAX_SITES 8192
#define DEPTH     14 /* calls by which places are told apart */
#define MAX_FDS   65536

/* All of 8 bytes, as shim.py reads them. */
struct counter {
    _Atomic int64_t calls;
    _Atomic int64_t fail_at; /* the call that fails, counted from 1; 0: none */
    _Atomic int64_t lasting; /* and all after it */
    _Atomic int64_t failed;
    _Atomic int64_t err; /* errno; 0: the kind's own; -1: one byte is read or written */
};

struct control {
    struct counter of[KINDS];
    _Atomic int64_t live; /* allocations that were not freed */
    _Atomic int64_t live_bytes;
    _Atomic int64_t find_sites; /* notes the first call of each place */
    _Atomic int64_t n_sites;
    int64_t site_kind[MAX_SITES];
    int64_t site_call[MAX_SITES];
    uint64_t site_hash[MAX_SITES];
};

static struct control nothing;
static struct control *control = &nothing;
static pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside;     /* backtrace allocates */
static bool tells;                    /* where a call failed, on standard error */
static atomic_uchar is_wake[MAX_FDS]; /* by descriptor */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

/* Before the program's own constructors. */
__attribute__((constructor(101))) static void map_control(void)
{
    const char *path = getenv("FIRSTLIGHT_SHIM");
    void *warm[4];
    tells = getenv("FIRSTLIGHT_SHIM_TELLS") != NULL;
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = (void *)syscall(SYS_mmap, NULL, sizeof(struct control), PROT_READ | PROT_WRITE,
                              MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    (void)backtrace(warm, 4);
    if (p != MAP_FAILED)
        control = p;
}

/* ---- which call fails ---- */

static uint64_t place(void)
{
    void *frames[DEPTH + 3];
    uint64_t h = 14695981039346656037u;
    int n = backtrace(frames, DEPTH + 3);
    for (int i = 3; i < n; i++) {
        Dl_info info; /* addresses within their library, which lies elsewhere in the next run */
        uint64_t base = dladdr(frames[i], &info) ? (uint64_t)(uintptr_t)info.dli_fbase : 0;
        h = (h ^ ((uint64_t)(uintptr_t)frames[i] - base)) * 1099511628211u;
    }
    return h;
}

static void note_site(enum kind kind, int64_t call)
{
    inside = true;
    uint64_t h = place() + (uint64_t)kind;
    pthread_mutex_lock(&sites_lock);
    int64_t n = control->n_sites, i = 0;
    while (i < n && control->site_hash[i] != h)
        i++;
    if (i == n && n < MAX_SITES) {
        control->site_hash[n] = h;
        control->site_kind[n] = kind;
        control->site_call[n] = call;
        control->n_sites = n + 1;
    }
    pthread_mutex_unlock(&sites_lock);
    inside = false;
}

/* 0: it is to work; else the errno to fail with, or -1. */
static int64_t fails(enum kind kind)
{
    static const int usual[KINDS] = {ENOMEM, EIO, EIO, EMFILE, ENOMEM, EAGAIN};
    struct counter *c = &control->of[kind];
    if (inside || control == &nothing)
        return 0;
    int64_t call = atomic_fetch_add(&c->calls, 1) + 1, at = c->fail_at;
    if (control->find_sites)
        note_site(kind, call);
    if (at == 0 || !(call == at || (c->lasting && call > at)))
        return 0;
    atomic_fetch_add(&c->failed, 1);
    if (tells) {
        void *frames[32];
        inside = true;
        backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
        inside = false;
    }
    return c->err ? c->err : usual[kind];
}

static bool fails_with_errno(enum kind kind)
{
    int64_t e = fails(kind);
    if (e > 0)
        errno = (int)e;
    return e > 0;
}

/* ---- memory ---- */

static void *counted(void *p)
{
    if (p) {
        atomic_fetch_add(&control->live, 1);
        atomic_fetch_add(&control->live_bytes, (int64_t)malloc_usable_size(p));
    }
    return p;
}

static void uncounted(void *p)
{
    if (p) {
        atomic_fetch_sub(&control->live, 1);
        atomic_fetch_sub(&control->live_bytes, (int64_t)malloc_usable_size(p));
    }
}

void *malloc(size_t size)
{
    return fails_with_errno(ALLOC) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails_with_errno(ALLOC) ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
    if (fails_with_errno(ALLOC))
        return NULL;
    int64_t before = p ? (int64_t)malloc_usable_size(p) : 0;
    bool had = p != NULL;
    void *q = __libc_realloc(p, size);
    if (q || size == 0) {
        atomic_fetch_add(&control->live, (q != NULL) - had);
        atomic_fetch_add(&control->live_bytes, (q ? (int64_t)malloc_usable_size(q) : 0) - before);
    }
    return q;
}

void *reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, bytes);
}

void *memalign(size_t alignment, size_t size)
{
    return fails_with_errno(ALLOC) ? NULL : counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *p = memalign(alignment, size);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

void free(void *p)
{
    uncounted(p);
    __libc_free(p);
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (fails_with_errno(MMAP))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t len, int prot, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));

/* ---- reading and writing ---- */

static bool wakes(int fd)
{
    return fd >= 0 && fd < MAX_FDS && is_wake[fd];
}

static void mark_wake(int fd)
{
    if (fd >= 0 && fd < MAX_FDS)
        is_wake[fd] = 1;
}

int eventfd(unsigned count, int flags)
{
    int fd = (int)syscall(SYS_eventfd2, count, flags);
    mark_wake(fd);
    return fd;
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
    int st = (int)syscall(SYS_socketpair, domain, type, protocol, fds);
    for (int i = 0; i < 2 && st == 0; i++)
        mark_wake(fds[i]);
    return st;
}

int pipe2(int fds[2], int flags)
{
    int st = (int)syscall(SYS_pipe2, fds, flags);
    for (int i = 0; i < 2 && st == 0; i++)
        mark_wake(fds[i]);
    return st;
}

int close(int fd)
{
    if (fd >= 0 && fd < MAX_FDS)
        is_wake[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

/* *len: what the call may take; false: it fails. */
static bool may(enum kind kind, int fd, size_t *len)
{
    int64_t e = wakes(fd) ? 0 : fails(kind);
    if (e > 0)
        errno = (int)e;
    if (e < 0 && *len > 1)
        *len = 1;
    return e <= 0;
}

ssize_t read(int fd, void *out, size_t len)
{
    return may(READ, fd, &len) ? syscall(SYS_read, fd, out, len) : -1;
}

ssize_t pread(int fd, void *out, size_t len, off_t at)
{
    return may(READ, fd, &len) ? syscall(SYS_pread64, fd, out, len, at) : -1;
}

ssize_t pread64(int fd, void *out, size_t len, off_t at) __attribute__((alias("pread")));

ssize_t recv(int fd, void *out, size_t len, int flags)
{
    return may(READ, fd, &len) ? syscall(SYS_recvfrom, fd, out, len, flags, NULL, NULL) : -1;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    return may(WRITE, fd, &len) ? syscall(SYS_write, fd, bytes, len) : -1;
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    return may(WRITE, fd, &len) ? syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0) : -1;
}

/* Only the first byte, when one byte may be taken. */
static ssize_t vector(enum kind kind, long call, int fd, const struct iovec *v, int n)
{
    size_t len = SIZE_MAX;
    if (!may(kind, fd, &len))
        return -1;
    if (len == SIZE_MAX || n == 0)
        return syscall(call, fd, v, n);
    struct iovec first = {v[0].iov_base, v[0].iov_len > 0};
    return syscall(call, fd, &first, 1);
}

ssize_t readv(int fd, const struct iovec *v, int n)
{
    return vector(READ, SYS_readv, fd, v, n);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    return vector(WRITE, SYS_writev, fd, v, n);
}

/* ---- files and threads ---- */

static int open_at(int folder, const char *path, int flags, mode_t mode)
{
    return fails_with_errno(OPEN) ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

static mode_t mode_of(int flags, va_list args)
{
    return (flags & (O_CREAT | O_TMPFILE)) ? (mode_t)va_arg(args, int) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_at(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));

static void *next_of(const char *name)
{
    bool was = inside;
    inside = true;
    void *f = dlsym(RTLD_NEXT, name);
    inside = was;
    return f;
}

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    if (fails_with_errno(OPEN))
        return NULL;
    if (!real)
        real = (FILE * (*)(const char *, const char *)) next_of("fopen");
    return real(path, mode);
}

FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int64_t e = fails(THREAD);
    if (e > 0)
        return (int)e;
    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))next_of(
            "pthread_create");
    return real(out, attr, run, arg);
}
