/* Label skew by number of labels: every client holds samples of k labels, #C = k in NIID-Bench. Client i holds label i
 * mod C and k - 1 other random ones of the C labels that have samples. The holders of a label share its samples
 * evenly. */
#include "data/partition/partition.h"

typedef struct {
    int64_t labels;
} labels_params;

static const fl_key keys[] = {
    FLI_KEY_INT(labels_params, labels, "2", 1, 1e6, "labels per client"),
    FLI_KEY_END,
};

/* Clients that hold label k: holder[start[k]] .. holder[start[k+1]-1], ascending. */
typedef struct {
    size_t *start;
    uint32_t *holder;
} holders;

/* Lists the labels that have samples; returns how many. */
static size_t list_used(const fli_by_class *by, uint32_t *used)
{
    size_t count = 0;
    for (size_t k = 0; k < by->classes; k++)
        if (by->start[k + 1] > by->start[k]) used[count++] = (uint32_t)k;
    return count;
}

/* held: clients x each. Draws the labels of every client from the `classes` labels in `used`. */
static void draw_labels(size_t clients, const uint32_t *used, size_t classes, size_t each, fli_rng *r, uint32_t *held)
{
    for (size_t i = 0; i < clients; i++, held += each) {
        uint32_t own = (uint32_t)(i % classes);
        held[0] = used[own];
        if (each == 1) continue;
        fli_rng_sample(r, classes - 1, each - 1, held + 1);
        for (size_t j = 1; j < each; j++) held[j] = used[held[j] + (held[j] >= own)]; /* drawn without `own` */
    }
}

static fl_status invert(fl_ctx *ctx, const uint32_t *held, size_t clients, size_t each, size_t classes, holders *h)
{
    size_t total = clients * each;
    h->start = fli_alloc(ctx, classes + 2, sizeof *h->start);
    h->holder = fli_alloc(ctx, total, sizeof *h->holder);
    if (!h->start || !h->holder) return FL_ENOMEM;
    for (size_t j = 0; j < total; j++) h->start[held[j] + 2]++;
    for (size_t k = 0; k < classes; k++) h->start[k + 2] += h->start[k + 1];
    for (size_t j = 0; j < total; j++) h->holder[h->start[held[j] + 1]++] = (uint32_t)(j / each);
    return FL_OK;
}

/* Assigns samples; returns how many have a label that no client holds. */
static size_t split(const fli_by_class *by, const holders *h, uint32_t *owner)
{
    size_t lost = 0;
    for (size_t k = 0; k < by->classes; k++) {
        size_t n = by->start[k + 1] - by->start[k], m = h->start[k + 1] - h->start[k];
        const uint32_t *sample = by->sample + by->start[k], *holder = h->holder + h->start[k];
        for (size_t j = 0; j < n; j++) owner[sample[j]] = m ? holder[j % m] : FLI_NOBODY;
        if (!m) lost += n;
    }
    return lost;
}

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const labels_params *p = params;
    size_t each = (size_t)p->labels;
    fli_by_class by = {0, NULL, NULL};
    holders h = {NULL, NULL};
    fli_rng r;
    uint32_t *used = fli_alloc(ctx, ds->classes, sizeof *used), *held = NULL;
    fl_status s = used ? fli_by_class_init(ctx, ds, &by) : FL_ENOMEM;
    if (s) goto done;
    size_t classes = list_used(&by, used);
    if (each > classes) {
        s = fli_fail(ctx, FL_ECONFIG, "partition labels: %zu labels per client are requested, but the data have %zu",
                     each, classes);
        goto done;
    }
    held = fli_alloc(ctx, *clients, each * sizeof *held);
    if (!held) {
        s = FL_ENOMEM;
        goto done;
    }
    fli_rng_init(&r, seed, FLI_RNG_PARTITION, 0, 0);
    draw_labels(*clients, used, classes, each, &r, held);
    s = invert(ctx, held, *clients, each, ds->classes, &h);
    if (s) goto done;
    fli_by_class_shuffle(&by, &r);
    size_t lost = split(&by, &h, owner);
    if (lost)
        fli_log(ctx, FL_LOG_WARNING, "partition labels: %zu of %zu samples are left out, no client holds their label",
                lost, ds->n);
done:
    fli_free(used);
    fli_free(held);
    fli_free(h.start);
    fli_free(h.holder);
    fli_by_class_fini(&by);
    return s;
}

const fli_partitioner fli_partitioner_labels = {
    .name = "labels",
    .title = "label skew: a fixed number of labels per client",
    .citation = "Li, Diao, Chen, He: Federated learning on non-IID data silos (NIID-Bench), ICDE 2022",
    .keys = keys,
    .params_size = sizeof(labels_params),
    .needs_labels = 1,
    .assign = assign,
};
