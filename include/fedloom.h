/* fedloom: a federated optimisation engine.
 *
 * A federation is described by a configuration (usually a YAML file), planned once, and run:
 *
 *     fl_ctx *ctx = fl_ctx_new();
 *     fl_config *cfg = fl_config_new(ctx);
 *     fl_run *run = NULL;
 *     if (fl_config_load(cfg, "federation.yaml") || fl_config_set(cfg, "algorithm=scaffold") ||
 *         fl_run_new(cfg, &run) || fl_run_go(run, NULL, NULL) || fl_run_save(run))
 *         fprintf(stderr, "%s\n", fl_ctx_error(ctx));
 *     else
 *         printf("accuracy %.4f\n", fl_row_get(fl_run_row(run), "test_accuracy"));
 *     fl_run_free(run);
 *     fl_config_free(cfg);
 *     fl_ctx_free(ctx);
 *
 * (examples/embed.c is that program, complete.) The library never prints, exits or aborts. What can fail returns an
 * fl_status; the context then holds one or more sentences for a person. `free(NULL)` is legal everywhere. A context and
 * what was made from it belong to one thread at a time; only fl_ctx_stop, fl_run_stop and fl_study_stop may be called
 * from another thread or a signal handler. What is read, computed and written does not depend on the locale, which
 * may change at any time. */
#ifndef FEDLOOM_H
#define FEDLOOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* these are what the shared library exports */

#define FL_VERSION "0.2.0"

/* name, sentence */
#define FL_STATUS_LIST(X)                                                                                              \
    X(FL_OK, "success")                                                                                                \
    X(FL_ENOMEM, "out of memory")                                                                                      \
    X(FL_ECONFIG, "the configuration is not valid")                                                                    \
    X(FL_EIO, "a file could not be read or written")                                                                   \
    X(FL_EFORMAT, "a file is not what it should be")                                                                   \
    X(FL_EDIVERGED, "the run diverged")                                                                                \
    X(FL_EMISMATCH, "a result differs from the expected one")                                                          \
    X(FL_ESYSTEM, "the operating system refused something")                                                            \
    X(FL_EBUSY, "another process is at work there")                                                                    \
    X(FL_EDONE, "there is nothing left to do")                                                                         \
    X(FL_ECALLBACK, "a function of the user's failed")                                                                 \
    X(FL_EREFUSED, "a limit or a rule refuses it")                                                                     \
    X(FL_ESTOPPED, "it was asked to stop")

typedef enum {
#define FL_STATUS_NAME(name, text) name,
    FL_STATUS_LIST(FL_STATUS_NAME)
#undef FL_STATUS_NAME
} fl_status;

/* What this build computes convolutions with: "oneDNN 2.6.3", or "OpenBLAS" if there was no oneDNN. */
const char *fl_convolutions(void);
/* Where this build can compute runs, as `device` names it: "cpu, cuda, twin", or "cpu, twin" if there was no CUDA
 * toolkit. What there is on this machine: fl_list of "devices". */
const char *fl_devices(void);

/* A sentence for a status, never NULL. */
const char *fl_status_text(fl_status status);

/* ---- context --------------------------------------------------------------------------------------- */

typedef struct fl_ctx fl_ctx;

fl_ctx *fl_ctx_new(void); /* NULL only when out of memory */
void fl_ctx_free(fl_ctx *ctx);
/* What went wrong last: one sentence per line, "" if nothing did. Valid until the next call that fails. */
const char *fl_ctx_error(const fl_ctx *ctx);

typedef enum { FL_LOG_INFO, FL_LOG_WARNING } fl_log_level;
typedef void fl_log_fn(void *arg, fl_log_level level, const char *line);
/* Receives what a person should know although it is not an error. The default is silence. */
void fl_ctx_on_log(fl_ctx *ctx, fl_log_fn *fn, void *arg);

/* Whatever reads data for this context, now or later (fl_run_new, fl_study_go, ...), ends with FL_ESTOPPED. What reads
 * none goes on; rounds end by fl_run_stop. Safe in a signal handler. */
void fl_ctx_stop(fl_ctx *ctx);

/* *name: the kind of processor that the kernels in use are made for, such as "x86-64-v3". They are chosen when the
 * program is loaded: the highest that can run, or those that the environment variable FEDLOOM_KERNELS names. FL_ECONFIG
 * if it names none or such as cannot run here, FL_ESYSTEM if no kernels can. */
