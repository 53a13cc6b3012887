/* How well a model's clusters agree with classes it never saw. For evaluation only. */
#ifndef FLI_METRIC_CLUSTERS_H
#define FLI_METRIC_CLUSTERS_H

#include "base/ctx.h"

/* ==== matching ============================================================================================= */

/* The assignment problem. */

/* Each of n rows is given a column of its own; *total is the largest sum of gain (n x n, finite) that way. */
fl_status fli_matching_best(fl_ctx *ctx, size_t n, const double *gain, double *total);

/* ==== clusters and classes ================================================================================= */

/* Of a table count (clusters x classes) of samples: */
/* The share of samples in the class of their cluster, classes given to clusters one to one so that it is largest. */
fl_status fli_clusters_accuracy(fl_ctx *ctx, size_t clusters, size_t classes, const double *count, double *out);
/* Mutual information divided by the arithmetic mean of the two entropies; 1 if both are 0. */
double fli_clusters_nmi(size_t clusters, size_t classes, const double *count);

#endif
