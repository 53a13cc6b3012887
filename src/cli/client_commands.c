/* The commands of fedloom-client, for machines that only take part: no runs of their own, no studies, no reports. */
#include "cli/cli.h"

const char program[] = "fedloom-client";

const char overview_text[] = "Takes part in a federation with one's own samples. `fedloom` has these commands as\n"
                             "well, and all others: this is the small program for machines that only join.\n";

const char overview_end[] = "\n"
                            "  fedloom-client help COMMAND    how a command is used, with examples\n"
                            "  fedloom-client --version       the version, and what it computes with here\n"
                            "\n"
                            "exit codes: 0 success, 1 something failed while running, 2 wrong usage or\n"
                            "configuration, 130 interrupted\n";

static const command *const commands[] = {&cmd_join, &cmd_cert};

const command *command_at(size_t i) { return i < sizeof commands / sizeof *commands ? commands[i] : NULL; }

int command_idle(const command *c)
{
    (void)c;
    return 0;
}

int command_run(const command *c, int argc, char **argv) { return c->run(argc, argv); }
