/* Clustering by matrix factorisation: samples d are mixtures W h of `rank` columns of W, with h on the simplex. A
 * sample's cluster is its largest share. Labels are never read.
 *
 *     f_i(W, H_i) = 1/(2 d_i) ||D_i - W H_i||_F^2,   x = W (features x rank, row-major),  columns of H_i on the simplex
 *     gradient in W: 1/d_i (W H_i - D_i) H_i';  in h: 1/d_i W'(W h - d)
 *
 * W >= 0, the paper's X, is the configuration's regulariser (`nonnegative`). Adding a common vector to the columns of W
 * and to D changes the gradient in h along (1, ..., 1) only, which the projection onto the simplex removes. So h is
 * computed from columns relative to their mean: a common offset of all samples then costs neither digits nor step size.
 * The Hessian in W has eigenvalues of at most 1 for any data, because h has length at most 1.
 *
 * The second block is improved by projected steps from its last value ([VRA] Algorithm 3), or solved exactly
 * (simplex_lsq.c). Code without a second block sees F_i(W) = min over H_i of f_i(W, H_i), whose gradient is that of f_i
 * at the minimiser; `hvp` is that of f_i at the same H_i, so it bounds the curvature of F_i from above.
 *
 * Start: columns are samples. The first is random; each next one has a probability proportional to its squared distance
 * from those already chosen (k-means++), among a bounded number of samples of a bounded number of clients. In a real
 * federation these samples leave their clients, in one exchange before the first round.
 *
 * Wang, Chang: Federated matrix factorization: algorithm design and application to data clustering, IEEE TSP 2022; Wang
 * et al.: Beyond ADMM, 2023, section IV. Arthur, Vassilvitskii: k-means++, SODA 2007. */
#include "data/federation/federation.h"
#include "model/simplex_lsq.h"
#include "model/model.h"
#include "regularizer/regularizer.h"

#include <math.h>
#include <string.h>

enum { START_CLIENTS = 200, START_SAMPLES = 4000 }; /* limits on what is read for the start */

typedef enum { INIT_SAMPLES, INIT_RANDOM } init_rule;

typedef struct {
    int64_t rank, membership_steps, membership_batch;
    double membership_lr;
    int init; /* init_rule */
} params;

static const fl_key keys[] = {
    FLI_KEY_INT(params, rank, "10", 1, 4096, "columns of W: the number of clusters"),
    FLI_KEY_INT(params, membership_steps, "10", 0, 1e6,
                "projected steps on a client's memberships in each of its turns; 0: the best memberships, exactly"),
    FLI_KEY_REAL(params, membership_lr, "0", 0, FLI_NO_MAX,
                 "their step size, divided by the number of samples in a step; 0: as large as is safe"),
    FLI_KEY_INT(params, membership_batch, "0", 0, 1e9, "samples per step, drawn for each step; 0: all of the client's"),
    FLI_KEY_CHOICE(params, init, "samples", "samples|random",
                   "start columns: samples of some clients, far from each other (k-means++), or uniform in [0, 1)"),
    FLI_KEY_END,
};

static size_t rank_of(const fli_model *m) { return (size_t)((const params *)m->params)->rank; }

/* ---- scratch ------------------------------------------------------------------------------------------- */

/* Scratch for a batch of n; k = rank, f = features. */
typedef struct {
    void *r;         /* n x f: residuals W h - d */
    void *h, *c;     /* n x k: memberships; W'd */
    void *w, *mean;  /* f x k, f: columns of W minus their mean; the mean */
    void *one, *off; /* k: ones; minus W' mean */
    void *narrow;    /* k x k: W'W */
    double *gram;    /* the same, as doubles */
    double *row;     /* 2 k: one sample's c and h */
    double *work;    /* for simplex_lsq.c; 2 k for a projection */
} room;

static void *take(const fli_model *m, void *base, size_t reals, size_t *used)
{
    void *at = base ? fli_at(m->space.ops, base, *used) : NULL;
    *used += fli_scratch_pad(reals);
    return at;
}

/* Carves the buffers from `base` on; returns their size in reals. */
static size_t carve(const fli_model *m, size_t n, void *base, room *q)
{
    size_t k = rank_of(m), f = m->features, doubles = sizeof(double) / m->space.ops->size, used = 0;
    q->r = take(m, base, n * f, &used);
    q->h = take(m, base, n * k, &used);
    q->c = take(m, base, n * k, &used);
    q->w = take(m, base, f * k, &used);
    q->mean = take(m, base, f, &used);
    q->one = take(m, base, k, &used);
    q->off = take(m, base, k, &used);
    q->narrow = take(m, base, k * k, &used);
    q->gram = take(m, base, k * k * doubles, &used);
    q->row = take(m, base, 2 * k * doubles, &used);
    q->work = take(m, base, fli_simplex_lsq_work(k) * doubles, &used);
    return used;
}

