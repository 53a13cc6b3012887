/* Carries out a run, alone or as one of several processes: progress on stderr, and the saved result. */
#include "cli/cli.h"
#include "fedloom_mpi.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ==== a bar ======================================================================================================= */

/* A line that is rewritten in place: a bar, per cent, the time left, and words. */

enum { LONGEST = 24, NUMBERS_LEN = 64, NARROW = 60 }; /* columns; below NARROW only words, no bar */

static void print_bar(size_t cells, double fraction)
{
    size_t full = (size_t)(fraction * (double)cells);
    fputs(tone_on(stderr, TONE_GOOD), stderr);
    for (size_t i = 0; i < full; i++) fputs("\u2588", stderr);
    fprintf(stderr, "%s%s", tone_off(stderr), tone_on(stderr, TONE_FAINT));
    for (size_t i = full; i < cells; i++) fputs("\u2591", stderr);
    fprintf(stderr, "%s ", tone_off(stderr));
}

/* " 42%  1:05 left  " */
static size_t put_numbers(char out[NUMBERS_LEN], double fraction, double left)
{
    int n = snprintf(out, NUMBERS_LEN, "%3.0f%%  ", 100 * fraction);
    unsigned long s = isfinite(left) && left < 3.6e8 ? (unsigned long)(left + 0.5) : 0;
    if (!isfinite(left) || left >= 3.6e8) return (size_t)n;
    if (s >= 3600)
        n += snprintf(out + n, NUMBERS_LEN - (size_t)n, "%lu:%02lu:%02lu left  ", s / 3600, s / 60 % 60, s % 60);
    else
        n += snprintf(out + n, NUMBERS_LEN - (size_t)n, "%lu:%02lu left  ", s / 60, s % 60);
    return (size_t)n;
}

/* Cuts after this many characters, not bytes. */
static void cut(char *line, size_t columns)
{
    size_t n = 0;
    for (char *c = line; *c; c++) {
        if (((unsigned char)*c & 0xC0) == 0x80) continue;
        if (n++ == columns) {
            *c = 0;
            return;
        }
    }
}

void bar_paint(double fraction, double seconds_left, char *text)
{
    char numbers[NUMBERS_LEN];
    double done = fraction > 0 ? fmin(fraction, 1) : 0;
    size_t width = terminal_width(stderr), room = width > 1 ? width - 1 : 79; /* a full line would wrap */
    size_t cells = room < NARROW ? 0 : LONGEST, taken = put_numbers(numbers, done, seconds_left);
    fputc('\r', stderr);
    if (cells) print_bar(cells, done);
    taken += cells + (cells > 0);
    cut(numbers, room);
    cut(say_clean(text), room > taken ? room - taken : 0);
    fprintf(stderr, "%s%s\033[K", numbers, text);
    fflush(stderr);
}

void bar_erase(void) { fputs("\r\033[K", stderr); }

/* ==== progress ==================================================================================================== */

/* A line rewritten in place on a terminal, else about twenty plain lines per run. */

enum { PLAIN_LINES = 20, LINE_MAX_LEN = 512 };
static const double paint_every = 0.1; /* seconds */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void append(char *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void append(char *line, const char *fmt, ...)
{
    size_t n = strlen(line);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + n, LINE_MAX_LEN - n, fmt, ap);
    va_end(ap);
}

/* The last measured metrics, the most important first: one for each ten of the order. */
static void append_metrics(char *line, const fl_row *r)
{
    const fl_metric *m;
    int filled = 0;
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_PROGRESS, k)); k++) {
        char text[VALUE_MAX_LEN];
        int ten = m->shown[FL_VIEW_PROGRESS].order / 10;
        if (isnan(fl_row_value(r, m)) || ten == filled) continue;
        append(line, "  %s %s", m->shown[FL_VIEW_PROGRESS].label, value_text(m, fl_row_value(r, m), text));
        filled = ten;
    }
}

static void paint(progress *p, const fl_run *run, size_t round)
{
    char line[LINE_MAX_LEN] = "";
    size_t rounds = fl_run_rounds(run), done = round - p->first;
    double spent = now() - p->begun, rate = done && spent > 0 ? (double)done / spent : 0;
    append(line, "%s  %zu/%zu", fl_run_name(run), round, rounds);
    append_metrics(line, &p->row);
    if (rate > 0) append(line, rate < 100 ? "  %.3g rounds/s" : "  %.0f rounds/s", rate);
    bar_paint((double)round / (double)rounds, rate > 0 ? (double)(rounds - round) / rate : NAN, line);
    p->drawn = 1;
    p->painted = now();
}