fl_status fl_kernels(fl_ctx *ctx, const char **name);

/* Of the names that next(arg, 0), next(arg, 1), ... give, NULL past the last, the one that somebody who typed `word`
 * probably meant, by the number of letters that differ; NULL: none is near. A name may be gone when `next` is called
 * again. */
typedef const char *fl_name_fn(const void *arg, size_t i);
const char *fl_nearest(const char *word, fl_name_fn *next, const void *arg);

/* Receives text produced for a person (tables, listings), piece by piece. */
typedef void fl_text_fn(void *arg, const char *text);

/* How tables and listings come from now on: fl_list, fl_data_describe, fl_check, fl_study_check without a file,
 * fl_study_table, fl_study_paper, fl_tune_table. As JSON each is one document, with all digits of its numbers. */
typedef enum { FL_FORMAT_TEXT, FL_FORMAT_JSON } fl_format;
void fl_ctx_format(fl_ctx *ctx, fl_format format);

/* ---- configuration: defaults <- file <- fl_config_set --------------------------------------------------- */

typedef struct fl_config fl_config;

fl_config *fl_config_new(fl_ctx *ctx);
void fl_config_free(fl_config *cfg);
/* A copy of everything given so far, to change further; NULL when out of memory. It does not depend on the original. */
fl_config *fl_config_copy(const fl_config *cfg);
/* Reads a YAML file over what is there. Every problem is reported, with line and column. */
fl_status fl_config_load(fl_config *cfg, const char *path);
/* The same for a file's text. `name` stands for the file in messages; NULL: "the text". */
fl_status fl_config_text(fl_config *cfg, const char *text, const char *name);
/* "key=value" or "section.key=value"; the value is YAML: "local.lr=0.1", "model.hidden=[200, 100]". */
fl_status fl_config_set(fl_config *cfg, const char *assignment);
/* What was given so far for a key ("name", "local.lr"), as text; "" if nothing was, or a list or a section. Valid until
 * the configuration changes. */
const char *fl_config_get(const fl_config *cfg, const char *key);
/* Whether a key was given that only comparisons know (`methods`, `grid`, `seeds`, ...). */
int fl_config_is_experiment(const fl_config *cfg);
/* Whether a kind has a key of its own: fl_kind_has_key("algorithm", "fedprox", "mu"). */
int fl_kind_has_key(const char *section, const char *kind, const char *key);
/* The names that a section chooses from ("algorithm", "model", "data", ...), and "solver" for local.solver; those that
 * were registered come last: number k, NULL past the last. Valid until it is forgotten. */
const char *fl_kind_at(const char *section, size_t k);
/* Checks the whole configuration without loading data. Every problem is reported, with line and column. */
fl_status fl_config_check(fl_config *cfg);
/* Checks it, and prints it resolved: every key with its value. */
fl_status fl_config_print(fl_config *cfg, fl_text_fn *out, void *arg);

/* ---- data in memory ------------------------------------------------------------------------------------- */

/* Structs that a caller fills begin with their size, so that they can grow: set it, and leave out what you do not need.
 *
 *     fl_samples train = {.size = sizeof train, .n = 600, .dim = 20, .f64 = x, .label = y, .classes = 3};
 *
 * or, as in C++, set all to zero first and then what is needed.
 * A program may so be older than the library, or newer as long as it asks for nothing that the library does not know.
 * Structs of the library's, to which it hands out pointers (fl_metric, fl_study_progress, fl_model_info), may grow at
 * their end; those that it writes into memory of the caller's (fl_vector, fl_tensor) will not. */

/* Samples as they lie in memory, row by row. Exactly one of u8, f32, f64 is given, or none: then samples are known by
 * their numbers alone, which is enough for an objective of one's own. With `row` and `col` they are sparse: `f32` or
 * `f64` has the values that are not 0, those of sample i from row[i] to row[i + 1], col[k] is the feature of value k,
 * ascending in each row. Exactly one of label and target is given, unless samples are known by their numbers alone. */
typedef struct {
    size_t size; /* sizeof(fl_samples) */
    size_t n, dim;
    const uint8_t *u8;
    const float *f32;
    const double *f64;
    const size_t *row; /* n + 1 */
    const uint32_t *col;
    const int32_t *label; /* 0 .. classes - 1 */
    const double *target;
    size_t classes;                /* 0: regression */
    size_t shape[3];               /* channels, height, width of images; zeros: no images */
    const char *const *class_name; /* one per class, all different; NULL: they are called 0, 1, ... */
} fl_samples;

