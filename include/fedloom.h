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
 * (examples/embed.c is the complete program.) The library never prints, exits or aborts. What can fail returns an
 * fl_status; the context then holds one or more sentences for a person. `free(NULL)` is legal everywhere. A context and
 * everything made from it belong to one thread at a time; only fl_ctx_stop, fl_run_stop and fl_study_stop may be called
 * from another thread or a signal handler. Input, computation and output do not depend on the locale, which
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

/* The library that this build computes convolutions with: "oneDNN 2.6.3", or "OpenBLAS" if oneDNN was not found. */
const char *fl_convolutions(void);
/* The devices that this build can compute runs on, as `device` names them: "cpu, cuda, twin", or "cpu, twin" if it was
 * built without a CUDA toolkit. fl_list of "devices" gives those that this machine has. */
const char *fl_devices(void);

/* A sentence for a status, never NULL. */
const char *fl_status_text(fl_status status);

/* ---- context --------------------------------------------------------------------------------------- */

typedef struct fl_ctx fl_ctx;

fl_ctx *fl_ctx_new(void); /* NULL only when out of memory */
void fl_ctx_free(fl_ctx *ctx);
/* The sentences of the last failure, one per line; "" if nothing has failed. Valid until the next call that fails. */
const char *fl_ctx_error(const fl_ctx *ctx);

typedef enum { FL_LOG_INFO, FL_LOG_WARNING } fl_log_level;
typedef void fl_log_fn(void *arg, fl_log_level level, const char *line);
/* `fn` receives warnings and news for a person: what is worth knowing but not an error. The default is silence. */
void fl_ctx_on_log(fl_ctx *ctx, fl_log_fn *fn, void *arg);

/* Every function that reads data for this context, now or later (fl_run_new, fl_study_go, ...), ends with FL_ESTOPPED.
 * Other functions continue: fl_run_stop ends rounds. Safe in a signal handler. */
void fl_ctx_stop(fl_ctx *ctx);

/* *name: the level of processors that the kernels in use were compiled for, such as "x86-64-v3". It is chosen when the
 * program is loaded: the highest that this processor can execute, or the one that the environment variable
 * FEDLOOM_KERNELS names. FL_ECONFIG if that name is unknown or cannot run here, FL_ESYSTEM if no level can. */
fl_status fl_kernels(fl_ctx *ctx, const char **name);

/* The name that a person who typed `word` probably meant, judged by the number of letters that differ; NULL if no name
 * is near. next(arg, 0), next(arg, 1), ... give the names, then NULL; each must stay valid only until the next call. */
typedef const char *fl_name_fn(const void *arg, size_t i);
const char *fl_nearest(const char *word, fl_name_fn *next, const void *arg);

/* Receives text produced for a person (tables, listings), piece by piece. */
typedef void fl_text_fn(void *arg, const char *text);

/* The format of tables and listings from now on: fl_list, fl_data_describe, fl_check, fl_study_check without a file,
 * fl_study_table, fl_study_paper, fl_tune_table. In JSON each is one document, and numbers have all their digits. */
typedef enum { FL_FORMAT_TEXT, FL_FORMAT_JSON } fl_format;
void fl_ctx_format(fl_ctx *ctx, fl_format format);

/* ---- configuration: defaults <- file <- fl_config_set --------------------------------------------------- */

typedef struct fl_config fl_config;

fl_config *fl_config_new(fl_ctx *ctx);
void fl_config_free(fl_config *cfg);
/* An independent copy of all that was given so far, to change further; NULL when out of memory. */
fl_config *fl_config_copy(const fl_config *cfg);
/* Reads a YAML file; its values replace those given earlier. Reports every problem, with line and column. */
fl_status fl_config_load(fl_config *cfg, const char *path);
/* The same for the text of a file. Messages call it `name`; NULL: "the text". */
fl_status fl_config_text(fl_config *cfg, const char *text, const char *name);
/* "key=value" or "section.key=value"; the value is YAML: "local.lr=0.1", "model.hidden=[200, 100]". */
fl_status fl_config_set(fl_config *cfg, const char *assignment);
/* The value given so far for a key ("name", "local.lr"), as text; "" if none was given, or if it is a list or a
 * section. Valid until the configuration changes. */