static void erase(progress *p)
{
    if (p->drawn) bar_erase();
    p->drawn = 0;
}

static void print_line(progress *p, const fl_run *run, const char *end)
{
    char line[LINE_MAX_LEN] = "";
    append(line, "%s  round %zu/%zu", fl_run_name(run), fl_row_round(&p->row), fl_run_rounds(run));
    append_metrics(line, &p->row);
    append(line, "  %.1f s%s", fl_row_get(&p->row, "seconds"), end);
    erase(p);
    fprintf(stderr, "%s\n", say_clean(line));
    p->last = fl_row_round(&p->row);
}

void progress_init(progress *p, int quiet)
{
    memset(p, 0, sizeof *p);
    p->quiet = quiet;
    p->live = terminal_moves(stderr);
}

static void progress_begin(progress *p, const fl_run *run)
{
    char line[LINE_MAX_LEN] = "";
    for (size_t k = 0; k < FL_METRICS_MAX; k++) p->row.value[k] = NAN;
    p->begun = now();
    p->first = fl_run_round(run);
    p->painted = 0;
    p->next = 0;
    p->last = SIZE_MAX;
    if (p->quiet) return;
    append(line, "%s: %s, %zu clients, %zu parameters, at least %.0f MiB of memory", fl_run_name(run),
           fl_run_algorithm(run), fl_run_clients(run), fl_run_parameters(run), ceil(fl_run_memory(run) / 0x1p20));
    fprintf(stderr, "%s\n", say_clean(line));
}

static void progress_step(progress *p, const fl_run *run, const fl_row *row, int measured)
{
    size_t round = fl_row_round(row);
    if (measured) p->row = *row;
    if (p->quiet) return;
    if (p->live) {
        if (now() - p->painted >= paint_every) paint(p, run, round);
    } else if (measured && round >= p->next) {
        print_line(p, run, "");
        p->next = round + (fl_run_rounds(run) + PLAIN_LINES - 1) / PLAIN_LINES;
    }
}

static void progress_end(progress *p, const fl_run *run)
{
    static const char *const why[] = {
        [FL_STOP_NONE] = "",
        [FL_STOP_ROUNDS] = "",
        [FL_STOP_TARGET] = "  (target reached)",
        [FL_STOP_GRADIENT] = "  (gradient small enough)",
        [FL_STOP_TIME] = "  (time limit)",
        [FL_STOP_ASKED] = "  (stopped)",
    };
    const char *end = why[fl_run_stopped_by(run)];
    const fl_row *row = fl_run_row(run);
    if (!p->quiet && row) {
        p->row = *row;
        if (p->live || p->last != fl_row_round(row) || *end) print_line(p, run, end);
    }
    erase(p);
}

void progress_log(void *arg, fl_log_level level, const char *line)
{
    progress *p = arg;
    if (p->quiet && (level == FL_LOG_INFO || !ranks_first())) return;
    erase(p);
    say_log(NULL, level, line);
}

/* ==== the exit note =============================================================================================== */

/* When several processes are ended from outside, because one died or on request, the exit note tells how to resume the
 * run. A launcher sends SIGTERM, and SIGKILL a second later, so the sentence is prepared before, and the signal handler
 * writes it. On each machine only one process writes it: the first to set a number that all of them share. */

typedef struct {
    size_t n;
    char text[2048];
} sentence;

static sentence sentences[2]; /* the ready one, and the one being written */
static _Atomic(const sentence *) ready;
static _Atomic(atomic_int *) note_printed;

