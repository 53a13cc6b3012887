#include "data/partition/partition.h"

#include "base/file.h"

#include <string.h>

/* ==== from owners to lists ================================================================================== */

/* A counting sort by owner, so samples stay ascending within a client. */
static fl_status lists_of_owners(fl_ctx *ctx, const fli_partitioner *p, const uint32_t *owner, size_t n,
                                 fli_partition *out)
{
    size_t clients = out->clients, *start = fli_alloc(ctx, clients + 2, sizeof *start);
    if (!start) return FL_ENOMEM;
    out->start = start;
    for (size_t s = 0; s < n; s++)
        if (owner[s] != FLI_NOBODY) start[owner[s] + 2]++;
    for (size_t i = 0; i < clients; i++) {
        if (!start[i + 2])
            return fli_fail(ctx, FL_ECONFIG, "partition %s: client %zu of %zu gets none of the %zu samples", p->name, i,
                            clients, n);
        start[i + 2] += start[i + 1];
    }
    out->index = fli_alloc(ctx, start[clients + 1], sizeof *out->index);
    if (!out->index) return FL_ENOMEM;
    for (size_t s = 0; s < n; s++)
        if (owner[s] != FLI_NOBODY) out->index[start[owner[s] + 1]++] = (uint32_t)s;
    return FL_OK;
}

static fl_status check_request(fl_ctx *ctx, const fli_partitioner *p, const fli_dataset *ds, size_t clients)
{
    if (!ds->n) return fli_fail(ctx, FL_ECONFIG, "partition %s: there are no samples to give to clients", p->name);
    if (ds->n >= FLI_NOBODY)
        return fli_fail(ctx, FL_ECONFIG, "partition %s: %zu samples are too many, the limit is %u", p->name, ds->n,
                        FLI_NOBODY - 1);
    if (p->needs_labels && !ds->label)
        return fli_fail(ctx, FL_ECONFIG,
                        "partition %s divides by class, but the data have numbers as targets, not classes", p->name);
    if (!clients && !p->sets_clients)
        return fli_fail(ctx, FL_ECONFIG, "partition %s needs the number of clients", p->name);
    if (clients > ds->n)
        return fli_fail(ctx, FL_ECONFIG, "partition %s: %zu clients cannot share %zu samples: each needs at least one",
                        p->name, clients, ds->n);
    return FL_OK;
}

fl_status fli_partition_make(fl_ctx *ctx, const fli_partitioner *p, const void *params, const fli_dataset *ds,
                             uint64_t seed, size_t clients, fli_partition *out)
{
    memset(out, 0, sizeof *out);
    fl_status s = check_request(ctx, p, ds, clients);
    if (s) return s;
    uint32_t *owner = fli_alloc(ctx, ds->n, sizeof *owner);
    if (!owner) return FL_ENOMEM;
    s = p->assign(ctx, params, ds, seed, &clients, owner);
    if (s) goto done;
    out->clients = clients;
    s = lists_of_owners(ctx, p, owner, ds->n, out);
done:
    fli_free(owner);
    if (s) fli_partition_fini(out);
    return s;
}

void fli_partition_fini(fli_partition *p)
{
    fli_free(p->start);
    fli_free(p->index);
    memset(p, 0, sizeof *p);
}

fl_status fli_partition_write(fl_ctx *ctx, const fli_partition *p, const char *path)
{
    fli_writer out;
    fl_status s = fli_writer_open(ctx, path, &out);
    if (s) return s;
    fli_writer_text(&out, "{\"clients\": [");
    for (size_t i = 0; i < p->clients; i++) {
        fli_writer_text(&out, i ? ",\n[" : "\n[");
        for (size_t k = p->start[i]; k < p->start[i + 1]; k++)
            fli_writer_printf(&out, k > p->start[i] ? ",%u" : "%u", p->index[k]);
        fli_writer_text(&out, "]");
    }
    fli_writer_text(&out, "\n]}\n");
    return fli_writer_close(&out);
}

/* ==== for partitioners ====================================================================================== */

fl_status fli_by_class_init(fl_ctx *ctx, const fli_dataset *ds, fli_by_class *by)
{
    memset(by, 0, sizeof *by);
    by->classes = ds->classes;
    by->start = fli_alloc(ctx, ds->classes + 2, sizeof *by->start); /* one more than promised, for the counting sort */
    by->sample = fli_alloc(ctx, ds->n, sizeof *by->sample);
    if (!by->start || !by->sample) {
        fli_by_class_fini(by);
        return FL_ENOMEM;
    }
    /* Counting sort: shifted by one, the starts serve as cursors; afterwards start[k] is class k's first sample. */
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
