#include "run/clusters.h"

#include "run/matching.h"

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
