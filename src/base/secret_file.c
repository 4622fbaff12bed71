#include "base/secret_file.h"

#include "base/log.h"

#include <sys/stat.h>

enum status secret_file_check(const char *path, enum secret_file_kind kind, struct err *err)
{
    struct stat st;
    char name[300];
    if (stat(path, &st) != 0 || S_ISCHR(st.st_mode)) /* what is of /dev keeps nothing */
        return STATUS_OK;
    unsigned mode = st.st_mode & 07777;
    if (mode & S_IWOTH)
        return err_set(err, STATUS_INVALID,
                       "%s may be written by everybody (its mode is %04o): chmod o-w it", path,
                       mode);
    if (!(mode & S_IROTH))
        return STATUS_OK;
    if (kind == SECRET_FILE_PRIVATE)
        return err_set(err, STATUS_INVALID,
                       "%s is a private key that everybody may read (its mode is %04o): chmod o-r "
                       "it",
                       path, mode);
    log_warn("file.readable", "path=%s mode=%04o by=everybody help=\"chmod o-r\"",
             log_quote(path, name, sizeof name), mode);
    return STATUS_OK;
}
