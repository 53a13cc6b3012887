/* A metric is one row of one table. The row has its name, its unit, its direction, the views that show it (fl_metric in
 * the public header), and the source of its value. Result files, event files, charts, tables and the reference follow
 * from the rows. */
#ifndef FLI_METRIC_METRIC_H
#define FLI_METRIC_METRIC_H

#include "config/settings.h"
#include "engine/engine.h"
#include "message/exchange.h"

#include <stddef.h>

/* Counters of a run, updated whether it measures or not. Numbers only: a checkpoint contains the struct's bytes. */
typedef struct {
    double round;
    double cohort; /* clients that took part in the last round */
    /* since the start, over all clients */
    double bytes_up, bytes_down;
    double local_steps;
    double seconds;                        /* wall time of rounds, without measuring */
    double simulated_seconds;              /* NaN: no virtual clock */
    double communications;                 /* round trips between the server and a cohort */
    double evaluation_up, evaluation_down; /* bytes of measurements */
    /* server updates between a client's download and its upload */
    double staleness, staleness_max; /* of the uploads absorbed since the last row; NaN: none */
    double idle, idle_most; /* shares of the time since the last row that ranks waited for others; NaN: one process */
    double potential_rise;  /* the largest rise so far that contradicts theory; NaN: theory promises nothing */
} fli_counts;

/* One client's figures (message/exchange.h), and its columns of clients.csv. */
typedef struct {
    uint32_t client;
    size_t samples;
    double weight;           /* w_i */
    double num[FLI_FIGURES]; /* as uploaded */
    double potential[FL_POTENTIAL_TERMS];
    double loss;         /* on its training samples, weight decay included */
    double accuracy;     /* on its own test part, or its training samples if it has none; NaN for regression */
    double own_accuracy; /* on its own test part, of its own model or its mixture of that and x; NaN: not measured */
    double own_mix;      /* the own model's share in that mixture */
} fli_client_figures;

/* Numbers in ascending order. */
typedef struct {
    const double *v;
    size_t n;
} fli_sorted;

/* Results for a two-level problem, see fli_hypergradient in measure.h. */
typedef struct {
    double hypergradient;                   /* ||grad Phi(x)|| */
    double lower_distance, system_distance; /* ||y - y*(x)||, ||v - v*(x)|| */
    double weighted;                        /* ||grad Phi~(x)||, for the weights with which the method's steps count */
    double potential;
} fli_level_figures;

/* The result of a measurement. */
typedef struct {
    fl_ctx *ctx;
    fli_exec *exec;
    const fli_model *model;
    const fl_space *space; /* of x and the gradient */
    const fli_metrics_settings *what;
    const void *x;                     /* the model vector under measurement */
    const fli_client_figures *clients; /* the clients that were asked */
    size_t count;
    double test_loss, test_hits, test_n;   /* the server's test set: sums over samples; n is 0 if there is none */
    fli_level_figures levels;              /* of a two-level problem; NaN: not measured */
    const void *gradient;                  /* sum of w_i grad f_i(x), weight decay included; NULL: not measured */
    const void *ahead;                     /* the same at the next values of the second blocks */
    double smoothness;                     /* the largest L_i at the start model; NaN: not measured */
    fli_sorted accuracies, own_accuracies; /* of those clients that have one */
    const double *table;                   /* samples by cluster and class, over all clients */
    size_t clusters, classes;              /* 0 clusters: not measured */
    fl_status status;                      /* the first failure of a metric */
} fli_measurement;

/* Sums over clients, lane by lane: the same bits for any number of threads. */
enum { FLI_LANES = 16 };
/* The first index of lane k, for `count` clients or samples. */
static inline size_t fli_lane_begin(size_t lane, size_t count) { return lane * count / FLI_LANES; }
/* The first lane of a rank, if ranks share the test set; its last lane precedes the next rank's first. */
static inline size_t fli_lane_of_rank(size_t rank, size_t ranks)
{
    return ranks ? (rank * FLI_LANES + ranks - 1) / ranks : rank * FLI_LANES;
}
typedef double fli_term(const fli_client_figures *f, size_t figure);
double fli_measurement_sum(const fli_measurement *m, fli_term *term, size_t figure);
/* The mean over clients that have the figure, weighted as f is. */
double fli_weighted_mean(const fli_measurement *m, size_t figure);
/* For x (own 0) or the clients' own models: mean loss on tests, share of hits. Training samples are weighted as f is;
 * over test samples every sample counts once, and x is evaluated on the server's test set if there is one. */
