/* Lanczos' recurrence from a random vector, without reorthogonalisation: what it loses in orthogonality makes copies
 * of eigenvalues that it has found already, which does not disturb the extreme ones, and it needs three vectors
 * whatever the number of steps (Paige, 1971). Power iteration would need as many steps as here squared where the
 * largest eigenvalues are close together, as those of Gram matrices of noise are. */
#include "solver/lanczos.h"

#include <cblas.h>
#include <float.h>
#include <math.h>

enum {
    MOST = 240, /* products */
    EVERY = 8   /* the estimate is looked at after this many of them */
};

typedef struct {
    size_t size;
    double a[MOST], b[MOST]; /* diagonal; b[i] couples i and i+1 */
} tridiagonal;

/* Whether x exceeds all eigenvalues of sign * T: the pivots of sign T - x are then all negative. */
static int above(const tridiagonal *t, double sign, double x)
{
    double pivot = sign * t->a[0] - x;
    for (size_t i = 1; i < t->size && pivot < 0; i++) pivot = sign * t->a[i] - x - t->b[i - 1] * t->b[i - 1] / pivot;
    return pivot < 0;
}

/* The largest eigenvalue of sign * T by bisection, or anything below `least` if it is below: between `least` or the
 * largest diagonal entry, and Gershgorin's bound. */
static double largest_of(const tridiagonal *t, double sign, double least)
{
    double lo = least, hi = -INFINITY;
    for (size_t i = 0; i < t->size; i++) {
        double around = (i ? fabs(t->b[i - 1]) : 0) + (i + 1 < t->size ? fabs(t->b[i]) : 0);
        lo = fmax(lo, sign * t->a[i]);
        hi = fmax(hi, sign * t->a[i] + around);
    }
    for (size_t k = 0; k < 60 && hi - lo > 8 * DBL_EPSILON * fabs(hi); k++) {
        double middle = lo + (hi - lo) / 2;
        if (above(t, sign, middle))
            hi = middle;
        else
            lo = middle;
    }
    return hi;
}

/* w = M v - beta v_before, t gets its next row; returns ||w|| after the part along v is gone. */
static double advance(tridiagonal *t, size_t n, const double *v, const double *before, double *w)
{
    int k = (int)n;
    if (t->size) cblas_daxpy(k, -t->b[t->size - 1], before, 1, w, 1);
    t->a[t->size] = cblas_ddot(k, w, 1, v, 1);
    cblas_daxpy(k, -t->a[t->size], v, 1, w, 1);
    t->b[t->size] = cblas_dnrm2(k, w, 1);
    return t->b[t->size++];
}

/* T: its largest |eigenvalue|; NaN if an entry is not finite. `before`: the estimate so far. */
static double estimate(const tridiagonal *t, double before)
{
    for (size_t i = 0; i < t->size; i++)
        if (!isfinite(t->a[i]) || !isfinite(t->b[i])) return NAN;
    double up = fmax(before, largest_of(t, 1, before));
    return fmax(up, largest_of(t, -1, up));
}

static double iterate(size_t n, fli_product *product, void *arg, double tolerance, double *v, double *before, double *w)
{
    tridiagonal t = {0};
    double found = 0, scale = 0;
    while (t.size < MOST) {
        product(arg, v, w);
        double left = advance(&t, n, v, before, w);
        scale = fmax(scale, fmax(fabs(t.a[t.size - 1]), left));
        int over = !(left > 1e-14 * scale); /* the space of all directions reached is exhausted */
        if (over || t.size % EVERY == 0 || t.size == MOST) {
            double last = found;
            found = estimate(&t, last);
            if (over || !(found - last > tolerance * found)) break;
        }
        double *oldest = before;
        before = v;
        v = w;
        w = oldest;
        cblas_dscal((int)n, 1 / left, v, 1);
    }
    return found;
}

fl_status fli_lanczos(fl_ctx *ctx, size_t n, fli_product *product, void *arg, double tolerance, fli_rng *rng,
                      double *largest)
{
    double *memory = fli_alloc(ctx, 3 * n, sizeof *memory);
    if (!memory) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) memory[i] = fli_rng_normal(rng);
    cblas_dscal((int)n, 1 / cblas_dnrm2((int)n, memory, 1), memory, 1);
    *largest = iterate(n, product, arg, tolerance, memory, memory + n, memory + 2 * n);
    fli_free(memory);
    if (isfinite(*largest)) return FL_OK;
    return fli_fail(ctx, FL_EDIVERGED, "a client's Hessian has entries that are not finite");
}
