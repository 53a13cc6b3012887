#include "run/measure.h"

#include "model/semi.h"
#include "run/clusters.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 16 };

/* Sums over clients. Those over training samples are weighted, so that with all clients they make up f; those over test samples
 * count every sample once. */
typedef struct {
    double loss, hits, weight;           /* train: sum w_i f_i, w_i accuracy_i, w_i */
    double test_loss, test_hits, test_n; /* test: sums over samples */
    double pseudo_hits, pseudo_n;        /* pseudo labels: sums over samples that get one */
} sums;

typedef struct {
    sums global;    /* of the model under measurement */
    sums local;     /* of the clients' own models */
    void *gradient; /* of f; NULL: not measured */
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
    void *gradients;        /* of f_i: a vector per thread; NULL: not measured */
    fli_clusters *clusters; /* NULL: none to measure */
    size_t order[LANES];    /* lanes, most samples first: no thread is left alone with a long one at the end */
    const void *x;          /* under measurement */
    double decay;           /* wd/2 ||x||^2, part of every f_i */
    int taken;
};

static int classifies(const fli_measure *m) { return m->model->desc->traits & FLI_MODEL_CLASSIFIER; }

/* Whether clients give pseudo labels, so that it can be said how many are right. */
static int labels_pseudo(const fli_measure *m) { return m->model->latent && !m->model->latent->every && m->fed->truth; }

/* Clients must be visited for training metrics, for their own accuracy, their own models, their pseudo labels, and for their
 * test parts when there is no test set. */
static int visits_clients(const fli_measure *m)
{
    const fli_metrics_settings *w = m->what;
    return w->train || w->gradient || w->clients || w->local || labels_pseudo(m) || (w->test && !m->fed->test);
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
    size_t threads = fli_pool_threads(fli_exec_pool(m->exec));
    if (m->what->gradient && !(m->gradients = fli_alloc(m->ctx, threads, fli_vector_stride(&m->model->space))))
        return FL_ENOMEM;
    if (!m->what->train) return FL_OK;
    return fli_clusters_new(m->ctx, m->exec, m->model, m->fed, (size_t)m->what->max_clients, &m->clusters);
}

/* The federation's client that is number `at` of those measured. */
static uint32_t client_at(const fli_measure *m, size_t at)
{
    return (uint32_t)((unsigned __int128)at * m->fed->clients / m->count);
}

static void order_lanes(fli_measure *m)
{
    size_t samples[LANES] = {0};
    for (size_t l = 0; l < LANES; l++) {
        size_t at = l;
        for (size_t c = l * m->count / LANES; c < (l + 1) * m->count / LANES; c++)
            samples[l] += fli_fed_size(m->fed, client_at(m, c));
        for (; at > 0 && samples[m->order[at - 1]] < samples[l]; at--) m->order[at] = m->order[at - 1];
        m->order[at] = l;
    }
}

double fli_measure_bytes(const fli_model *model, const fli_metrics_settings *what, size_t threads)
{
    return what->gradient ? (double)(LANES + threads) * (double)fli_bytes(&model->space) : 0;
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
    if (s) {
        fli_measure_free(m);
        return s;
    }
    order_lanes(m);
    *out = m;
    return FL_OK;
}

void fli_measure_free(fli_measure *m)
{
    if (!m) return;
    for (size_t l = 0; l < LANES; l++) fli_free(m->lanes[l].gradient);
    fli_free(m->gradients);
    fli_free(m->figures);
    fli_free(m->sorted);
    fli_free(m->all);
    fli_clusters_free(m->clusters);
    fli_free(m);
}

/* How a model does on some of a client's samples. */
typedef struct {
    double loss, hits; /* mean, number of samples that are right */
} score;

static void add_train(sums *t, const score *s, double weight, size_t n)
{
    t->loss += weight * s->loss;
    t->hits += weight * s->hits / (double)n;
    t->weight += weight;
}

static void add_test(sums *t, const score *s, size_t n)
{
    t->test_loss += (double)n * s->loss;
    t->test_hits += s->hits;
    t->test_n += (double)n;
}

/* A client's turn to be measured. */
typedef struct {
    fli_view view;
    fli_eval *eval;
    void *gradient; /* room for that of f_i, if it was asked for */
    double weight;
    score train, test; /* of the global model, if it was asked for */
} visit;

static score on_test(const visit *c, const void *x)
{
    size_t hits = 0;
    double loss = fli_eval_loss(c->eval, c->view.ds, c->view.test, c->view.n_test, x, NULL, &hits);
    return (score){loss, (double)hits};
}

static score on_train(const visit *c, const void *x, double decay, void *g)
{
    size_t hits = 0;
    double loss = fli_eval_loss(c->eval, c->view.ds, c->view.train, c->view.n_train, x, g, &hits);
    return (score){loss + decay, (double)hits};
}

