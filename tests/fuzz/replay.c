/* Replays inputs through a fuzz target without libFuzzer, for gcc builds and the test command:
 *
 *     build/asan/tests/fuzz/fuzz_gguf build/corpus/gguf [FILE | DIRECTORY]...
 *
 * Every regular file named, or found under a directory named, is one input. Prints how many there
 * were; exits with 1 when there were none or one could not be read. When the target crashes,
 * the path of its input is the last line on stderr.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input being replayed, for on_crash. */
static const char *current = "";

/* Names the input; then the signal, whose action is the default again, ends the program. Sanitizers
 * are told to abort too (__asan_default_options), so that they come through here. */
static void on_crash(int signal)
{
    ssize_t ignored = write(STDERR_FILENO, "replay: crashed on ", 19);
    ignored = write(STDERR_FILENO, current, strlen(current));
    ignored = write(STDERR_FILENO, "\n", 1);
    (void)ignored;
    raise(signal);
}

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return "abort_on_error=1";
}

const char *__ubsan_default_options(void)
{
    return "abort_on_error=1:print_stacktrace=1";
}

static int fail(const char *path)
{
    fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
    return -1;
}

/* Reads the file into a block of exactly its size, so that a read past the end is seen. */
static uint8_t *read_all(const char *path, size_t size)
{
    uint8_t *data = malloc(size ? size : 1);
    FILE *f = fopen(path, "rb");
    bool read = data && f && fread(data, 1, size, f) == size;
    if (f)
        fclose(f);
    if (read)
        return data;
    free(data);
    return NULL;
}

static int replay_file(const char *path, size_t size)
{
    uint8_t *data = read_all(path, size);
    if (!data)
        return fail(path);
    current = path;
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int replay_directory(const char *path);

/* Returns the number of inputs replayed, or -1. */
static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return fail(path);
    if (S_ISDIR(st.st_mode))
        return replay_directory(path);
    return S_ISREG(st.st_mode) ? replay_file(path, (size_t)st.st_size) : 0;
}

/* In the order of their names, so that two runs do the same. Names with a dot first are left out.
 */
static int replay_directory(const char *path)
{
    struct dirent **entries;
    int total = 0, n = scandir(path, &entries, NULL, alphasort);
    if (n < 0)
        return fail(path);
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        int runs = entries[i]->d_name[0] == '.' || total < 0 ? 0 : replay(name);
        total = runs < 0 ? -1 : total + runs;
        free(entries[i]);
    }
    free(entries);
    return total;
}

/* A signal that a sanitizer handles stays with it: it reports, then aborts. */
static void catch_crashes(void)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
}

int main(int argc, char **argv)
{
    catch_crashes();
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int n = replay(argv[i]);
        if (n < 0)
            return 1;
        total += n;
    }
    printf("replayed %d inputs\n", total);
    return total > 0 ? 0 : 1;
}