const char *fl_config_get(const fl_config *cfg, const char *key);
/* Whether the configuration has a key that only comparisons know (`methods`, `grid`, `seeds`, ...). */
int fl_config_is_experiment(const fl_config *cfg);
/* Whether a kind has a key of its own: fl_kind_has_key("algorithm", "fedprox", "mu"). */
int fl_kind_has_key(const char *section, const char *kind, const char *key);
/* Name k that a section ("algorithm", "model", "data", ...; "solver" for local.solver) can choose; NULL past the last.
 * Registered names come last. A name is valid until it is forgotten. */
const char *fl_kind_at(const char *section, size_t k);
/* Checks the whole configuration without loading data. Reports every problem, with line and column. */
fl_status fl_config_check(fl_config *cfg);
/* Checks the configuration, and prints every key with the value that holds. */
fl_status fl_config_print(fl_config *cfg, fl_text_fn *out, void *arg);

/* ---- data in memory ------------------------------------------------------------------------------------- */

/* A struct that the caller fills begins with its size, so that later versions can add members: set `size` and the
 * members that you need.
 *
 *     fl_samples train = {.size = sizeof train, .n = 600, .dim = 20, .f64 = x, .label = y, .classes = 3};
 *
 * In C++, set the struct to zero first, then the members. So a program may be older than the library; it may also be
 * newer, if it uses no member that the library does not know. Structs of the library to which it returns pointers
 * (fl_metric, fl_study_progress, fl_model_info) may get more members at their end; structs that it writes into the
 * caller's memory (fl_vector, fl_tensor) will not. */

/* Samples in memory, row by row. Give exactly one of u8, f32, f64, or none: samples then have numbers but no features,
 * which is enough for a registered objective. With `row` and `col` the samples are sparse: `f32` or `f64` holds the
 * values that are not 0, those of sample i from row[i] up to row[i + 1]; col[k] is the feature of value k, ascending in
 * each row. Give exactly one of label and target, unless samples have no features. */
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
    const char *const *class_name; /* one per class, all different; NULL: the names are 0, 1, ... */
} fl_samples;

/* Which client holds which samples; give at most one: client i holds samples start[i] .. start[i + 1] - 1, or sample k
 * belongs to client owner[k] (UINT32_MAX: to no client). Otherwise `partition` divides the samples; it is ignored if
 * one is given. No client may be empty. */
typedef struct {
    size_t size; /* sizeof(fl_holding) */
    size_t clients;
    const size_t *start;   /* clients + 1 */
    const uint32_t *owner; /* n */
    const double *weight;  /* clients: w_i > 0 up to a factor; NULL: as `weights` says */
} fl_holding;

/* Gives the data in memory. `data.kind` becomes `memory`; other keys of the `data` section (normalize, test_fraction,
 * unlabelled, ...) hold as for a file. If another kind is set later, that one counts. Only the structs are copied, and
 * the labels if some are withheld: the arrays must not change until the last run made from this configuration is freed.
 * `test` and `who` may be NULL; `train` with n = 0 gives a test set alone (fl_server_new). The samples are checked when
 * a run is made: FL_EFORMAT then names the first bad one. To resume a run from a checkpoint, give the same data again
 * after fl_config_resume. */
fl_status fl_config_data(fl_config *cfg, const fl_samples *train, const fl_samples *test, const fl_holding *who);

/* ---- a run ------------------------------------------------------------------------------------------- */

/* One line of metrics: a number for every metric of the list below, NaN if it was not measured or does not exist.
 *
 *     double loss = fl_row_get(row, "train_loss");
 *
 * Names are the columns of metrics.csv; docs/reference.md explains each. New metrics are added at the end, and there
 * are never more than FL_METRICS_MAX: the size of a row does not change. */
enum { FL_METRICS_MAX = 64 };
typedef struct {
    double value[FL_METRICS_MAX]; /* in the order of fl_metric_at */
} fl_row;

/* The value of a metric, by its name; NaN also if no metric has that name, or `row` is NULL. */
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

/* Validates the configuration, loads the data, builds plan and start model. The configuration may be freed or changed
 * afterwards. */
fl_status fl_run_new(fl_config *cfg, fl_run **out);
void fl_run_free(fl_run *run);

