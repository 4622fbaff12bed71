/* `firstlight version`: what this binary is and what it runs on. */
#include "cli/commands.h"

#include "base/cpu.h"
#include "base/version.h"
#include "cli/flags.h"

#include <stdio.h>
#include <stdlib.h>

int version_command_main(int argc, char **argv)
{
    struct flag_set set = {
        .command = "version", .usage = "", .about = "Prints what this binary is and runs on."};
    char levels[128];
    int exit_code;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    printf("firstlight %s (%s), %s\n", version_number(), version_commit(), version_compiler());
    printf("%s: %s\n", cpu_model_name(), cpu_levels_text(cpu_detect(), levels, sizeof levels));
    return EXIT_SUCCESS;
}
