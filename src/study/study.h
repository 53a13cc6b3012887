/* A comparison in progress: the runs of an experiment, which of them are done, their metrics; and tables and pages of
 * results, from a comparison, a single run or result folders. For study/. */
#ifndef FLI_STUDY_STUDY_H
#define FLI_STUDY_STUDY_H

#include "base/file.h"
#include "base/text.h"
#include "format/json.h"
#include "metric/metric.h"
#include "report/report.h"
#include "run/output.h"
#include "run/state.h"
#include "study/experiment.h"

#include <pthread.h>
#include <stdatomic.h>

/* ==== the output folder: study.c ============================================================================ */

/* A folder of results: one process at a time writes there, and overwrites only files that this program wrote and that
 * have not changed since; a manifest in the folder lists them. A folder has results of one kind: a tuning does not
 * overwrite a comparison's manifest. */

typedef struct {
    fl_ctx *ctx;
    const char *folder;
    fli_lock *lock; /* NULL: not taken */
} fli_output_claim;

/* Locks the folder, and makes it if it does not exist. */
fl_status fli_output_claim_take(fli_output_claim *c);
void fli_output_claim_leave(fli_output_claim *c);
/* Refuses to overwrite files of other programs, and results of another kind. `names` ends with NULL; every folder of
 * this kind, and no other, has the first one. */
fl_status fli_output_claim_check(const fli_output_claim *c, const char *const *names);
/* Writes all files, one text each, and removes those of an earlier call that are not among them. */
fl_status fli_output_claim_write(const fli_output_claim *c, const char *const *names, const fli_text *texts);

/* ==== a comparison ========================================================================================== */

typedef enum { FLI_TRIAL_OPEN, FLI_TRIAL_RUNNING, FLI_TRIAL_DONE, FLI_TRIAL_FAILED } fli_trial_state;

/* The state of a trial and its results. */
typedef struct {
    fli_trial_state state;
    fl_row *rows;
    size_t count, capacity;
    size_t round;                 /* finished rounds, updated between measurements too */
    char *error;                  /* of a failed trial */
    fl_status status;             /* of a failed one */
    size_t data;                  /* index in `shared` */
    fli_existing_result existing; /* the earlier contents of its folder */
    int checked;                  /* of a reused trial: its data are known to be the current ones */
    /* Of a finished trial, after fli_result_end_load: */
    int end_known;
    fli_client_end *clients;
    size_t client_count;
    size_t parameters; /* of the model; 0: unknown */
} fli_outcome;

/* Data that several trials share: loaded when the first needs them, freed after the last. */
typedef struct {
    const char *key;
    pthread_mutex_t lock; /* held while loading */
    fl_ctx *ctx;          /* of its own, because worker threads load */
    fl_config *cfg;
    fli_plan plan;
    int loaded;
    fl_status status; /* of loading */
    size_t users;     /* trials that still need them */
} fli_shared;

/* Which client has which labels in the first seed, for the report. */
typedef struct {
    size_t *count;  /* labels, counted x classes; NULL for regression */
    size_t counted; /* the first clients */
    size_t clients; /* of these, the number shown */
    size_t classes, all_clients, samples, features, tests;
    size_t tested;      /* test samples whose labels were counted, those of clients included */
    size_t least, most; /* samples of a client */
    size_t *claims;  /* numbers of samples that clients report, of all_clients; NULL: the samples are in this process */
    double chance;   /* share of the largest class among the test samples; 0: unknown */
    double distance; /* of a client's mix of labels from that of all counted, on average: half of the sum of absolute
                         * differences of shares, from 0 (the same) to 1 (nothing in common); NaN: not known */
} fli_histogram;

/* Runs for tables and pages. All borrowed. */
typedef struct {
    fl_ctx *ctx;
    const char *title, *description;
    const fli_method *methods;
    const fli_trial *trials; /* seed by seed, as an experiment has them */
    fli_outcome *outcomes;   /* one per trial */
    size_t count, seeds;
    const fli_histogram *histogram;
    const fli_metric *goal; /* metric of targets; as in the first trial */
    const fl_reals *targets;
    const char *command; /* the command line that made them; NULL: unknown */
    int was_stopped;     /* on request, before the open ones were run */
    const char *stopped; /* of a run without a folder: where it was stopped on request; NULL: not stopped */
    time_t ended;        /* of a run without a folder; 0: trials' folders tell */
} fli_results;

/* Distance between trials of one method and setting with successive seeds: trials are stored seed by seed. */
static inline size_t fli_results_stride(const fli_results *r) { return r->count / r->seeds; }