/* Called after every round (and once before the first); `measured` says whether `row` holds fresh metrics. */
typedef void fl_observer_fn(void *arg, const fl_run *run, const fl_row *row, int measured);
/* Runs until a stop rule holds. FL_OK also when fl_run_stop ended the run. FL_EDIVERGED when the loss passes
 * `stop.diverged` or a number is no longer finite; if the run was prepared for saving, the error names its metrics
 * file. */
fl_status fl_run_go(fl_run *run, fl_observer_fn *observer, void *arg);
/* One round, or one server step of an asynchronous method, with its measurements, checkpoint and stop rules. The first
 * call also measures the start, as fl_run_go does. *more: whether another step follows; 0 once a stop rule holds;
 * `more` may be NULL. Steps followed by fl_run_go give the same bits as fl_run_go alone. A failed run cannot go on. */
fl_status fl_run_step(fl_run *run, int *more);
/* Ends the run after the current round. Safe in a signal handler. */
void fl_run_stop(fl_run *run);

/* Refuses early what fl_run_save would refuse late: an existing folder (unless `replace`), a place that cannot be
 * written, and, with FL_EBUSY, a place that another run or process has reserved. Reserves the place for this run until
 * it has saved or is freed. */
fl_status fl_run_prepare_save(fl_run *run, int replace);
/* Writes the result folder named by `output`: all of it, or nothing. */
fl_status fl_run_save(fl_run *run);
/* The same with report.html, a page about the run. `command` is the command that the page shows; NULL: none. */
fl_status fl_run_save_with_report(fl_run *run, const char *command);
/* Writes the metrics so far as an event file for TensorBoard, into a folder that no other run uses. */
fl_status fl_run_events(fl_run *run, const char *folder);
/* Replaces the result folder of `output`. Not for runs that write checkpoints: these lie beside it. */
fl_status fl_run_set_output(fl_run *run, const char *folder);
/* Writes the model alone to a file, in the format of a result's model.safetensors. */
fl_status fl_run_save_model(fl_run *run, const char *path);

/* Checkpoints. With `checkpoint_every`, fl_run_go writes them into the folder OUTPUT.checkpoint, and one more when it
 * is asked to stop; fl_run_save removes them when the run is finished. A resumed run ends with the same bits as one
 * that was never interrupted:
 *
 *     fl_config_resume(cfg, "results/first") || fl_run_resume(cfg, &run) || fl_run_go(run, NULL, NULL) ||
 *         fl_run_save(run)
 *
 * Writes a checkpoint now. Not while fl_run_go is under way. */
fl_status fl_run_checkpoint(fl_run *run);
/* A checkpoint that was written, or whose writing failed. */
typedef struct {
    size_t size;
    size_t round; /* the last finished round */
    double seconds;
    uint64_t bytes;
    fl_status status; /* FL_OK: it is on disk */
    const char *why;  /* the error otherwise; "" for none */
} fl_checkpoint;
typedef void fl_checkpoint_fn(void *arg, const fl_checkpoint *checkpoint);
/* `fn` is called for each checkpoint, on the thread that writes it. NULL: no calls. */
void fl_run_on_checkpoint(fl_run *run, fl_checkpoint_fn *fn, void *arg);
/* Loads the settings of the run whose output (or checkpoint folder) is `folder`, and sets `output` to match. */
fl_status fl_config_resume(fl_config *cfg, const char *folder);
/* As fl_run_new, then loads the newest complete checkpoint of the configuration's `output`. Refuses a checkpoint of
 * another version, other settings or other data; `threads`, `device`, `memory`, `name`, `checkpoint_every` and
 * `output_model` may differ, and so may the number of processes (fedloom_ranks.h). FL_EBUSY while another process uses
 * that output. FL_EDONE if the run had finished; its remaining checkpoints are then removed. */
fl_status fl_run_resume(fl_config *cfg, fl_run **out);
size_t fl_run_round(const fl_run *run);     /* rounds finished */
int fl_run_checkpointed(const fl_run *run); /* whether a checkpoint of exactly that round exists */