static void exit_note_prepare(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void exit_note_prepare(const char *fmt, ...)
{
    sentence *next = atomic_load(&ready) == &sentences[0] ? &sentences[1] : &sentences[0];
    char line[sizeof next->text - 16];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    next->n = (size_t)snprintf(next->text, sizeof next->text, "fedloom: %s\n", say_clean(line));
    atomic_store(&ready, next);
}

static void exit_note_forget(void) { atomic_store(&ready, NULL); }

/* Prints the note, once per machine. Safe in a signal handler. */
static void exit_note_say(void)
{
    const sentence *s = atomic_load(&ready);
    atomic_int *once = atomic_load(&note_printed);
    if (s && once && !atomic_exchange(once, 1)) (void)!write(STDERR_FILENO, s->text, s->n);
}

static void on_end(int number)
{
    (void)number;
    exit_note_say();
    _exit(CLI_INTERRUPTED);
}

/* Enables the exit note. `common` is a number that all processes of the machine share. */
static void exit_note_install(void *common)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = on_end;
    sigemptyset(&act.sa_mask);
    atomic_store(&note_printed, common);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}

/* ==== several processes =========================================================================================== */

/* One run by several processes, which an MPI launcher started: `mpirun -n 4 fedloom run FILE`. The program is not
 * linked with MPI; it loads libfedloom_mpi if a launcher started it.
 *
 * Rank 0 alone prints. Other ranks hold their output back and print it only if they fail alone. A rank that fails waits
 * some seconds for the others to fail, too. If they do not, they are waiting for it, and it ends them all. */

static const double patience = 5; /* seconds to wait for the others to fail: ranks of a busy machine lag behind */

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
static fl_ranks ranks; /* count 0: a single process */

const fl_ranks *ranks_table(void) { return ranks.count ? &ranks : NULL; }

int ranks_first(void) { return !ranks.rank; }

static const char *ranks_command(char text[RANKS_COMMAND_LEN])
{
    *text = 0;
    if (ranks.count) snprintf(text, RANKS_COMMAND_LEN, "%s %u ", launch_find().command, ranks.count);
    return text;
}

/* Whether the launcher kills all ranks when one dies, before they can print the exit note. */
static int ranks_abrupt(void) { return ranks.count && launch_find().abrupt; }

/* ---- the library ------------------------------------------------------------------------------------------- */

/* Loads the library from the program's folder, as in a build, or from where it is installed. */
static void *load(char *path, size_t size)
{
    static const char *const places[] = {"", FEDLOOM_LIBRARIES "/"};
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n < 0) return NULL;
    path[n] = 0;
    char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(name, size - (size_t)(name - path), "%s%s", places[i], FEDLOOM_MPI_LIBRARY);
        if (!access(path, F_OK)) return dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* MPI's plugins need its symbols */
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
        memcpy(wanted[i].place, &function, sizeof function); /* C cannot cast it to a function pointer */
    }
    return !strcmp(mpi.version(), FL_VERSION);
}

static int open_library(const launch *l)
{
    char path[4096] = "";
    void *from = load(path, sizeof path);
    if (from && find_functions(from)) return CLI_OK;
    if (l->rank) return CLI_FAILED; /* rank 0 prints it */
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

/* Refuses the launcher of another MPI, whose processes do not find each other. */
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
    if (ranks.rank) say_hold();
    return CLI_OK;
}

/* Ends all ranks, because this one has failed and the others have not. */
static void end_all(int code)
{
    if (ranks.rank)
        say_held(ranks.rank);
    else
        say("rank 0 failed alone, and ends the other ranks");
    exit_note_say();
    mpi.abort(code);
    _exit(code);
}

/* Waits for all ranks; returns their largest code. */
static int meet(int code)
{
    int least = code, most = code;
    if (code && *mpi.error()) say("MPI: %s", mpi.error());
    if (mpi.meet(&ranks, code, code ? patience : -1, &least, &most)) end_all(code ? code : CLI_FAILED);
    if (least != most && code && ranks.rank) say_held(ranks.rank);
    return most;
}

int ranks_failed(int code) { return ranks.count ? meet(code) : code; }

