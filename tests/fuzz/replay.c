/* The main of a fuzz target outside libFuzzer: runs the target once on every file named, and on
 * every file of every folder named, so that a corpus is a regression test in any build. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *path)
{
    perror(path);
    exit(1);
}

/* The input is copied into a block of exactly its size, so that a sanitizer sees a read past it. */
static void run_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);

    if (!file || !data || fread(data, 1, size, file) != size)
        fail(path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

/* Returns how many files were run. */
static int run_path(const char *path)
{
    struct stat st;
    struct dirent **entries;
    int runs = 0;

    if (stat(path, &st) != 0)
        fail(path);
    if (!S_ISDIR(st.st_mode)) {
        run_file(path, (size_t)st.st_size);
        return 1;
    }
    int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0)
        fail(path);
    for (int i = 0; i < n; i++) {
        char child[4096];

        if (entries[i]->d_name[0] != '.') {
            snprintf(child, sizeof(child), "%s/%s", path, entries[i]->d_name);
            runs += run_path(child);
        }
        free(entries[i]);
    }
    free(entries);
    return runs;
}

int main(int argc, char **argv)
{
    int runs = 0;

    for (int i = 1; i < argc; i++)
        runs += run_path(argv[i]);
    printf("%s: %d inputs replayed\n", argv[0], runs);
    return runs > 0 ? 0 : 1;
}