const char *fl_run_name(const fl_run *run);      /* the run's name in tables */
const char *fl_run_output(const fl_run *run);    /* the result folder, "" if none was given */
const char *fl_run_algorithm(const fl_run *run); /* the method's name */
size_t fl_run_rounds(const fl_run *run);         /* rounds planned */
size_t fl_run_clients(const fl_run *run);
size_t fl_run_parameters(const fl_run *run); /* length of the model vector */
/* The bytes that the run needs at least: data, model, threads, uploads, and the client state of one cohort; for a run
 * on a device, the part in host memory. fl_run_new returns FL_ENOMEM if the machine, a control group, ulimit -v or the
 * device has less room. */
double fl_run_memory(const fl_run *run);
fl_stop fl_run_stopped_by(const fl_run *run);
const fl_row *fl_run_row(const fl_run *run);                /* the newest measured row; NULL before the first */
size_t fl_run_rows(const fl_run *run, const fl_row **rows); /* all of them */
/* Target k: its accuracy, and the first measured round that reached it (SIZE_MAX: none yet). 0 past the last. */
int fl_run_target(const fl_run *run, size_t k, double *accuracy, size_t *round);
/* Copies at most `capacity` reals of the global model, as doubles; returns its length. `out` may be NULL. */
size_t fl_run_model(const fl_run *run, double *out, size_t capacity);
/* Replaces the start model; n = fl_run_parameters. Call it before the first fl_run_go or fl_run_step. It is not part of
 * the settings: to repeat the run, give it again. Checkpoints contain it. */
fl_status fl_run_start(fl_run *run, const double *x, size_t n);

/* A vector in the run's memory, or a copy of one on a device; valid between rounds, until the next round begins. The
 * library writes this struct and fl_tensor into the caller's memory, so they will not grow. */
typedef struct {
    const char *name; /* the method's name for it: "x", "c", "c_i" */
    const void *data; /* floats or doubles; NULL: it does not exist yet */
    size_t n;
    size_t real; /* bytes of each: 4 or 8 */
} fl_vector;

/* The server's vector k; 0 is the model. Returns 0 past the last. */
int fl_run_vector(const fl_run *run, size_t k, fl_vector *out);
/* Vector k of a client's state between its turns; returns 0 past the last. `data` is NULL before the client's first
 * turn. The data are a copy, valid until the next call for this run. With an asynchronous method they may include a
 * turn whose upload has not arrived yet. Returns -1 for an unknown client or an unreadable state; the context has the
 * error. */
int fl_run_client_vector(fl_run *run, size_t client, size_t k, fl_vector *out);
/* Copies at most `capacity` scalars of a client's state; returns their number, 0 before its first turn, or SIZE_MAX
 * where fl_run_client_vector returns -1. */
size_t fl_run_client_scalars(fl_run *run, size_t client, double *out, size_t capacity);

/* A tensor within the model vector: `dims` dimensions, row-major, beginning at real `offset`. */
typedef struct {
    const char *name;
    size_t offset, dims;
    size_t shape[4];
} fl_tensor;
/* Tensor k of the model; 0 past the last. */
int fl_run_tensor(const fl_run *run, size_t k, fl_tensor *out);

/* ---- trained models at work -------------------------------------------------------------------------------- */

typedef struct fl_model fl_model;

/* Reads a model.safetensors that a run has written. The file is complete: no configuration is needed, and the model
 * does not need the context afterwards. It is the global model, also for methods that train one per client; for
 * two-level problems it has the parameters of both levels. Other files give FL_EFORMAT.
 *
 * The first run or model of a process sets OpenBLAS to one thread per call, for the whole process. A program that needs
 * more threads elsewhere can set OpenBLAS again afterwards. */
fl_status fl_model_load(fl_ctx *ctx, const char *path, fl_model **out);
void fl_model_free(fl_model *m);

/* The model owns the strings and arrays. */
typedef struct {
    const char *kind; /* "mlp" */
    size_t parameters;
    size_t shape[3], dim;          /* of a sample: channels, height, width; their product */
    size_t classes;                /* 0: regression */
    const char *const *class_name; /* NULL: the names are 0, 1, ... */
    size_t outputs;                /* numbers per sample: classes, clusters, or 1 for a regression; 0: no predictions */
    size_t real;                   /* bytes of a parameter: 4 or 8 */
} fl_model_info;
const fl_model_info *fl_model_about(const fl_model *m);
int fl_model_tensor(const fl_model *m, size_t k, fl_tensor *out, const void **data); /* 0 past the last */
const char *fl_model_metadata(const fl_model *m, const char *key);                   /* NULL: not in the file */

