#include "run/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 };

/* Sums of one lane. Client sums are weighted, so that with all clients they make up f and its gradient. */
typedef struct {
    double loss, hits, weight;           /* train: sum w_i f_i, w_i accuracy_i, w_i */
    double test_loss, test_hits, test_n; /* test: sums over samples */
    void *gradient;                      /* NULL: not measured */
    fl_status status;
} lane;

struct fli_measure {
    fl_ctx *ctx;
    fli_exec *exec;
    const fli_model *model;
    const fli_fed *fed;
    const fli_metrics_settings *what;
    size_t count;                /* clients measured */
    fli_client_figures *figures; /* count */
    double *sorted;              /* count */
    uint32_t *all;               /* 0, 1, ... over the test set */
    lane lanes[LANES];
    const void *x; /* under measurement */
    double decay;  /* wd/2 ||x||^2, part of every f_i */
    int taken;
};

static int classifies(const fli_measure *m) { return m->model->desc->traits & FLI_MODEL_CLASSIFIER; }

/* Clients must be visited for training metrics, for their own accuracy, and for their test parts when there is no test set. */
static int visits_clients(const fli_measure *m)
{
    const fli_metrics_settings *w = m->what;
    return w->train || w->gradient || w->clients || (w->test && !m->fed->test);
}

static fl_status buffers_new(fli_measure *m)
{
    size_t n = m->model->space.n, size = m->model->space.ops->size;
    m->count = visits_clients(m) ? m->fed->clients : 0;
    if (m->count > (size_t)m->what->max_clients) m->count = (size_t)m->what->max_clients;
    m->figures = fli_alloc(m->ctx, m->count, sizeof *m->figures);
    m->sorted = fli_alloc(m->ctx, m->count, sizeof *m->sorted);
    m->all = fli_alloc(m->ctx, m->fed->test ? m->fed->test->n : 0, sizeof *m->all);
    if (!m->figures || !m->sorted || !m->all) return FL_ENOMEM;
    for (size_t i = 0; m->fed->test && i < m->fed->test->n; i++) m->all[i] = (uint32_t)i;
    for (size_t l = 0; m->what->gradient && l < LANES; l++) {
        m->lanes[l].gradient = fli_alloc(m->ctx, n, size);
        if (!m->lanes[l].gradient) return FL_ENOMEM;
    }
    return FL_OK;
}

fl_status fli_measure_new(fl_ctx *ctx, fli_exec *exec, const fli_model *model, const fli_fed *fed,
                          const fli_metrics_settings *what, fli_measure **out)
{
    fli_measure *m = fli_alloc(ctx, 1, sizeof *m);
    if (!m) return FL_ENOMEM;
    m->ctx = ctx;
    m->exec = exec;
    m->model = model;
    m->fed = fed;
    m->what = what;
    fl_status s = buffers_new(m);
    if (s)
        fli_measure_free(m);
    else
        *out = m;
    return s;
}

void fli_measure_free(fli_measure *m)
{
    if (!m) return;
    for (size_t l = 0; l < LANES; l++) fli_free(m->lanes[l].gradient);
    fli_free(m->figures);
    fli_free(m->sorted);
    fli_free(m->all);
    fli_free(m);
}

static void own_test(fli_measure *m, const fli_view *v, fli_worker *w, lane *l, fli_client_figures *f)
{
    size_t hits = 0;
    double n = (double)v->n_test;
    l->test_loss += n * fli_worker_eval(w, v->ds, v->test, v->n_test, m->x, NULL, &hits);
    l->test_hits += (double)hits;
    l->test_n += n;
    if (classifies(m)) f->accuracy = (double)hits / n;
}

static void own_train(fli_measure *m, const fli_view *v, fli_worker *w, lane *l, fli_client_figures *f)
{
    size_t hits = 0;
    double weight = fli_exec_weight(m->exec, f->client);
    void *g = l->gradient ? w->grad : NULL;
    f->loss = fli_worker_eval(w, v->ds, v->train, v->n_train, m->x, g, &hits) + m->decay;
    l->loss += weight * f->loss;
    l->hits += weight * (double)hits / (double)v->n_train;
    l->weight += weight;
    if (g) fli_axpy(&m->model->space, weight, g, l->gradient);
    if (classifies(m) && !v->n_test) f->accuracy = (double)hits / (double)v->n_train;
}

