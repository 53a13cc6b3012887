/* The agreement of a model's clusters with classes that it has never seen. For evaluation only. */
#ifndef FLI_METRIC_CLUSTERS_H
#define FLI_METRIC_CLUSTERS_H

#include "base/ctx.h"

/* ==== matching ============================================================================================= */

/* The assignment problem. */

/* Assigns a different column to each of n rows; *total is the largest possible sum of gain (n x n, finite). */
fl_status fli_matching_best(fl_ctx *ctx, size_t n, const double *gain, double *total);

/* ==== clusters and classes ================================================================================= */

/* For a table of the number of samples (clusters x classes): */
/* The share of samples in the class of their cluster, for the best one-to-one assignment of classes. */
fl_status fli_clusters_accuracy(fl_ctx *ctx, size_t clusters, size_t classes, const double *count, double *out);
/* Mutual information divided by the arithmetic mean of the two entropies; 1 if both are 0. */
double fli_clusters_nmi(size_t clusters, size_t classes, const double *count);

#endif
