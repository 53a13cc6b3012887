/* The assignment problem. */
#ifndef FLI_METRIC_MATCHING_H
#define FLI_METRIC_MATCHING_H

#include "base/ctx.h"

/* Each of n rows is given a column of its own; *total is the largest sum of gain (n x n, finite) that way. */
fl_status fli_matching_best(fl_ctx *ctx, size_t n, const double *gain, double *total);

#endif
