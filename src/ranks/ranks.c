#include "ranks/ranks.h"

#include "base/os.h"
#include "base/pool.h"

#include <string.h>

size_t fli_ranks_threads(const fl_ranks *r, size_t asked)
{
    if (asked || !fli_ranked(r)) return fli_pool_count(asked);
    if (r->processors) return r->processors;
    size_t share = fli_pool_count(0) / (r->neighbours ? r->neighbours : 1);
    return share ? share : 1;
}

static fl_status reached(fl_ctx *ctx, fl_status s)
{
    return s ? fli_fail(ctx, s, "the other processes of this run cannot be reached") : FL_OK;
}

fl_status fli_ranks_gather(fl_ctx *ctx, const fl_ranks *r, void *all, const size_t *at)
{
    return reached(ctx, r->gather(r->arg, all, at));
}

fl_status fli_ranks_add(fl_ctx *ctx, const fl_ranks *r, void *v, size_t n, size_t real)
{
    return n ? reached(ctx, r->add(r->arg, v, n, real)) : FL_OK;
}

fl_status fli_ranks_share(fl_ctx *ctx, const fl_ranks *r, uint32_t from, void *bytes, size_t n)
{
    if (!fli_ranked(r)) return FL_OK;
    size_t *at = fli_alloc(ctx, r->count + 1, sizeof *at);
    if (!at) return FL_ENOMEM;
    for (size_t i = 0; i <= r->count; i++) at[i] = i > from ? n : 0;
    fl_status s = fli_ranks_gather(ctx, r, bytes, at);
    fli_free(at);
    return s;
}

fl_status fli_ranks_most(fl_ctx *ctx, const fl_ranks *r, double *v, size_t n)
{
    if (!fli_ranked(r)) return FL_OK;
    double *all = fli_alloc(ctx, r->count, n * sizeof *all);
    size_t *at = fli_alloc(ctx, r->count + 1, sizeof *at);
    fl_status s = all && at ? FL_OK : FL_ENOMEM;
    if (!s) {
        for (size_t i = 0; i <= r->count; i++) at[i] = i * n * sizeof *all;
        memcpy(all + r->rank * n, v, n * sizeof *v);
        s = fli_ranks_gather(ctx, r, all, at);
    }
    for (size_t i = 0; !s && i < r->count * n; i++)
        if (all[i] > v[i % n]) v[i % n] = all[i];
    fli_free(all);
    fli_free(at);
    return s;
}

/* The lowest failed rank is found as a maximum: each failed rank contributes count - rank. */
fl_status fli_ranks_agree(fl_ctx *ctx, const fl_ranks *r, fl_status s)
{
    struct {
        int32_t status;
        char text[1020];
    } word = {.status = (int32_t)s};
    if (!fli_ranked(r)) return s;
    double lowest = s ? (double)(r->count - r->rank) : 0;
    fl_status status = fli_ranks_most(ctx, r, &lowest, 1);
    if (status || lowest == 0) return status;
    uint32_t who = r->count - (uint32_t)lowest;
    const char *text = fl_ctx_error(ctx);
    if (who == r->rank) memcpy(word.text, text, strnlen(text, sizeof word.text - 1));
    if ((status = fli_ranks_share(ctx, r, who, &word, sizeof word))) return status;
    if (who == r->rank) return s;
    fli_clear(ctx); /* its own sentence, if it failed, too */
    return fli_fail(ctx, (fl_status)word.status, "%s", word.text);
}

/* ==== timing =============================================================================================== */

static fl_status add_time(fli_timed_ranks *t, double begin, fl_status s)
{
    t->seconds += fli_clock_now() - begin;
    return s;
}

static fl_status gather(void *arg, void *all, const size_t *at)
{
    fli_timed_ranks *t = arg;
    double begin = fli_clock_now();
    return add_time(t, begin, t->table.gather(t->table.arg, all, at));
}

static fl_status add(void *arg, void *v, size_t n, size_t real)
{
    fli_timed_ranks *t = arg;
    double begin = fli_clock_now();
    return add_time(t, begin, t->table.add(t->table.arg, v, n, real));
}

static fl_status send(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n)
{
    const fli_timed_ranks *t = arg;
    return t->table.send(t->table.arg, to, number, bytes, n);
}

static fl_status expect(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark)
{
    const fli_timed_ranks *t = arg;
    return t->table.expect(t->table.arg, from, number, bytes, n, mark);
}

static fl_status arrived(void *arg, int wait, size_t *mark, int *there)
{
    fli_timed_ranks *t = arg;
    if (!wait) return t->table.arrived(t->table.arg, wait, mark, there);
    double begin = fli_clock_now();
    return add_time(t, begin, t->table.arrived(t->table.arg, wait, mark, there));
}

static fl_status flush(void *arg)
{
    fli_timed_ranks *t = arg;
    double begin = fli_clock_now();
    return add_time(t, begin, t->table.flush(t->table.arg));
}

void fli_timed_ranks_init(fli_timed_ranks *t, const fl_ranks *ranks, fl_ranks *out)
{
    *t = (fli_timed_ranks){.table = *ranks};
    *out = *ranks;
    if (!fli_ranked(ranks)) return;
    out->arg = t;
    out->gather = gather;
    out->add = add;
    out->send = send;
    out->expect = expect;
    out->arrived = arrived;
    out->flush = flush;
}
