/* synthetic(alpha, beta): clients that differ in their model (alpha) and in their inputs (beta).
 *
 * Client k:  u ~ N(0, alpha^2)   W_k, b_k ~ N(u, 1)             W_k: features x classes
 *            B ~ N(0, beta^2)    v_k      ~ N(B, 1)
 *            x ~ N(v_k, S),  S = diag(j^-1.2), j = 1, 2, ...    y = arg max (W_k' x + b_k)
 *
 * iid: one W, b ~ N(0, 1) for all, and v = 0. Sizes are int(lognormal(4, 2)) + 50 in the papers, which now and then
 * gives a client with a hundred thousand samples; max_size caps it.
 *
 * A client depends on (seed, client) alone, so that one of ten million can be made without the others. */
#include "data/source.h"

#include <math.h>

enum { SIZES_LOGNORMAL, SIZES_FIXED };
enum { ITEM_SIZE, ITEM_MODEL, ITEM_SAMPLES, ITEM_COMMON }; /* streams of a client; ITEM_COMMON: of client 0, for all */

typedef struct {
    int64_t clients;
    double alpha, beta;
    int iid;
    int64_t features, classes;
    int sizes;
    int64_t size;
    double size_mean, size_sigma;
    int64_t min_size, max_size;
} synthetic_params;

static const fl_key keys[] = {
    FLI_KEY_INT(synthetic_params, clients, "30", 1, 1e8, "number of clients"),
    FLI_KEY_REAL(synthetic_params, alpha, "0.5", 0, 1e3, "deviation of the clients' models"),
    FLI_KEY_REAL(synthetic_params, beta, "0.5", 0, 1e3, "deviation of the clients' inputs"),
    FLI_KEY_BOOL(synthetic_params, iid, "false",
                 "one model and one input distribution for all; alpha and beta are ignored"),
    FLI_KEY_INT(synthetic_params, features, "60", 1, 1e5, "number of features"),
    FLI_KEY_INT(synthetic_params, classes, "10", 2, 1e4, "number of classes"),
    FLI_KEY_CHOICE(synthetic_params, sizes, "lognormal", "lognormal|fixed", "how many samples the clients have"),
    FLI_KEY_INT(synthetic_params, size, "100", 1, 1e7, "samples of every client, with fixed sizes"),
    FLI_KEY_REAL(synthetic_params, size_mean, "4", -100, 100, "mean of the logarithm of lognormal sizes"),
    FLI_KEY_REAL(synthetic_params, size_sigma, "2", 0, 100, "deviation of the logarithm of lognormal sizes"),
    FLI_KEY_INT(synthetic_params, min_size, "50", 1, 1e7, "added to every lognormal size"),
    FLI_KEY_INT(synthetic_params, max_size, "5000", 1, 1e7, "larger lognormal sizes are cut down to this"),
    FLI_KEY_END,
};

/* The parameters that a client's samples are drawn from; w is the start of one allocation. */
typedef struct {
    size_t features, classes;
    double *w;  /* classes x features */
    double *b;  /* classes */
    double *v;  /* features */
    double *sd; /* features: square roots of the diagonal of S */
} model;

static fl_status model_init(fl_ctx *ctx, const synthetic_params *p, model *m)
{
    m->features = (size_t)p->features;
    m->classes = (size_t)p->classes;
    m->w = fli_alloc(ctx, m->features * m->classes + m->classes + 2 * m->features, sizeof *m->w);
    if (!m->w) return FL_ENOMEM;
    m->b = m->w + m->features * m->classes;
    m->v = m->b + m->classes;
    m->sd = m->v + m->features;
    for (size_t j = 0; j < m->features; j++) m->sd[j] = pow((double)(j + 1), -0.6);
    return FL_OK;
}

static void model_fini(model *m) { fli_free(m->w); }

static void model_draw(const synthetic_params *p, uint64_t seed, uint32_t client, model *m)
{
    fli_rng r;
    double u = 0, mean = 0;
    fli_rng_init(&r, seed, FLI_RNG_DATA, p->iid ? ITEM_COMMON : ITEM_MODEL, p->iid ? 0 : client);
    if (!p->iid) {
        u = p->alpha * fli_rng_normal(&r);
        mean = p->beta * fli_rng_normal(&r);
    }
    for (size_t i = 0; i < m->features * m->classes + m->classes; i++) m->w[i] = u + fli_rng_normal(&r);
    for (size_t j = 0; j < m->features; j++) m->v[j] = p->iid ? 0 : mean + fli_rng_normal(&r);
}

