/* A small problem in the memory of a program, in every form that fl_config_data takes. */
#ifndef TESTS_MEMORY_PROBLEM_H
#define TESTS_MEMORY_PROBLEM_H

#include "studies.h"

#include "data/federation/in_memory.h"
#include "plan/plan.h"

enum { N = 60, TEST = 20, DIM = 6, CLASSES = 3, CLIENTS = 3, WIDEST = 8 };

static const size_t starts[CLIENTS + 1] = {0, 25, 40, N};

/* ---- a small problem, in every form ---------------------------------------------------------------------- */

typedef struct {
    uint8_t u8[(N + TEST) * DIM];
    float f32[(N + TEST) * DIM];
    double f64[(N + TEST) * DIM];
    int32_t label[N + TEST];
    double target[N + TEST];
    uint32_t owner[N];
    /* the values that are not 0, of training and test samples; rows of both start at 0 */
    size_t row[N + 1], test_row[TEST + 1], stored;
    uint32_t col[(N + TEST) * DIM];
    float few32[(N + TEST) * DIM];
    double few64[(N + TEST) * DIM];
} problem;

UNUSED static void make_sparse(problem *p, size_t first, size_t n, size_t *row)
{
    size_t begin = p->stored;
    row[0] = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < DIM; j++) {
            double v = p->f64[(first + i) * DIM + j];
            if (v == 0) continue;
            p->col[p->stored] = (uint32_t)j;
            p->few32[p->stored] = (float)v;
            p->few64[p->stored++] = v;
        }
        row[i + 1] = p->stored - begin;
    }
}

/* Values are multiples of 1/8, a third of them 0, so that texts and floats hold them exactly. */
UNUSED static problem *problem_new(void)
{
    problem *p = calloc(1, sizeof *p);
    fli_rng r;
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < N + TEST; i++) {
        p->label[i] = i < CLASSES ? (int32_t)i : (int32_t)fli_rng_below(&r, CLASSES);
        for (size_t j = 0; j < DIM; j++) {
            size_t at = i * DIM + j;
            p->u8[at] = (uint8_t)(fli_rng_below(&r, 128) + (j == (size_t)p->label[i] ? 100 : 0));
            p->f64[at] = j && fli_rng_below(&r, 3) == 0 ? 0 : ((double)p->u8[at] - 64) / 8 + 0.125;
            p->f32[at] = (float)p->f64[at];
            p->target[i] += p->f64[at] * (double)(j + 1) / 16;
        }
        if (i < N) p->owner[i] = (uint32_t)(i < starts[1] ? 0 : i < starts[2] ? 1 : 2);
    }
    make_sparse(p, 0, N, p->row);
    make_sparse(p, N, TEST, p->test_row);
    return p;
}

UNUSED static fl_samples dense_of(const problem *p, char form, int regression, size_t first, size_t n)
{
    fl_samples s = {.size = sizeof s, .n = n, .dim = DIM};
    if (form == 'u') s.u8 = p->u8 + first * DIM;
    if (form == 'f') s.f32 = p->f32 + first * DIM;
    if (form == 'd') s.f64 = p->f64 + first * DIM;
    if (regression) {
        s.target = p->target + first;
    } else {
        s.label = p->label + first;
        s.classes = CLASSES;
    }
    return s;
}

UNUSED static fl_samples sparse_of(const problem *p, int wide, int test)
{
    size_t at = test ? p->row[N] : 0;
    fl_samples s = dense_of(p, ' ', 0, test ? N : 0, test ? TEST : N);
    s.row = test ? p->test_row : p->row;
    s.col = p->col + at;
    if (wide)
        s.f64 = p->few64 + at;
    else
        s.f32 = p->few32 + at;
    return s;
}

/* ---- runs on it ----------------------------------------------------------------------------------------------- */

#define RUN "rounds: 4\nthreads: 2\nlocal: {epochs: 2, batch: 7, lr: 0.02}\nparticipation: {kind: uniform, count: 2}\n"

UNUSED static fl_run *run_done(fl_config *cfg)
{
    fl_run *run = NULL;
    assert_ok(cfg->ctx, fl_run_new(cfg, &run));
    assert_ok(cfg->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

UNUSED static void assert_same_runs(const fl_run *a, const fl_run *b)
{
    double x[128], y[128];
    const fl_row *of_a, *of_b;
    size_t n = fl_run_model(a, x, 128), rows = fl_run_rows(a, &of_a);
    assert_true(n <= 128 && n == fl_run_model(b, y, 128) && rows == fl_run_rows(b, &of_b) && rows > 1);
    assert_memory_equal(x, y, n * sizeof *x);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; fl_metric_at(k); k++)
            if (fl_metric_at(k)->unit != FL_UNIT_SECONDS)
                assert_memory_equal(&of_a[i].value[k], &of_b[i].value[k], sizeof(double));
}

UNUSED static fl_config *memory_config(fixture *f, const problem *p, const char *yaml)
{
    fl_config *cfg = fl_config_new(f->ctx);
    fl_samples train = dense_of(p, 'd', 0, 0, N), test = dense_of(p, 'd', 0, N, TEST);
    fl_holding who = {.size = sizeof who, .clients = CLIENTS, .start = starts};
    assert_ok(f->ctx, fl_config_text(cfg, yaml, "a text"));
    assert_ok(f->ctx, fl_config_data(cfg, &train, &test, &who));
    return cfg;
}

#endif