double fli_train_weight(const fli_measurement *m); /* of the clients on which x was measured */
double fli_train_decay(const fli_measurement *m);  /* the sum of w_i times weight decay over these clients */
double fli_train_accuracy(const fli_measurement *m, int own);
double fli_test_loss(const fli_measurement *m, int own);
double fli_test_accuracy(const fli_measurement *m, int own);

/* A value is a counter, or measured now and then. Exactly one of the four members gives it. */
typedef struct {
    fl_metric is;
    size_t count;                          /* FLI_COUNTED(field of fli_counts); 0: not a counter */
    size_t mean;                           /* the figure whose weighted mean over clients it is */
    size_t at;                             /* the offset of a number in fli_measurement */
    double (*measure)(fli_measurement *m); /* NaN: no value */
    /* A run measures it if all these switches of its settings (offsets; 0: none) are on, and it fits the model. */
    size_t wanted[2];
    int (*fits)(const fli_metrics_settings *what, const fli_model *model); /* NULL: always */
    uint32_t asks; /* the figures that clients are then asked for: FLI_FIGURES_... */
} fli_metric;
#define FLI_COUNTED(field) (offsetof(fli_counts, field) + 1)

extern const fli_metric *const fli_metrics[]; /* built-in; NULL past the last */
size_t fli_metrics_count(void);               /* of these */

/* The built-in metrics, then those of registered objectives; NULL past the last. */
const fli_metric *fli_metric_at(size_t k);
/* Makes room for metrics of these names in every row; existing names keep theirs. `names` may be NULL. */
fl_status fli_metrics_add(fl_ctx *ctx, const char *const *names);

/* The indices of the metrics that a run with this model has: all built-in ones, and the model's own. */
typedef struct {
    size_t at[FL_METRICS_MAX], n;
} fli_columns;
fli_columns fli_columns_of(const fli_model *m);

/* Whether a run measures the metric. */
int fli_metric_wanted(const fli_metric *metric, const fli_metrics_settings *what, const fli_model *model);
double fli_row_get(const fl_row *row, const fli_metric *metric);
/* Updates the counters, and keeps the measured values. */
void fli_row_count(fl_row *row, const fli_counts *c);
/* Updates the measured values; metrics that are not wanted become NaN. */
fl_status fli_row_measure(fl_row *row, const fli_metrics_settings *what, fli_measurement *m);
/* Sets all metrics of registered objectives to NaN. */
void fli_row_clear_user(fl_row *row);
/* Whether a value is at least as good as `wished`. */
int fli_metric_reaches(const fli_metric *metric, double v, double wished);
/* The metric that targets refer to. */
const fli_metric *fli_metric_goal(const fli_metrics_settings *what);

/* ==== all metrics ========================================================================================== */

/* To add one: its row in global_rows.c or client_rows.c, a line here, a line at the end of the list in metric.c. */

extern const fli_metric fli_metric_round, fli_metric_cohort, fli_metric_train_loss, fli_metric_train_accuracy;
extern const fli_metric fli_metric_test_loss, fli_metric_test_accuracy, fli_metric_gradient2;
extern const fli_metric fli_metric_client_q10, fli_metric_client_q50, fli_metric_client_q90;
extern const fli_metric fli_metric_regularizer, fli_metric_local_train_loss, fli_metric_local_train_accuracy;
extern const fli_metric fli_metric_local_test_loss, fli_metric_local_test_accuracy, fli_metric_bytes_up;
extern const fli_metric fli_metric_bytes_down, fli_metric_local_steps, fli_metric_seconds;
extern const fli_metric fli_metric_simulated_seconds, fli_metric_staleness, fli_metric_staleness_max;
extern const fli_metric fli_metric_idle, fli_metric_idle_most, fli_metric_local_q10, fli_metric_local_q50;
extern const fli_metric fli_metric_local_q90, fli_metric_local_worst, fli_metric_pseudo_accuracy;
extern const fli_metric fli_metric_labelled_loss, fli_metric_labels_move, fli_metric_cluster_accuracy;
extern const fli_metric fli_metric_cluster_nmi, fli_metric_communications, fli_metric_evaluation_bytes_up;
extern const fli_metric fli_metric_evaluation_bytes_down, fli_metric_local_std, fli_metric_hypergradient;
extern const fli_metric fli_metric_lower_distance, fli_metric_system_distance, fli_metric_gradient_mapping;
extern const fli_metric fli_metric_potential, fli_metric_potential_rise, fli_metric_weighted_hypergradient;
extern const fli_metric fli_metric_gap, fli_metric_local_gradient2;

#endif
