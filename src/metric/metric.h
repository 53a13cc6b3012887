/* A metric: one row of one table. The row says what a metric is called, its unit, which direction is better, where it
 * is shown (fl_metric in the public header), and where its value comes from. Result files, event files, charts, tables
 * and the reference follow from the rows. */
#ifndef FLI_METRIC_METRIC_H
#define FLI_METRIC_METRIC_H

#include "config/settings.h"
#include "engine/engine.h"
#include "message/exchange.h"

#include <stddef.h>

/* What a run counts as it goes, whether it measures or not. Numbers only: a checkpoint holds it as it is. */
typedef struct {
    double round;
    double cohort; /* clients that took part in the last round */
    /* since the start, over all clients */
    double bytes_up, bytes_down;
    double local_steps;
    double seconds;                        /* wall time spent in rounds, measuring not counted */
    double simulated_seconds;              /* NaN: there is no virtual clock */
    double communications;                 /* round trips between the server and a cohort */
    double evaluation_up, evaluation_down; /* bytes of what clients are asked to measure */
    /* in server updates since the client received what it started from */
    double staleness, staleness_max; /* of the uploads absorbed since the last row; NaN: none */
    double idle, idle_most; /* shares of the time since the last row that ranks waited for others; NaN: one process */
    double potential_rise;  /* the largest so far that theory rules out; NaN: it rules out none */
} fli_counts;

/* One client's figures (message/exchange.h), and what clients.csv says of them. */
typedef struct {
    uint32_t client;
    size_t samples;
    double weight;           /* w_i */
    double num[FLI_FIGURES]; /* as they came up */
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

/* Of a two-level problem, see fli_hypergradient in measure.h. */
typedef struct {
    double hypergradient;                   /* ||grad Phi(x)|| */
    double lower_distance, system_distance; /* ||y - y*(x)||, ||v - v*(x)|| */
    double weighted;                        /* ||grad Phi~(x)||, for the weights with which the method's steps count */
    double potential;
} fli_level_figures;

/* All that a measurement brought in. */
typedef struct {
    fl_ctx *ctx;
    fli_exec *exec;
    const fli_model *model;
    const fl_space *space; /* of x and the gradient */
    const fli_metrics_settings *what;
    const void *x;                     /* the model vector under measurement */
    const fli_client_figures *clients; /* those that were asked */
    size_t count;
    double test_loss, test_hits, test_n;   /* the server's test set: sums over samples; n is 0 if there is none */
    fli_level_figures levels;              /* of a two-level problem; NaN: not measured */
    const void *gradient;                  /* sum of w_i grad f_i(x), weight decay included; NULL: not measured */
    const void *ahead;                     /* the same where second blocks would go next */
    double smoothness;                     /* the largest L_i at the start model; NaN: not measured */
    fli_sorted accuracies, own_accuracies; /* of those clients that have one */
    const double *table;                   /* samples by cluster and class, over all clients */
    size_t clusters, classes;              /* 0 clusters: none measured */
    fl_status status;                      /* a metric that fails says so here */
} fli_measurement;

/* Sums over clients, lane by lane: the same bits whatever the number of threads was. */
enum { FLI_LANES = 16 };
/* Where lane k begins, of `count` clients or samples. */
static inline size_t fli_lane_begin(size_t lane, size_t count) { return lane * count / FLI_LANES; }
/* The first of a rank's lanes, where ranks look at the test set together; its last is before the next rank's first. */
static inline size_t fli_lane_of_rank(size_t rank, size_t ranks)
{
    return ranks ? (rank * FLI_LANES + ranks - 1) / ranks : rank * FLI_LANES;
}
typedef double fli_term(const fli_client_figures *f, size_t figure);
double fli_measurement_sum(const fli_measurement *m, fli_term *term, size_t figure);
/* Of the clients that have the figure, weighed as f is. */
double fli_weighted_mean(const fli_measurement *m, size_t figure);
/* Of x (own 0) or of the clients' own models: mean loss on tests, share of hits. Training samples are weighted as f is;
 * over test samples every sample counts once, and x is judged by the server's test set where there is one. */
double fli_train_weight(const fli_measurement *m); /* of the clients whose training samples x was measured on */
double fli_train_decay(const fli_measurement *m);  /* the sum of w_i times weight decay over those */
double fli_train_accuracy(const fli_measurement *m, int own);
double fli_test_loss(const fli_measurement *m, int own);
double fli_test_accuracy(const fli_measurement *m, int own);

/* A value is counted as the run goes, or measured now and then: by one of the four. */
typedef struct {
    fl_metric is;
    size_t count;                          /* FLI_COUNTED(field of fli_counts); 0: it is measured */
    size_t mean;                           /* the figure of clients whose weighted mean it is */
    size_t at;                             /* the offset of a number in fli_measurement */
    double (*measure)(fli_measurement *m); /* NaN: there is none */
    /* A run measures it if all these switches of its settings (offsets; 0: none) are on, and it fits the model. */
    size_t wanted[2];
    int (*fits)(const fli_metrics_settings *what, const fli_model *model); /* NULL: always */
    uint32_t asks; /* what its clients are then asked for: FLI_FIGURES_... */
} fli_metric;
#define FLI_COUNTED(field) (offsetof(fli_counts, field) + 1)

extern const fli_metric *const fli_metrics[]; /* that come with fedloom; NULL past the last */
size_t fli_metrics_count(void);               /* of these */

/* Those that come with fedloom, then those of objectives that users registered; NULL past the last. */
const fli_metric *fli_metric_at(size_t k);
/* Makes room for metrics of these names in every row; those that are there already stay. `names` may be NULL. */
fl_status fli_metrics_add(fl_ctx *ctx, const char *const *names);

/* The metrics that a run with this model has, by their places: all that come with fedloom, and the model's own. */
typedef struct {
    size_t at[FL_METRICS_MAX], n;
} fli_columns;
fli_columns fli_columns_of(const fli_model *m);

/* Whether a run measures it. */
int fli_metric_wanted(const fli_metric *metric, const fli_metrics_settings *what, const fli_model *model);
double fli_row_get(const fl_row *row, const fli_metric *metric);
/* Renews what is counted, and leaves what is measured as it was. */
void fli_row_count(fl_row *row, const fli_counts *c);
/* Renews what is measured; what is not wanted becomes NaN. */
fl_status fli_row_measure(fl_row *row, const fli_metrics_settings *what, fli_measurement *m);
/* Of the model's own metrics; those of others become NaN. */
void fli_row_clear_user(fl_row *row); /* they are not known */
/* Whether a value is as good as the one that was wished for. */
int fli_metric_reaches(const fli_metric *metric, double v, double wished);
/* What targets are about. */
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
