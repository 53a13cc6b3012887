/* Label skew: each class is spread over the clients in proportions from a Dirichlet(alpha) distribution.
 *
 * Balanced as in NIID-Bench: a client that holds n/N samples or more gets none of the next class. NIID-Bench sets the
 * proportions of these clients to zero and renormalises the rest. The rest of a Dirichlet vector, renormalised, is
 * again Dirichlet(alpha), so this file draws proportions for the other clients only: the same distribution, without the
 * division by zero that tiny alphas lead to. Sizes are drawn again until every client has min_size samples. */
#include "data/partition/partition.h"

#include <string.h>

typedef struct {
    double alpha;
    int64_t min_size, retries;
} dirichlet_params;

static const fl_key keys[] = {
    FLI_KEY_REAL(dirichlet_params, alpha, "0.5", FLI_ABOVE_0, FLI_NO_MAX,
                 "concentration; small: few classes per client, large: all alike"),
    FLI_KEY_INT(dirichlet_params, min_size, "10", 1, 1e9,
                "draw again until every client has at least this many samples"),
    FLI_KEY_INT(dirichlet_params, retries, "1000", 1, 1e6, "give up after this many draws"),
    FLI_KEY_END,
};

typedef struct {
    size_t n, clients;
    fli_by_class by;
    uint32_t *count; /* classes x clients: samples of the class that go to the client */
    size_t *size;    /* clients */
    uint32_t *open;  /* clients with fewer than n/N samples */
    double *share;   /* of each open client in the current class */
} work;

static fl_status work_init(fl_ctx *ctx, const fli_dataset *ds, size_t clients, work *w)
{
    memset(w, 0, sizeof *w);
    w->n = ds->n;
    w->clients = clients;
    fl_status s = fli_by_class_init(ctx, ds, &w->by);
    if (s) return s;
    w->count = fli_alloc(ctx, ds->classes, clients * sizeof *w->count);
    w->size = fli_alloc(ctx, clients, sizeof *w->size);
    w->open = fli_alloc(ctx, clients, sizeof *w->open);
    w->share = fli_alloc(ctx, clients, sizeof *w->share);
    return w->count && w->size && w->open && w->share ? FL_OK : FL_ENOMEM;
}

static void work_fini(work *w)
{
    fli_by_class_fini(&w->by);
    fli_free(w->count);
    fli_free(w->size);
    fli_free(w->open);
    fli_free(w->share);
}

/* Deals `total` samples of class k to the open clients by w->share. The running sum is rounded down, so that the counts
 * add up. */
static void deal(work *w, size_t k, size_t total, size_t open)
{
    double sum = 0;
    size_t dealt = 0;
    for (size_t j = 0; j < open; j++) {
        sum += w->share[j];
        size_t upto = j + 1 == open ? total : (size_t)(sum * (double)total);
        if (upto > total) upto = total;
        w->count[k * w->clients + w->open[j]] = (uint32_t)(upto - dealt);
        w->size[w->open[j]] += upto - dealt;
        dealt = upto;
    }
}

/* Draws all counts; returns the size of the smallest client. */
static size_t draw(work *w, double alpha, fli_rng *r)
{
    memset(w->size, 0, w->clients * sizeof *w->size);
    memset(w->count, 0, w->by.classes * w->clients * sizeof *w->count);
    for (size_t k = 0; k < w->by.classes; k++) {
        size_t total = w->by.start[k + 1] - w->by.start[k], open = 0;
        if (!total) continue;
        for (size_t i = 0; i < w->clients; i++)
            if (w->size[i] * w->clients < w->n) w->open[open++] = (uint32_t)i; /* open > 0, because samples are left */
        fli_rng_dirichlet(r, alpha, open, w->share);
        deal(w, k, total, open);
    }
    size_t least = w->n;
    for (size_t i = 0; i < w->clients; i++)
        if (w->size[i] < least) least = w->size[i];
    return least;
}

static void hand_out(work *w, fli_rng *r, uint32_t *owner)
{
    fli_by_class_shuffle(&w->by, r);
    const uint32_t *next = w->by.sample, *count = w->count;
    for (size_t k = 0; k < w->by.classes; k++)
        for (size_t i = 0; i < w->clients; i++)
            for (uint32_t left = *count++; left; left--) owner[*next++] = (uint32_t)i;
}

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const dirichlet_params *p = params;
    fli_size_search search = {"dirichlet", p->alpha, p->min_size, p->retries, *clients, 0};
    work w;
    fl_status s = fli_min_size_check(ctx, "dirichlet", ds->n, *clients, p->min_size);
    if (s) return s;
    s = work_init(ctx, ds, *clients, &w);
    if (s) goto done;
    for (int64_t attempt = 0; attempt < p->retries; attempt++) {
        fli_rng r;
        fli_rng_init(&r, seed, FLI_RNG_PARTITION, (uint32_t)attempt, 0);
        size_t least = draw(&w, p->alpha, &r);
        if (least > search.best) search.best = least;
        if (least < (uint64_t)p->min_size) continue;
        hand_out(&w, &r, owner);
        goto done;
    }
    s = fli_size_search_failed(ctx, &search);
done:
    work_fini(&w);
    return s;
}

const fli_partitioner fli_partitioner_dirichlet = {
    .name = "dirichlet",
    .title = "label skew: each class spread by Dirichlet(alpha) over the clients, with a minimum size",
    .citation = "Li, Diao, Chen, He: Federated learning on non-IID data silos (NIID-Bench), ICDE 2022",
    .keys = keys,
    .params_size = sizeof(dirichlet_params),
    .needs_labels = 1,
    .assign = assign,
};
