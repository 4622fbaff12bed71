#include "cli/serve_sandbox.h"

#include "base/buf.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every server may open beside its own files. A backend with devices adds its rows here, such
 * as {"/dev/nvidiactl", SANDBOX_READ | SANDBOX_WRITE | SANDBOX_IOCTL}. */
static const struct {
    const char *path;
    int allowed;
} system_rows[] = {
    {"/proc", SANDBOX_READ},               /* /proc/self, meminfo, stat; of others see the docs */
    {"/sys/devices/system", SANDBOX_READ}, /* processors, their caches and cores */
    {"/sys/fs/cgroup", SANDBOX_READ},      /* limits of memory and processors */
    {"/sys/kernel/mm", SANDBOX_READ},      /* huge pages */
    {"/dev/null", SANDBOX_READ | SANDBOX_WRITE},
    {"/dev/urandom", SANDBOX_READ}, /* jansson's hash seed */
    {"/usr/lib", SANDBOX_READ},     /* libraries that are loaded when they are needed */
    {"/usr/lib64", SANDBOX_READ},
    {"/lib", SANDBOX_READ},
    {"/lib64", SANDBOX_READ},
    {"/etc/ld.so.cache", SANDBOX_READ},
    {"/etc/ssl/openssl.cnf", SANDBOX_READ}, /* OpenSSL reads it for the first certificate */
    {"/etc/hosts", SANDBOX_READ},           /* the name in --host */
    {"/etc/host.conf", SANDBOX_READ},
    {"/etc/nsswitch.conf", SANDBOX_READ},
    {"/etc/resolv.conf", SANDBOX_READ},
    {"/etc/gai.conf", SANDBOX_READ},
    {"/etc/services", SANDBOX_READ},
    {"/etc/localtime", SANDBOX_READ},
    {"/usr/share/zoneinfo", SANDBOX_READ},
};

/* A file "NAME-00001-of-00003.gguf" has others beside it. */
static void allow_parts(struct sandbox *s, const char *path)
{
    static const char suffix[] = "-00001-of-00003.gguf";
    size_t len = strlen(path), stem = len - (sizeof suffix - 1);
    unsigned part, count;
    char end;
    if (len < sizeof suffix || sscanf(path + stem, "-%5u-of-%5u.ggu%c", &part, &count, &end) != 3)
        return;
    for (unsigned i = 1; i <= count; i++) {
        struct buf name = {0};
        buf_printf(&name, "%.*s-%05u-of-%05u.gguf", (int)stem, path, i, count);
        if (!name.failed)
            sandbox_allow(s, buf_str(&name), SANDBOX_READ);
        buf_fini(&name);
    }
}

/* The files of a folder in the Hub's cache are links to elsewhere. */
static void allow_links(struct sandbox *s, const char *folder)
{
    DIR *d = opendir(folder);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_type == DT_LNK && n < (int)sizeof path)
            sandbox_allow(s, path, SANDBOX_READ);
    }
    closedir(d);
}

static void allow_model(struct sandbox *s, const char *path)
{
    sandbox_allow(s, path, SANDBOX_READ);
    allow_parts(s, path);
    allow_links(s, path);
}

void serve_sandbox_confine(struct sandbox *s, const struct serve_files *files)
{
    sandbox_open(s, INT_MAX);
    for (size_t i = 0; i < sizeof system_rows / sizeof *system_rows; i++)
        sandbox_allow(s, system_rows[i].path, system_rows[i].allowed);
    if (files->model)
        allow_model(s, files->model);
    sandbox_allow(s, getenv("OPENSSL_CONF"), SANDBOX_READ);
    for (size_t i = 0; i < sizeof files->once / sizeof *files->once; i++)
        sandbox_allow(s, files->once[i], SANDBOX_READ);
    for (size_t i = 0; i < sizeof files->again / sizeof *files->again; i++)
        sandbox_allow_folder_of(s, files->again[i], SANDBOX_READ);
    for (size_t i = 0; i < sizeof files->ports / sizeof *files->ports; i++)
        if (files->ports[i] != SERVE_SANDBOX_NO_PORT)
            sandbox_allow_bind(s, (uint16_t)files->ports[i]);
    sandbox_confine(s);
}