static void global_test(fli_measure *m, visit *c, lane *l, fli_client_figures *f)
{
    c->test = on_test(c, m->x);
    add_test(&l->global, &c->test, c->view.n_test);
    if (classifies(m)) f->accuracy = c->test.hits / (double)c->view.n_test;
}

static void global_train(fli_measure *m, visit *c, lane *l, fli_client_figures *f)
{
    void *g = l->gradient ? c->gradient : NULL;
    c->train = on_train(c, m->x, m->decay, g);
    add_train(&l->global, &c->train, c->weight, c->view.n_train);
    if (g) fli_axpy(&m->model->space, c->weight, g, l->gradient);
    f->loss = c->train.loss;
    if (classifies(m) && !c->view.n_test) f->accuracy = c->train.hits / (double)c->view.n_train;
}

/* The mixture of the own and the global model on some samples. */
static score mixed(const fli_measure *m, const visit *c, const void *own, double mix, const uint32_t *idx, size_t n)
{
    size_t hits = 0;
    double loss = fli_eval_pair(c->eval, c->view.ds, idx, n, m->x, own, mix, &hits);
    return (score){loss, (double)hits};
}

/* A client whose own model is the global one has been measured already. */
static void own_model(fli_measure *m, const visit *c, const void *own, double mix, lane *l, fli_client_figures *f)
{
    const fli_space *space = &m->model->space;
    size_t n = c->view.n_test;
    score train = c->train, test = c->test;
    if (own != m->x && mix < 1) {
        train = mixed(m, c, own, mix, c->view.train, c->view.n_train);
        train.loss += 0.5 * m->model->weight_decay * fli_dot(space, own, own);
        if (n) test = mixed(m, c, own, mix, c->view.test, n);
    } else if (own != m->x) {
        train = on_train(c, own, 0.5 * m->model->weight_decay * fli_dot(space, own, own), NULL);
        if (n) test = on_test(c, own);
    }
    add_train(&l->local, &train, c->weight, c->view.n_train);
    if (n) add_test(&l->local, &test, n);
    if (n && classifies(m)) f->own_accuracy = test.hits / (double)n;
    f->own_mix = mix;
}

/* How many of the labels that x gives to a client's unlabelled samples are right. */
static void pseudo_labels(const fli_measure *m, const visit *c, lane *l)
{
    const fli_model *model = m->model;
    fli_eval *e = c->eval;
    const fli_semi *semi = model->latent_params;
    double least = semi->labels == FLI_SEMI_CLOSED_FORM ? semi->confidence : 0, p;
    for (size_t at = 0; at < c->view.n_unlabelled; at += e->batch.n) {
        size_t n = c->view.n_unlabelled - at < e->batch.capacity ? c->view.n_unlabelled - at : e->batch.capacity;
        fli_batch_gather(&e->batch, c->view.ds, c->view.unlabelled + at, n);
        void *z = model->desc->logits(model, m->x, &e->batch, e->scratch);
        for (size_t i = 0; i < n; i++) {
            size_t best = fli_likeliest(model, fli_at(model->space.ops, z, i * model->classes), &p);
            if (p < least) continue;
            l->global.pseudo_n++;
            l->global.pseudo_hits += (int32_t)best == fli_fed_truth(m->fed, c->view.unlabelled[at + i]);
        }
    }
}

static fl_status measure_client(fli_measure *m, size_t at, lane *l, size_t worker)
{
    const fli_metrics_settings *what = m->what;
    fli_client_figures *f = &m->figures[at];
    visit c = {.eval = fli_exec_eval(m->exec, worker)};
    if (l->gradient) c.gradient = (char *)m->gradients + worker * fli_vector_stride(&m->model->space);
    *f = (fli_client_figures){.loss = NAN, .accuracy = NAN, .own_accuracy = NAN, .own_mix = NAN};
    f->client = client_at(m, at);
    const void *own = NULL;
    fl_status s = fli_view_open(m->ctx, m->fed, f->client, &c.view);
    if (s) return s;
    if (what->local && (s = fli_exec_own_model(m->exec, f->client, &own))) goto done;
    f->samples = c.view.n_train;
    c.weight = fli_exec_weight(m->exec, f->client);
    if (c.view.n_test && (what->test || what->clients || own == m->x)) global_test(m, &c, l, f);
    if (what->train || what->gradient || (what->clients && !c.view.n_test) || own == m->x) global_train(m, &c, l, f);
    if (labels_pseudo(m)) pseudo_labels(m, &c, l);
    if (!own) goto done;
    own_model(m, &c, own, fli_exec_own_mix(m->exec, f->client), l, f);
    fli_exec_own_model_release(m->exec, f->client, own);
done:
    fli_view_close(&c.view);
    return s;
}

