#include "run/clusters.h"

#include "model/latent.h"
#include "run/matching.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

struct fli_clusters {
    fl_ctx *ctx;
    fli_exec *exec;
    const fli_model *model;
    const fli_fed *fed;
    size_t visited;  /* clients */
    size_t clusters; /* and classes in fed->classes */
    size_t piece;    /* samples at a time */
    double *count;   /* LANES x clusters x classes; whole numbers, so that sums do not depend on the order */
    uint32_t *found; /* LANES x piece */
    fl_status status[LANES];
    const void *x; /* under measurement */
};

/* ---- figures of a table -------------------------------------------------------------------------------- */

fl_status fli_clusters_accuracy(fl_ctx *ctx, size_t clusters, size_t classes, const double *count, double *out)
{
    size_t n = clusters > classes ? clusters : classes;
    double samples = 0, hits = 0;
    double *square = fli_alloc(ctx, n, n * sizeof *square); /* who is left over gets nothing */
    if (!square) return FL_ENOMEM;
    for (size_t k = 0; k < clusters; k++)
        for (size_t c = 0; c < classes; c++) samples += square[k * n + c] = count[k * classes + c];
    fl_status s = fli_matching_best(ctx, n, square, &hits);
    *out = hits / samples;
    fli_free(square);
    return s;
}

/* -p log p */
static double surprise(double p) { return p > 0 ? -p * log(p) : 0; }

/* The entropy of sums over the other index; `outer` and `inner` are strides. */
static double entropy(size_t n, size_t outer, size_t m, size_t inner, const double *count, double samples)
{
    double h = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < m; j++) sum += count[i * outer + j * inner];
        h += surprise(sum / samples);
    }
    return h;
}

double fli_clusters_nmi(size_t clusters, size_t classes, const double *count)
{
    double samples = 0, both = 0;
    for (size_t i = 0; i < clusters * classes; i++) samples += count[i];
    for (size_t i = 0; i < clusters * classes; i++) both += surprise(count[i] / samples);
    double a = entropy(clusters, classes, classes, 1, count, samples);
    double b = entropy(classes, 1, clusters, classes, count, samples);
    if (!(a + b > 0)) return samples > 0 ? 1 : NAN;
    return fmin(1, fmax(0, 2 * (a + b - both) / (a + b)));
}

/* ---- counting ------------------------------------------------------------------------------------------ */

static int32_t truth(const fli_clusters *c, const fli_view *v, uint32_t sample)
{
    return c->fed->train ? fli_fed_truth(c->fed, sample) : v->ds->label[sample];
}

static fl_status count_client(fli_clusters *c, size_t client, fli_eval *e, double *count, uint32_t *found)
{
    fli_view v;
    fl_status s = fli_view_open(c->ctx, c->fed, client, &v);
    if (s) return s;
    for (size_t at = 0, n; at < v.n_train; at += n) {
        n = v.n_train - at < c->piece ? v.n_train - at : c->piece;
        fli_batch_gather(&e->batch, v.ds, v.train + at, n);
        c->model->desc->clusters(c->model, c->x, &e->batch, found, e->scratch);
        for (size_t i = 0; i < n; i++) count[found[i] * c->fed->classes + (size_t)truth(c, &v, v.train[at + i])] += 1;
    }
    fli_view_close(&v);
    return FL_OK;
}

/* fli_pool_fn */
static void run_lane(void *arg, size_t item, size_t worker)
{
    fli_clusters *c = arg;
    fli_eval *e = fli_exec_eval(c->exec, worker);
    double *count = c->count + item * c->clusters * c->fed->classes;
    memset(count, 0, c->clusters * c->fed->classes * sizeof *count);
    c->status[item] = FL_OK;
    for (size_t at = item * c->visited / LANES; !c->status[item] && at < (item + 1) * c->visited / LANES; at++)
        c->status[item] = count_client(c, (size_t)((unsigned __int128)at * c->fed->clients / c->visited), e, count,
                                       c->found + item * c->piece);
}

fl_status fli_clusters_take(fli_clusters *c, const void *x, fl_row *row)
{
    row->cluster_accuracy = row->cluster_nmi = NAN;
    if (!c) return FL_OK;
    size_t cells = c->clusters * c->fed->classes;
    c->x = x;
    fli_pool_run(fli_exec_pool(c->exec), LANES, run_lane, c);
    for (size_t l = 0; l < LANES; l++) {
        if (c->status[l]) return c->status[l];
        for (size_t i = 0; l && i < cells; i++) c->count[i] += c->count[l * cells + i];
    }
    row->cluster_nmi = fli_clusters_nmi(c->clusters, c->fed->classes, c->count);
    return fli_clusters_accuracy(c->ctx, c->clusters, c->fed->classes, c->count, &row->cluster_accuracy);
}

/* ---- life ---------------------------------------------------------------------------------------------- */

fl_status fli_clusters_new(fl_ctx *ctx, fli_exec *exec, const fli_model *model, const fli_fed *fed, size_t most,
                           fli_clusters **out)
{
    *out = NULL;
    if (!model->desc->clusters || !fed->classes) return FL_OK;
    fli_clusters *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = ctx;
    c->exec = exec;
    c->model = model;
    c->fed = fed;
    c->visited = fed->clients < most ? fed->clients : most;
    c->clusters = model->latent->size(model);
    c->piece = fli_exec_eval(exec, 0)->batch.capacity;
    c->count = fli_alloc(ctx, LANES * c->clusters, fed->classes * sizeof *c->count);
    c->found = fli_alloc(ctx, LANES * c->piece, sizeof *c->found);
    if (c->count && c->found) {
        *out = c;
        return FL_OK;
    }
    fli_clusters_free(c);
    return FL_ENOMEM;
}

void fli_clusters_free(fli_clusters *c)
{
    if (!c) return;
    fli_free(c->count);
    fli_free(c->found);
    fli_free(c);
}
