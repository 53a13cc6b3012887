/* The fedloom program: a client of fedloom.h, and of nothing else of the library but src/net.
 *
 * A command is a descriptor at the bottom of its file and one line in commands.c. What commands share is below, by the
 * file that has it. */
#ifndef FLI_CLI_CLI_H
#define FLI_CLI_CLI_H

#include "fedloom.h"
#include "fedloom_ranks.h"

#include <jansson.h>
#include <stdio.h>

/* What the program exits with. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* What a command does where an MPI launcher started several processes. */
typedef enum { RANKS_REFUSED, RANKS_FIRST /* the first of them does it */, RANKS_ALL /* together */ } command_ranks;

/* What a word of a command line is, for completion; most are not known. */
typedef enum {
    TAKES_ANY,
    TAKES_FILE,
    TAKES_FOLDER,
    TAKES_SETTING, /* KEY=VALUE */
    TAKES_METHOD,
    TAKES_METHODS, /* A,B,... */
    TAKES_MODEL,
    TAKES_PARTITION,
    TAKES_SOURCE, /* of data: a kind or a file */
    TAKES_DEVICE,
    TAKES_KIND, /* of things that `list` knows */
    TAKES_NAME, /* one of those that the word before is about */
    TAKES_FORMAT,
    TAKES_PAGE, /* of the manual */
    TAKES_SHELL,
    TAKES_ACTION, /* of `cert` */
    TAKES_EXPERIMENT,
    TAKES_QUANTITY,
    TAKES_AXIS
} option_takes;

typedef struct {
    const char *name;
    const char *summary;               /* one line for the overview */
    const char *help;                  /* the whole page */
    int (*run)(int argc, char **argv); /* without the command's name; returns an exit code */
    command_ranks ranks;
    option_takes takes[2]; /* its first word that is no option, and all others */
} command;

extern const command cmd_run, cmd_resume, cmd_compare, cmd_tune, cmd_reproduce, cmd_plot, cmd_check, cmd_config,
    cmd_data, cmd_list, cmd_show, cmd_export, cmd_verify, cmd_cert, cmd_serve, cmd_join, cmd_status, cmd_audit,
    cmd_completion, cmd_init;

/* The program's name, and the overview of its help: what stands before and after the commands, and the commands
 * themselves, NULL past the last (commands.c). */
extern const char program[], overview_text[], overview_end[];
const command *command_at(size_t i);
const command *command_named(const char *name); /* NULL: there is none (main.c) */

/* The names of the actions of `cert`, NULL at the end (cmd_cert.c). */
const char *const *cert_actions(void);

/* Where the experiments are that `reproduce` knows by name (cmd_reproduce.c): the environment's word, this folder, or
 * where they were installed. */
const char *experiments_folder(void);

/* ---- values of metrics (args.c) ---------------------------------------------------------------------------------- */

/* A value in the digits that suit its metric, bytes as megabytes; returns `text`. */
enum { VALUE_MAX_LEN = 64 };
const char *value_text(const fl_metric *m, double v, char text[VALUE_MAX_LEN]);

/* ---- the terminal (terminal.c) ---------------------------------------------------------------------------- */

/* Whether a stream is a terminal whose cursor moves and whose lines can be erased: TERM is neither missing nor dumb. */
int terminal_moves(FILE *f);
/* Columns of a line there; 0: it is no terminal, and lines are as long as they are. */
size_t terminal_width(FILE *f);

/* What a text is, for its colour. */
typedef enum { TONE_HEAD, TONE_GOOD, TONE_BAD, TONE_CARE, TONE_FAINT } tone;
/* What stands before a text and after it, so that it has its colour: "" where colours are not wanted, which is on all
 * that does not move (above), and with NO_COLOR in the environment. */
const char *tone_on(FILE *f, tone t);
const char *tone_off(FILE *f);

/* Prints a table, which is clean, as it suits the terminal: its heading marked, and columns that do not fit beside the
 * others below them. */
void print_fitted(const char *text, FILE *out);

/* ---- tables (terminal.c) ----------------------------------------------------------------------------------------- */

typedef struct {
    size_t columns, cells, capacity;
    char **cell; /* row by row; the first row is the heading */
} table;