/* Who holds what, at most one of: client i holds samples start[i] .. start[i + 1] - 1; or sample k belongs to client
 * owner[k], UINT32_MAX: to nobody. Neither: as `partition` says, which otherwise has nothing to say. No client is
 * empty. */
typedef struct {
    size_t size; /* sizeof(fl_holding) */
    size_t clients;
    const size_t *start;   /* clients + 1 */
    const uint32_t *owner; /* n */
    const double *weight;  /* clients: w_i > 0 up to a factor; NULL: as `weights` says */
} fl_holding;

/* Takes the place of a `data` section: `data.kind` is then `memory`, and other keys of that section hold as for a file
 * (normalize, test_fraction, unlabelled, ...); another kind that is chosen later counts instead. Nothing is copied but
 * the structs, and labels where some are taken away: the arrays must stay as they are until the last run made from this
 * configuration is freed. `test` and `who` may be NULL; `train` with n = 0 is for a test set alone (fl_server_new).
 * What the samples are is looked at when a run is made: then FL_EFORMAT names the first that is not as it should be. A
 * run goes on from a checkpoint when the same data are given again, after fl_config_resume. */
fl_status fl_config_data(fl_config *cfg, const fl_samples *train, const fl_samples *test, const fl_holding *who);

/* ---- a run ------------------------------------------------------------------------------------------- */

/* One line of metrics: a number for every metric of the list below, NaN where it was not measured or does not exist.
 *
 *     double loss = fl_row_get(row, "train_loss");
 *
 * Names are the columns of metrics.csv; docs/reference.md says what each of them means. New metrics come after those
 * that there are, and never more than FL_METRICS_MAX: a row keeps its size. */
enum { FL_METRICS_MAX = 64 };
typedef struct {
    double value[FL_METRICS_MAX]; /* in the order of fl_metric_at */
} fl_row;

/* A metric of a row by its name; NaN also if there is no metric of that name, or no row. */
double fl_row_get(const fl_row *row, const char *name);
/* Rounds finished when the row was measured; 0 is the start. */
size_t fl_row_round(const fl_row *row);

typedef enum {
    FL_STOP_NONE,     /* still running */
    FL_STOP_ROUNDS,   /* all rounds done */
    FL_STOP_TARGET,   /* the target accuracy was reached */
    FL_STOP_GRADIENT, /* the target gradient norm was reached */
    FL_STOP_TIME,     /* the time limit, real or simulated, was reached */
    FL_STOP_ASKED     /* fl_run_stop was called */
} fl_stop;
/* "not finished", "rounds", "target", "gradient", "time" or "asked", as in result.json. */
const char *fl_stop_text(fl_stop stop);

typedef struct fl_run fl_run;

/* Validates, loads the data, builds the plan and the start model. The configuration may be freed or changed
 * afterwards. */
fl_status fl_run_new(fl_config *cfg, fl_run **out);
void fl_run_free(fl_run *run);

/* Called after every round (and once before the first); `measured` says whether `row` holds fresh metrics. */
typedef void fl_observer_fn(void *arg, const fl_run *run, const fl_row *row, int measured);
/* Runs until a stop rule holds. FL_OK also when fl_run_stop ended it. FL_EDIVERGED when `stop.diverged` is passed or a
 * number is no longer finite; the metrics of a run that was prepared for saving are then in a file that the error
 * names. */
fl_status fl_run_go(fl_run *run, fl_observer_fn *observer, void *arg);
/* One round, or server step of an asynchronous method, and what belongs to it: measuring, checkpoints, stop rules. The
 * first call measures the start as fl_run_go does. *more: whether there is another; 0 once a stop rule holds. A run may
 * be stepped for a while and then go; both give the same bits. What has failed cannot go on. `more` may be NULL. */
fl_status fl_run_step(fl_run *run, int *more);
/* Ends the run after the round under way. Safe in a signal handler. */
void fl_run_stop(fl_run *run);

/* Refuses early what fl_run_save would refuse late: an existing folder (unless `replace`), an unwritable place, and, as
 * FL_EBUSY, one that another run or process works for. From here on the place is this run's, until it has saved or is
 * freed. */
