/* Wolfe's method: S is the set of corners in use, h the best weights on S, all positive. While a corner outside S has a
 * smaller derivative than those inside, it joins S, and h moves towards the best weights on the affine hull of S. If
 * that path leaves the simplex, h stops at the border, and the corners whose weight became zero leave S. The value
 * decreases with every S, so no S comes back: after finitely many steps, in practice a few more than the number of
 * corners with positive weight, h is exact up to rounding.
 *
 * On the affine hull h = e_0 + sum_i a_i (e_i - e_0), with the corners of S numbered from 0, and
 *     A a = b,  A_ij = (w_i - w_0)'(w_j - w_0),  b_i = (w_i - w_0)'(d - w_0),
 * which does not depend on the origin. A ridge at the level of rounding keeps A regular if the corners are not in
 * general position.
 *
 * Wolfe: Finding the nearest point in a polytope, Mathematical Programming 11, 1976. */
#include "model/simplex_lsq.h"

#include <math.h>
#include <string.h>

typedef struct {
    size_t k, n; /* corners, those in S */
    const double *gram, *c;
    double *h;
    double *a;    /* n-1 x n-1: A, then its Cholesky factor */
    double *best; /* n: weights on S */
    double *in;   /* n: the corners in S; their numbers are exact in a double */
} hull;

static size_t corner(const hull *q, size_t i) { return (size_t)q->in[i]; }

/* Fills A and b, relative to the first corner of S; b is best[1 ..]. */
static void fill_system(hull *q)
{
    size_t first = corner(q, 0), n = q->n - 1;
    const double *row0 = q->gram + first * q->k;
    for (size_t i = 0; i < n; i++) {
        size_t s = corner(q, i + 1);
        const double *row = q->gram + s * q->k;
        for (size_t j = 0; j <= i; j++) {
            size_t t = corner(q, j + 1);
            q->a[i * n + j] = (row[t] - row[first]) - (row0[t] - row0[first]);
        }
        q->best[i + 1] = (q->c[s] - q->c[first]) - (row0[s] - row0[first]);
    }
}

/* Replaces A by its Cholesky factor. */
static void factor(size_t n, double *a)
{
    double top = 0;
    for (size_t i = 0; i < n; i++) top = fmax(top, a[i * n + i]);
    double ridge = 1e-14 * top;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            double v = a[i * n + j] + (i == j ? ridge : 0);
            for (size_t l = 0; l < j; l++) v -= a[i * n + l] * a[j * n + l];
            a[i * n + j] = i == j ? sqrt(v > ridge ? v : ridge > 0 ? ridge : 1) : v / a[j * n + j];
        }
}

/* q->best = the best weights on the affine hull of S. */
static void best_weights(hull *q)
{
    size_t n = q->n - 1;
    double *b = q->best + 1, sum = 0;
    fill_system(q);
    factor(n, q->a);
    for (size_t i = 0; i < n; i++) {
        for (size_t l = 0; l < i; l++) b[i] -= q->a[i * n + l] * b[l];
        b[i] /= q->a[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t l = i + 1; l < n; l++) b[i] -= q->a[l * n + i] * b[l];
        b[i] /= q->a[i * n + i];
        sum += b[i];
    }
    q->best[0] = 1 - sum;
}

/* Moves h to the best weights on S. If these are outside the simplex, h stops at the border, drops corners, and goes
 * on. */
static void settle(hull *q)
{
    for (;;) {
        double way = 1;
        size_t kept = 0;
        best_weights(q);
        for (size_t i = 0; i < q->n; i++) {
            double h = q->h[corner(q, i)];
            if (!(q->best[i] > 0)) way = fmin(way, h / (h - q->best[i]));
        }
        if (!(way >= 0)) way = 0; /* h and best are both 0 */
        int inside = way == 1;
        for (size_t i = 0; i < q->n; i++) {
            size_t s = corner(q, i);
            double h = q->h[s] + way * (q->best[i] - q->h[s]);
            int leaves = !inside && !(q->best[i] > 0) && !(h > 1e-15);
            q->h[s] = leaves ? 0 : h;
            if (!leaves) q->in[kept++] = (double)s;
        }
        if (inside || kept == q->n || kept < 2) {
            q->n = kept;
            break;
        }
        q->n = kept;
    }
    double sum = 0;
    for (size_t i = 0; i < q->n; i++) sum += q->h[corner(q, i)];
    for (size_t i = 0; i < q->n; i++) q->h[corner(q, i)] /= sum;
}

/* The nearest single corner. */
static size_t nearest_corner(const hull *q, double *scale)
{
    size_t best = 0;
    double least = INFINITY;
    *scale = 0;
    for (size_t i = 0; i < q->k; i++) {
        double square = q->gram[i * q->k + i], v = square / 2 - q->c[i];
        *scale = fmax(*scale, square + fabs(q->c[i]));
        if (v < least) {
            least = v;
            best = i;
        }
    }
    return best;
}

/* The corner outside S with the smallest derivative; k if none would help. */
static size_t next_corner(hull *q, double tolerance)
{
    double level = 0, least = INFINITY;
    size_t at = q->k;
    for (size_t i = 0; i < q->k; i++) {
        double v = -q->c[i];
        for (size_t j = 0; j < q->n; j++) v += q->gram[i * q->k + corner(q, j)] * q->h[corner(q, j)];
        level += q->h[i] * v;
        if (q->h[i] == 0 && v < least) {
            least = v;
            at = i;
        }
    }
    return least < level - tolerance ? at : q->k;
}

void fli_simplex_lsq_nearest(size_t k, const double *gram, const double *c, double *h, double *work)
{
    hull q = {.k = k, .n = 1, .gram = gram, .c = c, .h = h, .a = work, .best = work + k * k};
    double scale;
    q.in = q.best + k;
    memset(h, 0, k * sizeof *h);
    q.in[0] = (double)nearest_corner(&q, &scale);
    h[corner(&q, 0)] = 1;
    for (size_t step = 0; step < 4 * k; step++) { /* a limit, because rounding could make it cycle */
        size_t s = next_corner(&q, 1e-13 * scale);
        if (s == k) return;
        q.in[q.n++] = (double)s;
        settle(&q);
    }
}
