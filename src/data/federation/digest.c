#include "data/federation/digest.h"

#include <string.h>

static void add_real(fli_hash *h, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    fli_hash_count(h, bits);
}

static void add_values(fli_hash *h, const fli_dataset *ds, size_t i)
{
    size_t size = fli_xkind_size(ds->kind);
    if (!ds->dim) { /* its number is all that is known of it */
        fli_hash_count(h, i);
        return;
    }
    if (!fli_dataset_sparse(ds)) {
        size_t length = fli_dataset_length(ds);
        fli_hash_bytes(h, (const char *)ds->x + i * length * size, length * size);
        return;
    }
    size_t from = ds->row[i], n = ds->row[i + 1] - from;
    fli_hash_count(h, n);
    fli_hash_bytes(h, ds->col + from, n * sizeof *ds->col);
    fli_hash_bytes(h, (const char *)ds->x + from * size, n * size);
}

static void add_sample(fli_hash *h, const fli_dataset *ds, size_t i)
{
    add_values(h, ds, i);
    if (ds->label)
        fli_hash_count(h, (uint64_t)(int64_t)ds->label[i]);
    else if (ds->target)
        add_real(h, ds->target[i]);
}

/* `truth`, unless NULL, knows the labels that were taken away: some metrics look at them. */
static void add_samples(fli_hash *h, const fli_dataset *ds, const uint32_t *index, size_t n, const fli_fed *truth)
{
    fli_hash_count(h, n);
    for (size_t k = 0; k < n; k++) {
        add_sample(h, ds, index[k]);
        if (truth) fli_hash_count(h, (uint64_t)(int64_t)fli_fed_truth(truth, index[k]));
    }
}

static void add_kind(fli_hash *h, const fli_dataset *ds)
{
    fli_hash_count(h, (uint64_t)ds->kind);
    fli_hash_count(h, ds->dim);
    fli_hash_count(h, ds->classes);
    for (int k = 0; k < 3; k++) fli_hash_count(h, ds->shape[k]);
    for (int k = 0; k < 2 && ds->frame[k]; k++) fli_hash_count(h, ds->frame[k]);
    if (ds->each) fli_hash_count(h, UINT64_MAX);
}

fl_status fli_digest_client(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_digest *out)
{
    fli_view v;
    fli_hash h;
    fl_status s = fli_view_open(ctx, fed, client, &v);
    if (s) return s;
    fli_hash_init(&h);
    add_kind(&h, v.ds);
    add_samples(&h, v.ds, v.train, v.n_train, NULL);
    add_samples(&h, v.ds, v.unlabelled, v.n_unlabelled, fed->truth ? fed : NULL);
    add_samples(&h, v.ds, v.test, v.n_test, NULL);
    *out = fli_hash_end(&h);
    fli_view_close(&v);
    return FL_OK;
}

/* Statistics of all samples, also of those that nobody holds. */
static void add_scaling(fli_hash *h, const fli_dataset *ds)
{
    size_t n = ds->scale ? fli_dataset_sparse(ds) ? ds->dim : ds->segments : 0;
    fli_hash_count(h, n);
    for (size_t k = 0; k < n; k++) {
        add_real(h, ds->scale[k]);
        add_real(h, ds->shift ? ds->shift[k] : 0);
    }
}

fl_status fli_digest_fed(fl_ctx *ctx, const fli_fed *fed, fli_digest *out)
{
    fl_status s = FL_OK;
    fli_hash h;
    fli_digest part;
    fli_hash_init(&h);
    fli_hash_count(&h, fed->clients);
    fli_hash_count(&h, fed->samples);
    fli_hash_count(&h, fed->dim);
    fli_hash_count(&h, fed->classes);
    for (size_t i = 0; i < fed->clients && fed->train && !s; i++) {
        if (!(s = fli_digest_client(ctx, fed, i, &part))) fli_hash_bytes(&h, part.byte, sizeof part.byte);
    }
    if (!s && fed->train) add_scaling(&h, fed->train);
    for (size_t i = 0; i < fed->clients && fed->weight && !s; i++) add_real(&h, fed->weight[i]);
    if (!s && fed->test) {
        add_kind(&h, fed->test);
        for (size_t i = 0; i < fed->test->n; i++) add_sample(&h, fed->test, i);
    }
    if (!s) *out = fli_hash_end(&h);
    return s;
}