fl_status fl_run_prepare_save(fl_run *run, int replace);
/* Writes the result folder named by `output`: all of it, or nothing. */
fl_status fl_run_save(fl_run *run);
/* The same with report.html, a page about the run as a comparison has one. `command` is what the page says that it was
 * made with; NULL: nothing. */
fl_status fl_run_save_with_report(fl_run *run, const char *command);
/* Writes the metrics so far as an event file for TensorBoard, into a folder that is the run's own. */
fl_status fl_run_events(fl_run *run, const char *folder);
/* Another result folder than the configuration's `output`. Not for runs that write checkpoints: these are beside it. */
fl_status fl_run_set_output(fl_run *run, const char *folder);
/* Writes the model alone, as the model.safetensors of a result, to a file. */
fl_status fl_run_save_model(fl_run *run, const char *path);

/* Checkpoints. With `checkpoint_every` fl_run_go writes them as it goes, and one more when it is asked to stop, into
 * the folder OUTPUT.checkpoint; fl_run_save removes them when the run is finished. A run continued from one ends with
 * the same bits as one that was never stopped:
 *
 *     fl_config_resume(cfg, "results/first") || fl_run_resume(cfg, &run) || fl_run_go(run, NULL, NULL) ||
 *         fl_run_save(run)
 *
 * fl_run_checkpoint writes one whenever no fl_run_go is under way. */
fl_status fl_run_checkpoint(fl_run *run);
/* A checkpoint that was written, or could not be. */
typedef struct {
    size_t size;
    size_t round; /* after which it was made */
    double seconds;
    uint64_t bytes;
    fl_status status; /* FL_OK: it is on the disk */
    const char *why;  /* it is not; "" */
} fl_checkpoint;
typedef void fl_checkpoint_fn(void *arg, const fl_checkpoint *checkpoint);
/* Called for each of them, by the thread that makes it. NULL: nobody is. */
void fl_run_on_checkpoint(fl_run *run, fl_checkpoint_fn *fn, void *arg);
/* Loads the settings of the run with the output `folder`, or with its checkpoints in it, and sets `output`
 * accordingly. */
fl_status fl_config_resume(fl_config *cfg, const char *folder);
/* As fl_run_new, then loads the newest complete checkpoint of the configuration's `output`. Refuses one that was made
 * by another version, or with other settings or data; `threads`, `device`, `memory`, `name`, `checkpoint_every` and
 * `output_model` may differ, and so may the number of processes (fedloom_ranks.h). FL_EBUSY while another process works
 * for that output; FL_EDONE if the run was finished already; its left-over checkpoints are then removed. */
fl_status fl_run_resume(fl_config *cfg, fl_run **out);
size_t fl_run_round(const fl_run *run);     /* rounds finished */
int fl_run_checkpointed(const fl_run *run); /* whether there is a checkpoint after just that round */

const char *fl_run_name(const fl_run *run);      /* the run's name in tables */
const char *fl_run_output(const fl_run *run);    /* the result folder, "" if there is none */
const char *fl_run_algorithm(const fl_run *run); /* the method's name */
size_t fl_run_rounds(const fl_run *run);         /* rounds planned */
size_t fl_run_clients(const fl_run *run);
size_t fl_run_parameters(const fl_run *run); /* length of the model vector */
/* Bytes that the run takes at least: data, model, threads, uploads, and the client state of one cohort; on a device
 * what of it is in plain memory. fl_run_new refuses with FL_ENOMEM what the machine, a control group, ulimit -v or the
 * device has no room for. */
double fl_run_memory(const fl_run *run);
fl_stop fl_run_stopped_by(const fl_run *run);
const fl_row *fl_run_row(const fl_run *run);                /* the newest measured row; NULL before the first */
size_t fl_run_rows(const fl_run *run, const fl_row **rows); /* all of them */
/* Target k: its accuracy and the first measured round that reached it, SIZE_MAX if none has. 0 past the last one. */
int fl_run_target(const fl_run *run, size_t k, double *accuracy, size_t *round);
/* Copies the global model, converted to double; returns its length. `out` may be NULL. */
size_t fl_run_model(const fl_run *run, double *out, size_t capacity);
/* Another start model, of n = fl_run_parameters reals. Before the first fl_run_go or fl_run_step. It is not among the
 * settings: whoever repeats the run gives it again. Checkpoints know it. */
fl_status fl_run_start(fl_run *run, const double *x, size_t n);

