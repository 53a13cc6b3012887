/* The fedloom program: a client of fedloom.h, and of nothing else of the library but src/net.
 *
 * A command is a descriptor at the bottom of its file and one line in commands.c. Below are the functions that commands
 * share, in one section per file. */
#ifndef FLI_CLI_CLI_H
#define FLI_CLI_CLI_H

#include "fedloom.h"
#include "fedloom_ranks.h"

#include <jansson.h>
#include <stdio.h>

/* Exit codes. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* How a command runs if an MPI launcher started several processes. */
typedef enum { RANKS_REFUSED, RANKS_FIRST /* rank 0 alone runs it */, RANKS_ALL /* together */ } command_ranks;

/* What a word of a command line may be, for completion; most are unknown. */
typedef enum {
    TAKES_ANY,
    TAKES_FILE,
    TAKES_FOLDER,
    TAKES_SETTING, /* KEY=VALUE */
    TAKES_METHOD,
    TAKES_METHODS, /* A,B,... */
    TAKES_MODEL,
    TAKES_PARTITION,
    TAKES_SOURCE, /* data: a kind or a file */
    TAKES_DEVICE,
    TAKES_KIND, /* a kind of things, as for `list` */
    TAKES_NAME, /* a name of the kind in the word before */
    TAKES_FORMAT,
    TAKES_PAGE, /* a manual page */
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
    int (*run)(int argc, char **argv); /* gets the words after the command's name; returns an exit code */
    command_ranks ranks;
    option_takes takes[2]; /* its first word that is not an option; all others */
} command;

extern const command cmd_run, cmd_resume, cmd_compare, cmd_tune, cmd_reproduce, cmd_plot, cmd_check, cmd_config,
    cmd_data, cmd_list, cmd_show, cmd_export, cmd_verify, cmd_cert, cmd_serve, cmd_join, cmd_status, cmd_audit,
    cmd_completion, cmd_init;

/* The program's name; the text before and after the commands in the help's overview; and the commands, NULL past the
 * last (commands.c). */
extern const char program[], overview_text[], overview_end[];
const command *command_at(size_t i);
const command *command_named(const char *name); /* NULL: unknown (main.c) */

/* The names of the actions of `cert`, NULL at the end (cmd_cert.c). */
const char *const *cert_actions(void);

/* The folder of the experiments that `reproduce` finds by name (cmd_reproduce.c): from the environment, the current
 * folder, or the installed one. */
const char *experiments_folder(void);

/* ---- values of metrics (args.c) ---------------------------------------------------------------------------------- */

/* A value with its metric's digits, bytes as megabytes; returns `text`. */
enum { VALUE_MAX_LEN = 64 };
const char *value_text(const fl_metric *m, double v, char text[VALUE_MAX_LEN]);

/* ---- the terminal (terminal.c) ---------------------------------------------------------------------------- */

/* Whether a stream is a terminal whose cursor moves and whose lines can be erased: TERM is neither missing nor dumb. */
int terminal_moves(FILE *f);
/* Columns of a line; 0: not a terminal, so lines have any length. */
size_t terminal_width(FILE *f);

/* The meaning of a text, which decides its colour. */
typedef enum { TONE_HEAD, TONE_GOOD, TONE_BAD, TONE_CARE, TONE_FAINT } tone;
/* Escape sequences before and after a coloured text: "" unless terminal_moves, and with NO_COLOR in the environment. */
const char *tone_on(FILE *f, tone t);
const char *tone_off(FILE *f);

