/* fedloom completion: scripts by which shells complete what is typed, and what they ask the program for. */
#include "cli/complete.h"

#include <string.h>

/* packaging/completion, which is also installed where shells look. */
extern const char completion_bash[], completion_zsh[], completion_fish[];

typedef struct {
    const char *name, *script;
} shell;

static const shell shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};
enum { SHELLS = sizeof shells / sizeof *shells };

/* fl_name_fn */
static const char *shell_name(const void *unused, size_t i)
{
    (void)unused;
    return i < SHELLS ? shells[i].name : NULL;
}

static int print_script(const char *name)
{
    char meant[MEANT_LEN];
    for (const shell *s = shells; s < shells + SHELLS; s++)
        if (!strcmp(s->name, name)) return fputs(s->script, stdout), CLI_OK;
    return say_usage("completion", "%s: not one of bash, zsh and fish%s", name,
                     args_meant(fl_nearest(name, shell_name, NULL), meant));
}

static int print_words(const words *line)
{
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) return say("out of memory"), CLI_FAILED;
    complete_print(ctx, line);
    fl_ctx_free(ctx);
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    words plain = {0};
    const option options[] = {{0}};
    int code = args_parse("completion", options, argc, argv, &plain);
    int asks = plain.n && !strcmp(plain.v[0], "words");
    if (!code && !plain.n) code = say_usage("completion", "which SHELL? bash, zsh or fish");
    if (!code && !asks && plain.n > 1) code = say_usage("completion", "%s: one argument too many", plain.v[1]);
    if (!code) code = asks ? print_words(&(words){plain.n - 1, plain.v + 1}) : print_script(plain.v[0]);
    args_free(&plain);
    return code;
}

static const char help[] = "usage: fedloom completion bash | zsh | fish\n"
                           "       fedloom completion words -- WORD...\n"
                           "\n"
                           "Prints a script by which a shell completes commands, options, files, methods,\n"
                           "experiments, and keys and values after --set. An installed fedloom has put these\n"
                           "scripts where the shells look for them; without one, in ~/.bashrc, ~/.zshrc\n"
                           "(after compinit) or ~/.config/fish/config.fish:\n"
                           "\n"
                           "  source <(fedloom completion bash)\n"
                           "  source <(fedloom completion zsh)\n"
                           "  fedloom completion fish | source\n"
                           "\n"
                           "The scripts ask the program itself: `words` prints what the last WORD of a\n"
                           "command line, without `fedloom`, may become, and what that means. `:files` and\n"
                           "`:folders` stand for those that there are.\n"
                           "\n"
                           "examples:\n"
                           "  source <(fedloom completion bash)\n"
                           "  fedloom completion words -- run --set local.\n";

const command cmd_completion = {"completion", "scripts for bash, zsh and fish that complete what is typed",
                                help,         run,
                                RANKS_FIRST,  {TAKES_SHELL, TAKES_ANY}};
