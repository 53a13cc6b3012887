/* What all regularisers have, and functions that several share. */
#include "regularizer/regularizer.h"

double fli_regularizer_weak_convexity(const fli_regularizer *g, const void *params)
{
    return g && g->weak_convexity ? g->weak_convexity(params) : 0;
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
