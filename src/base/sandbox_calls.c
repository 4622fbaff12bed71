/* The system calls of a server that has started. Whoever adds one finds out by the kernel's log
 * (`dmesg`, lines with type=1326) which call was denied. */
#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CALL(name) SCMP_SYS(name)

// clang-format off
static const int allowed[] = {
    /* descriptors that are open */
    CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(pread64), CALL(pwrite64),
    CALL(lseek), CALL(close), CALL(dup), CALL(dup2), CALL(dup3), CALL(fcntl), CALL(fsync),
    CALL(fdatasync), CALL(ftruncate), CALL(eventfd2),
    CALL(pipe2), CALL(epoll_create1), CALL(epoll_ctl),
    CALL(epoll_wait), CALL(epoll_pwait), CALL(epoll_pwait2), CALL(poll), CALL(ppoll),
    CALL(select), CALL(pselect6),
    /* connections that clients made */
    CALL(accept), CALL(accept4), CALL(recvfrom), CALL(recvmsg), CALL(sendto), CALL(sendmsg),
    CALL(shutdown), CALL(getsockopt), CALL(setsockopt), CALL(getsockname), CALL(getpeername),
    /* files that Landlock lets be read; open and openat are below */
    CALL(stat), CALL(fstat), CALL(lstat), CALL(newfstatat), CALL(statx), CALL(access),
    CALL(faccessat), CALL(faccessat2), CALL(readlink), CALL(readlinkat), CALL(getdents64),
    CALL(getcwd),
    /* memory; mmap and mprotect are below */
    CALL(munmap), CALL(mremap), CALL(brk), CALL(madvise), CALL(mincore), CALL(mlock),
    CALL(munlock), CALL(membarrier),
    /* threads; clone is below */
    CALL(futex), CALL(futex_waitv), CALL(set_robust_list), CALL(get_robust_list), CALL(rseq),
    CALL(gettid), CALL(getpid), CALL(getppid), CALL(exit), CALL(exit_group), CALL(getcpu),
    CALL(sched_yield), CALL(sched_getaffinity), CALL(sched_getscheduler), CALL(sched_getparam),
    CALL(sched_getattr), CALL(getpriority),
    /* signals that arrive; sending is below */
    CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(rt_sigtimedwait),
    CALL(rt_sigpending), CALL(sigaltstack), CALL(restart_syscall), CALL(pause),
    /* time */
    CALL(clock_gettime), CALL(clock_getres), CALL(clock_nanosleep), CALL(nanosleep),
    CALL(gettimeofday), CALL(time), CALL(times), CALL(timerfd_create), CALL(timerfd_settime),
    CALL(timerfd_gettime), CALL(setitimer), /* err_abort's */
    /* what is asked of the system */
    CALL(getrandom), CALL(uname), CALL(sysinfo), CALL(getrusage), CALL(getrlimit), CALL(getuid),
    CALL(geteuid), CALL(getgid), CALL(getegid),
};

/* What nobody needs and an intruder would like: EPERM says that it is not allowed. All others get
 * ENOSYS, as from an older kernel, for which C libraries are prepared. */
static const int denied[] = {
    CALL(execve), CALL(execveat), CALL(fork), CALL(vfork), CALL(ptrace), CALL(process_vm_readv),
    CALL(process_vm_writev), CALL(process_madvise), CALL(pidfd_open), CALL(pidfd_getfd),
    CALL(pidfd_send_signal), CALL(kill), CALL(tkill), CALL(rt_sigqueueinfo),
    CALL(rt_tgsigqueueinfo), CALL(socket), CALL(socketpair), CALL(connect), CALL(bind),
    CALL(listen), CALL(mount), CALL(umount2), CALL(move_mount), CALL(open_tree), CALL(fsopen),
    CALL(pivot_root), CALL(chroot), CALL(unshare), CALL(setns), CALL(bpf),
    CALL(perf_event_open), CALL(userfaultfd), CALL(io_uring_setup), CALL(io_uring_enter),
    CALL(io_uring_register), CALL(add_key), CALL(request_key), CALL(keyctl), CALL(init_module),
    CALL(finit_module), CALL(delete_module), CALL(kexec_load), CALL(kexec_file_load),
    CALL(reboot), CALL(swapon), CALL(swapoff), CALL(setuid), CALL(setgid), CALL(setreuid),
    CALL(setregid), CALL(setresuid), CALL(setresgid), CALL(setgroups), CALL(setfsuid),
    CALL(setfsgid), CALL(capset), CALL(personality), CALL(memfd_create), CALL(memfd_secret),
    CALL(pkey_mprotect), CALL(creat), CALL(truncate), CALL(unlink), CALL(unlinkat),
    CALL(rename), CALL(renameat), CALL(renameat2), CALL(mkdir), CALL(mkdirat), CALL(rmdir),
    CALL(link), CALL(linkat), CALL(symlink), CALL(symlinkat), CALL(mknod), CALL(mknodat),
    CALL(chmod), CALL(fchmod), CALL(fchmodat), CALL(chown), CALL(fchown), CALL(lchown),
    CALL(fchownat), CALL(setxattr), CALL(fsetxattr),
};
// clang-format on