/* Prints a table of clean text to fit the terminal: marks the heading, and prints columns that do not fit below the
 * others. */
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
/* From now on holds such lines back; say_held prints them, as a rank's. */
void say_hold(void);
void say_held(uint32_t rank);
/* Prints every sentence of the context's error as such a line. */
void say_error(const fl_ctx *ctx);
/* say(), plus a hint to the help; returns CLI_USAGE. */
int say_usage(const char *command_name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Replaces control characters and invalid UTF-8, so that no text from a file moves the cursor. Returns s. */
char *say_clean(char *s);
/* Prints several lines as one, cleaned; changes the text. */
void say_joined(FILE *to, char *lines);
/* Prints a line with a file's name on stdout. */
void say_path(const char *before, const char *path);
/* fl_text_fn: prints to stdout, cleaned except for line breaks and tabs. */
void say_out(void *unused, const char *text);
void say_some(const char *text, size_t size); /* the same for a part of a text */
/* fl_text_fn: the same for a table, by print_fitted. */
void say_table(void *unused, const char *text);
/* fl_log_fn: prints notes and warnings as lines on stderr. */
void say_log(void *unused, fl_log_level level, const char *line);
/* The same for warnings alone, with --quiet. */
void say_warning(void *unused, fl_log_level level, const char *line);

/* Prints and frees a document, and returns an exit code. NULL: out of memory. */
int json_out(json_t *document);
/* Values: a number that is not finite becomes null; text that is not valid is cleaned as for a terminal. */
json_t *json_out_number(double v);
json_t *json_out_text(const char *s);

/* fl_text_fn whose argument is a json_t *: parses a document that the library prints. NULL: out of memory. */
void json_take(void *document, const char *text);

/* ---- arguments (args.c) ------------------------------------------------------------------------------------------ */

typedef struct {
    size_t n;
    const char **v;
} words;

typedef enum {
    OPT_FLAG,  /* int: 1 if given */
    OPT_TEXT,  /* const char *: the last one wins */
    OPT_WORDS, /* words: all values, in order */
    OPT_COUNT, /* size_t >= 1 */
    OPT_REAL,  /* double >= 0 */
    OPT_FORMAT /* int: 1 for json, 0 for table */
} opt_type;

typedef struct {
    const char *name; /* with the dashes; NULL ends the list */
    opt_type type;
    void *out;
    option_takes takes;
} option;

/* Sorts arguments into options and plain words. CLI_OK, or CLI_USAGE after an error message. The words start zeroed;
 * free them with args_free in either case. */
int args_parse(const char *command_name, const option *options, int argc, char **argv, words *plain);
void args_free(words *w);
/* Shows the option table of a command to `fn`. The table is on the command's stack, with pointers to the values. So
 * this calls the command, and args_parse hands the table to `fn` and makes the command return. */
void args_show_options(const command *c, void (*fn)(void *arg, const option *options), void *arg);
/* "; did you mean NEAR?" for the end of a sentence, "" if `near` (of fl_nearest) is NULL. Returns `out`. */
enum { MEANT_LEN = 160 };
const char *args_meant(const char *near, char out[MEANT_LEN]);
/* The command line, for reports; the caller frees it. NULL: out of memory. */
char *command_line_text(const char *command_name, int argc, char **argv);

/* ---- data and YAML files by name (config_args.c) ----------------------------------------------------------------- */

/* A kind of data, by the ending of a file's name. */
typedef struct {
    const char *suffix, *kind;
    const char *key[2];             /* keys of `data` for the first and the second file; NULL: none */
    const char *also_key, *also_is; /* a further key of `data`, and its value; NULL: none */
} data_format;

/* NULL: unknown ending. */
const data_format *data_format_of(const char *file);
/* All endings, for messages. */
extern const char data_endings[];

/* The *.yaml files of a folder, ordered by name; 0: the folder cannot be read. Free the words in either case. */
int yaml_files(const char *folder, words *out);
void yaml_files_free(words *files);
/* Finds the file, without its ending, that a mistyped `name` (with or without ending) probably means; 0: none is
 * similar. */
int yaml_files_near(const char *folder, const char *name, char out[MEANT_LEN]);

/* ---- configurations (config_args.c) ------------------------------------------------------------------------------ */

/* Loads a file and applies assignments in order. Prints errors. */
int settings_open(fl_ctx *ctx, const char *file, const words *sets, fl_config **out);
/* The same in two steps, for callers that change something between file and assignments. The second step names the run
 * after its file unless it has a name. */
int settings_load(fl_ctx *ctx, const char *file, fl_config **out);
fl_status settings_finish(fl_config *cfg, const char *file, const words *sets);
/* Sets a key to a text with any characters. */
fl_status settings_put(fl_config *cfg, const char *key, const char *text);
/* The exit code for a failure of the library. */
int settings_exit(fl_status status);

/* ---- a bar on stderr (running.c) --------------------------------------------------------------------------------- */

/* Rewrites the line: a bar, per cent, the time left (NaN: unknown), and a text, cleaned and cut to the terminal's
 * width. */
void bar_paint(double fraction, double seconds_left, char *text);
void bar_erase(void);

/* ---- progress of a run (running.c) ------------------------------------------------------------------------------- */

typedef struct {
    int quiet, live; /* live: on a terminal, one line rewritten in place */
    int drawn;       /* an unfinished live line is on the screen */
    fl_row row;      /* the newest measured one */
    double begun, painted;
    size_t first;      /* rounds done before the start */
    size_t next, last; /* plain mode: the next round to print; the last one printed, SIZE_MAX if none */
} progress;

void progress_init(progress *p, int quiet);
/* fl_log_fn whose argument is the progress: clears the live line before a note. */
void progress_log(void *p, fl_log_level level, const char *line);

/* ---- signals (interrupt.c) ------------------------------------------------------------------------------- */

/* From now on the first SIGINT, SIGTERM or SIGHUP asks the watched run to stop, a second SIGINT or SIGTERM ends the
 * program. */
void interrupt_install(int quiet);
/* Adds another signal that asks the run to stop. */
void interrupt_also(int number);
/* Names the run to stop, NULL for none. Returns whether a signal has arrived already. */
int interrupt_watch(fl_run *run);
/* The context whose loading of data a signal interrupts, NULL for none. */
void interrupt_context(fl_ctx *ctx);
/* The signal that has arrived; 0: none. */
int interrupt_seen(void);

/* For ranks, which agree on when to stop: from now on a signal only asks the run to stop, and interrupt_seen returns
 * what the ranks agreed on. */
void interrupt_together(void);
/* Records that the ranks agreed to stop. */
void interrupt_agreed(void);

/* ---- several processes (running.c; launch_find in main.c) -------------------------------------------------------- */

typedef struct {
    uint32_t rank, count; /* count 1: no launcher, or one process; 0: several, of unknown number */
    const char *command;  /* the command that starts them, up to their number */
    int abrupt;           /* kills all when one dies, so there is no exit note */
} launch;

launch launch_find(void);

/* Whether another rank runs a command (NULL: none, such as --version), so that this one has nothing to do. */
int command_idle(const command *c);
/* Runs a command, together with the other ranks if there are several. */
int command_run(const command *c, int argc, char **argv);

/* For fl_config_ranks; NULL: a single process. */
const fl_ranks *ranks_table(void);
/* Whether this process is the one that prints. */
int ranks_first(void);
/* "mpirun -n 4 ", as prefix of a command; "" for one process. Returns `text`. */
enum { RANKS_COMMAND_LEN = 64 };
/* After a failure, if more work follows: returns when all ranks have failed, with the largest of their codes. */
int ranks_failed(int code);
/* interrupt_install, also for SIGUSR1 and SIGUSR2, which batch systems send some time before the end. With several
 * processes, the signals by which a launcher ends them print the exit note instead. */
void ranks_signals(int quiet);

/* ---- comparisons (run_table.c) ----------------------------------------------------------------------------------- */

/* What `compare` and `reproduce` have in common. */
typedef struct {
    fl_study_options options;
    words sets;
    int watch;
    uint16_t port; /* of --watch; 0: any free port */
    int quiet, json;
    int paper;     /* print our figures beside the paper's at the end */
    size_t budget; /* of tuning every method first; 0: no tuning */
} study_request;

/* Follows a comparison or a tuning on stderr, and stops it after a signal. */
typedef struct {
    void (*stop)(void *what);
    void *what;
    int quiet, live;
    int unwritten; /* events of a finished run could not be written */
    double painted;
} watcher;

/* Runs the experiment in a file and prints its table, or with req->json a document. Prints errors; returns an exit
 * code. */
int study_run(fl_ctx *ctx, const char *file, const study_request *req);

/* ---- tuning (run_table.c) ---------------------------------------------------------------------------------------- */

/* Tunes a configuration and writes the files; `out` receives the table. `out` and `winners` may be NULL. */
int tuning_run(fl_ctx *ctx, fl_config *cfg, const fl_tune_options *options, fl_text_fn *out, int quiet,
               fl_config **winners);

/* ---- the table at the end of `fedloom run` (run_table.c) --------------------------------------------------------- */

typedef struct run_table run_table;

run_table *run_table_new(void); /* NULL: out of memory */
void run_table_free(run_table *s);
/* Stores the state of a run; 0 when out of memory. */
int run_table_add(run_table *s, const fl_run *run);
void run_table_print(const run_table *s, FILE *out);
/* The same as JSON: every measured metric, with all digits. Returns an exit code. */
int run_table_json(const run_table *s);

/* ---- one run (running.c) ----------------------------------------------------------------------------------------- */

/* Options of a run and its result. */
typedef struct {
    int force;                /* an earlier result may be replaced */
    const char *tensorboard;  /* event files go to the folder of the run's name below this one; NULL: none */
    const char *command_line; /* for the report; NULL: unknown */
} run_options;

/* Runs, adds a row to the table, and saves to the configured output. */
fl_status run_and_save(fl_run *run, const run_options *how, progress *p, run_table *sum);
/* Prints why event files cannot be written: --tensorboard needs a folder, and the run's name must be usable as one. */
int events_check(const char *tensorboard, const char *run_name);

#endif
