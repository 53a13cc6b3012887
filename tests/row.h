/* Rows of metrics made by hand. */
#ifndef TESTS_ROW_H
#define TESTS_ROW_H

#include "metric/metric.h"

#include <math.h>

/* A metric of a row, to be set. */
__attribute__((unused)) static double *metric(fl_row *row, const char *name)
{
    return &row->value[fl_metric_place(fl_metric_find(name))];
}

/* The counters are 0, nothing has been measured. */
__attribute__((unused)) static fl_row empty_row(void)
{
    fl_row row = {0};
    for (size_t k = 0; fli_metrics[k]; k++)
        if (!fli_metrics[k]->count) row.value[k] = NAN;
    *metric(&row, "simulated_seconds") = *metric(&row, "staleness") = *metric(&row, "staleness_max") = NAN;
    *metric(&row, "potential_rise") = *metric(&row, "idle") = *metric(&row, "idle_most") = NAN;
    return row;
}

#endif
