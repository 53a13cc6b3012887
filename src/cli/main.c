/* Finds the command and runs it. */
#include "cli.h"

#include <string.h>

static const command *const commands[] = {
    &cmd_run,  &cmd_resume, &cmd_compare, &cmd_tune,   &cmd_reproduce, &cmd_plot,  &cmd_check, &cmd_config,
    &cmd_data, &cmd_list,   &cmd_show,    &cmd_verify, &cmd_cert,      &cmd_serve, &cmd_join,  &cmd_status,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char overview[] = "fedloom: a federated optimisation engine\n"
                               "\n"
                               "usage: fedloom COMMAND ...\n"
                               "\n";

const char overview_text[] = "A federation (data, who holds which samples, model, method, who takes part) is\n"
                             "described in a small YAML file; a command runs it or looks into it.\n";

const char overview_end[] = "\n"
                            "  fedloom help COMMAND    how a command is used, with examples\n"
                            "  fedloom --version       the version, and what it computes with here\n"
                            "\n"
                            "a first run, without any data of your own:\n"
                            "\n"
                            "  cat > first.yaml <<'END'\n"
                            "  data: {kind: blobs, samples: 600}\n"
                            "  partition: {kind: iid, clients: 10}\n"
                            "  model: softmax\n"
                            "  local: {epochs: 1, batch: 10, lr: 0.1}\n"
                            "  participation: {kind: uniform, count: 4}\n"
                            "  algorithm: fedavg\n"
                            "  rounds: 20\n"
                            "  END\n"
                            "  fedloom run first.yaml\n"
                            "\n"
                            "FEDLOOM_KERNELS=v2, v3 or v4 in the environment computes with the kernels for\n"
                            "those x86-64 processors, instead of the highest that this one can run\n"
                            "\n"
                            "exit codes: 0 success, 1 something failed while running, 2 wrong usage or\n"
                            "configuration, 130 interrupted\n";

const command *command_at(size_t i) { return i < COMMANDS ? commands[i] : NULL; }

static void print_overview(void)
{
    fputs(overview, stdout);
    fputs(overview_text, stdout);
    fputs("\ncommands:\n", stdout);
    for (size_t i = 0; i < COMMANDS; i++) printf("  %-9s  %s\n", commands[i]->name, commands[i]->summary);
    fputs(overview_end, stdout);
}

static const command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    char known[256] = "";
    const char *meant = NULL;
    for (size_t i = 0; i < COMMANDS; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", commands[i]->name);
        if (!meant && args_alike(name, commands[i]->name)) meant = commands[i]->name;
    }
    if (meant)
        say("%s: unknown command; did you mean %s?", name, meant);
    else
        say("%s: unknown command; the commands are: %s", name, known);
    say("`fedloom --help` shows what the commands do");
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
    const command *c = name ? find(name) : NULL;
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
        printf("fedloom %s, kernels for %s, convolutions by %s, devices %s\n", FL_VERSION, kernels, fl_convolutions(),
               fl_devices());
    return code;
}

static int dispatch(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    if (!strcmp(name, "--version")) return version();
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) return help(NULL);
    if (!strcmp(name, "help")) return help(argc > 2 ? argv[2] : NULL);
    const command *c = find(name);
    if (!c) return unknown(name);
    if (wants_help(argc - 2, argv + 2)) return help(name);
    const char *kernels;
    int code = check_kernels(&kernels);
    return code ? code : c->run(argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
    surroundings_secure();
    int code = dispatch(argc, argv);
    int lost = fflush(stdout) || ferror(stdout);
    if (lost) say("the output could not be written");
    if ((lost || ferror(stderr)) && code == CLI_OK) code = CLI_FAILED;
    return code;
}
