/* Finds the command and runs it. */
#include "cli/cli.h"

#include <string.h>

static void print_overview(void)
{
    printf("fedloom: a federated optimisation engine\n\nusage: %s COMMAND ...\n\n", program);
    fputs(overview_text, stdout);
    fputs("\ncommands:\n", stdout);
    for (size_t i = 0; command_at(i); i++) printf("  %-10s  %s\n", command_at(i)->name, command_at(i)->summary);
    fputs(overview_end, stdout);
}

const command *command_named(const char *name)
{
    for (size_t i = 0; command_at(i); i++)
        if (!strcmp(command_at(i)->name, name)) return command_at(i);
    return NULL;
}

/* fl_name_fn: all that may be the first word. */
static const char *first_word(const void *unused, size_t i)
{
    static const char *const others[] = {"help", "--help", "--version", NULL};
    size_t n = 0;
    (void)unused;
    while (command_at(n)) n++;
    return i < n ? command_at(i)->name : others[i - n];
}

static int unknown(const char *name)
{
    char known[256] = "", meant[MEANT_LEN];
    for (size_t i = 0; command_at(i); i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", command_at(i)->name);
    }
    if (*args_meant(fl_nearest(name, first_word, NULL), meant))
        say("%s: unknown command%s", name, meant);
    else
        say("%s: unknown command; the commands are: %s", name, known);
    say("`%s --help` shows what the commands do", program);
    return CLI_USAGE;
}

static int wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return 1;
    return 0;
}

static int help(const char *name)
{
    const command *c = name ? command_named(name) : NULL;
    if (name && !c) return unknown(name);
    if (c)
        fputs(c->help, stdout);
    else
        print_overview();
    return CLI_OK;
}

/* Also tells which kernels this processor gets. */
static int check_kernels(const char **name)
{
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) return say("out of memory"), CLI_FAILED;
    fl_status s = fl_kernels(ctx, name);
    if (s) say_error(ctx);
    fl_ctx_free(ctx);
    return settings_exit(s);
}

static int version(void)
{
    const char *kernels;
    int code = check_kernels(&kernels);
    if (!code)
        printf("%s %s, kernels for %s, convolutions by %s, devices %s\n", program, FL_VERSION, kernels,
               fl_convolutions(), fl_devices());
    return code;
}

static int dispatch(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    if (!strcmp(name, "--version")) return version();
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) return help(NULL);
    if (!strcmp(name, "help")) return help(argc > 2 ? argv[2] : NULL);
    const command *c = command_named(name);
    if (!c) return unknown(name);
    if (wants_help(argc - 2, argv + 2)) return help(name);
    const char *kernels;
    int code = check_kernels(&kernels);
    return code ? code : command_run(c, argc - 2, argv + 2);
}

/* The command that is going to run; NULL: none, but something is said. */
static const command *asked(int argc, char **argv)
{
    return argc > 1 && !wants_help(argc - 2, argv + 2) ? command_named(argv[1]) : NULL;
}

int main(int argc, char **argv)
{
    surroundings_secure();
    if (command_idle(asked(argc, argv))) return CLI_OK;
    int code = dispatch(argc, argv);
    int lost = fflush(stdout) || ferror(stdout);
    if (lost) say("the output could not be written");
    if ((lost || ferror(stderr)) && code == CLI_OK) code = CLI_FAILED;
    return code;
}