struct fl_study {
    fl_ctx *ctx;
    fli_experiment x;
    fl_study_options options;
    fli_outcome *outcomes; /* one per trial */
    fli_shared *shared;
    size_t shared_count;
    fli_histogram histogram;
    const fli_metric *goal;  /* metric of targets; as in the first trial */
    const fl_reals *targets; /* as in the first trial */
    fli_output_claim claim;  /* of the output folder */
    fli_live *live;          /* NULL: no live page */
    double published;
    pthread_mutex_t lock;      /* guards outcomes, histogram, the observer and the live page while running */
    atomic_int stop_requested; /* lock-free, so that a signal handler may set it */
    int was_stopped;           /* the last fl_study_go was stopped */
    /* while running */
    fl_study_fn *observer;
    void *arg;
    double begun;
    size_t rounds_planned, rounds_done;
    size_t jobs;    /* runs at the same time */
    size_t threads; /* per run */
};

/* Frees loaded data. */
void fli_shared_unload(fli_shared *d);

/* The comparison's results. While runs are in progress the caller holds the lock. */
fli_results fli_study_results(const fl_study *s);

/* ---- for the report ----------------------------------------------------------------------------------------- */

/* Counts which client has which labels (output.c); leaves `count` NULL for regression, too many classes to show, or
 * samples that are not here. */
fl_status fli_label_counts_take(fl_ctx *ctx, const fli_fed *f, fli_histogram *h);
/* Reads clients and model from a finished trial's result (study.c). What cannot be read is left out of the report. */
void fli_result_end_load(fl_ctx *ctx, const fli_trial *t, fli_outcome *o);
/* The report's card, line by line (problem.c); memory from the arena. */
fl_status fli_problem_facts(const fli_results *r, fli_arena *a, fli_report *out);

/* ---- finished runs of an earlier call (study.c) ------------------------------------------------------------- */

/* Before anything is run: decides which results count, by settings and data, and refuses to replace others unless that
 * was requested. */
fl_status fli_finished_runs_settle(fl_study *s);

/* The files of a comparison's report (output.c); ends with NULL. */
extern const char *const fli_study_files[];

/* ---- statistics over seeds (summary.c) ---------------------------------------------------------------------- */

typedef struct {
    size_t n;
    double mean, std; /* std: over n - 1; 0 for one value */
} fli_stat;

/* One method at one setting, over its finished seeds. */
typedef struct {
    size_t method, setting, first; /* first: index of one of its trials */
    size_t seeds, failed;
    fli_stat at_end[FL_METRICS_MAX]; /* in the order of the metrics; bytes as megabytes */
    int best;                        /* of its method's settings */
} fli_summary;

/* As fli_results_stride. */
static inline size_t fli_study_stride(const fl_study *s) { return s->x.count / s->x.seeds; }
/* Adds a value, unless it is not finite, to a statistic that starts as zeros. Call finish before reading it. */
void fli_stat_take(fli_stat *st, double v);
void fli_stat_finish(fli_stat *st);
/* Prints with the metric's digits and multiple, and with the deviation if there is one. */
void fli_stat_words(fli_text *t, const fl_metric *m, const fli_stat *st);
/* A text as a field of a CSV file, quotes included. */
void fli_csv_text(fli_text *t, const char *s);
/* "95.64 ± 0.12": the mean, and the deviation if there are several values; nothing without values. */
void fli_stat_text(fli_text *t, const fli_stat *st, double factor, int digits);
/* One row per method and setting, in order; memory from the arena. */
fl_status fli_results_summaries(const fli_results *r, fli_arena *a, fli_summary **out, size_t *count);
/* A metric at the end of the runs. */
const fli_stat *fli_summary_stat(const fli_summary *row, const fl_metric *metric);
/* All metrics at the row that first reaches a target, over the seeds that reach it; in the metrics' order, bytes as
 * megabytes. Returns the number of these seeds. */
size_t fli_results_to_target(const fli_results *r, const fli_summary *row, double target, fli_stat out[FL_METRICS_MAX]);
/* "120", "120 (3/5)" if only some seeds reach the target, "> 500" if none does; nothing if the cost is unknown. */
void fli_target_text(fli_text *t, const fli_results *r, const fli_summary *row, double target, const fl_metric *cost);
/* The table for a reader; memory from the arena. */
fl_status fli_results_grid(const fli_results *r, fli_arena *a, fli_grid *out);
/* A grid as text (aligned columns) or Markdown. */
void fli_grid_text(fli_text *t, const fli_grid *g);
/* ",MEAN,STD"; two empty cells without values. */
void fli_stat_csv(fli_text *t, const fli_stat *st);
/* {"mean": ..., "std": ..., "n": ...}; null without values. */
void fli_stat_json(fli_json *j, const char *key, const fli_stat *st);

/* ---- for a reader (output.c) -------------------------------------------------------------------------------- */

/* Memory from the arena. */
fl_status fli_results_report(const fli_results *r, fli_arena *a, fli_report *out);
fl_status fli_results_page(const fli_results *r, fli_arena *a, fli_text *out);
/* See fl_study_quantity and fl_study_plot. */
const char *fli_results_quantity(const fli_results *r, int axis, size_t k);
fl_status fli_results_plot(const fli_results *r, const char *x, const char *y, fl_text_fn *out, void *arg);

#endif