static int run_together(const command *c, int argc, char **argv, const launch *l)
{
    int code = begin(l);
    if (code) return code;
    code = meet(c->run(argc, argv));
    exit_note_forget(); /* if the first rank leaves with an error, the launcher ends those that leave later */
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
    exit_note_install(mpi.common(&ranks));
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

/* ==== one run ===================================================================================================== */

/* From a new run to its saved result, with progress. */

typedef struct {
    fl_run *run;
    progress *progress;
    int checkpointed, resume_noted;
} observed_run;

/* Some launchers leave no time for the exit note. So this prints the command to resume before, unless the run ends with
 * that checkpoint, when it is printed anyway. */
static void note_resume_command(observed_run *w)
{
    char starter[RANKS_COMMAND_LEN];
    int ending = fl_run_stopped_by(w->run) != FL_STOP_NONE;
    if (!w->checkpointed || w->resume_noted || ending || w->progress->quiet || !ranks_abrupt()) return;
    say("note: if a rank dies, go on from the last checkpoint with `%sfedloom resume %s`", ranks_command(starter),
        fl_run_output(w->run));
    w->resume_noted = 1;
}

static void observe(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    observed_run *w = arg;
    if (interrupt_seen()) fl_run_stop(w->run);
    note_resume_command(w);
    progress_step(w->progress, run, row, measured);
}

/* Prepares the exit note with the command to resume, because several processes are ended when one of them dies. */
static void prepare_exit_note(const fl_run *run, size_t round, int any)
{
    char starter[RANKS_COMMAND_LEN];
    if (any)
        exit_note_prepare("the run ended early; the last checkpoint is after round %zu: %sfedloom resume %s", round,
                          ranks_command(starter), fl_run_output(run));
    else
        exit_note_prepare("the run ended early, and there is no checkpoint to go on from; --checkpoint-every K, or "
                          "the key checkpoint_every, writes them");
}

/* fl_checkpoint_fn */
static void note_checkpoint(void *arg, const fl_checkpoint *c)
{
    observed_run *w = arg;
    if (c->status != FL_OK) return;
    prepare_exit_note(w->run, c->round, 1);
    w->checkpointed = 1;
}

/* Ends a run with a checkpoint or with a result. */
static fl_status finish(fl_run *run, const char *command_line, progress *p)
{
    char starter[RANKS_COMMAND_LEN];
    int asked = fl_run_stopped_by(run) == FL_STOP_ASKED;
    if (asked && fl_run_checkpointed(run)) {
        if (!p->quiet)
            say("stopped after round %zu; `%sfedloom resume %s` continues it", fl_run_round(run),
                ranks_command(starter), fl_run_output(run));
        return FL_OK;
    }
    fl_status s = fl_run_save_with_report(run, command_line);
    if (!s && !p->quiet) say("results and report.html are in %s", fl_run_output(run));
    return s;
}

int events_check(const char *tensorboard, const char *run_name)
{
    struct stat st;
    if (!tensorboard) return CLI_OK;
    if (!stat(tensorboard, &st) && !S_ISDIR(st.st_mode)) {
        say("%s: --tensorboard needs a folder, but this is a file", tensorboard);
        return CLI_FAILED;
    }
    if (*run_name && !strchr(run_name, '/') && strcmp(run_name, ".") && strcmp(run_name, "..")) return CLI_OK;
    say("name is %s, which cannot be a folder below %s; give the run a name without a slash", run_name, tensorboard);
    return CLI_USAGE;
}

static fl_status write_events(fl_run *run, const char *tensorboard)
{
    size_t size = strlen(tensorboard) + strlen(fl_run_name(run)) + 2;
    char *folder = malloc(size);
    if (!folder) return FL_ENOMEM;
    snprintf(folder, size, "%s/%s", tensorboard, fl_run_name(run));
    fl_status s = fl_run_events(run, folder);
    free(folder);
    return s;
}

fl_status run_and_save(fl_run *run, const run_options *how, progress *p, run_table *sum)
{
    observed_run w = {.run = run, .progress = p};
    int save = *fl_run_output(run) != 0;
    fl_status s = save ? fl_run_prepare_save(run, how->force) : FL_OK;
    if (s) return s;
    prepare_exit_note(run, fl_run_round(run), fl_run_checkpointed(run));
    fl_run_on_checkpoint(run, note_checkpoint, &w);
    progress_begin(p, run);
    s = fl_run_go(run, observe, &w);
    fl_run_on_checkpoint(run, NULL, NULL);
    progress_end(p, run);
    if (!run_table_add(sum, run)) say("out of memory: %s is missing in the table", fl_run_name(run));
    if (fl_run_stopped_by(run) == FL_STOP_ASKED) interrupt_agreed();
    if (!s && save) s = finish(run, how->command_line, p);
    if (!s && how->tensorboard) s = write_events(run, how->tensorboard);
    if (!s) exit_note_forget();
    return s;
}
