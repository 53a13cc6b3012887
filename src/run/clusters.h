/* How well a model's clusters agree with classes it never saw. For evaluation only. */
#ifndef FLI_RUN_CLUSTERS_H
#define FLI_RUN_CLUSTERS_H

#include "exec/exec.h"

/* Of a table count (clusters x classes) of samples: */
/* The share of samples in the class of their cluster, classes given to clusters one to one so that it is largest. */
fl_status fli_clusters_accuracy(fl_ctx *ctx, size_t clusters, size_t classes, const double *count, double *out);
/* Mutual information divided by the arithmetic mean of the two entropies; 1 if both are 0. */
double fli_clusters_nmi(size_t clusters, size_t classes, const double *count);

typedef struct fli_clusters fli_clusters;

/* Over the training samples of at most `most` clients, evenly spaced. *out is NULL if there is nothing to measure: the model has no
 * clusters, or the data no classes. */
fl_status fli_clusters_new(fl_ctx *ctx, fli_exec *exec, const fli_model *model, const fli_fed *fed, size_t most,
                           fli_clusters **out);
void fli_clusters_free(fli_clusters *c);
/* Fills cluster_accuracy and cluster_nmi of a row; c NULL: with NaN. */
fl_status fli_clusters_take(fli_clusters *c, const void *x, fl_row *row);

#endif