static size_t scratch(const fli_model *m, size_t n)
{
    room unused;
    return carve(m, n, NULL, &unused);
}

/* ---- memberships --------------------------------------------------------------------------------------- */

/* Computes the columns relative to their mean, their Gram matrix, and c = W'd for every sample of the batch. */
static void project(const fli_model *m, const void *x, const fli_batch *b, const room *q)
{
    const fli_ops *ops = m->space.ops;
    size_t k = rank_of(m), f = m->features;
    ops->fill(k, 1, q->one);
    ops->gemv(0, f, k, 1 / (double)k, x, k, q->one, 0, q->mean);
    memcpy(q->w, x, f * k * ops->size);
    ops->gemm(0, 0, f, k, 1, -1, q->mean, 1, q->one, k, 1, q->w, k);
    ops->gemm(1, 0, k, k, f, 1, q->w, k, q->w, k, 0, q->narrow, k);
    ops->to_f64(k * k, q->narrow, q->gram);
    ops->gemv(1, f, k, -1, q->w, k, q->mean, 0, q->off);
    ops->gemm(0, 0, b->n, k, f, 1, b->x, f, q->w, k, 0, q->c, k);
    ops->add_bias(b->n, k, q->off, q->c);
}

/* An upper bound of the largest eigenvalue of the Gram matrix. */
static double curvature(size_t k, const double *gram)
{
    double rows = 0, square = 0;
    for (size_t i = 0; i < k; i++) {
        double sum = 0;
        for (size_t j = 0; j < k; j++) {
            sum += fabs(gram[i * k + j]);
            square += gram[i * k + j] * gram[i * k + j];
        }
        rows = fmax(rows, sum);
    }
    return fmin(rows, sqrt(square));
}

/* h <- P(h - lr (G h - c)), `steps` times; work: 2 k */
static void projected_steps(size_t k, const double *gram, const double *c, double lr, int64_t steps, double *h,
                            double *work)
{
    for (int64_t step = 0; step < steps; step++) {
        for (size_t i = 0; i < k; i++) {
            double slope = -c[i];
            for (size_t j = 0; j < k; j++) slope += gram[i * k + j] * h[j];
            work[i] = h[i] - lr * slope;
        }
        memcpy(h, work, k * sizeof *h);
        fli_simplex_nearest(k, h, work + k);
    }
}

/* Improves the memberships y of the batch from their last values; steps 0: solves exactly. Call project() before. */
static void memberships(const fli_model *m, size_t n, double lr, int64_t steps, const room *q, void *y)
{
    const fli_ops *ops = m->space.ops;
    size_t k = rank_of(m);
    double *c = q->row, *h = q->row + k;
    for (size_t i = 0; i < n; i++) {
        void *at = fli_at(ops, y, i * k);
        ops->to_f64(k, fli_cat(ops, q->c, i * k), c);
        if (steps) {
            ops->to_f64(k, at, h);
            projected_steps(k, q->gram, c, lr, steps, h, q->work);
        } else {
            fli_simplex_lsq_nearest(k, q->gram, c, h, q->work);
        }
        ops->from_f64(k, h, at);
    }
}

static void improve_by(const fli_model *m, const void *x, const fli_batch *b, size_t all, int64_t steps, void *y,
                       void *at)
{
    const params *p = m->params;
    room q;
    carve(m, b->n, at, &q);
    project(m, x, b, &q);
    double top = curvature(rank_of(m), q.gram);
    double lr = p->membership_lr > 0 ? p->membership_lr / (double)all : top > 0 ? 1 / top : 0;
    memberships(m, b->n, lr, steps, &q, y);
}

static void improve(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *at)
{
    improve_by(m, x, b, all, ((const params *)m->params)->membership_steps, y, at);
}

static void improve_once(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *at)
{
    improve_by(m, x, b, all, 1, y, at);
}

/* The exact solution takes no steps. */
static size_t drawn(const fli_model *m, size_t *steps)
{
    const params *p = m->params;
    *steps = (size_t)p->membership_steps;
    return *steps ? (size_t)p->membership_batch : 0;
}

