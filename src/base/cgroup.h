/* What Linux' control groups leave to this process: its own group bounds it, and so does each group
 * above, up to the highest one that can be seen from here (in a container, that is its own).
 *
 * Of version 1 (a hierarchy for memory, one for processors) and version 2, and of both at once. The
 * groups are named by /proc/self/cgroup, and /proc/self/mountinfo says where they are to be found.
 * Files that are missing or make no sense bound nothing. Any thread; every call reads anew. Nothing
 * of this is read once a server is ready.
 */
#ifndef FIRSTLIGHT_BASE_CGROUP_H
#define FIRSTLIGHT_BASE_CGROUP_H

#include <stddef.h>

/* The bytes that may still be taken, the least of all groups; SIZE_MAX: no group has a limit.
 *
 * A group is charged with the pages of files that its processes have read, as well. The kernel
 * drops these before it kills anybody, so they count as room, as they do in MemAvailable of
 * /proc/meminfo; or a server could not start twice in one group, with the model's file still in
 * memory. Files of a tmpfs are not among them: they cannot be dropped. Where version 2 throttles
 * before its limit (memory.high) there is no room either. */
size_t cgroup_memory_room(void);

/* The least quota of all groups in processors, rounded up; INT_MAX: none has one. */
int cgroup_processors(void);

/* The same in another tree: `root` stands before every path that is opened ("": this machine). */
size_t cgroup_memory_room_in(const char *root);
int cgroup_processors_in(const char *root);

/* Tells `see` each path that the functions above read, for whoever confines this process: the files
 * of /proc, and the folders below which the groups are. `path` lasts until `see` returns. */
void cgroup_each_path(void (*see)(void *arg, const char *path), void *arg);

#endif
