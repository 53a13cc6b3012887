#include "report/noise.h"

#include <math.h>

/* Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom; beyond the last, those of the normal
 * distribution are near enough. */
static double student(size_t freedom)
{
    static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                               2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
    return freedom <= sizeof t / sizeof *t ? t[freedom - 1] : 1.96 + 2.46 / (double)freedom;
}

fli_paired fli_noise_paired(const double *a, const double *b, size_t seeds)
{
    fli_paired p = {.half = INFINITY};
    double squares = 0;
    for (size_t i = 0; i < seeds; i++) {
        double d = a[i] - b[i], before = d - p.mean;
        if (!isfinite(d)) continue;
        p.mean += before / (double)++p.n;
        squares += before * (d - p.mean);
    }
    if (p.n > 1) p.half = student(p.n - 1) * sqrt(squares / (double)(p.n - 1) / (double)p.n);
    return p;
}

int fli_noise_apart(const fli_paired *p) { return p->n > 1 && fabs(p->mean) > p->half; }

const double *fli_grid_values(const fli_grid *g, size_t row, size_t column)
{
    return g->values + (row * g->columns + column) * g->seeds;
}

double fli_grid_mean(const fli_grid *g, size_t row, size_t column)
{
    const double *v = fli_grid_values(g, row, column);
    double mean = 0;
    size_t n = 0;
    for (size_t i = 0; i < g->seeds; i++)
        if (isfinite(v[i])) mean += (v[i] - mean) / (double)++n;
    return n ? mean : NAN;
}

static int complete(const fli_grid *g, size_t row, size_t column)
{
    const double *v = fli_grid_values(g, row, column);
    for (size_t i = 0; i < g->seeds; i++)
        if (!isfinite(v[i])) return 0;
    return 1;
}

/* 1: greater numbers are better, -1: smaller ones, 0: neither. */
static int direction(const fli_grid *g, size_t column)
{
    fl_better better = g->values && g->seeds && g->better ? g->better[column] : FL_BETTER_NEITHER;
    return better == FL_BETTER_HIGH ? 1 : better == FL_BETTER_LOW ? -1 : 0;
}

size_t fli_noise_first(const fli_grid *g, size_t column, const unsigned char *rows)
{
    size_t first = SIZE_MAX;
    int sign = direction(g, column);
    for (size_t i = 0; sign && i + 1 < g->rows; i++) {
        if ((rows && !rows[i]) || !complete(g, i, column)) continue;
        if (first == SIZE_MAX || sign * fli_grid_mean(g, i, column) > sign * fli_grid_mean(g, first, column)) first = i;
    }
    return first;
}

void fli_noise_ranks(const fli_grid *g, size_t column, const unsigned char *rows, fli_rank *ranks)
{
    size_t first = fli_noise_first(g, column, rows), tied = 0, others = 0;
    int sign = direction(g, column);
    for (size_t i = 0; i + 1 < g->rows; i++) {
        ranks[i] = FLI_RANK_NONE;
        if (first == SIZE_MAX || g->seeds < 2 || i == first || (rows && !rows[i]) || !complete(g, i, column)) continue;
        fli_paired p = fli_noise_paired(fli_grid_values(g, first, column), fli_grid_values(g, i, column), g->seeds);
        others++;
        int behind = fli_noise_apart(&p) && sign * p.mean > 0;
        ranks[i] = behind ? FLI_RANK_BEHIND : FLI_RANK_TIED;
        tied += !behind;
    }
    if (others) ranks[first] = tied ? FLI_RANK_TIED : FLI_RANK_BEST;
}