/* The gradient in h has a factor 1/d_i, which the step size of projected_steps includes. */
static fl_latent_steps membership_rule(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *at)
{
    const params *p = m->params;
    room q;
    carve(m, b->n, at, &q);
    project(m, x, b, &q);
    double top = curvature(rank_of(m), q.gram), n = (double)all;
    double lr = p->membership_lr > 0 ? p->membership_lr : top > 0 ? n / top : 0;
    return (fl_latent_steps){(size_t)p->membership_steps, p->membership_steps ? lr : NAN, top / n};
}

/* ---- the columns --------------------------------------------------------------------------------------- */

/* Returns the loss on the batch with memberships y; g = its gradient in W. */
static double loss_at(const fli_model *m, const void *x, const fli_batch *b, const void *y, void *g, const room *q)
{
    const fli_ops *ops = m->space.ops;
    size_t k = rank_of(m), f = m->features, n = b->n;
    memcpy(q->r, b->x, n * f * ops->size);
    ops->gemm(0, 1, n, f, k, 1, y, k, x, k, -1, q->r, f);
    if (g) ops->gemm(1, 0, f, k, n, 1 / (double)n, q->r, f, y, k, 0, g, k);
    return ops->dot(n * f, q->r, q->r) / (2 * (double)n);
}

static double latent_grad(const fli_model *m, const void *x, const fli_batch *b, size_t plain, const void *y, void *g,
                          void *at)
{
    room q;
    (void)plain;
    carve(m, b->n, at, &q);
    return loss_at(m, x, b, y, g, &q);
}

/* q->h = the best memberships of the batch at x. */
static void best(const fli_model *m, const void *x, const fli_batch *b, void *at, room *q)
{
    carve(m, b->n, at, q);
    project(m, x, b, q);
    memberships(m, b->n, 0, 0, q, q->h);
}

static double grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *at)
{
    room q;
    if (correct) *correct = 0;
    best(m, x, b, at, &q);
    return loss_at(m, x, b, q.h, g, &q);
}

static void hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *at)
{
    const fli_ops *ops = m->space.ops;
    size_t k = rank_of(m), f = m->features, n = b->n;
    room q;
    best(m, x, b, at, &q);
    ops->gemm(1, 0, k, k, n, 1 / (double)n, q.h, k, q.h, k, 0, q.narrow, k);
    ops->gemm(0, 0, f, k, k, 1, v, k, q.narrow, k, 0, out, k);
}

static void clusters(const fli_model *m, const void *x, const fli_batch *b, uint32_t *out, void *at)
{
    const fli_ops *ops = m->space.ops;
    size_t k = rank_of(m);
    room q;
    best(m, x, b, at, &q);
    for (size_t i = 0; i < b->n; i++) {
        size_t top = 0;
        ops->to_f64(k, fli_cat(ops, q.h, i * k), q.row);
        for (size_t j = 1; j < k; j++)
            if (q.row[j] > q.row[top]) top = j;
        out[i] = (uint32_t)top;
    }
}

/* A prediction is the memberships: shares that add up to 1. */
static void predict(const fli_model *m, const void *x, const fli_batch *b, double *out, void *at)
{
    room q;
    best(m, x, b, at, &q);
    m->space.ops->to_f64(b->n * rank_of(m), q.h, out);
}

/* ---- the start ----------------------------------------------------------------------------------------- */

static void init(const fli_model *m, fli_rng *r, double *x)
{
    for (size_t i = 0; i < m->space.n; i++) x[i] = fli_rng_uniform(r);
}

/* Samples of some clients, as doubles, from which the start columns are drawn. */
typedef struct {
    size_t n, dim;
    double *x;        /* n x dim */
    double *distance; /* n: squared, to the nearest column chosen so far */
    uint32_t *who, *which;
} pool;

static void pool_fini(pool *p)
{
    fli_free(p->x);
    fli_free(p->distance);
    fli_free(p->who);
    fli_free(p->which);
}

/* Adds at most `most` random samples of a client. */
static fl_status pool_add(fl_ctx *ctx, const fli_fed *fed, uint32_t client, size_t most, fli_rng *r, pool *p)
{
    fli_view v;
    fl_status s = fli_view_open(ctx, fed, client, &v);
    if (s) return s;
    size_t n = v.n_train < most ? v.n_train : most;
    fli_rng_sample(r, v.n_train, n, p->which);
    for (size_t i = 0; i < n; i++) fli_dataset_row(v.ds, v.train[p->which[i]], p->x + (p->n++) * p->dim);
    fli_view_close(&v);
    return FL_OK;
}

