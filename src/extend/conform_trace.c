#include "extend/conform_trace.h"

#include "metric/metric_list.h"
#include "run/run.h"

#include <math.h>
#include <string.h>

typedef struct {
    fli_trace *trace;
    fl_run *run;
    size_t stop;
} recorder;

/* fl_observer_fn */
static void record(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    recorder *r = arg;
    size_t round = fl_run_round(run);
    (void)measured;
    if (round > r->trace->rounds) return;
    fl_run_model(run, r->trace->x + round * r->trace->n, r->trace->n);
    r->trace->rows[round] = *row;
    r->trace->rows[round].value[fl_metric_place(fl_metric_find("seconds"))] = 0;
    if (r->stop && round >= r->stop) fl_run_stop(r->run);
}

static fl_status go(fl_run *run, size_t stop, fli_trace *t)
{
    recorder r = {t, run, stop};
    t->status = fl_run_go(run, record, &r);
    if (!t->status) return FL_OK;
    if (t->status != FL_EDIVERGED && t->status != FL_ECALLBACK) return t->status; /* nothing that a method does */
    t->error = fli_strdup(run->ctx, fl_ctx_error(run->ctx));
    return t->error ? FL_OK : FL_ENOMEM;
}

static fl_status room_for(fl_run *run, fli_trace *t)
{
    t->n = fl_run_parameters(run);
    t->rounds = fl_run_rounds(run);
    t->x = fli_alloc(run->ctx, t->rounds + 1, t->n * sizeof *t->x);
    t->rows = fli_alloc(run->ctx, t->rounds + 1, sizeof *t->rows);
    return t->x && t->rows ? FL_OK : FL_ENOMEM;
}

fl_status fli_trace_run(fl_config *cfg, size_t stop, fli_trace *out)
{
    fl_run *run = NULL;
    *out = (fli_trace){0};
    fl_status s = fl_run_new(cfg, &run);
    if (!s) s = room_for(run, out);
    if (!s) s = go(run, stop, out);
    fl_run_free(run);
    if (s) fli_trace_fini(out);
    return s;
}

fl_status fli_trace_resume(fl_ctx *ctx, const char *output, const char *method, fli_trace *t)
{
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(ctx);
    fl_status s = cfg ? fl_config_resume(cfg, output) : FL_ENOMEM;
    fli_node *kind = s ? NULL : fli_node_find(fli_node_find(cfg->root, "algorithm"), "kind");
    if (kind) kind->text = method; /* with its number, which files do not have */
    if (!s) s = fl_run_resume(cfg, &run);
    if (!s) s = go(run, 0, t);
    fl_run_free(run);
    fl_config_free(cfg);
    return s;
}

void fli_trace_fini(fli_trace *t)
{
    fli_free(t->x);
    fli_free(t->rows);
    fli_free(t->error);
    *t = (fli_trace){0};
}

/* ---- comparing ------------------------------------------------------------------------------------------- */

static void describe_models(const double *a, const double *b, size_t n, size_t round, fli_text *what)
{
    size_t differ = 0;
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        if (!memcmp(&a[i], &b[i], sizeof *a)) continue;
        double by = fabs(a[i] - b[i]);
        most = differ++ && !(by > most) && !isnan(by) ? most : by;
    }
    fli_text_addf(what, "differs first after round %zu, in %zu of %zu parameters, by %.2g at most", round, differ, n,
                  most);
}

static int same_rows(const fl_row *a, const fl_row *b, size_t round, fli_text *what)
{
    for (size_t k = 0; fl_metric_at(k); k++) {
        if (!memcmp(&a->value[k], &b->value[k], sizeof a->value[k])) continue;
        fli_text_addf(what, "%s differs first after round %zu: %.9g and %.9g", fl_metric_at(k)->name, round,
                      a->value[k], b->value[k]);
        return 0;
    }
    return 1;
}

int fli_trace_same(const fli_trace *a, const fli_trace *b, fli_text *what)
{
    if (b->status) {
        fli_text_addf(what, "fails: %s", b->error);
        return 0;
    }
    for (size_t r = 0; r <= a->rounds; r++) {
        const double *x = a->x + r * a->n, *y = b->x + r * b->n;
        if (memcmp(x, y, a->n * sizeof *x)) {
            describe_models(x, y, a->n, r, what);
            return 0;
        }
        if (!same_rows(&a->rows[r], &b->rows[r], r, what)) return 0;
    }
    return 1;
}
