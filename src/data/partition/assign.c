#include "data/partition/assign.h"

#include <string.h>

fl_status fli_by_class_init(fl_ctx *ctx, const fli_dataset *ds, fli_by_class *by)
{
    memset(by, 0, sizeof *by);
    by->classes = ds->classes;
    by->start = fli_alloc(ctx, ds->classes + 2, sizeof *by->start); /* one more than promised, for the cursor below */
    by->sample = fli_alloc(ctx, ds->n, sizeof *by->sample);
    if (!by->start || !by->sample) {
        fli_by_class_fini(by);
        return FL_ENOMEM;
    }
    /* Counting sort. Shifted by one place, the starts serve as cursors, and end up where they belong. */
    for (size_t s = 0; s < ds->n; s++) by->start[ds->label[s] + 2]++;
    for (size_t k = 0; k < ds->classes; k++) by->start[k + 2] += by->start[k + 1];
    for (size_t s = 0; s < ds->n; s++) by->sample[by->start[ds->label[s] + 1]++] = (uint32_t)s;
    return FL_OK;
}

void fli_by_class_fini(fli_by_class *by)
{
    fli_free(by->start);
    fli_free(by->sample);
    memset(by, 0, sizeof *by);
}

void fli_by_class_shuffle(fli_by_class *by, fli_rng *r)
{
    for (size_t k = 0; k < by->classes; k++)
        fli_rng_shuffle(r, by->start[k + 1] - by->start[k], by->sample + by->start[k]);
}

fl_status fli_min_size_check(fl_ctx *ctx, const char *name, size_t n, size_t clients, int64_t min_size)
{
    if ((uint64_t)min_size <= n / clients) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG,
                    "partition %s: %zu clients with min_size %lld need %.0f samples, but the data have %zu", name,
                    clients, (long long)min_size, (double)clients * (double)min_size, n);
}

fl_status fli_size_search_failed(fl_ctx *ctx, const fli_size_search *search)
{
    return fli_fail(
        ctx, FL_ECONFIG,
        "partition %s: none of %lld attempts with alpha %g gave all %zu clients min_size %lld samples, the best "
        "one left the smallest client with %zu; raise alpha or lower min_size or clients",
        search->name, (long long)search->retries, search->alpha, search->clients, (long long)search->min_size,
        search->best);
}
