/* Whether a difference is more than noise. Runs of one seed share data, partition and cohorts, so two methods are
 * compared seed by seed: what makes a seed easy or hard for both cancels. */
#ifndef FLI_REPORT_NOISE_H
#define FLI_REPORT_NOISE_H

#include "report/report.h"

typedef struct {
    size_t n;    /* seeds that both have */
    double mean; /* of the differences a - b */
    double half; /* half of its 95 % interval, by Student's t; infinite for fewer than two seeds */
} fli_paired;

fli_paired fli_noise_paired(const double *a, const double *b, size_t seeds);
/* Whether the interval leaves 0 out. */
int fli_noise_apart(const fli_paired *p);

/* How a row of a table stands in a column, among those that have a number for every seed. */
typedef enum {
    FLI_RANK_NONE, /* nothing is said: a number is missing, there is no direction, or noise cannot be judged */
    FLI_RANK_BEST, /* better than every other row, beyond noise */
    FLI_RANK_TIED, /* the best, or one that cannot be told from it */
    FLI_RANK_BEHIND
} fli_rank;

/* Of rows below the header, numbered from 0; `rows` are those to compare (NULL: all). ranks: one per row. */
void fli_noise_ranks(const fli_grid *g, size_t column, const unsigned char *rows, fli_rank *ranks);
/* The row of the best mean among those that have a number for every seed; SIZE_MAX: there is none. */
size_t fli_noise_first(const fli_grid *g, size_t column, const unsigned char *rows);
/* The numbers of a row, one per seed, and their mean over the seeds that have one; NaN: none has. */
const double *fli_grid_values(const fli_grid *g, size_t row, size_t column);
double fli_grid_mean(const fli_grid *g, size_t row, size_t column);

#endif