/* A vector where it lies, or a copy of one that is on a device: to be read between rounds, and gone with the next one.
 * This struct and fl_tensor are written into your memory: they will not grow. */
typedef struct {
    const char *name; /* as the method calls it: "x", "c", "c_i" */
    const void *data; /* floats or doubles; NULL: there is none */
    size_t n;
    size_t real; /* bytes of each: 4 or 8 */
} fl_vector;

/* The server's vector k, 0 is the model; 0 past the last. */
int fl_run_vector(const fl_run *run, size_t k, fl_vector *out);
/* What a client keeps between its turns: vector k, 0 past the last. `data` is NULL before the client's first turn. It
 * is a copy, valid until the next call for this run. Of an asynchronous method it may be of a turn whose upload is
 * still on its way. -1: there is no such client, or what it keeps cannot be had; the context says why. */
int fl_run_client_vector(fl_run *run, size_t client, size_t k, fl_vector *out);
/* The scalars that a client keeps, at most `capacity` of them; returns how many there are. 0 before its first turn.
 * SIZE_MAX where fl_run_client_vector gives -1. */
size_t fl_run_client_scalars(fl_run *run, size_t client, double *out, size_t capacity);

/* A block of the model vector: a tensor of `dims` dimensions, row-major, from real `offset` on. */
typedef struct {
    const char *name;
    size_t offset, dims;
    size_t shape[4];
} fl_tensor;
/* Tensor k of the model; 0 past the last. */
int fl_run_tensor(const fl_run *run, size_t k, fl_tensor *out);

/* ---- trained models at work -------------------------------------------------------------------------------- */

typedef struct fl_model fl_model;

/* Reads a model.safetensors that a run has written. No configuration is needed: all is in the file. The model does not
 * need the context afterwards. It is the global model, also of methods that make one per client; of two levels it has
 * the parameters of both. FL_EFORMAT for anything else.
 *
 * The first run or model of a process sets OpenBLAS to one thread per call, for the whole process. A program that
 * wants more of it elsewhere may say so to OpenBLAS afterwards. */
fl_status fl_model_load(fl_ctx *ctx, const char *path, fl_model **out);
void fl_model_free(fl_model *m);

/* Strings and arrays are the model's. */
typedef struct {
    const char *kind; /* "mlp" */
    size_t parameters;
    size_t shape[3], dim;          /* of a sample: channels, height, width; their product */
    size_t classes;                /* 0: regression */
    const char *const *class_name; /* NULL: 0, 1, ... */
    size_t outputs;                /* numbers per sample: classes, clusters, or 1 for a regression; 0: no predictions */
    size_t real;                   /* bytes of a parameter: 4 or 8 */
} fl_model_info;
const fl_model_info *fl_model_about(const fl_model *m);
int fl_model_tensor(const fl_model *m, size_t k, fl_tensor *out, const void **data); /* 0 past the last */
const char *fl_model_metadata(const fl_model *m, const char *key);                   /* NULL: not in the file */

/* Outputs for n samples, row by row, into n * outputs doubles: class probabilities, the value of a regression, or
 * shares in clusters, which add up to 1. Samples are as they were in the data (bytes of pixels, raw features);
 * normalisation and cropping are the model's business. Exactly one of u8, f32 and f64 is given, dense or sparse; labels
 * and targets are not looked at. Any number of threads may call it with one model at the same time, each with a context
 * of its own. An objective of one's own says nothing of predictions: FL_ECONFIG. */
fl_status fl_model_predict(fl_ctx *ctx, const fl_model *m, const fl_samples *samples, double *out);

/* Writes a softmax, mlp or cnn as ONNX, for other runtimes; FL_ECONFIG for other kinds, and for names that do not end
 * in .onnx. The graph takes any number of samples as they were in the data, in f32: `input`, batch x channels x height
 * x width, or batch x features where samples are no images. Normalisation and cropping are in it. Its outputs are
 * `logits` and `probabilities`. Parameters of f64 are rounded to f32. */
fl_status fl_model_export(fl_ctx *ctx, const fl_model *m, const char *path);

/* ---- the metrics there are ------------------------------------------------------------------------------ */

typedef enum {
    FL_UNIT_NONE,
    FL_UNIT_SHARE, /* of 1; tables give percent */
    FL_UNIT_SCORE, /* from 0 to 1, but a share of nothing */
    FL_UNIT_COUNT, /* whole numbers */
    FL_UNIT_BYTES,
    FL_UNIT_SECONDS
} fl_unit;

