/* What this process may still do, told to the kernel: Landlock (files, TCP, signals) and seccomp
 * (system calls). A request that makes a fault of the server run code of its own then finds no file
 * to write, no key to read, no program to start and nobody to connect to.
 *
 *     sandbox_open ─► sandbox_allow ... ─► sandbox_confine    before the first thread is started:
 *                                          older kernels confine the calling thread alone
 *     threads start, files are read, ports are bound
 *     sandbox_seal                         all threads at once
 *
 * Neither can be undone. A kernel that lacks one of them is no error: the other one holds, and
 * sandbox_describe says what is missing and why. A build with a sanitizer is never confined,
 * because the sanitizer's runtime opens files and starts programs of its own.
 */
#ifndef FIRSTLIGHT_BASE_SANDBOX_H
#define FIRSTLIGHT_BASE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a row allows of a file, or of every file below a folder. Nothing else that Landlock knows is
 * ever allowed: no file is made, removed or renamed, and no program is started. */
enum { SANDBOX_READ = 1, SANDBOX_WRITE = 2, SANDBOX_IOCTL = 4 };

#define SANDBOX_ABI_MOST 6 /* of Landlock: the newest whose rights are known here */

struct sandbox {
    int abi;   /* the kernel's version of Landlock, at most what was asked for; 0: none */
    int rules; /* the rows so far, as a descriptor; -1: none are gathered (any more) */
    bool confined, sealed;
    const char *landlock_off; /* why it does not hold; static */
    const char *seccomp_off;
};

/* Sets of bits of linux/landlock.h. */
struct sandbox_rights {
    uint64_t files, net, scope;
};

/* All that a kernel with this version of Landlock can deny. */
struct sandbox_rights sandbox_rights(int abi);

/* Begins to gather. `abi_most` is INT_MAX, or in tests an older version; 0 leaves Landlock out. */
void sandbox_open(struct sandbox *s, int abi_most);

/* A row: `allowed` is of the SANDBOX_ bits. A path that does not exist is left out: whoever opens
 * it says so. A link stands for what it leads to now.
 *
 * Landlock knows files, not names. A file that may be replaced (by a rename) needs its folder as
 * the row, and for /proc only the whole of it works: the kernel forgets the files there and makes
 * others of the same name, to which a row of a single file does not apply. */
void sandbox_allow(struct sandbox *s, const char *path, int allowed);
/* The folder of the path and, behind a link, of what it leads to. Of a file in "/" only that file:
 * its folder would be everything. */
void sandbox_allow_folder_of(struct sandbox *s, const char *path, int allowed);
/* A TCP port to listen on; 0 stands for "any free one", as in bind. Connecting is never allowed. */
void sandbox_allow_bind(struct sandbox *s, uint16_t port);

/* The rows hold, for this thread and for those that it starts. Once. */
void sandbox_confine(struct sandbox *s);

/* From here on only the system calls hold that a server which has started needs (sandbox_calls.c),
 * in all threads. After sandbox_confine, once, in any thread. */
void sandbox_seal(struct sandbox *s);

/* "landlock=7 seccomp=on", or why not; the text is in `out`. */
const char *sandbox_describe(const struct sandbox *s, char *out, size_t out_size);

/* Of sandbox_seal (sandbox_calls.c): 0, or the negative errno of what failed. */
int sandbox_calls_load(void);

#endif
