#include "weights/file_map.h"

#include "weights/map_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status file_map_io_error(struct err *err, const char *doing)
{
    return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "cannot %s: %s", doing,
                   strerror(errno));
}

static const char *kind_text(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a device";
}

static enum status map_descriptor(struct file_map *m, int fd, const char *path, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return file_map_io_error(err, "stat");
    if (!S_ISREG(st.st_mode))
        return err_set(err, STATUS_INVALID, "expected a regular file, found %s",
                       kind_text(st.st_mode));
    if (st.st_size == 0)
        return STATUS_OK;
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return file_map_io_error(err, "map");
    enum status s = map_guard_add(map, (size_t)st.st_size, path, err);
    if (s != STATUS_OK) {
        munmap(map, (size_t)st.st_size);
        return s;
    }
    m->bytes = map;
    m->len = (size_t)st.st_size;
    return STATUS_OK;
}

/* O_NONBLOCK, so that a FIFO is refused instead of waited for. */
enum status file_map_open(struct file_map *m, const char *path, struct err *err)
{
    *m = (struct file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return file_map_io_error(err, "open");
    enum status s = map_descriptor(m, fd, path, err);
    close(fd);
    return s;
}

void file_map_close(struct file_map *m)
{
    if (m->bytes) {
        map_guard_remove(m->bytes);
        munmap((void *)m->bytes, m->len);
    }
    *m = (struct file_map){0};
}