/* The number of samples per client grows with the rank, so that there are enough to choose from. */
static fl_status pool_init(fl_ctx *ctx, const fli_fed *fed, size_t rank, fli_rng *r, pool *p)
{
    size_t clients = fed->clients < START_CLIENTS ? fed->clients : START_CLIENTS;
    size_t each = ((rank > START_SAMPLES ? rank : START_SAMPLES) + clients - 1) / clients;
    *p = (pool){.dim = fed->dim};
    p->x = fli_alloc(ctx, clients * each, fed->dim * sizeof *p->x);
    p->distance = fli_alloc(ctx, clients * each, sizeof *p->distance);
    p->who = fli_alloc(ctx, clients, sizeof *p->who);
    p->which = fli_alloc(ctx, each, sizeof *p->which);
    if (!p->x || !p->distance || !p->who || !p->which) return FL_ENOMEM;
    fli_rng_sample(r, fed->clients, clients, p->who);
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < clients; i++) s = pool_add(ctx, fed, p->who[i], each, r, p);
    return s;
}

/* Draws a sample in proportion to its squared distance; uniformly if no column is chosen yet or all distances are 0. */
static size_t draw(const pool *p, double total, fli_rng *r)
{
    if (!(total > 0 && isfinite(total))) return (size_t)fli_rng_below(r, p->n);
    double at = fli_rng_uniform(r) * total;
    size_t last = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (!(p->distance[i] > 0)) continue;
        last = i;
        if ((at -= p->distance[i]) < 0) break;
    }
    return last;
}

/* Updates the distances for a chosen column; returns their sum. */
static double measure(pool *p, const double *chosen, int first)
{
    double total = 0;
    for (size_t i = 0; i < p->n; i++) {
        double sum = 0;
        for (size_t j = 0; j < p->dim; j++) {
            double d = p->x[i * p->dim + j] - chosen[j];
            sum += d * d;
        }
        if (first || sum < p->distance[i]) p->distance[i] = sum;
        total += p->distance[i];
    }
    return total;
}

static fl_status start_from(fl_ctx *ctx, const fli_model *m, const fli_fed *fed, fli_rng *r, double *x)
{
    const params *p = m->params;
    size_t k = rank_of(m);
    double total = 0;
    pool q = {0};
    if (p->init == INIT_RANDOM) {
        init(m, r, x);
        return FL_OK;
    }
    fl_status s = pool_init(ctx, fed, k, r, &q);
    if (!s && k > fed->samples)
        s = fli_fail(ctx, FL_ECONFIG, "model.rank is %zu, but there are only %zu training samples", k, fed->samples);
    for (size_t c = 0; !s && c < k; c++) {
        const double *chosen = q.x + draw(&q, total, r) * q.dim;
        for (size_t j = 0; j < q.dim; j++) x[j * k + c] = chosen[j];
        total = measure(&q, chosen, c == 0);
    }
    pool_fini(&q);
    return s;
}

/* ---- the model ----------------------------------------------------------------------------------------- */

static size_t no_more(const fli_model *m, size_t n)
{
    (void)m;
    (void)n;
    return 0;
}

static const fli_latent latent = {.every = 1,
                                  .kept = 1,
                                  .size = rank_of,
                                  .scratch = no_more,
                                  .improve = improve,
                                  .batch = drawn,
                                  .step = improve_once,
                                  .grad = latent_grad,
                                  .rule = membership_rule};

static fl_status setup(fl_ctx *ctx, fli_model *m)
{
    (void)ctx;
    fli_tensor *t = fli_arena_alloc(&m->arena, 1, sizeof *t);
    if (!t) return FL_ENOMEM;
    *t = (fli_tensor){.name = "weight", .rows = m->features, .cols = rank_of(m)};
    m->space.n = m->features * rank_of(m);
    m->tensors = t;
    m->tensor_count = 1;
    m->latent = &latent;
    return FL_OK;
}

const fli_model_desc fli_model_factorization = {
    .name = "factorization",
    .title = "clustering by matrix factorisation, without labels",
    .citation = "Wang et al., Beyond ADMM, 2023",
    .traits = FLI_MODEL_UNSUPERVISED | FLI_MODEL_NONNEGATIVE,
    .keys = keys,
    .params_size = sizeof(params),
    .setup = setup,
    .scratch = scratch,
    .init = init,
    .start_from = start_from,
    .grad = grad,
    .clusters = clusters,
    .hvp = hvp,
    .predict = predict,
};
