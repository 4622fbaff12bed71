/* Files with secrets: who else may read or write them. */
#ifndef FIRSTLIGHT_BASE_SECRET_FILE_H
#define FIRSTLIGHT_BASE_SECRET_FILE_H

#include "base/err.h"

enum secret_file_kind {
    SECRET_FILE_KEYS,    /* API keys: whoever can write it can let himself in */
    SECRET_FILE_PRIVATE, /* the key of a certificate: whoever has it is this server */
};

/* A file that everybody may write is refused (STATUS_INVALID, which names it and says what to do).
 * One that everybody may read is refused as well if it is a private key, as sshd and PostgreSQL do:
 * nobody notices that it was copied, and it cannot be called back. API keys get a warning in the
 * log: they are for others to have, are easily replaced, and Kubernetes mounts secrets so. Groups
 * are left to whoever made them. STATUS_OK for a file that is not there: reading it says so. */
enum status secret_file_check(const char *path, enum secret_file_kind kind, struct err *err);

#endif
