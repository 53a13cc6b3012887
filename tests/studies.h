/* Small comparisons for tests: two problems, how they are run, and what comes out. */
#ifndef TESTS_STUDIES_H
#define TESTS_STUDIES_H

#include "fixture.h"
#include "row.h"

#include "study/study.h"

#include <dirent.h>
#include <unistd.h>

#define PROBLEM                                                                                                        \
    "data: {kind: blobs, classes: 3, features: 4, samples: 90, test_samples: 40, spread: 3}\n"                         \
    "partition: {kind: iid, clients: 6}\nmodel: softmax\nparticipation: {kind: uniform, count: 3}\n"                   \
    "local: {batch: 5, lr: 0.1}\nrounds: 6\nmetrics: {every: 2, targets: [0.4, 0.999]}\n"
#define TWO                                                                                                            \
    "methods:\n- {label: FedAvg, algorithm: fedavg}\n- {label: 'Fed Prox', algorithm: {kind: fedprox, mu: 0.1}}\n"
#define REGRESS                                                                                                        \
    "precision: f64\ndata: {kind: linreg, clients: 4, features: 3}\npartition: natural\nmodel: least_squares\n"        \
    "participation: everyone\nrounds: 4\nlocal: {steps: 2, batch: 0, lr: 0.05}\n"

/* ---- building comparisons ------------------------------------------------------------------------------ */

/* A problem above in a file of its own, and what a test says beyond it laid over that, from e.yaml. */
UNUSED static fl_config *config_of(fixture *f, const char *yaml)
{
    static const char *const problems[] = {PROBLEM, REGRESS, ""};
    size_t i = 0;
    while (strncmp(yaml, problems[i], strlen(problems[i]))) i++;
    fl_config *cfg = fixture_config_named(f, "problem.yaml", problems[i]);
    assert_ok(f->ctx, fl_config_load(cfg, fixture_write(f, "e.yaml", yaml + strlen(problems[i]))));
    return cfg;
}

/* The study of a YAML text that writes to f->folder/NAME. */
UNUSED static fl_status study_try(fixture *f, const char *yaml, const char *name, fl_study_options o, fl_study **out)
{
    char folder[200];
    fl_config *cfg = config_of(f, yaml);
    snprintf(folder, sizeof folder, "%s/%s", f->folder, name);
    o.size = sizeof o;
    if (!o.output) o.output = folder;
    fl_status s = fl_study_new(cfg, &o, out);
    fl_config_free(cfg); /* a study does not need its configuration */
    return s;
}

UNUSED static fl_study *study_new(fixture *f, const char *yaml, const char *name, fl_study_options o)
{
    fl_study *s = NULL;
    assert_ok(f->ctx, study_try(f, yaml, name, o, &s));
    return s;
}

UNUSED static fl_study *study_done(fixture *f, const char *yaml, const char *name, fl_study_options o)
{
    fl_study *s = study_new(f, yaml, name, o);
    size_t done;
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    assert_ok(f->ctx, fl_study_write(s));
    assert_int_equal(fl_study_runs(s, &done), s->x.count);
    return s;
}

UNUSED static size_t done_of(const fl_study *s)
{
    size_t done;
    fl_study_runs(s, &done);
    return done;
}

UNUSED static size_t entries(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

UNUSED static char *table_of(fl_ctx *ctx, fl_study *s)
{
    collected c = {0};
    assert_ok(ctx, fl_study_table(s, collect_text, &c));
    return c.s;
}

/* results.csv without the columns of wall time, which no two runs share. */
UNUSED static char *csv_of(fixture *f, const char *name)
{
    enum { COLUMNS = 256 };
    char path[256], *save_line = NULL, *out = calloc(1, 1 << 16);
    int drop[COLUMNS] = {0}, first = 1;
    snprintf(path, sizeof path, "%s/results.csv", name);
    char *text = read_whole(fixture_path(f, path), NULL);
    assert_non_null(text);
    for (char *line = strtok_r(text, "\n", &save_line); line; line = strtok_r(NULL, "\n", &save_line), first = 0) {
        int column = 0;
        for (char *p = line; p; column++) { /* no label in these tests has a comma */
            char *comma = strchr(p, ',');
            if (comma) *comma++ = 0;
            assert_true(column < COLUMNS);
            if (first) drop[column] = strstr(p, "seconds") != NULL;
            if (!drop[column]) sprintf(out + strlen(out), "%s,", p);
            p = comma;
        }
        strcat(out, "\n");
    }
    free(text);
    return out;
}

UNUSED static void assert_same_csv(fixture *f, const char *a, const char *b)
{
    char *x = csv_of(f, a), *y = csv_of(f, b);
    assert_true(strlen(x) > 100);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

/* ---- looking on ----------------------------------------------------------------------------------------- */

typedef struct {
    fl_study *s;
    atomic_int inside;
    size_t calls, most_loaded, rows, errors;
    size_t stop_at; /* call that asks for an end; 0: none does */
    double fraction;
    int bad;
    char error[512];
} witness;

UNUSED static void watch(void *arg, const fl_study_progress *p)
{
    witness *w = arg;
    size_t loaded = 0;
    if (atomic_fetch_add(&w->inside, 1)) w->bad = 1;
    w->calls++;
    w->rows += p->row != NULL;
    if (p->done + p->failed > p->total || p->round > p->rounds || p->seconds < 0) w->bad = 2;
    if (p->fraction < w->fraction || p->fraction > 1) w->bad = 3;
    if (!p->label || !p->setting) w->bad = 4;
    w->fraction = p->fraction;
    if (p->error) w->errors++, snprintf(w->error, sizeof w->error, "%s: %s", p->label, p->error);
    if (w->s->options.jobs == 1) {
        for (size_t k = 0; k < w->s->shared_count; k++) loaded += w->s->shared[k].loaded != 0;
        if (loaded > w->most_loaded) w->most_loaded = loaded;
    }
    if (w->calls == w->stop_at) fl_study_stop(w->s);
    atomic_fetch_sub(&w->inside, 1);
}

#endif
