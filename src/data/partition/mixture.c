/* Label skew with given sizes, as in FedDyn: every client has a class distribution from Dirichlet(alpha) and a number
 * of slots, which it fills from that distribution.
 *
 * While slots are left, a random client with free slots draws a class and takes one sample of it. FedDyn draws again
 * when the class is used up, which may never end. Here the client's distribution is renormalised over the classes that
 * are left, which has the same effect. Sizes are n/N rounded down, or lognormal and scaled to add up to n. Samples
 * beyond the last slot belong to no client. */
#include "data/partition/partition.h"

#include <math.h>
#include <string.h>

typedef struct {
    double alpha, size_sigma;
} mixture_params;

static const fl_key keys[] = {
    FLI_KEY_REAL(mixture_params, alpha, "0.3", FLI_ABOVE_0, FLI_NO_MAX,
                 "concentration; small: few classes per client, large: all alike"),
    FLI_KEY_REAL(mixture_params, size_sigma, "0", 0, 10, "deviation of the logarithm of the sizes; 0: equal sizes"),
    FLI_KEY_END,
};

typedef struct {
    size_t clients;
    fli_by_class by;
    double *prior;    /* clients x classes */
    double *weight;   /* clients: relative sizes */
    size_t *slots;    /* clients: samples still to be drawn */
    uint32_t *active; /* clients with slots left */
    size_t *left;     /* classes: samples not taken */
} work;

static fl_status work_init(fl_ctx *ctx, const fli_dataset *ds, size_t clients, work *w)
{
    memset(w, 0, sizeof *w);
    w->clients = clients;
    fl_status s = fli_by_class_init(ctx, ds, &w->by);
    if (s) return s;
    w->prior = fli_alloc(ctx, clients, ds->classes * sizeof *w->prior);
    w->weight = fli_alloc(ctx, clients, sizeof *w->weight);
    w->slots = fli_alloc(ctx, clients, sizeof *w->slots);
    w->active = fli_alloc(ctx, clients, sizeof *w->active);
    w->left = fli_alloc(ctx, ds->classes, sizeof *w->left);
    return w->prior && w->weight && w->slots && w->active && w->left ? FL_OK : FL_ENOMEM;
}

static void work_fini(work *w)
{
    fli_by_class_fini(&w->by);
    fli_free(w->prior);
    fli_free(w->weight);
    fli_free(w->slots);
    fli_free(w->active);
    fli_free(w->left);
}

/* Draws sizes of at least 1 that add up to at most n. */
static void draw_sizes(work *w, double sigma, size_t n, fli_rng *r)
{
    double sum = 0;
    size_t total = 0, top = 0;
    for (size_t i = 0; i < w->clients; i++) {
        w->slots[i] = n / w->clients;
        if (sigma > 0) sum += w->weight[i] = exp(sigma * fli_rng_normal(r));
    }
    if (sigma <= 0) return;
    for (size_t i = 0; i < w->clients; i++) {
        size_t size = (size_t)(w->weight[i] / sum * (double)n);
        w->slots[i] = size ? size : 1;
        total += w->slots[i];
    }
    while (total > n) { /* raising the smallest to 1 took too many; the largest gives them back */
        for (size_t i = 0; i < w->clients; i++)
            if (w->slots[i] > w->slots[top]) top = i;
        size_t excess = total - n, spare = w->slots[top] - 1, cut = excess < (spare + 1) / 2 ? excess : (spare + 1) / 2;
        w->slots[top] -= cut;
        total -= cut;
    }
}

/* Draws a class from the prior, renormalised over the classes that are left. If the prior is 0 for all of these, their
 * numbers of samples decide. */
static size_t draw_class(const work *w, const double *prior, fli_rng *r)
{
    double mass = 0, remaining = 0;
    size_t last = 0;
    for (size_t k = 0; k < w->by.classes; k++) {
        if (!w->left[k]) continue;
        mass += prior[k];
        remaining += (double)w->left[k];
    }
    double u = fli_rng_uniform(r) * (mass > 0 ? mass : remaining);
    for (size_t k = 0; k < w->by.classes; k++) {
        double p = mass > 0 ? prior[k] : (double)w->left[k];
        if (!w->left[k] || p <= 0) continue;
        last = k;
        u -= p;
        if (u < 0) break;
    }
    return last;
}

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const mixture_params *p = params;
    fli_rng r;
    work w;
    fl_status s = work_init(ctx, ds, *clients, &w);
    if (s) goto done;
    fli_rng_init(&r, seed, FLI_RNG_PARTITION, 0, 0);
    fli_by_class_shuffle(&w.by, &r);
    draw_sizes(&w, p->size_sigma, ds->n, &r);
    for (size_t i = 0; i < w.clients; i++) {
        fli_rng_dirichlet(&r, p->alpha, ds->classes, w.prior + i * ds->classes);
        w.active[i] = (uint32_t)i;
    }
    for (size_t k = 0; k < ds->classes; k++) w.left[k] = w.by.start[k + 1] - w.by.start[k];
    for (size_t i = 0; i < ds->n; i++) owner[i] = FLI_NOBODY;
    for (size_t active = w.clients; active;) {
        size_t at = (size_t)fli_rng_below(&r, active), i = w.active[at];
        size_t k = draw_class(&w, w.prior + i * ds->classes, &r);
        owner[w.by.sample[w.by.start[k] + --w.left[k]]] = (uint32_t)i;
        if (!--w.slots[i]) w.active[at] = w.active[--active];
    }
done:
    work_fini(&w);
    return s;
}

const fli_partitioner fli_partitioner_mixture = {
    .name = "mixture",
    .title = "label skew with given sizes: each client draws its samples from a Dirichlet(alpha) mix of classes",
    .citation = "Acar et al.: Federated learning based on dynamic regularization (FedDyn), ICLR 2021",
    .keys = keys,
    .params_size = sizeof(mixture_params),
    .needs_labels = 1,
    .assign = assign,
};