/* fli_pool_fn: a lane measures its share of the clients and of the test set. */
static void run_lane(void *arg, size_t place, size_t worker)
{
    fli_measure *m = arg;
    size_t item = m->order[place];
    lane *l = &m->lanes[item];
    if (l->gradient) fli_zero(&m->model->space, l->gradient);
    for (size_t at = item * m->count / LANES; !l->status && at < (item + 1) * m->count / LANES; at++)
        l->status = measure_client(m, at, l, worker);
    if (!m->what->test || !m->fed->test) return;
    /* the test set counts, not the clients' own parts */
    l->global.test_loss = l->global.test_hits = l->global.test_n = 0;
    size_t n = m->fed->test->n, from = item * n / LANES, to = (item + 1) * n / LANES, hits = 0;
    if (from == to) return;
    fli_eval *e = fli_exec_eval(m->exec, worker);
    double loss = fli_eval_loss(e, m->fed->test, m->all + from, to - from, m->x, NULL, &hits);
    add_test(&l->global, &(score){loss, (double)hits}, to - from);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sorts what is in m->sorted. */
static void quantiles(fli_measure *m, size_t n, double *q10, double *q50, double *q90)
{
    qsort(m->sorted, n, sizeof *m->sorted, ascending);
    *q10 = m->sorted[(n - 1) / 10];
    *q50 = m->sorted[(n - 1) / 2];
    *q90 = m->sorted[(n - 1) * 9 / 10];
}

static void client_quantiles(fli_measure *m, fl_row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!isnan(m->figures[i].accuracy)) m->sorted[n++] = m->figures[i].accuracy;
    if (n) quantiles(m, n, &row->client_q10, &row->client_q50, &row->client_q90);
}

static void own_quantiles(fli_measure *m, fl_row *row)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++)
        if (!isnan(m->figures[i].own_accuracy)) m->sorted[n++] = m->figures[i].own_accuracy;
    if (!n) return;
    quantiles(m, n, &row->local_q10, &row->local_q50, &row->local_q90);
    size_t worst = (n + 9) / 10;
    row->local_worst = 0;
    for (size_t i = 0; i < worst; i++) row->local_worst += m->sorted[i] / (double)worst;
}

static void add_sums(sums *t, const sums *s)
{
    t->loss += s->loss;
    t->hits += s->hits;
    t->weight += s->weight;
    t->test_loss += s->test_loss;
    t->test_hits += s->test_hits;
    t->test_n += s->test_n;
    t->pseudo_hits += s->pseudo_hits;
    t->pseudo_n += s->pseudo_n;
}

static lane total(fli_measure *m)
{
    lane t = m->lanes[0];
    for (size_t i = 1; i < LANES; i++) {
        const lane *l = &m->lanes[i];
        add_sums(&t.global, &l->global);
        add_sums(&t.local, &l->local);
        if (t.gradient) fli_axpy(&m->model->space, 1, l->gradient, t.gradient);
        if (!t.status) t.status = l->status;
    }
    return t;
}

static void fill_train(const fli_measure *m, const sums *s, double *loss, double *accuracy)
{
    *loss = s->loss / s->weight;
    if (classifies(m)) *accuracy = s->hits / s->weight;
}

static void fill_test(const fli_measure *m, const sums *s, double *loss, double *accuracy)
{
    if (!(s->test_n > 0)) return;
    *loss = s->test_loss / s->test_n;
    if (classifies(m)) *accuracy = s->test_hits / s->test_n;
}

static void fill_row(fli_measure *m, const lane *t, fl_row *row)
{
    const fli_metrics_settings *what = m->what;
    const fli_space *space = &m->model->space;
    if (what->train) fill_train(m, &t->global, &row->train_loss, &row->train_accuracy);
    if (what->test) fill_test(m, &t->global, &row->test_loss, &row->test_accuracy);
    if (what->gradient) {
        double weight = t->global.weight;
        fli_axpy(space, weight * m->model->weight_decay, m->x, t->gradient);
        row->gradient2 = fli_dot(space, t->gradient, t->gradient) / (weight * weight);
    }
    if (what->clients) client_quantiles(m, row);
    if (t->global.pseudo_n > 0) row->pseudo_accuracy = t->global.pseudo_hits / t->global.pseudo_n;
    if (!what->local) return;
    own_quantiles(m, row);
    fill_train(m, &t->local, &row->local_train_loss, &row->local_train_accuracy);
    fill_test(m, &t->local, &row->local_test_loss, &row->local_test_accuracy);
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
    row->local_q10 = row->local_q50 = row->local_q90 = row->local_worst = row->pseudo_accuracy = NAN;
    row->local_train_loss = row->local_train_accuracy = row->local_test_loss = row->local_test_accuracy = NAN;
    if (t.status) return t.status;
    fill_row(m, &t, row);
    m->taken = 1;
    return fli_clusters_take(m->clusters, x, row);
}

size_t fli_measure_clients(const fli_measure *m, const fli_client_figures **out)
{
    *out = m->figures;
    return m->taken && (m->what->clients || m->what->local) ? m->count : 0;
}
