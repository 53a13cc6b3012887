/* Linear regression on mixed distributions, the data of FedGiA's Example V.1.
 *
 * Client i has d_i samples, uniform in min_size .. max_size. Features and target of a sample are drawn from N(0, 1),
 * from Student's t with 5 degrees of freedom, or from U(-5, 5); then all samples are shuffled over the clients. The
 * target does not depend on the features, so no model explains it: the least possible loss is far from 0.
 *
 * How many samples of each kind there are:
 *   thirds   a third of all
 *   blocks   as in the authors' program. All samples are normal at first. The clients are put in a random order; the
 *            first third is to become Student's, the second third uniform. But the block that starts where the j-th
 *            client of a third begins has the length of client j. So it reaches into the next client's samples or
 *            leaves some of its own, and later blocks overwrite earlier ones: about 0.41 of the samples stay normal,
 *            0.28 are Student's and 0.31 uniform. */
#include "data/source.h"

typedef struct {
    int64_t clients, features, min_size, max_size;
    int mix;
} linreg_params;

enum { THIRDS, BLOCKS };

static const fl_key keys[] = {
    FLI_KEY_INT(linreg_params, clients, "64", 1, 1e6, "number of clients"),
    FLI_KEY_INT(linreg_params, features, "100", 1, 1e6, "number of features"),
    FLI_KEY_INT(linreg_params, min_size, "50", 1, 1e6, "fewest samples of a client"),
    FLI_KEY_INT(linreg_params, max_size, "150", 1, 1e6, "most samples of a client"),
    FLI_KEY_CHOICE(
        linreg_params, mix, "thirds", "thirds|blocks",
        "shares of normal, Student's and uniform samples: a third each; or in blocks of the lengths of other "
        "clients, as in the authors' program: about 0.41, 0.28 and 0.31"),
    FLI_KEY_END,
};

enum { ITEM_SIZES, ITEM_ORDER, ITEM_SAMPLES, ITEM_BLOCKS };
enum { NORMAL, STUDENT, UNIFORM, KINDS };

static double draw(fli_rng *r, size_t kind)
{
    if (kind == NORMAL) return fli_rng_normal(r);
    if (kind == STUDENT) return fli_rng_student(r, 5);
    return fli_rng_range(r, -5, 5);
}

/* Draws the size of each client from one stream and, if `group`, sets each row's client. Returns the sum. */
static size_t draw_sizes(const linreg_params *p, uint64_t seed, int32_t *group)
{
    fli_rng r;
    size_t total = 0;
    fli_rng_init(&r, seed, FLI_RNG_DATA, ITEM_SIZES, 0);
    for (int64_t i = 0; i < p->clients; i++) {
        size_t size = (size_t)p->min_size + (size_t)fli_rng_below(&r, (uint64_t)(p->max_size - p->min_size) + 1);
        for (size_t k = 0; group && k < size; k++) group[total + k] = (int32_t)i;
        total += size;
    }
    return total;
}

static void kinds_in_thirds(size_t n, unsigned char *kind)
{
    for (size_t s = 0; s < n; s++) kind[s] = (unsigned char)(KINDS * s / n);
}

/* kind: all NORMAL at first. start: clients + 1; client: in random order. A block stops at the last sample. */
static void blocks(const size_t *start, const uint32_t *client, size_t clients, unsigned char *kind)
{
    size_t students = (clients + 2) / 3, upto = (2 * clients + 2) / 3;
    for (size_t j = 0; j < upto; j++) {
        int student = j < students;
        size_t other = student ? j : j - students, from = start[client[j]], length = start[other + 1] - start[other];
        for (size_t s = from; s < from + length && s < start[clients]; s++) kind[s] = student ? STUDENT : UNIFORM;
    }
}

static fl_status draw_blocks(fl_ctx *ctx, const fli_dataset *ds, uint64_t seed, unsigned char *kind)
{
    fli_rng r;
    fl_status s = FL_ENOMEM;
    size_t *start = fli_alloc(ctx, ds->groups + 1, sizeof *start);
    uint32_t *client = fli_alloc(ctx, ds->groups, sizeof *client);
    if (!start || !client) goto done;
    for (size_t i = 0; i < ds->n; i++) start[ds->group[i] + 1] = i + 1;
    fli_rng_init(&r, seed, FLI_RNG_DATA, ITEM_BLOCKS, 0);
    fli_rng_permutation(&r, ds->groups, client);
    blocks(start, client, ds->groups, kind);
    s = FL_OK;
done:
    fli_free(start);
    fli_free(client);
    return s;
}

static void fill(fli_dataset *ds, uint64_t seed, const unsigned char *kind, uint32_t *order)
{
    fli_rng r;
    fli_rng_init(&r, seed, FLI_RNG_DATA, ITEM_ORDER, 0);
    fli_rng_permutation(&r, ds->n, order);
    fli_rng_init(&r, seed, FLI_RNG_DATA, ITEM_SAMPLES, 0);
    for (size_t s = 0; s < ds->n; s++) {
        double *x = (double *)ds->x + order[s] * ds->dim;
        for (size_t j = 0; j < ds->dim; j++) x[j] = draw(&r, kind[s]);
        ds->target[order[s]] = draw(&r, kind[s]);
    }
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const linreg_params *p = request->params;
    uint64_t seed = request->seed;
    fli_dataset *ds = NULL;
    uint32_t *order = NULL;
    unsigned char *kind = NULL;
    (void)test;
    if (p->min_size > p->max_size)
        return fli_fail(ctx, FL_ECONFIG, "data linreg: min_size %lld is larger than max_size %lld",
                        (long long)p->min_size, (long long)p->max_size);
    size_t n = draw_sizes(p, seed, NULL);
    if (n >= UINT32_MAX)
        return fli_fail(ctx, FL_ECONFIG, "data linreg: %lld clients have %zu samples in all, which is too many",
                        (long long)p->clients, n);
    fl_status s = fli_dataset_new(ctx, FLI_X_F64, n, (size_t)p->features, 0, &ds);
    if (s) return s;
    order = fli_alloc(ctx, n, sizeof *order);
    kind = fli_alloc(ctx, n, sizeof *kind);
    ds->group = fli_alloc(ctx, n, sizeof *ds->group);
    if (!order || !kind || !ds->group) {
        s = FL_ENOMEM;
        goto done;
    }
    ds->groups = (size_t)p->clients;
    draw_sizes(p, seed, ds->group);
    if (p->mix == THIRDS)
        kinds_in_thirds(n, kind);
    else if ((s = draw_blocks(ctx, ds, seed, kind)))
        goto done;
    fill(ds, seed, kind, order);
    *train = ds;
    ds = NULL;
done:
    fli_free(kind);
    fli_free(order);
    fli_dataset_free(ds);
    return s;
}

const fli_source fli_source_linreg = {
    .name = "linreg",
    .title = "linear regression on a mix of normal, Student and uniform samples",
    .citation = "Zhou, Li: Efficient and convergent federated learning (FedGiA), Example V.1",
    .keys = keys,
    .params_size = sizeof(linreg_params),
    .load = load,
};
