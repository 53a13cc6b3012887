#include "ranks/waits.h"

#include "base/clock.h"

static fl_status since(fli_waits *w, double begin, fl_status s)
{
    w->seconds += fli_clock_now() - begin;
    return s;
}

static fl_status gather(void *arg, void *all, const size_t *at)
{
    fli_waits *w = arg;
    double begin = fli_clock_now();
    return since(w, begin, w->table.gather(w->table.arg, all, at));
}

static fl_status add(void *arg, void *v, size_t n, size_t real)
{
    fli_waits *w = arg;
    double begin = fli_clock_now();
    return since(w, begin, w->table.add(w->table.arg, v, n, real));
}

static fl_status send(void *arg, uint32_t to, uint32_t number, const void *bytes, size_t n)
{
    const fli_waits *w = arg;
    return w->table.send(w->table.arg, to, number, bytes, n);
}

static fl_status expect(void *arg, uint32_t from, uint32_t number, void *bytes, size_t n, size_t mark)
{
    const fli_waits *w = arg;
    return w->table.expect(w->table.arg, from, number, bytes, n, mark);
}

static fl_status arrived(void *arg, int wait, size_t *mark, int *there)
{
    fli_waits *w = arg;
    if (!wait) return w->table.arrived(w->table.arg, wait, mark, there);
    double begin = fli_clock_now();
    return since(w, begin, w->table.arrived(w->table.arg, wait, mark, there));
}

static fl_status flush(void *arg)
{
    fli_waits *w = arg;
    double begin = fli_clock_now();
    return since(w, begin, w->table.flush(w->table.arg));
}

void fli_waits_init(fli_waits *w, const fl_ranks *ranks, fl_ranks *out)
{
    *w = (fli_waits){.table = *ranks};
    *out = *ranks;
    if (!fli_ranked(ranks)) return;
    out->arg = w;
    out->gather = gather;
    out->add = add;
    out->send = send;
    out->expect = expect;
    out->arrived = arrived;
    out->flush = flush;
}
