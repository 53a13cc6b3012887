#include "metric/clusters.h"

#include "metric/metric.h"

#include <math.h>
#include <string.h>

/* ==== matching ============================================================================================= */

/* The Hungarian method by shortest augmenting paths, O(n^3). Rows are added one at a time. With prices u of rows and v
 * of columns such that cost - u - v >= 0, and 0 if matched, a shortest path (Dijkstra) from the new row to a free
 * column determines how to rematch the rows on it; the prices are then moved so that the condition still holds. Row and
 * column numbers are shifted by one: column 0 holds the new row.
 *
 * Jonker, Volgenant: A shortest augmenting path algorithm for dense and sparse linear assignment problems, Computing
 * 38, 1987. */

typedef struct {
    size_t n;
    const double *gain; /* cost is its negative */
    double *u, *v;      /* n + 1: prices */
    double *way;        /* n + 1: shortest distance to a column so far */
    size_t *row, *from; /* n + 1: row matched with a column (0: none); the column before it on its shortest path */
    char *done;         /* n + 1: the distance is final */
} matching;

static double reduced(const matching *m, size_t row, size_t column)
{
    return -m->gain[(row - 1) * m->n + column - 1] - m->u[row] - m->v[column];
}

/* Returns the next column whose distance becomes final; `at` was the last. Prices move by its distance. */
static size_t advance(matching *m, size_t at)
{
    size_t next = 0;
    double step = INFINITY;
    m->done[at] = 1;
    for (size_t j = 1; j <= m->n; j++) {
        if (m->done[j]) continue;
        double d = reduced(m, m->row[at], j);
        if (d < m->way[j]) {
            m->way[j] = d;
            m->from[j] = at;
        }
        if (m->way[j] < step) {
            step = m->way[j];
            next = j;
        }
    }
    for (size_t j = 0; j <= m->n; j++) {
        if (m->done[j]) {
            m->u[m->row[j]] += step;
            m->v[j] -= step;
        } else {
            m->way[j] -= step;
        }
    }
    return next;
}

static void add_row(matching *m, size_t row)
{
    size_t at = 0;
    m->row[0] = row;
    for (size_t j = 0; j <= m->n; j++) m->way[j] = INFINITY;
    memset(m->done, 0, m->n + 1);
    do at = advance(m, at);
    while (m->row[at]);
    for (; at; at = m->from[at]) m->row[at] = m->row[m->from[at]];
}

fl_status fli_matching_best(fl_ctx *ctx, size_t n, const double *gain, double *total)
{
    matching m = {.n = n, .gain = gain};
    double *reals = fli_alloc(ctx, 3 * (n + 1), sizeof *reals);
    size_t *whole = fli_alloc(ctx, 2 * (n + 1), sizeof *whole);
    m.done = fli_alloc(ctx, n + 1, 1);
    fl_status s = reals && whole && m.done ? FL_OK : FL_ENOMEM;
    if (s) goto done;
    m.u = reals;
    m.v = reals + n + 1;
    m.way = reals + 2 * (n + 1);
    m.row = whole;
    m.from = whole + n + 1;
    for (size_t i = 1; i <= n; i++) add_row(&m, i);
    *total = 0;
    for (size_t j = 1; j <= n; j++) *total += gain[(m.row[j] - 1) * n + j - 1];
done:
    fli_free(reals);
    fli_free(whole);
    fli_free(m.done);
    return s;
}

/* ==== clusters and classes ================================================================================= */

fl_status fli_clusters_accuracy(fl_ctx *ctx, size_t clusters, size_t classes, const double *count, double *out)
{
    size_t n = clusters > classes ? clusters : classes;
    double samples = 0, hits = 0;
    double *square = fli_alloc(ctx, n, n * sizeof *square); /* unmatched ones gain nothing */
    if (!square) return FL_ENOMEM;
    for (size_t k = 0; k < clusters; k++)
        for (size_t c = 0; c < classes; c++) samples += square[k * n + c] = count[k * classes + c];
    fl_status s = fli_matching_best(ctx, n, square, &hits);
    *out = hits / samples;
    fli_free(square);
    return s;
}

/* -p log p */
static double surprise(double p) { return p > 0 ? -p * log(p) : 0; }

/* The entropy of sums over the other index; `outer` and `inner` are strides. */
static double entropy(size_t n, size_t outer, size_t m, size_t inner, const double *count, double samples)
{
    double h = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < m; j++) sum += count[i * outer + j * inner];
        h += surprise(sum / samples);
    }
    return h;
}

double fli_clusters_nmi(size_t clusters, size_t classes, const double *count)
{
    double samples = 0, both = 0;
    for (size_t i = 0; i < clusters * classes; i++) samples += count[i];
    for (size_t i = 0; i < clusters * classes; i++) both += surprise(count[i] / samples);
    double a = entropy(clusters, classes, classes, 1, count, samples);
    double b = entropy(classes, 1, clusters, classes, count, samples);
    if (!(a + b > 0)) return samples > 0 ? 1 : NAN;
    return fmin(1, fmax(0, 2 * (a + b - both) / (a + b)));
}

/* ---- metrics ---------------------------------------------------------------------------------------------- */

static int has_clusters(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)what, model->desc->clusters != NULL;
}

static double cluster_accuracy(fli_measurement *m)
{
    double v = NAN;
    if (m->clusters) m->status = fli_clusters_accuracy(m->ctx, m->clusters, m->classes, m->table, &v);
    return v;
}

static double cluster_nmi(fli_measurement *m)
{
    return m->clusters ? fli_clusters_nmi(m->clusters, m->classes, m->table) : NAN;
}

const fli_metric fli_metric_cluster_accuracy = {
    .is = {.name = "cluster_accuracy",
           .title = "clusters matched with classes: accuracy",
           .help = "for models that cluster: share of training samples in the cluster that stands for their class",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"clusters/accuracy"},
                     [FL_VIEW_CHART] = {"cluster-accuracy"},
                     [FL_VIEW_PROGRESS] = {"cluster acc.", 13},
                     [FL_VIEW_NOTE] = {"clusters against classes: accuracy"},
                     [FL_VIEW_STUDY] = {"cluster acc. %"},
                     [FL_VIEW_STUDY_FILES] = {"cluster_accuracy"}}},
    .measure = cluster_accuracy,
    .wanted = {offsetof(fli_metrics_settings, train)},
    .fits = has_clusters,
    .asks = FLI_FIGURES_CLUSTERS,
};

const fli_metric fli_metric_cluster_nmi = {
    .is = {.name = "cluster_nmi",
           .title = "clusters and classes: normalised mutual information",
           .help = "normalised mutual information of clusters and classes",
           .unit = FL_UNIT_SCORE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"clusters/nmi"},
                     [FL_VIEW_CHART] = {"cluster-nmi"},
                     [FL_VIEW_NOTE] = {"clusters against classes: NMI"},
                     [FL_VIEW_STUDY] = {"NMI"},
                     [FL_VIEW_STUDY_FILES] = {"cluster_nmi"}}},
    .measure = cluster_nmi,
    .wanted = {offsetof(fli_metrics_settings, train)},
    .fits = has_clusters,
    .asks = FLI_FIGURES_CLUSTERS,
};