typedef enum { FL_BETTER_NEITHER, FL_BETTER_HIGH, FL_BETTER_LOW } fl_better;

typedef enum {
    FL_SCALE_LINEAR,
    FL_SCALE_LOG, /* logarithmic when all values are positive */
    FL_SCALE_WIDE /* logarithmic when all values are positive and span many powers of ten: one method diverged */
} fl_scale;

/* Where metrics are shown, beside metrics.csv and metrics.jsonl, which have them all. */
typedef enum {
    FL_VIEW_EVENTS,   /* TensorBoard event files: the tag */
    FL_VIEW_CHART,    /* the y axis of a chart: the name that fl_study_plot knows */
    FL_VIEW_AXIS,     /* the x axis, likewise */
    FL_VIEW_PROGRESS, /* the line of a run under way; of 11, 12, ... the first that was measured, then of 21, 22, ... */
    FL_VIEW_RUN,      /* the table of `fedloom run` */
    FL_VIEW_NOTE,     /* below that table, "GROUP: LABEL" before the value; neighbours of one group share a line */
    FL_VIEW_STUDY,    /* the table of a comparison */
    FL_VIEW_STUDY_FILES,  /* results.csv and results.json; bytes as megabytes */
    FL_VIEW_TARGET,       /* what it cost to reach a target: the table of a comparison */
    FL_VIEW_TARGET_FILES, /* results.csv */
    FL_VIEW_PAPER,        /* what an experiment's `paper.figures` call it */
    FL_VIEWS
} fl_view;

enum { FL_ORDER_MIDDLE = 50 }; /* in tables, what a target cost comes after those of this order */

/* A metric's place in a view. */
typedef struct {
    const char *label; /* NULL: it is not shown there */
    int order;         /* smaller ones first, equal ones as in the list; 0 counts as FL_ORDER_MIDDLE */
} fl_place;

/* All there is to know of a metric. */
typedef struct {
    const char *name;  /* "test_accuracy" */
    const char *title; /* for an axis: "test accuracy" */
    const char *help;  /* for the reference */
    fl_unit unit;
    fl_better better;
    fl_scale scale;
    int digits;       /* in texts: significant ones without a unit, decimals of seconds; 0: as many as suit its unit */
    int beyond_round; /* worth a word only where it is not the number of rounds */
    fl_place shown[FL_VIEWS];
} fl_metric;

/* Metric k, in the order of the columns; NULL past the last. */
const fl_metric *fl_metric_at(size_t k);
/* The metric of that name; NULL: there is none. */
const fl_metric *fl_metric_find(const char *name);
/* Metric k of a view, in the view's order; NULL past the last. */
const fl_metric *fl_metric_shown(fl_view view, size_t k);
/* The k of fl_metric_at, and its place in a row's values: for loops over many rows. */
size_t fl_metric_place(const fl_metric *metric);
/* As fl_row_get. `metric` comes from one of the functions above. */
double fl_row_value(const fl_row *row, const fl_metric *metric);
/* Whether `a` is better than `b` by the metric's direction; 0 if either is NaN, or there is no direction. */
int fl_metric_beats(const fl_metric *metric, double a, double b);

/* ---- comparisons: several methods, settings and seeds on one problem ------------------------------------------ */

typedef struct fl_study fl_study;

typedef struct {
    size_t size;             /* sizeof(fl_study_options) */
    size_t seeds;            /* 0: as the file says */
    size_t jobs;             /* runs at the same time; 0: one per processor */
    int quick;               /* apply the file's `quick` part */
    const char *data;        /* what ${data} stands for in the file; NULL: the environment's FEDLOOM_DATA */
    const char *output;      /* folder; NULL: the file's `output`, else results/NAME */
    const char *tensorboard; /* folder for event files; NULL: none */
    int force;               /* finished runs with other settings, or made from other data, may be replaced */
    const char *command;     /* what the report says that it was made with; NULL: nothing */
} fl_study_options;

