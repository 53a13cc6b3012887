/* What a run came to, for comparisons bit by bit. */
#ifndef TESTS_OUTCOME_H
#define TESTS_OUTCOME_H

#include "fixture.h"
#include "row.h"

typedef struct {
    double *model;
    size_t parameters;
    fl_row *rows;
    size_t count;
} outcome;

UNUSED static outcome outcome_of(const fl_run *run)
{
    outcome o = {0};
    const fl_row *rows;
    o.parameters = fl_run_parameters(run);
    o.model = malloc(o.parameters * sizeof *o.model);
    assert_int_equal(fl_run_model(run, o.model, o.parameters), o.parameters);
    o.count = fl_run_rows(run, &rows);
    o.rows = malloc(o.count * sizeof *rows);
    if (o.count) memcpy(o.rows, rows, o.count * sizeof *rows);
    for (size_t i = 0; i < o.count; i++) /* the clock's are the only ones that may differ */
        *metric(&o.rows[i], "seconds") = *metric(&o.rows[i], "idle") = *metric(&o.rows[i], "idle_most") = 0;
    return o;
}

UNUSED static void outcome_free(outcome *o)
{
    free(o->model);
    free(o->rows);
}

UNUSED static int same(const outcome *a, const outcome *b)
{
    return a->parameters == b->parameters && a->count == b->count &&
           !memcmp(a->model, b->model, a->parameters * sizeof *a->model) &&
           !memcmp(a->rows, b->rows, a->count * sizeof *a->rows);
}

#endif
