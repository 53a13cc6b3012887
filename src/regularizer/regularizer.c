/* What all regularisers have, and functions that several share. */
#include "regularizer/regularizer.h"

#include "base/user_registry.h"

double fli_regularizer_weak_convexity(const fl_regularizer *g, const void *params)
{
    if (!g || !g->weak_convexity) return 0;
    fli_registry_enter(g->traits);
    double m = g->weak_convexity(params);
    fli_registry_leave(g->traits);
    return m;
}

fl_status fli_regularizer_validate(fl_ctx *ctx, const fl_regularizer *g, const void *params, size_t n)
{
    fl_failure f = {{0}};
    if (!g || !g->validate) return FL_OK;
    fli_registry_enter(g->traits);
    int refused = fli_failed_by(g->validate(params, n, &f), &f);
    fli_registry_leave(g->traits);
    if (refused) fl_failed(&f, NULL);
    return refused ? fli_fail(ctx, FL_ECONFIG, "%s", f.text) : FL_OK;
}

double fli_regularizer_value(const fl_regularizer *g, const void *params, size_t n, const double *x)
{
    if (!g) return 0;
    fli_registry_enter(g->traits);
    double value = g->value(params, n, x);
    fli_registry_leave(g->traits);
    return value;
}

void fli_regularizer_prox(const fl_regularizer *g, const void *params, double eta, size_t n, double *x, double *work)
{
    if (!g) return;
    fli_registry_enter(g->traits);
    g->prox(params, eta, n, x, work);
    fli_registry_leave(g->traits);
}

double fli_norm_split(size_t n, const double *x, double *unit)
{
    double top = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs(x[i]) > top) top = fabs(x[i]);
    *unit = top > 0 && isfinite(top) ? ldexp(1, ilogb(top)) : 1;
    for (size_t i = 0; i < n; i++) sum += (x[i] / *unit) * (x[i] / *unit);
    return sqrt(sum);
}

double fli_finite_max(size_t n, const double *x)
{
    double top = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return NAN;
        if (x[i] > top) top = x[i];
    }
    return top;
}

/* Restores "no entry is larger than its parent" (entry i has children 2i+1 and 2i+2) below `i`. */
static void sift_down(double *heap, size_t n, size_t i)
{
    double moved = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= moved) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

double fli_simplex_threshold(size_t n, double *heap)
{
    double sum = 0, tau = -1;
    for (size_t i = n / 2; i-- > 0;) sift_down(heap, n, i);
    for (size_t taken = 1; n && heap[0] > tau; taken++) {
        sum += heap[0];
        tau = (sum - 1) / (double)taken;
        heap[0] = heap[--n];
        sift_down(heap, n, 0);
    }
    return tau;
}