/* How far a comparison is. */
typedef struct {
    const char *label, *setting; /* the run that just moved; NULL before the first */
    uint64_t seed;
    size_t round, rounds;       /* of that run */
    int ended;                  /* it has just ended */
    const fl_row *row;          /* its newest metrics; NULL: none yet */
    const char *error;          /* it failed, and why; NULL: it did not */
    size_t done, failed, total; /* runs */
    double fraction;            /* of all rounds to be run now */
    double seconds;             /* since fl_study_go */
} fl_study_progress;
/* Called from worker threads, one call at a time. */
typedef void fl_study_fn(void *arg, const fl_study_progress *progress);

/* Reads an experiment (a configuration with `methods`, `grid`, `seeds`, ...) and checks every run it asks for, without
 * loading data. Runs finished earlier in the same folder with the same settings are taken over, if they are whole.
 * `options` may be NULL. */
fl_status fl_study_new(fl_config *cfg, const fl_study_options *options, fl_study **out);
void fl_study_free(fl_study *study);
/* Serves the report on 127.0.0.1 while the comparison runs; port 0: any. *port receives the one taken. */
fl_status fl_study_watch(fl_study *study, uint16_t *port);
/* Runs what is not there yet. A run that fails is reported and does not stop the others. FL_OK also after
 * fl_study_stop. Before the first run it refuses: a folder that another process is working in (FL_EBUSY), finished runs
 * that it would have to replace (unless `force`), files that no comparison has written. Runs that were taken over are
 * held to the data as they are now. */
fl_status fl_study_go(fl_study *study, fl_study_fn *observer, void *arg);
/* Ends after the rounds under way; unfinished runs are not kept. fl_study_go may be called again to go on. Safe in a
 * signal handler. */
void fl_study_stop(fl_study *study);

const char *fl_study_output(const fl_study *study);
size_t fl_study_runs(const fl_study *study, size_t *done);
/* The table as text: means and deviations over seeds, rounds and bytes to each target. As JSON it is results.json. */
fl_status fl_study_table(fl_study *study, fl_text_fn *out, void *arg);
/* Ours beside the paper's, for experiments with a `paper` part; says so if there is none. */
fl_status fl_study_paper(fl_study *study, fl_text_fn *out, void *arg);
/* Writes results.csv, results.md, results.json and report.html into the output folder, over earlier ones of its own
 * only. */
fl_status fl_study_write(fl_study *study);
/* One chart as a stand-alone SVG document. y: test-accuracy, train-loss, ...; x: rounds, bytes, seconds or
 * simulated. What no run measured is refused, on either axis. */
fl_status fl_study_plot(fl_study *study, const char *x, const char *y, fl_text_fn *out, void *arg);
/* The names of the quantities that were measured, for y (axis 1) or x (axis 0): number k, NULL past the last. */
const char *fl_study_quantity(const fl_study *study, int axis, size_t k);

/* Charts of runs that are there: each of `count` result folders is a line, called as the run is. */
typedef struct fl_curves fl_curves;
fl_status fl_curves_read(fl_ctx *ctx, const char *const *folders, size_t count, fl_curves **out);
void fl_curves_free(fl_curves *curves);
/* As fl_study_plot and fl_study_quantity. */
fl_status fl_curves_plot(fl_curves *curves, const char *x, const char *y, fl_text_fn *out, void *arg);
const char *fl_curves_quantity(const fl_curves *curves, int axis, size_t k);

/* ---- tuning: the best settings of every method, within the same budget -------------------------------------- */

typedef struct fl_tune fl_tune;

typedef struct {
    size_t size;   /* sizeof(fl_tune_options) */
    size_t budget; /* full-length runs with one seed, per method; 0: as the file says, else 20 */
    /* `seeds` are tuning seeds; `output` NULL: `tune` below a comparison's; no `tensorboard`. NULL: nothing is said */
    const fl_study_options *study;
    int compare_next; /* a comparison of the winners follows: `output` is its folder, the tuning's is `tune` there;
                             * both are locked, and runs there that other settings have left are refused at once */
} fl_tune_options;

/* Reads an experiment and its ranges (`tune: {local.lr: {from: 0.001, to: 1, log: true}}`, else each method's own), and
 * checks every setting that would be tried. Settings are found by successive halving over seeds that no comparison of
 * the same file reports. `options` may be NULL. */
fl_status fl_tune_new(fl_config *cfg, const fl_tune_options *options, fl_tune **out);
void fl_tune_free(fl_tune *tune);
/* Runs what is not there yet, rung by rung; what was run earlier in the same folder counts, and the choice is the same.
 * A setting that diverges is the worst. Any other failure of a run ends it, and so does it if all of them diverge.
 * FL_OK also after fl_tune_stop. */