void table_init(table *t, size_t columns);
void table_free(table *t);
void table_add(table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The first `left` columns flush left, the others flush right. */
void table_print(const table *t, size_t left, FILE *out);

/* ---- sentences and JSON (say.c) ---------------------------------------------------------------------------------- */

/* One "fedloom: ..." line on stderr. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* From now on such lines are held back; say_held prints them, as a rank's. */
void say_hold(void);
void say_held(uint32_t rank);
/* Every sentence of the context's error as such a line. */
void say_error(const fl_ctx *ctx);
/* say(), plus where to read on; returns CLI_USAGE. */
int say_usage(const char *command_name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Replaces control characters and what is no UTF-8, so that no text from a file moves the cursor. Returns s. */
char *say_clean(char *s);
/* Several sentences on one line, cleaned; changes them. */
void say_joined(FILE *to, char *lines);
/* A line on stdout with a file's name. */
void say_path(const char *before, const char *path);
/* fl_text_fn: to stdout, cleaned except for line breaks and tabs. */
void say_out(void *unused, const char *text);
void say_some(const char *text, size_t size); /* the same of a part of a text */
/* fl_text_fn: the same of a table, by print_fitted. */
void say_table(void *unused, const char *text);
/* fl_log_fn: notes and warnings as lines on stderr. */
void say_log(void *unused, fl_log_level level, const char *line);
/* The same without the notes, for --quiet. */
void say_warning(void *unused, fl_log_level level, const char *line);

/* Prints a document, takes it, and returns an exit code; NULL: there was no memory for it. */
int json_out(json_t *document);
/* Values of any kind: what is no number is null, and what is no text is made one, as on a terminal. */
json_t *json_out_number(double v);
json_t *json_out_text(const char *s);

/* fl_text_fn whose argument is a json_t *: takes a document that the library prints. NULL: there was no memory. */
void json_take(void *document, const char *text);

/* ---- arguments (args.c) ------------------------------------------------------------------------------------------ */

typedef struct {
    size_t n;
    const char **v;
} words;

typedef enum {
    OPT_FLAG,  /* int: 1 if given */
    OPT_TEXT,  /* const char *: the last one given */
    OPT_WORDS, /* words: all of them, in order */
    OPT_COUNT, /* size_t, from 1 */
    OPT_REAL,  /* double, from 0 */
    OPT_FORMAT /* int: 1 for json, 0 for table */
} opt_type;

typedef struct {
    const char *name; /* with the dashes; NULL ends the list */
    opt_type type;
    void *out;
    option_takes takes;
} option;

/* Sorts arguments into options and plain words. CLI_OK, or CLI_USAGE after saying what is wrong. The words must be
 * freed with args_free in either case; they start out zeroed. */
int args_parse(const char *command_name, const option *options, int argc, char **argv, words *plain);
void args_free(words *w);
/* Shows the option table of a command to `fn`. It lies on the command's stack, with places for values in it: so the
 * command is begun, and args_parse hands the table out and has it end. */
void args_show_options(const command *c, void (*fn)(void *arg, const option *options), void *arg);
/* "; did you mean NEAR?" for the end of a sentence, "" if `near` (of fl_nearest) is NULL. Returns `out`. */
enum { MEANT_LEN = 160 };
const char *args_meant(const char *near, char out[MEANT_LEN]);
/* The command line, for reports; to be freed. NULL: out of memory. */
char *command_line_text(const char *command_name, int argc, char **argv);

/* ---- data and YAML files by name (config_args.c) ----------------------------------------------------------------- */

/* Which kind of data a file holds, by the ending of its name. */
typedef struct {
    const char *suffix, *kind;
    const char *key[2];             /* of `data`, where the first file goes, and the second; NULL: there is none */
    const char *also_key, *also_is; /* a further key of `data`, and its value; NULL: none */
} data_format;

/* NULL: the ending does not say. */
const data_format *data_format_of(const char *file);
/* All endings, for a sentence. */
extern const char data_endings[];

/* The *.yaml of a folder, in the order of their names; 0: it cannot be read. To be freed in either case. */
int yaml_files(const char *folder, words *out);
void yaml_files_free(words *files);
/* The one of them, without its ending, that `name`, with an ending or without, was probably meant to be; 0: none is
 * near. */
int yaml_files_near(const char *folder, const char *name, char out[MEANT_LEN]);

/* ---- configurations (config_args.c) ------------------------------------------------------------------------------ */

/* Loads a file and applies assignments in order. Says what is wrong. */
int settings_open(fl_ctx *ctx, const char *file, const words *sets, fl_config **out);
/* The same in two steps, for callers that put something between file and assignments. The second names the run after
 * its file unless it has a name. */
int settings_load(fl_ctx *ctx, const char *file, fl_config **out);
fl_status settings_finish(fl_config *cfg, const char *file, const words *sets);
/* Sets a key to a text, whatever characters it has. */
fl_status settings_put(fl_config *cfg, const char *key, const char *text);
/* The exit code for a failure of the library. */
int settings_exit(fl_status status);

/* ---- a bar on stderr (running.c) --------------------------------------------------------------------------------- */

/* Rewrites the line in place: a bar, per cent, the time left (NaN: unknown), and a text, which is cleaned and cut to
 * the terminal's width. */
void bar_paint(double fraction, double seconds_left, char *text);
void bar_erase(void);

/* ---- progress of a run (running.c) ------------------------------------------------------------------------------- */

typedef struct {
    int quiet, live; /* live: on a terminal, one line rewritten in place */
    int drawn;       /* a live line is on the screen, unfinished */
    fl_row row;      /* the newest measured one */
    double begun, painted;
    size_t first;      /* rounds that were there at the beginning */
    size_t next, last; /* plain mode: print from this round on; the last one printed, SIZE_MAX if none */
} progress;

void progress_init(progress *p, int quiet);
/* fl_log_fn whose argument is the progress: a note does not tear the live line. */
void progress_log(void *p, fl_log_level level, const char *line);

/* ---- signals (interrupt.c) ------------------------------------------------------------------------------- */

/* From now on the first SIGINT, SIGTERM or SIGHUP asks the watched run to stop, a second SIGINT or SIGTERM ends the
 * program. */
void interrupt_install(int quiet);
/* Another signal that asks so. */
void interrupt_also(int number);
/* Names the run to stop, NULL for none. Returns whether a signal has come already. */
int interrupt_watch(fl_run *run);
/* Whose reading of data a signal ends, NULL for none. */
void interrupt_context(fl_ctx *ctx);
/* The signal that has come; 0: none. */
int interrupt_seen(void);

/* For several processes that make a run together, and agree on when it stops: from now on a signal asks the run and no
 * more, and interrupt_seen tells what was agreed on. */
void interrupt_together(void);
/* That the run was stopped on request. */
void interrupt_agreed(void);

/* ---- several processes (running.c; launch_find in main.c) -------------------------------------------------------- */

typedef struct {
    uint32_t rank, count; /* count 1: no launcher, or just one process; 0: several, and it does not say how many */
    const char *command;  /* that starts as many, up to their number */
    int abrupt;           /* it kills them when one of them dies, so that there is no exit note */
} launch;

launch launch_find(void);

/* Whether a command (NULL: none, such as --version) leaves this process nothing to do: another of several does it. */
int command_idle(const command *c);
/* Runs it, together with the other processes if there are several. */
int command_run(const command *c, int argc, char **argv);

/* For fl_config_ranks; NULL: this process is alone. */
const fl_ranks *ranks_table(void);
/* Whether this process is the one that prints. */
int ranks_first(void);
/* "mpirun -n 4 ", to stand before a command; "" for one process. Returns `text`. */
enum { RANKS_COMMAND_LEN = 64 };
/* After a failure, if something is to come: returns when all ranks have failed, with the largest of their codes. */
int ranks_failed(int code);
/* interrupt_install, also for SIGUSR1 and SIGUSR2, which batch systems send some time before the end. Where there are
 * several processes, those that a launcher ends them by print the exit note instead. */
void ranks_signals(int quiet);

/* ---- comparisons (run_table.c) ----------------------------------------------------------------------------------- */

/* What `compare` and `reproduce` have in common. */
typedef struct {
    fl_study_options options;
    words sets;
    int watch;
    uint16_t port; /* of --watch; 0: any */
    int quiet, json;
    int paper;     /* ours beside the paper's at the end */
    size_t budget; /* of tuning every method first; 0: as the file has them */
} study_request;

/* Follows a comparison or a tuning on stderr, and stops it when a signal has come. */
typedef struct {
    void (*stop)(void *what);
    void *what;
    int quiet, live;
    int unwritten; /* the events of a run that is done could not be written */
    double painted;
} watcher;

/* Runs the experiment in a file and prints its table, or with req->json a document. Says what is wrong; returns an exit
 * code. */
int study_run(fl_ctx *ctx, const char *file, const study_request *req);

/* ---- tuning (run_table.c) ---------------------------------------------------------------------------------------- */

/* Tunes what the configuration says, and writes the outcome; `out` receives the table. It and `winners` may be NULL. */
int tuning_run(fl_ctx *ctx, fl_config *cfg, const fl_tune_options *options, fl_text_fn *out, int quiet,
               fl_config **winners);

/* ---- the table at the end of `fedloom run` (run_table.c) --------------------------------------------------------- */

typedef struct run_table run_table;

run_table *run_table_new(void); /* NULL: out of memory */
void run_table_free(run_table *s);
/* Remembers how a run stands; 0 when out of memory. */
int run_table_add(run_table *s, const fl_run *run);
void run_table_print(const run_table *s, FILE *out);
/* The same as a document: every metric that was measured, with all its digits. Returns an exit code. */
int run_table_json(const run_table *s);

/* ---- one run (running.c) ----------------------------------------------------------------------------------------- */

/* How a run is carried out, and what is made of its result. */
typedef struct {
    int force;               /* an earlier result may be replaced */
    const char *tensorboard; /* event files go to a folder below this one, called as the run is; NULL: there are none */
    const char *command_line; /* for the report; NULL: not known */
} run_options;

/* Runs, adds to the table, and saves where the configuration says. */
fl_status run_and_save(fl_run *run, const run_options *how, progress *p, run_table *sum);
/* Says why event files cannot go there: --tensorboard needs a folder, and the run a name that can be one. */
int events_check(const char *tensorboard, const char *run_name);

#endif
