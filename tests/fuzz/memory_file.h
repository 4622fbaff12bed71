/* A file of these bytes for code that takes a path: in memory, read and written by its owner alone.
 */
#ifndef FIRSTLIGHT_TESTS_FUZZ_MEMORY_FILE_H
#define FIRSTLIGHT_TESTS_FUZZ_MEMORY_FILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct memory_file {
    int fd;
    char path[40];
};

static inline void memory_file_open(struct memory_file *f, const uint8_t *data, size_t size)
{
    f->fd = memfd_create("input", MFD_CLOEXEC);
    REQUIRE(f->fd >= 0 && fchmod(f->fd, S_IRUSR | S_IWUSR) == 0);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(f->fd, data + done, size - done);
        REQUIRE(n > 0);
        done += (size_t)n;
    }
    snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
}

static inline void memory_file_close(struct memory_file *f)
{
    close(f->fd);
}

#endif
