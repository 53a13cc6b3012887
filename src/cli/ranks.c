/* One run by several processes, which an MPI launcher started: `mpirun -n 4 fedloom run FILE`. The program is not
 * linked with MPI; it loads libfedloom_mpi when it finds itself started like that.
 *
 * Rank 0 alone speaks. What others have to say is kept, and said only if they fail alone. A rank that fails waits a
 * while for the others to fail alike; if they do not, they are waiting for it, and it ends them all. */
#include "cli/cli.h"
#include "fedloom_mpi.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double patience = 5; /* seconds for the others to fail alike: ranks of a busy machine lag behind */

/* The functions of fedloom_mpi.h. */
typedef struct {
    const char *(*version)(void);
    const char *(*error)(void);
    fl_status (*start)(void);
    void (*finish)(void);
    void (*abort)(int status);
    fl_status (*ranks_new)(const void *comm, fl_ranks *out);
    void (*ranks_free)(fl_ranks *ranks);
    fl_status (*meet)(const fl_ranks *ranks, int brought, double seconds, int *least, int *most);
    void *(*common)(const fl_ranks *ranks);
} library;

static library mpi;
static fl_ranks ranks; /* count 0: this process is alone */

const fl_ranks *ranks_table(void) { return ranks.count ? &ranks : NULL; }

int ranks_first(void) { return !ranks.rank; }

const char *ranks_command(char text[RANKS_COMMAND_LEN])
{
    *text = 0;
    if (ranks.count) snprintf(text, RANKS_COMMAND_LEN, "%s %u ", launch_find().command, ranks.count);
    return text;
}

int ranks_abrupt(void) { return ranks.count && launch_find().abrupt; }

/* ---- the library ------------------------------------------------------------------------------------------- */

/* Beside the program, as in a build folder, or where it is installed. */
static void *load(char *path, size_t size)
{
    static const char *const places[] = {"", FEDLOOM_LIBRARIES "/"};
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n < 0) return NULL;
    path[n] = 0;
    char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(name, size - (size_t)(name - path), "%s%s", places[i], FEDLOOM_MPI_LIBRARY);
        if (!access(path, F_OK)) return dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* MPI's own plugins look for it */
    }
    return NULL;
}

static int find_functions(void *from)
{
    const struct {
        const char *name;
        void *place;
    } wanted[] = {
        {"fl_mpi_version", &mpi.version},       {"fl_mpi_error", &mpi.error}, {"fl_mpi_start", &mpi.start},
        {"fl_mpi_finish", &mpi.finish},         {"fl_mpi_abort", &mpi.abort}, {"fl_mpi_ranks_new", &mpi.ranks_new},
        {"fl_mpi_ranks_free", &mpi.ranks_free}, {"fl_mpi_meet", &mpi.meet},   {"fl_mpi_common", &mpi.common},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = dlsym(from, wanted[i].name);
        if (!function) return 0;
        memcpy(wanted[i].place, &function, sizeof function); /* C has no cast for this */
    }
    return !strcmp(mpi.version(), FL_VERSION);
}

static int open_library(const launch *l)
{
    char path[4096] = "";
    void *from = load(path, sizeof path);
    if (from && find_functions(from)) return CLI_OK;
    if (l->rank) return CLI_FAILED; /* rank 0 says it */
    if (from)
        say("%s is not of version %s, as this program is", path, FL_VERSION);
    else if (!access(path, F_OK))
        say("%s", dlerror());
    else
        say("several processes were started, but %s is not there: install it (Debian: libfedloom-mpi0), or build "
            "fedloom where MPI is installed (libopenmpi-dev, openmpi-bin)",
            FEDLOOM_MPI_LIBRARY);
    return CLI_FAILED;
}

/* ---- start and end ----------------------------------------------------------------------------------------- */

/* A launcher of another MPI starts processes that do not find each other. */
static int check_count(const launch *l)
{
    if (!l->count || l->count == ranks.count) return CLI_OK;
    if (!l->rank)
        say("%u processes were started, but MPI knows of %u: the launcher must belong to the MPI library that fedloom "
            "was built with",
            l->count, ranks.count);
    return CLI_FAILED;
}

static int begin(const launch *l)
{
    int code = open_library(l);
    if (code) return code;
    ranks.size = sizeof ranks;
    if (mpi.start() || mpi.ranks_new(NULL, &ranks)) {
        say("MPI: %s", mpi.error());
        return CLI_FAILED;
    }
    if ((code = check_count(l))) {
        mpi.ranks_free(&ranks);
        mpi.finish();
        return code;
    }
    if (ranks.rank) say_keep();
    return CLI_OK;
}

/* This rank has failed, and the others have not. */
static void end_all(int code)
{
    if (ranks.rank)
        say_kept(ranks.rank);
    else
        say("rank 0 failed alone, and ends the other ranks");
    last_words_say();
    mpi.abort(code);
    _exit(code);
}

/* Returns what the worst of them came with. */
static int meet(int code)
{
    int least = code, most = code;
    if (code && *mpi.error()) say("MPI: %s", mpi.error());
    if (mpi.meet(&ranks, code, code ? patience : -1, &least, &most)) end_all(code ? code : CLI_FAILED);
    if (least != most && code && ranks.rank) say_kept(ranks.rank);
    return most;
}

int ranks_failed(int code) { return ranks.count ? meet(code) : code; }

static int run_together(const command *c, int argc, char **argv, const launch *l)
{
    int code = begin(l);
    if (code) return code;
    code = meet(c->run(argc, argv));
    last_words_forget(); /* the launcher ends those that are last to leave, if the first left with an error */
    mpi.ranks_free(&ranks);
    mpi.finish();
    return code;
}

void ranks_signals(int quiet)
{
    interrupt_install(quiet);
    interrupt_also(SIGUSR1);
    interrupt_also(SIGUSR2);
    if (!ranks.count) return;
    interrupt_together();
    last_words_install(mpi.common(&ranks));
}

/* ---- commands ---------------------------------------------------------------------------------------------- */

int command_idle(const command *c)
{
    launch l = launch_find();
    return l.rank && !(c && c->ranks == RANKS_ALL);
}

int command_run(const command *c, int argc, char **argv)
{
    launch l = launch_find();
    if (l.count == 1 || c->ranks == RANKS_FIRST) return c->run(argc, argv);
    if (c->ranks == RANKS_ALL) return run_together(c, argc, argv, &l);
    say("`fedloom %s` is for one process; those of which several make one run are `fedloom run` and `fedloom resume`",
        c->name);
    return CLI_USAGE;
}