fl_status fl_tune_go(fl_tune *tune, fl_study_fn *observer, void *arg);
/* For the observer: ends after the rounds under way. fl_tune_go may be called again to go on. */
void fl_tune_stop(fl_tune *tune);

const char *fl_tune_output(const fl_tune *tune);
int fl_tune_done(const fl_tune *tune); /* whether every rung has been run; what follows needs that */
/* FL_EDIVERGED, naming them, if there are methods that diverged with every setting: these have no winner. */
fl_status fl_tune_verdict(fl_tune *tune);
/* Writes tried.csv, tried.svg, the winners as best.yaml, and one METHOD.yaml each, into the output folder. */
fl_status fl_tune_write(fl_tune *tune);
/* Per method: what was tried, and how the winner compares with the file's own setting. */
fl_status fl_tune_table(fl_tune *tune, fl_text_fn *out, void *arg);
/* The experiment with every method that has a winner at its best setting, for fl_study_new. It does not depend on
 * the tuning. */
fl_status fl_tune_winners(fl_tune *tune, fl_config **out);

/* ---- looking into things ------------------------------------------------------------------------------- */

/* What there is: kind NULL lists the kinds, name NULL one kind, else one thing with its parameters. */
fl_status fl_list(fl_ctx *ctx, const char *kind, const char *name, fl_text_fn *out, void *arg);

typedef enum {
    FL_REFERENCE_MARKDOWN, /* docs/reference.md */
    FL_REFERENCE_MAN       /* the manual page fedloom-config(5) */
} fl_reference_format;

/* All of that at once: every kind, thing and key, with type, range, default and meaning, as a document. */
fl_status fl_reference(fl_ctx *ctx, fl_reference_format format, fl_text_fn *out, void *arg);

/* The data set and partition of a configuration: sizes, label histogram per client. `clients` limits the rows.
 * `partition_json`, if not NULL, is a file to write the partition to (client -> sample indices). Of an experiment: what
 * its runs share, with the first seed; `data` is then what ${data} stands for in the file, NULL: the environment's
 * FEDLOOM_DATA. */
fl_status fl_data_describe(fl_config *cfg, const char *data, size_t clients, const char *partition_json,
                           fl_text_fn *out, void *arg);

/* The same federation for a server and clients that join it (fedloom_halves.h), into a folder that is not there yet:
 * server.yaml, the clients' names in the order of their numbers (roster), a test set, and in clients/ for each a file
 * with its samples and one with the settings that read them. What comes out of it is what a simulation gives, bit by
 * bit; only images that are augmented in every epoch differ, whose random changes go by a sample's number. */
fl_status fl_data_export(fl_config *cfg, const char *folder);

/* Measures the clients' smoothness and says which step-size conditions of the method's theorem hold, by how much each
 * fails, what is assumed without being measured, a setting that would satisfy them, and after how many rounds the
 * theorem promises a small gradient. */
fl_status fl_check(fl_config *cfg, fl_text_fn *out, void *arg);
/* The same, with a run of the configuration beside that number; it changes settings of `metrics`, and output. */
fl_status fl_check_run(fl_config *cfg, fl_text_fn *out, void *arg);
/* Changes settings until the conditions hold that settings can satisfy. `file` receives the whole configuration, with a
 * comment at every key that was changed; it is read and checked again. `report` receives what was changed and how that
 * check came out, and *left how many conditions fail all the same. */
fl_status fl_check_fix(fl_config *cfg, fl_text_fn *report, void *report_arg, fl_text_fn *file, void *file_arg,
                       size_t *left);

/* The same for an experiment: every method and setting at the first seed. `file` NULL: checks alone, and *left is what
 * fails. Otherwise what a method has to change becomes its own, settings of grids stay as they are, and `file` receives
 * the experiment. `options` may be NULL; it is for `data` and `quick`. */
fl_status fl_study_check(fl_config *cfg, const fl_study_options *options, fl_text_fn *report, void *report_arg,
                         fl_text_fn *file, void *file_arg, size_t *left);

/* Runs one golden case (a JSON file with an exact trajectory) and compares. FL_OK: agrees within the tolerance.
 * `error` receives the largest relative error (NaN when the case could not run at all). */
fl_status fl_verify(fl_ctx *ctx, const char *path, double tolerance, double *error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