static fl_status measure_client(fli_measure *m, size_t at, lane *l, fli_worker *w)
{
    fli_client_figures *f = &m->figures[at];
    fli_view v;
    *f = (fli_client_figures){.loss = NAN, .accuracy = NAN};
    f->client = (uint32_t)((unsigned __int128)at * m->fed->clients / m->count);
    fl_status s = fli_view_open(m->ctx, m->fed, f->client, &v);
    if (s) return s;
    f->samples = v.n_train;
    if (v.n_test && (m->what->test || m->what->clients)) own_test(m, &v, w, l, f);
    if (m->what->train || m->what->gradient || (m->what->clients && !v.n_test)) own_train(m, &v, w, l, f);
    fli_view_close(&v);
    return FL_OK;
}

/* fli_pool_fn: lane `item` measures its share of the clients and of the test set. */
static void run_lane(void *arg, size_t item, size_t worker)
{
    fli_measure *m = arg;
    lane *l = &m->lanes[item];
    fli_worker *w = fli_exec_worker(m->exec, worker);
    if (l->gradient) fli_zero(&m->model->space, l->gradient);
    for (size_t at = item * m->count / LANES; !l->status && at < (item + 1) * m->count / LANES; at++)
        l->status = measure_client(m, at, l, w);
    if (!m->what->test || !m->fed->test) return;
    l->test_loss = l->test_hits = l->test_n = 0; /* the test set counts, not the clients' own parts */
    size_t n = m->fed->test->n, from = item * n / LANES, to = (item + 1) * n / LANES, hits = 0;
    if (from == to) return;
    l->test_loss = (double)(to - from) * fli_worker_eval(w, m->fed->test, m->all + from, to - from, m->x, NULL, &hits);
    l->test_hits = (double)hits;
    l->test_n = (double)(to - from);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void quantiles(fli_measure *m, fl_row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!isnan(m->figures[i].accuracy)) m->sorted[n++] = m->figures[i].accuracy;
    if (!n) return;
    qsort(m->sorted, n, sizeof *m->sorted, ascending);
    row->client_q10 = m->sorted[(n - 1) / 10];
    row->client_q50 = m->sorted[(n - 1) / 2];
    row->client_q90 = m->sorted[(n - 1) * 9 / 10];
}

static lane total(fli_measure *m)
{
    lane t = m->lanes[0];
    for (size_t i = 1; i < LANES; i++) {
        const lane *l = &m->lanes[i];
        t.loss += l->loss;
        t.hits += l->hits;
        t.weight += l->weight;
        t.test_loss += l->test_loss;
        t.test_hits += l->test_hits;
        t.test_n += l->test_n;
        if (t.gradient) fli_axpy(&m->model->space, 1, l->gradient, t.gradient);
        if (!t.status) t.status = l->status;
    }
    return t;
}

fl_status fli_measure_take(fli_measure *m, const void *x, fl_row *row)
{
    for (size_t i = 0; i < LANES; i++) m->lanes[i] = (lane){.gradient = m->lanes[i].gradient};
    m->x = x;
    m->decay = 0.5 * m->model->weight_decay * fli_dot(&m->model->space, x, x);
    fli_pool_run(fli_exec_pool(m->exec), LANES, run_lane, m);
    lane t = total(m);
    row->train_loss = row->train_accuracy = row->test_loss = row->test_accuracy = row->gradient2 = NAN;
    row->client_q10 = row->client_q50 = row->client_q90 = NAN;
    if (t.status) return t.status;
    if (m->what->train) row->train_loss = t.loss / t.weight;
    if (m->what->train && classifies(m)) row->train_accuracy = t.hits / t.weight;
    if (m->what->gradient) {
        fli_axpy(&m->model->space, t.weight * m->model->weight_decay, x, t.gradient);
        row->gradient2 = fli_dot(&m->model->space, t.gradient, t.gradient) / (t.weight * t.weight);
    }
    if (m->what->test && t.test_n > 0) row->test_loss = t.test_loss / t.test_n;
    if (m->what->test && t.test_n > 0 && classifies(m)) row->test_accuracy = t.test_hits / t.test_n;
    if (m->what->clients) quantiles(m, row);
    m->taken = 1;
    return FL_OK;
}

size_t fli_measure_clients(const fli_measure *m, const fli_client_figures **out)
{
    *out = m->figures;
    return m->taken && m->what->clients ? m->count : 0;
}