/* arg max (W' x + b); the first one on ties. */
static int32_t classify(const model *m, const float *x)
{
    size_t best = 0;
    double top = -INFINITY;
    for (size_t k = 0; k < m->classes; k++) {
        const double *w = m->w + k * m->features;
        double z = m->b[k];
        for (size_t j = 0; j < m->features; j++) z += w[j] * x[j];
        if (z > top) {
            top = z;
            best = k;
        }
    }
    return (int32_t)best;
}

/* Draws n samples of a client into rows of a data set. */
static void fill(const synthetic_params *p, uint64_t seed, uint32_t client, size_t n, model *m, float *x,
                 int32_t *label)
{
    fli_rng r;
    model_draw(p, seed, client, m);
    fli_rng_init(&r, seed, FLI_RNG_DATA, ITEM_SAMPLES, client);
    for (size_t s = 0; s < n; s++, x += m->features) {
        for (size_t j = 0; j < m->features; j++) x[j] = (float)(m->v[j] + m->sd[j] * fli_rng_normal(&r));
        label[s] = classify(m, x);
    }
}

static size_t clients(const void *params) { return (size_t)((const synthetic_params *)params)->clients; }

static size_t client_size(const void *params, uint64_t seed, uint32_t client)
{
    const synthetic_params *p = params;
    fli_rng r;
    if (p->sizes == SIZES_FIXED) return (size_t)p->size;
    fli_rng_init(&r, seed, FLI_RNG_DATA, ITEM_SIZE, client);
    double size = floor(exp(p->size_mean + p->size_sigma * fli_rng_normal(&r))) + (double)p->min_size;
    return size < (double)p->max_size ? (size_t)size : (size_t)p->max_size;
}

static fl_status client(fl_ctx *ctx, const void *params, uint64_t seed, uint32_t k, fli_dataset **out)
{
    const synthetic_params *p = params;
    size_t n = client_size(p, seed, k);
    model m;
    fl_status s = model_init(ctx, p, &m);
    if (s) return s;
    s = fli_dataset_new(ctx, FLI_X_F32, n, m.features, m.classes, out);
    if (!s) fill(p, seed, k, n, &m, (*out)->x, (*out)->label);
    model_fini(&m);
    return s;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const synthetic_params *p = request->params;
    uint64_t seed = request->seed;
    uint32_t count = (uint32_t)p->clients;
    size_t total = 0, features = (size_t)p->features;
    model m;
    (void)test;
    for (uint32_t k = 0; k < count; k++) total += client_size(p, seed, k);
    if (total >= UINT32_MAX)
        return fli_fail(ctx, FL_ECONFIG,
                        "data synthetic: %u clients have %zu samples in all, too many to be kept at once; "
                        "make them on demand",
                        count, total);
    fl_status s = model_init(ctx, p, &m);
    if (s) return s;
    fli_dataset *ds = NULL;
    s = fli_dataset_new(ctx, FLI_X_F32, total, features, m.classes, &ds);
    if (!s && !(ds->group = fli_alloc(ctx, total, sizeof *ds->group))) s = FL_ENOMEM;
    if (s) goto done;
    ds->groups = count;
    size_t row = 0;
    for (uint32_t k = 0; k < count; k++) {
        size_t n = client_size(p, seed, k);
        fill(p, seed, k, n, &m, (float *)ds->x + row * features, ds->label + row);
        for (size_t end = row + n; row < end; row++) ds->group[row] = (int32_t)k;
    }
    *train = ds;
    ds = NULL;
done:
    fli_dataset_free(ds);
    model_fini(&m);
    return s;
}

const fli_source fli_source_synthetic = {
    .name = "synthetic",
    .title = "synthetic(alpha, beta): clients that differ in model and inputs; can be made on demand",
    .citation =
        "Li et al.: Federated optimization in heterogeneous networks (FedProx), MLSys 2020; Caldas et al.: LEAF, 2018",
    .keys = keys,
    .params_size = sizeof(synthetic_params),
    .load = load,
    .clients = clients,
    .client = client,
    .client_size = client_size,
};