/* Writes n * outputs doubles, sample by sample: class probabilities, the value of a regression, or shares of clusters,
 * which add up to 1. Give samples as in the original data (pixels as bytes, raw features): the model normalises and
 * crops them. Give exactly one of u8, f32 and f64, dense or sparse; labels and targets are ignored. Several threads may
 * use one model at the same time, each with its own context. FL_ECONFIG for a registered objective, which cannot
 * predict. */
fl_status fl_model_predict(fl_ctx *ctx, const fl_model *m, const fl_samples *samples, double *out);

/* Writes a softmax, mlp or cnn as ONNX, for other runtimes; FL_ECONFIG for other kinds, and for names that do not end
 * in .onnx. The graph takes any number of samples as they were in the data, in f32: `input`, batch x channels x height
 * x width, or batch x features if samples are not images. It includes normalisation and cropping. Its outputs are
 * `logits` and `probabilities`. Parameters of f64 are rounded to f32. */
fl_status fl_model_export(fl_ctx *ctx, const fl_model *m, const char *path);

/* ---- the list of metrics -------------------------------------------------------------------------------- */

typedef enum {
    FL_UNIT_NONE,
    FL_UNIT_SHARE, /* of 1; tables give percent */
    FL_UNIT_SCORE, /* from 0 to 1, but not a fraction of a whole */
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

/* Where a metric is shown. metrics.csv and metrics.jsonl always have all metrics. */
typedef enum {
    FL_VIEW_EVENTS,       /* TensorBoard event files: label is the tag */
    FL_VIEW_CHART,        /* y axis of a chart: label is the name for fl_study_plot */
    FL_VIEW_AXIS,         /* x axis: label is the name for fl_study_plot */
    FL_VIEW_PROGRESS,     /* progress line; shows the first measured one of orders 11, 12, ..., then of 21, 22, ... */
    FL_VIEW_RUN,          /* the table of `fedloom run` */
    FL_VIEW_NOTE,         /* below that table, "GROUP: LABEL" before the value; neighbours of one group share a line */
    FL_VIEW_STUDY,        /* the table of a comparison */
    FL_VIEW_STUDY_FILES,  /* results.csv and results.json; bytes as megabytes */
    FL_VIEW_TARGET,       /* the table of a comparison: the cost of reaching a target */
    FL_VIEW_TARGET_FILES, /* the same cost in results.csv */
    FL_VIEW_PAPER,        /* the name in an experiment's `paper.figures` */
    FL_VIEWS
} fl_view;

enum { FL_ORDER_MIDDLE = 50 }; /* in tables, the costs of targets come after the metrics of this order */

/* A metric's place in a view. */
typedef struct {
    const char *label; /* NULL: not shown there */
    int order;         /* ascending; equal ones as in the list; 0 counts as FL_ORDER_MIDDLE */
} fl_place;

/* The description of a metric. */
typedef struct {
    const char *name;  /* "test_accuracy" */
    const char *title; /* for an axis: "test accuracy" */
    const char *help;  /* for the reference */
    fl_unit unit;
    fl_better better;
    fl_scale scale;
    int digits;       /* in texts: significant ones without a unit, decimals of seconds; 0: the default of its unit */
    int beyond_round; /* shown only if it differs from the number of rounds */
    fl_place shown[FL_VIEWS];
} fl_metric;

/* Metric k, in the order of the columns; NULL past the last. */
const fl_metric *fl_metric_at(size_t k);
/* The metric of that name, or NULL. */
const fl_metric *fl_metric_find(const char *name);
/* Metric k of a view, in the view's order; NULL past the last. */
const fl_metric *fl_metric_shown(fl_view view, size_t k);
/* Its k of fl_metric_at, which is its index in fl_row.value: for loops over many rows. */
size_t fl_metric_place(const fl_metric *metric);
/* As fl_row_get; faster. `metric` comes from one of the functions above. */
double fl_row_value(const fl_row *row, const fl_metric *metric);
/* Whether `a` is better than `b` in the metric's direction; 0 if either is NaN, or the metric has no direction. */
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
    int force;               /* replace finished runs that have other settings or other data */
    const char *command;     /* the command that the report shows; NULL: none */
} fl_study_options;

