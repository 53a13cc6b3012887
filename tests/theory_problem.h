/* A small problem for `fl_check`: least squares with known Hessians, settings laid over it, and what is said of it. */
#ifndef TESTS_THEORY_PROBLEM_H
#define TESTS_THEORY_PROBLEM_H

#include "fixture.h"

enum { N = 4 };

/* Client i has one sample sqrt(3 h_ij) e_j for each of three features, so its Hessian is diag(h_i1, h_i2, h_i3) and L_i
 * the largest. */
static const double hessian[N][3] = {{4, 1, 0.25}, {0.5, 2, 0.1}, {1, 0.2, 9}, {1.5, 6, 0.5}};
UNUSED static const double l[N] = {4, 2, 9, 6};

static void write_data(fixture *f)
{
    char text[2048];
    size_t n = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < 3; j++) {
            double v = sqrt(3 * hessian[i][j]);
            n += (size_t)snprintf(text + n, sizeof text - n, "%zu,%.17g,%.17g,%.17g,%zu\n", i, j == 0 ? v : 0,
                                  j == 1 ? v : 0, j == 2 ? v : 0, i + j);
        }
    fixture_write(f, "data.csv", text);
}

static fl_config *problem(fixture *f, const char *assignments)
{
    char text[3000], *save = NULL;
    write_data(f);
    snprintf(text, sizeof text,
             "precision: f64\nthreads: 1\nmodel: least_squares\npartition: natural\nparticipation: everyone\n"
             "data: {kind: csv, train: %s, group_column: 0, task: regression, storage: f64}\nlocal: {batch: 0, steps: "
             "3, lr: 0.01}\n"
             "algorithm: {kind: fedvra, gamma: 2, a: 3, d: 2}\n",
             fixture_path(f, "data.csv"));
    fl_config *cfg = fixture_config(f, text);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, "|", &save); a; a = strtok_r(NULL, "|", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    return cfg;
}

/* No a and d given. */
#define AUTO "algorithm.a=auto|algorithm.d=auto"

/* The text of a check with assignments on top of the problem, separated by '|'; to be freed. */
static char *checked(fixture *f, const char *assignments)
{
    collected c = {0};
    fl_config *cfg = problem(f, assignments);
    assert_ok(f->ctx, fl_check(cfg, collect_text, &c));
    fl_config_free(cfg);
    assert_non_null(c.s);
    return c.s;
}

static void assert_says(const char *text, const char *what)
{
    if (!strstr(text, what)) fail_msg("the text lacks \"%s\":\n%s", what, text);
}

UNUSED static void assert_silent(const char *text, const char *what)
{
    if (strstr(text, what)) fail_msg("the text has \"%s\":\n%s", what, text);
}

/* What `check --fix` makes of the problem with these assignments: the file, to be freed, and how many conditions are
 * left. */
UNUSED static char *fixed(fixture *f, const char *assignments, char **report, size_t *left)
{
    collected file = {0}, said = {0};
    fl_config *cfg = problem(f, assignments);
    *left = SIZE_MAX;
    assert_ok(f->ctx, fl_check_fix(cfg, collect_text, &said, collect_text, &file, left));
    fl_config_free(cfg);
    assert_non_null(file.s);
    assert_non_null(said.s);
    *report = said.s;
    return file.s;
}

/* What a check says of a file's text. */
UNUSED static char *checked_file(fixture *f, const char *text)
{
    collected c = {0};
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_load(cfg, fixture_write(f, "fixed.yaml", text)));
    assert_ok(f->ctx, fl_check(cfg, collect_text, &c));
    fl_config_free(cfg);
    return c.s;
}

#endif
