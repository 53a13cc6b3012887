#include "metric/clusters.h"

#include "metric/matching.h"
#include "metric/metric_list.h"

#include <math.h>

fl_status fli_clusters_accuracy(fl_ctx *ctx, size_t clusters, size_t classes, const double *count, double *out)
{
    size_t n = clusters > classes ? clusters : classes;
    double samples = 0, hits = 0;
    double *square = fli_alloc(ctx, n, n * sizeof *square); /* who is left over gets nothing */
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

/* ---- metrics ----------------------------------------------------------------------------------------------- */

static int has_clusters(const fli_metrics_settings *what, const fli_model *model)
{
    return what->train && model->desc->clusters;
}

static double cluster_accuracy(fli_moment *m)
{
    double v = NAN;
    if (m->clusters) m->status = fli_clusters_accuracy(m->ctx, m->clusters, m->classes, m->table, &v);
    return v;
}

static double cluster_nmi(fli_moment *m)
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
    .wanted = has_clusters,
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
    .wanted = has_clusters,
    .asks = FLI_FIGURES_CLUSTERS,
};