/* The progress of a comparison. */
typedef struct {
    const char *label, *setting; /* the run that has just advanced; NULL before the first */
    uint64_t seed;
    size_t round, rounds;       /* of that run */
    int ended;                  /* this run has just ended */
    const fl_row *row;          /* its newest metrics; NULL: none yet */
    const char *error;          /* why this run failed; NULL: it did not */
    size_t done, failed, total; /* runs */
    double fraction;            /* finished part of all rounds that this call runs */
    double seconds;             /* since fl_study_go */
} fl_study_progress;
/* Called from worker threads, one call at a time. */
typedef void fl_study_fn(void *arg, const fl_study_progress *progress);

/* Reads an experiment (a configuration with `methods`, `grid`, `seeds`, ...) and checks all its runs without loading
 * data. Complete runs that the same folder already has, with the same settings, are reused. `options` may be NULL. */
fl_status fl_study_new(fl_config *cfg, const fl_study_options *options, fl_study **out);
void fl_study_free(fl_study *study);
/* Serves the report on 127.0.0.1 while the comparison runs. port 0: any free port. *port receives the one in use. */
fl_status fl_study_watch(fl_study *study, uint16_t *port);
/* Executes the runs that are missing. A run that fails is reported and does not stop the others. FL_OK also after
 * fl_study_stop. Before the first run it refuses a folder that another process uses (FL_EBUSY), finished runs that it
 * would have to replace (unless `force`), and files that no comparison has written. It also compares the data with
 * those of the reused runs. */
fl_status fl_study_go(fl_study *study, fl_study_fn *observer, void *arg);
/* Ends the comparison after the current rounds; unfinished runs are discarded. Call fl_study_go again to continue. Safe
 * in a signal handler. */
void fl_study_stop(fl_study *study);

const char *fl_study_output(const fl_study *study);
size_t fl_study_runs(const fl_study *study, size_t *done);
/* The table as text: means and deviations over seeds, rounds and bytes to each target. As JSON it is results.json. */
fl_status fl_study_table(fl_study *study, fl_text_fn *out, void *arg);
/* Our figures beside the paper's, for experiments with a `paper` part; without one, a sentence says so. */
fl_status fl_study_paper(fl_study *study, fl_text_fn *out, void *arg);
/* Writes results.csv, results.md, results.json and report.html into the output folder. Replaces only files that an
 * earlier call has written. */
fl_status fl_study_write(fl_study *study);
/* One chart as a stand-alone SVG document. y: test-accuracy, train-loss, ...; x: rounds, bytes, seconds or simulated.
 * Refuses, on either axis, quantities that no run has measured. */
fl_status fl_study_plot(fl_study *study, const char *x, const char *y, fl_text_fn *out, void *arg);
/* Name k of the measured quantities, for y (axis 1) or x (axis 0); NULL past the last. */
const char *fl_study_quantity(const fl_study *study, int axis, size_t k);

/* Charts of existing runs: each of `count` result folders becomes a line with the run's name. */
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
    /* `seeds` are tuning seeds; `output` NULL: folder `tune` in the comparison's; no `tensorboard`. May be NULL */
    const fl_study_options *study;
    int compare_next; /* a comparison of the winners follows: `output` is its folder, the tuning uses `tune` there;
                       * locks both, and refuses runs left there by other settings */
} fl_tune_options;

/* Reads an experiment and its ranges (`tune: {local.lr: {from: 0.001, to: 1, log: true}}`; default: each method's own),
 * and checks every setting that could be tried. Settings are chosen by successive halving, with seeds that no
 * comparison of the same file uses. `options` may be NULL. */
fl_status fl_tune_new(fl_config *cfg, const fl_tune_options *options, fl_tune **out);
void fl_tune_free(fl_tune *tune);
/* Executes the missing runs, rung by rung. It reuses earlier runs of the same folder, with the same outcome. A setting
 * that diverges is ranked last. Any other failure of a run ends the tuning, and so does divergence of all settings.
 * FL_OK also after fl_tune_stop. */