struct filter {
    scmp_filter_ctx rules;
    int e; /* of the first rule that failed; 0 */
};

static void rule(struct filter *f, uint32_t action, int call)
{
    if (!f->e)
        f->e = seccomp_rule_add(f->rules, action, call, 0);
}

/* The action holds when `bits` of argument `i` are `value`. */
static void when(struct filter *f, uint32_t action, int call, unsigned i, uint64_t bits,
                 uint64_t value)
{
    if (!f->e)
        f->e = seccomp_rule_add(f->rules, action, call, 1,
                                SCMP_CMP(i, SCMP_CMP_MASKED_EQ, bits, value));
}

/* Allowed unless one of the bits is set, which is then `e`. */
static void without(struct filter *f, int call, unsigned i, const uint64_t *bits, unsigned n, int e)
{
    uint64_t all = 0;
    for (unsigned k = 0; k < n; k++) {
        all |= bits[k];
        when(f, SCMP_ACT_ERRNO((uint32_t)e), call, i, bits[k], bits[k]);
    }
    when(f, SCMP_ACT_ALLOW, call, i, all, 0);
}

/* Files are opened to be read. Memory that holds code was mapped before: nobody adds to it. A new
 * process is a clone without CLONE_THREAD; clone3 hides its flags in memory, so the C library is to
 * take clone. */
static void add_files_and_memory(struct filter *f)
{
    static const uint64_t writes[] = {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC}, code[] = {PROT_EXEC};
    without(f, CALL(open), 1, writes, 4, EACCES);
    without(f, CALL(openat), 2, writes, 4, EACCES);
    without(f, CALL(mmap), 2, code, 1, EPERM);
    without(f, CALL(mprotect), 2, code, 1, EPERM);
    when(f, SCMP_ACT_ALLOW, CALL(clone), 0, CLONE_THREAD, CLONE_THREAD);
    when(f, SCMP_ACT_ERRNO(EPERM), CALL(clone), 0, CLONE_THREAD, 0);
}

/* A signal to itself is how abort ends. No ioctl types into a terminal. Limits are read, not set.
 * A thread changes its own scheduling (0), and that of no other process. */
static void add_narrow(struct filter *f)
{
    static const uint64_t ioctls[] = {FIONREAD, FIONBIO, FIOCLEX, TCGETS};
    for (unsigned i = 0; i < sizeof ioctls / sizeof *ioctls; i++)
        when(f, SCMP_ACT_ALLOW, CALL(ioctl), 1, UINT32_MAX, ioctls[i]);
    when(f, SCMP_ACT_ALLOW, CALL(tgkill), 0, UINT32_MAX, (uint64_t)getpid());
    when(f, SCMP_ACT_ALLOW, CALL(prctl), 0, UINT32_MAX, PR_SET_NAME);
    when(f, SCMP_ACT_ALLOW, CALL(prlimit64), 2, UINT64_MAX, 0);
    when(f, SCMP_ACT_ALLOW, CALL(sched_setaffinity), 0, UINT32_MAX, 0);
    when(f, SCMP_ACT_ALLOW, CALL(sched_setattr), 0, UINT32_MAX, 0);
    when(f, SCMP_ACT_ALLOW, CALL(setpriority), 1, UINT32_MAX, 0);
}

/* What an older library or kernel does not know is left out; SYSRAWRC makes the errors the
 * kernel's. SSB keeps the speed of the threads that compute: kernels before 5.16 slow every thread
 * with a filter down, against a program of its own that reads its own memory. */
static void set_attributes(scmp_filter_ctx rules)
{
    (void)seccomp_attr_set(rules, SCMP_FLTATR_API_SYSRAWRC, 1);
    (void)seccomp_attr_set(rules, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    (void)seccomp_attr_set(rules, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree instead of a list */
    (void)seccomp_attr_set(rules, SCMP_FLTATR_CTL_LOG, 1);
    (void)seccomp_attr_set(rules, SCMP_FLTATR_CTL_SSB, 1);
}

int sandbox_calls_load(void)
{
    struct filter f = {.rules = seccomp_init(SCMP_ACT_ERRNO(ENOSYS))};
    if (!f.rules)
        return -ENOMEM;
    set_attributes(f.rules);
    f.e = seccomp_attr_set(f.rules, SCMP_FLTATR_CTL_TSYNC, 1);
    for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++)
        rule(&f, SCMP_ACT_ALLOW, allowed[i]);
    for (unsigned i = 0; i < sizeof denied / sizeof *denied; i++)
        rule(&f, SCMP_ACT_ERRNO(EPERM), denied[i]);
    add_files_and_memory(&f);
    add_narrow(&f);
    if (!f.e)
        f.e = seccomp_load(f.rules);
    seccomp_release(f.rules);
    return f.e;
}
