/* Starts the program: code before main, detection of a launcher, and the choice of the command. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ==== before main ================================================================================================= */

/* OpenBLAS begins its own threads, each with its own stack and buffer, when it is loaded, before main; under a limit on
 * address space (ulimit -v) it retries for ever. fedloom needs one thread of it, and at that point only the environment
 * can limit it. So, under such a limit, the program restarts itself with that variable set. */

enum { MOST = 4096 };

static int is_set(char **env)
{
    for (; *env; env++)
        if (!strncmp(*env, "OPENBLAS_NUM_THREADS=", 21)) return 1;
    return 0;
}

/* No library is initialised yet, not even the C library: uses only system calls and the stack. */
static void limit_blas_threads(int argc, char **argv, char **env)
{
    static char one[] = "OPENBLAS_NUM_THREADS=1";
    char *with[MOST];
    struct rlimit limit;
    size_t n = 0;
    (void)argc;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY || is_set(env)) return;
    with[n++] = one;
    for (; *env && n + 1 < MOST; env++) with[n++] = *env;
    with[n] = NULL;
    if (!*env) execve("/proc/self/exe", argv, with); /* if that fails, the program continues unchanged */
}

__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char **,
                                                                                 char **) = limit_blas_threads;

/* ==== the launcher ================================================================================================ */

/* Recognises an MPI launcher by its variables in the environment. This costs nothing and needs no MPI. A batch script
 * of Slurm sets other variables than these. */

static const struct {
    const char *rank, *count, *mark; /* names of variables; `mark` need not be a number */
    const char *command;
    int abrupt; /* when a rank dies, it kills the others at once, without SIGTERM */
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "mpirun -n", 0}, /* Open MPI */
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", NULL, "mpirun -n", 1},   /* MVAPICH, whose launcher is MPICH's */
    {"PMI_RANK", "PMI_SIZE", "PMI_JOBID", "srun -K --mpi=pmi2 -n", 0},      /* with MPICH */
    {"PMI_RANK", "PMI_SIZE", NULL, "mpiexec -n", 1},                        /* MPICH, Intel MPI */
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", NULL, "srun -K --mpi=pmix -n", 0},
    {"PMIX_RANK", "PMIX_SIZE", NULL, "mpirun -n", 0}, /* others: many do not set the number */
};

/* A whole number; otherwise -1. */
static long number_of(const char *variable)
{
    const char *text = getenv(variable);
    char *end;
    long n = text && *text ? strtol(text, &end, 10) : -1;
    return n >= 0 && n < 1000000000 && !*end ? n : -1;
}

launch launch_find(void)
{
    launch none = {.count = 1, .command = ""};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        long rank = number_of(launchers[i].rank), count = number_of(launchers[i].count);
        int last = i + 1 == sizeof launchers / sizeof *launchers;
        if (launchers[i].mark && !getenv(launchers[i].mark)) continue;
        if (rank >= 0 && (count > rank || last))
            return (launch){(uint32_t)rank, count > rank ? (uint32_t)count : 0, launchers[i].command,
                            launchers[i].abrupt};
    }
    return none;
}

/* ==== commands ==================================================================================================== */

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

/* fl_name_fn: all possible first words. */
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

/* Also returns the name of this processor's kernels. */
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

/* The command that is going to run; NULL: none, only text is printed. */
static const command *asked(int argc, char **argv)
{
    return argc > 1 && !wants_help(argc - 2, argv + 2) ? command_named(argv[1]) : NULL;
}

/* Opens /dev/null for a missing stdin, stdout or stderr, so that no file of ours gets its number. Ignores SIGPIPE and
 * SIGXFSZ: a closed pipe and a file that grew too large become errors of the write. */
static void prepare_process(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) /* open takes the lowest free number: the missing one */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

int main(int argc, char **argv)
{
    prepare_process();
    if (command_idle(asked(argc, argv))) return CLI_OK;
    int code = dispatch(argc, argv);
    int lost = fflush(stdout) || ferror(stdout);
    if (lost) say("the output could not be written");
    if ((lost || ferror(stderr)) && code == CLI_OK) code = CLI_FAILED;
    return code;
}