fl_status fl_tune_go(fl_tune *tune, fl_study_fn *observer, void *arg);
/* For the observer: ends the tuning after the current rounds. Call fl_tune_go again to continue. */
void fl_tune_stop(fl_tune *tune);

const char *fl_tune_output(const fl_tune *tune);
int fl_tune_done(const fl_tune *tune); /* whether every rung is complete; required by the functions below */
/* FL_EDIVERGED if methods diverged with every setting, so that they have no winner; the error names them. */
fl_status fl_tune_verdict(fl_tune *tune);
/* Writes tried.csv, tried.svg, the winners as best.yaml, and one METHOD.yaml each, into the output folder. */
fl_status fl_tune_write(fl_tune *tune);
/* Per method: the settings tried, and the winner compared with the file's own setting. */
fl_status fl_tune_table(fl_tune *tune, fl_text_fn *out, void *arg);
/* An experiment for fl_study_new: every method that has a winner, with its best setting. Independent of the tuning. */
fl_status fl_tune_winners(fl_tune *tune, fl_config **out);

/* ---- descriptions and checks ---------------------------------------------------------------------------- */

/* Lists the kinds (kind NULL), the things of a kind (name NULL), or the parameters of one thing. */
fl_status fl_list(fl_ctx *ctx, const char *kind, const char *name, fl_text_fn *out, void *arg);

typedef enum {
    FL_REFERENCE_MARKDOWN, /* docs/reference.md */
    FL_REFERENCE_MAN       /* the manual page fedloom-config(5) */
} fl_reference_format;

/* The same as one document: every kind, thing and key, with type, range, default and meaning. */
fl_status fl_reference(fl_ctx *ctx, fl_reference_format format, fl_text_fn *out, void *arg);

/* Describes the data set and partition of a configuration: sizes, and a label histogram for the first `clients`
 * clients. If `partition_json` is not NULL, writes the partition (client -> sample indices) to that file. For an
 * experiment: what its runs share, with the first seed; `data` replaces ${data} in the file (NULL: the environment's
 * FEDLOOM_DATA). */
fl_status fl_data_describe(fl_config *cfg, const char *data, size_t clients, const char *partition_json,
                           fl_text_fn *out, void *arg);

/* Writes the same federation for a server and clients that join it (fedloom_halves.h), into a new folder: server.yaml,
 * the clients' names in the order of their numbers (roster), a test set, and in clients/ two files for each: its
 * samples, and the settings that read them. The run then gives the same bits as a simulation, except with images that
 * are augmented in every epoch: their random changes depend on a sample's number. */
fl_status fl_data_export(fl_config *cfg, const char *folder);

/* Measures the clients' smoothness and reports which step-size conditions of the method's theorem hold, by how much
 * others fail, what is assumed without being measured, a setting that would satisfy the conditions, and after how many
 * rounds the theorem promises a small gradient. */
fl_status fl_check(fl_config *cfg, fl_text_fn *out, void *arg);
/* The same, and a run that is compared with that number of rounds. Sets `output` and keys of `metrics` in cfg. */
fl_status fl_check_run(fl_config *cfg, fl_text_fn *out, void *arg);
/* Changes settings until all conditions hold that settings can satisfy. `file` receives the whole configuration, with a
 * comment at every changed key; it is read and checked again. `report` receives the changes and the result of that
 * check, *left the number of conditions that still fail. */
fl_status fl_check_fix(fl_config *cfg, fl_text_fn *report, void *report_arg, fl_text_fn *file, void *file_arg,
                       size_t *left);

/* The same for an experiment: every method and setting, at the first seed. `file` NULL: only checks; *left is then the
 * number that fail. Otherwise `file` receives the experiment: changes go into the method's own settings, those of grids
 * stay. `options` may be NULL; only `data` and `quick` are used. */
fl_status fl_study_check(fl_config *cfg, const fl_study_options *options, fl_text_fn *report, void *report_arg,
                         fl_text_fn *file, void *file_arg, size_t *left);

/* Runs one golden case (a JSON file with an exact trajectory) and compares. FL_OK: they agree within the tolerance.
 * `error` receives the largest relative error (NaN if the case could not run at all). */
fl_status fl_verify(fl_ctx *ctx, const char *path, double tolerance, double *error);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
