/* Every vector backend against plain loops in (long) double, at every level that this processor can run. A new one is
 * tested by being listed. */
#include "check.h"

#include "base/rng.h"
#include "vec/kernels.h"

#include <cblas.h>
#include <float.h>

enum { MOST_TABLES = 16, GUARD = 8 };
static const fli_ops *tables[MOST_TABLES + 1]; /* ends with NULL */

static const double guard_value = 12345;
static const size_t sizes[] = {0, 1, 3, 15, 16, 17, 31, 33, 1000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static double eps(const fli_ops *o) { return o->size == 4 ? FLT_EPSILON : DBL_EPSILON; }

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Normal numbers that are the same in every precision. */
static double *draw(uint32_t stream, size_t n)
{
    double *x = malloc((n + 1) * sizeof *x);
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, stream, 0);
    for (size_t i = 0; i < n; i++) x[i] = (double)(float)fli_rng_normal(&r);
    return x;
}

/* The backend's reals with a guard behind them. */
static void *reals(const fli_ops *o, size_t n, const double *x)
{
    double guard[GUARD];
    char *p = malloc((n + GUARD) * o->size);
    for (size_t i = 0; i < GUARD; i++) guard[i] = guard_value;
    o->from_f64(n, x, p);
    o->from_f64(GUARD, guard, p + n * o->size);
    return p;
}

static void check_guard(const fli_ops *o, size_t n, const void *p)
{
    double guard[GUARD];
    o->to_f64(GUARD, (const char *)p + n * o->size, guard);
    for (size_t i = 0; i < GUARD; i++) assert_true(guard[i] == guard_value);
}

/* got equals want up to `units` roundings of numbers of size 1 + |want|; NaN equals NaN; the guard is untouched. */
static void check(const fli_ops *o, const char *what, size_t n, const void *got, const double *want, double units)
{
    double *x = malloc((n + 1) * sizeof *x);
    o->to_f64(n, got, x);
    for (size_t i = 0; i < n; i++) {
        if (x[i] == want[i] || (isnan(x[i]) && isnan(want[i]))) continue;
        if (!(fabs(x[i] - want[i]) <= units * eps(o) * (1 + fabs(want[i]))))
            fail_msg("%s %s %s, n = %zu: [%zu] is %.17g, expected %.17g", o->level, o->name, what, n, i, x[i], want[i]);
    }
    check_guard(o, n, got);
    free(x);
}

/* ---- vectors ------------------------------------------------------------------------------------------- */

static void one_vector(const fli_ops *o, size_t n)
{
    double *x = draw(1, n), *y = draw(2, n), *want = malloc((n + 1) * sizeof *want);
    void *rx = reals(o, n, x), *ry = reals(o, n, y), *rz = reals(o, n, x);

    check(o, "from_f64", n, rx, x, 0);
    for (size_t i = 0; i < n; i++) want[i] = -2.5;
    o->fill(n, -2.5, rz);
    check(o, "fill", n, rz, want, 0);

    for (size_t i = 0; i < n; i++) want[i] = y[i] + 0.3 * x[i];
    o->from_f64(n, y, rz);
    o->axpy(n, 0.3, rx, rz);
    check(o, "axpy", n, rz, want, 4);

    for (size_t i = 0; i < n; i++) want[i] = 0.3 * x[i] - 1.7 * y[i];
    o->lin(n, 0.3, rx, -1.7, ry, rz);
    check(o, "lin", n, rz, want, 8);
    o->from_f64(n, x, rz);
    o->lin(n, 0.3, rz, -1.7, ry, rz);
    check(o, "lin into x", n, rz, want, 8);
    o->from_f64(n, y, rz);
    o->lin(n, 0.3, rx, -1.7, rz, rz);
    check(o, "lin into y", n, rz, want, 8);
    check(o, "lin keeps x", n, rx, x, 0);
    check(o, "lin keeps y", n, ry, y, 0);

    for (size_t i = 0; i < n; i++) want[i] = -0.7 * x[i];
    o->from_f64(n, x, rz);
    o->scale(n, -0.7, rz);
    check(o, "scale", n, rz, want, 4);

    long double sum = 0, size = 0;
    for (size_t i = 0; i < n; i++) sum += (long double)x[i] * y[i];
    for (size_t i = 0; i < n; i++) size += fabsl((long double)x[i] * y[i]);
    assert_near(o->dot(n, rx, ry), (double)sum,
                (double)size * DBL_EPSILON * (double)(n + 1)); /* double, also for f32 */

    free(x);
    free(y);
    free(want);
    free(rx);
    free(ry);
    free(rz);
}

static void vector_operations_match_plain_loops(void **state)
{
    (void)state;
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t i = 0; i < SIZES; i++) one_vector(o, sizes[i]);
}

/* fli_map_fn: (a, b) <- (a + f b, a b) */
static void mix(const void *arg, double *v)
{
    double a = v[0], b = v[1];
    v[0] = a + *(const double *)arg * b;
    v[1] = a * b;
}

/* Each entry by itself, in double, and written back rounded. */
static void maps_compute_each_entry_in_double(void **state)
{
    (void)state;
    const double f = 0.3;
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t k = 0; k < SIZES; k++) {
            size_t n = sizes[k];
            double *a = draw(3, n), *b = draw(4, n), *c = draw(5, n), *d = draw(6, n);
            void *x = reals(o, n, a), *y = reals(o, n, b);
            o->to_f64(n, x, a); /* as they are stored */
            o->to_f64(n, y, b);
            o->map(n, 2, (void *const[]){x, y}, mix, &f);
            o->to_f64(n, x, c);
            o->to_f64(n, y, d);
            for (size_t i = 0; i < n; i++) {
                double sum = a[i] + f * b[i], product = a[i] * b[i];
                assert_true(o->size == 4 ? c[i] == (float)sum && d[i] == (float)product
                                         : c[i] == sum && d[i] == product);
            }
            free(a);
            free(b);
            free(c);
            free(d);
            free(x);
            free(y);
        }
}

static void one_bad_number_is_found(void **state)
{
    (void)state;
    const double bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t k = 0; k < SIZES; k++) {
            size_t n = sizes[k];
            double *x = draw(3, n), top = o->size == 4 ? (double)FLT_MAX : DBL_MAX;
            if (n) x[n / 2] = top, x[n - 1] = -top;
            void *r = reals(o, n, x);
            assert_int_equal(o->finite(n, r), 1);
            for (size_t i = 0; i<n; i += n> 100 ? 37 : 1)
                for (size_t b = 0; b < 4; b++) {
                    o->from_f64(1, &bad[b], (char *)r + i * o->size);
                    assert_int_equal(o->finite(n, r), 0);
                    assert_int_equal(o->finite(i, r), 1); /* behind the end nothing counts */
                    o->from_f64(1, &x[i], (char *)r + i * o->size);
                }
            free(x);
            free(r);
        }
}

/* An infinity of each sign must not cancel. */
static void finiteness_opposite(void **state)
{
    (void)state;
    for (const fli_ops *const *p = tables, *o; (o = *p); p++) {
        double x[64] = {0};
        x[0] = INFINITY;
        x[32] = -INFINITY;
        void *r = reals(o, 64, x);
        assert_int_equal(o->finite(64, r), 0);
        free(r);
    }
}

static void sgd_combination(const fli_ops *o, size_t n, int which)
{
    double *z = draw(4, n), *g = draw(5, n), *shift = draw(6, n), *anchor = draw(7, n), *m = calloc(n + 1, sizeof *m);
    void *rz = reals(o, n, z), *rg = reals(o, n, g), *rs = reals(o, n, shift), *ra = reals(o, n, anchor),
         *rm = reals(o, n, m);
    fli_sgd_step step = {.lr = 0.125, .wd = 0.5, .rho = 0.25, .momentum = 0.75, .grad = rg};
    if (which & 4) step.shift = rs;
    if (which & 2) step.anchor = ra;
    if (which & 1) step.buffer = rm;
    for (int k = 0; k < 3; k++) {
        o->sgd(n, &step, rz);
        for (size_t i = 0; i < n; i++) {
            double d = g[i] + 0.5 * z[i];
            if (which & 4) d += shift[i];
            if (which & 2) d += 0.25 * (z[i] - anchor[i]);
            if (which & 1) d = m[i] = 0.75 * m[i] + d;
            z[i] -= 0.125 * d;
        }
    }
    check(o, "sgd", n, rz, z, 40);
    check(o, "sgd momentum", n, rm, m, 40);
    check(o, "sgd gradient", n, rg, g, 0);
    check(o, "sgd shift", n, rs, shift, 0);
    check(o, "sgd anchor", n, ra, anchor, 0);
    free(z), free(g), free(shift), free(anchor), free(m);
    free(rz), free(rg), free(rs), free(ra), free(rm);
}

static void sgd_steps_match_the_formula(void **state)
{
    (void)state;
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t i = 0; i < SIZES; i++)
            for (int which = 0; which < 8; which++) sgd_combination(o, sizes[i], which);
}

/* ---- dense algebra ------------------------------------------------------------------------------------- */

/* Element (i, j) of op(A). */
static double element(const double *a, size_t ld, int transposed, size_t i, size_t j)
{
    return transposed ? a[j * ld + i] : a[i * ld + j];
}

static void gemm_case(const fli_ops *o, int ta, int tb, size_t m, size_t n, size_t k, double beta, size_t pad)
{
    size_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
    size_t na = (ta ? k : m) * lda, nb = (tb ? n : k) * ldb, nc = m * ldc;
    double *a = draw(8, na), *b = draw(9, nb), *c = draw(10, nc), *want = malloc((nc + 1) * sizeof *want);
    for (size_t i = 0; i < m && beta == 0; i++)
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = NAN; /* must be overwritten, not multiplied by 0 */
    memcpy(want, c, nc * sizeof *c);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t t = 0; t < k; t++) sum += element(a, lda, ta, i, t) * element(b, ldb, tb, t, j);
            want[i * ldc + j] = 0.5 * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
        }
    void *ra = reals(o, na, a), *rb = reals(o, nb, b), *rc = reals(o, nc, c);
    o->gemm(ta, tb, m, n, k, 0.5, ra, lda, rb, ldb, beta, rc, ldc);
    check(o, "gemm", nc, rc, want, 20 * (double)(k + 1));
    check(o, "gemm A", na, ra, a, 0);
    check(o, "gemm B", nb, rb, b, 0);
    free(a), free(b), free(c), free(want), free(ra), free(rb), free(rc);
}

static void matrix_products_match_plain_loops(void **state)
{
    (void)state;
    static const size_t shape[][3] = {{1, 1, 1},   {3, 5, 2},    {1, 17, 33}, {31, 1, 16},
                                      {16, 15, 1}, {33, 17, 31}, {70, 65, 40}};
    static const double beta[] = {0, 1, -0.5};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (int t = 0; t < 4; t++)
            for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
                for (size_t b = 0; b < 3; b++)
                    for (size_t pad = 0; pad < 6; pad += 5)
                        gemm_case(o, t & 1, t >> 1, shape[s][0], shape[s][1], shape[s][2], beta[b], pad);
}

static void gemv_case(const fli_ops *o, int ta, size_t m, size_t n, double beta, size_t pad)
{
    size_t lda = n + pad, in = ta ? m : n, out = ta ? n : m;
    double *a = draw(11, m * lda), *x = draw(12, in), *y = draw(13, out), *want = malloc((out + 1) * sizeof *want);
    for (size_t i = 0; i < out && beta == 0; i++) y[i] = NAN;
    for (size_t i = 0; i < out; i++) {
        double sum = 0;
        for (size_t t = 0; t < in; t++) sum += element(a, lda, ta, i, t) * x[t];
        want[i] = 0.5 * sum + (beta == 0 ? 0 : beta * y[i]);
    }
    void *ra = reals(o, m * lda, a), *rx = reals(o, in, x), *ry = reals(o, out, y);
    o->gemv(ta, m, n, 0.5, ra, lda, rx, beta, ry);
    check(o, "gemv", out, ry, want, 20 * (double)(in + 1));
    free(a), free(x), free(y), free(want), free(ra), free(rx), free(ry);
}

static void matrix_vector_products_match_plain_loops(void **state)
{
    (void)state;
    static const size_t size[] = {1, 3, 16, 33, 200};
    static const double beta[] = {0, 1, -0.5};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (int t = 0; t < 2; t++)
            for (size_t i = 0; i < 5; i++)
                for (size_t j = 0; j < 5; j++)
                    for (size_t b = 0; b < 3; b++)
                        for (size_t pad = 0; pad < 4; pad += 3) gemv_case(o, t, size[i], size[j], beta[b], pad);
}

/* ---- sparse algebra ------------------------------------------------------------------------------------ */

/* A stored matrix with about a third of its cells, one empty row, and rows chosen out of order and twice. */
static void csr_case(const fli_ops *o, size_t dim, size_t outs, int scaled, int wide)
{
    enum { STORED = 7, ROWS = 6 };
    static const uint32_t idx[ROWS] = {5, 0, 2, 2, 6, 1};
    size_t row[STORED + 1] = {0}, k = 0;
    double *cell = draw(23, STORED * dim), *scale = draw(24, dim), *w = draw(25, outs * dim),
           *d = draw(26, ROWS * outs);
    uint32_t *col = malloc((STORED * dim + 1) * sizeof *col);
    float *value = malloc((STORED * dim + 1) * sizeof *value);
    double *wide_value = malloc((STORED * dim + 1) * sizeof *wide_value);
    for (size_t i = 0; i < STORED; i++) {
        for (size_t j = 0; j < dim; j++) {
            if ((i + j * 5) % 3 || i == 2) cell[i * dim + j] = 0;
            if (cell[i * dim + j] == 0) continue;
            if (wide) cell[i * dim + j] += 1e-10; /* what a float cannot say */
            value[k] = (float)cell[i * dim + j];
            wide_value[k] = cell[i * dim + j];
            col[k++] = (uint32_t)j;
            if (scaled) cell[i * dim + j] *= scale[j];
        }
        row[i + 1] = k;
    }
    double *z = calloc(ROWS * outs + 1, sizeof *z), *g = calloc(outs * dim + 1, sizeof *g);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < outs; c++)
            for (size_t j = 0; j < dim; j++) {
                z[r * outs + c] += cell[idx[r] * dim + j] * w[c * dim + j];
                g[c * dim + j] += 0.5 * d[r * outs + c] * cell[idx[r] * dim + j];
            }
    double *nan = malloc((outs * (dim + ROWS) + 1) * sizeof *nan);
    for (size_t i = 0; i < outs * (dim + ROWS); i++) nan[i] = NAN; /* must be overwritten */
    fli_csr a = {row, col, wide ? (void *)wide_value : value, idx, scaled ? scale : NULL, wide};
    void *rw = reals(o, outs * dim, w), *rd = reals(o, ROWS * outs, d);
    void *rz = reals(o, ROWS * outs, nan), *rg = reals(o, outs * dim, nan);
    o->csr_mul(ROWS, dim, outs, &a, rw, rz);
    check(o, "csr_mul", ROWS * outs, rz, z, 20 * (double)(dim + 1));
    o->csr_tmul(ROWS, dim, outs, 0.5, &a, rd, rg);
    check(o, "csr_tmul", outs * dim, rg, g, 20 * (ROWS + 1));
    o->csr_tmul(0, dim, outs, 0.5, &a, rd, rg);
    memset(g, 0, outs * dim * sizeof *g);
    check(o, "csr_tmul of nothing", outs * dim, rg, g, 0);
    free(cell), free(scale), free(w), free(d), free(col), free(value), free(wide_value), free(z), free(g), free(nan);
    free(rw), free(rd), free(rz), free(rg);
}

static void sparse_products_match_plain_loops(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 3, 16, 33, 200};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t i = 0; i < 5; i++)
            for (size_t outs = 1; outs < 12; outs += 5)
                for (int how = 0; how < 4; how++) csr_case(o, dims[i], outs, how % 2, how / 2);
}

/* ---- networks ------------------------------------------------------------------------------------------ */

static void bias_case(const fli_ops *o, size_t rows, size_t cols)
{
    size_t n = rows * cols;
    double *z = draw(14, n), *bias = draw(15, cols), *want = malloc((n + cols + 1) * sizeof *want);
    if (n > 2) z[1] = NAN, z[n - 1] = -INFINITY;
    void *rz = reals(o, n, z), *rb = reals(o, cols, bias);
    for (size_t i = 0; i < n; i++) want[i] = z[i] + bias[i % cols];
    o->add_bias(rows, cols, rb, rz);
    check(o, "add_bias", n, rz, want, 4);

    for (size_t i = 0; i < n; i++) want[i] = isnan(want[i]) ? NAN : fmax(0, want[i]); /* a NaN stays */
    o->from_f64(n, z, rz);
    o->add_bias_relu(rows, cols, rb, rz);
    check(o, "add_bias_relu", n, rz, want, 4);

    double *h = draw(16, n), *d = draw(17, n);
    for (size_t i = 0; i < n; i += 3) h[i] = 0;
    void *rh = reals(o, n, h), *rd = reals(o, n, d);
    for (size_t i = 0; i < n; i++) want[i] = h[i] > 0 ? d[i] : 0;
    o->relu_mask(n, rh, rd);
    check(o, "relu_mask", n, rd, want, 0);

    for (size_t c = 0; c < cols; c++) {
        want[c] = 0;
        for (size_t r = 0; r < rows; r++) want[c] += d[r * cols + c];
    }
    double *sum = draw(18, cols);
    void *rs = reals(o, cols, sum);
    o->from_f64(n, d, rd);
    o->col_sum(rows, cols, rd, rs);
    check(o, "col_sum", cols, rs, want, 4 * (double)(rows + 1));
    free(z), free(bias), free(want), free(h), free(d), free(sum);
    free(rz), free(rb), free(rh), free(rd), free(rs);
}

static void bias_and_relu_match_plain_loops(void **state)
{
    (void)state;
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t rows = 0; rows < 5; rows += 2)
            for (size_t i = 1; i < SIZES; i++) bias_case(o, rows, sizes[i]);
}

/* ---- a fully connected layer ----------------------------------------------------------------------------- */

/* A layer, its samples, the error at its output; w: weights, then biases. */
typedef struct {
    size_t n, in, out;
    double *x, *w, *d;
    void *rx, *rw, *rd;
} connected;

static connected connected_of(const fli_ops *o, size_t n, size_t in, size_t out)
{
    connected c = {n, in, out, draw(20, n * in), draw(21, in * out + out), draw(22, n * out), NULL, NULL, NULL};
    for (size_t i = 0; i < n * in; i += 3) c.x[i] = 0; /* where ReLU has cut */
    c.rx = reals(o, n * in, c.x);
    c.rw = reals(o, in * out + out, c.w);
    c.rd = reals(o, n * out, c.d);
    return c;
}

static void connected_free(connected *c)
{
    free(c->x), free(c->w), free(c->d);
    free(c->rx), free(c->rw), free(c->rd);
}

static void connected_forward(const fli_ops *o, const connected *c, int relu)
{
    size_t size = c->n * c->out;
    double *want = draw(23, size);
    void *got = reals(o, size, want);
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < c->out; j++) {
            double sum = c->w[c->in * c->out + j];
            for (size_t t = 0; t < c->in; t++) sum += c->x[i * c->in + t] * c->w[j * c->in + t];
            want[i * c->out + j] = relu && sum < 0 ? 0 : sum;
        }
    o->layer(c->n, c->in, c->out, c->rx, c->rw, relu, got);
    check(o, "layer", size, got, want, 4 * (double)(c->in + 4));
    free(want), free(got);
}

static void connected_back(const fli_ops *o, const connected *c)
{
    size_t size = c->n * c->in;
    double *want = draw(23, size);
    void *got = reals(o, size, want);
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < c->in; j++) {
            double sum = 0;
            for (size_t t = 0; t < c->out; t++) sum += c->d[i * c->out + t] * c->w[t * c->in + j];
            want[i * c->in + j] = c->x[i * c->in + j] > 0 ? sum : 0;
        }
    o->layer_back(c->n, c->in, c->out, c->rd, c->rw, c->rx, got);
    check(o, "layer_back", size, got, want, 4 * (double)(c->out + 4));
    free(want), free(got);
}

static double *connected_gradient(const connected *c)
{
    size_t weights = c->in * c->out;
    double *g = draw(23, weights + c->out);
    for (size_t j = 0; j < c->out; j++)
        for (size_t t = 0; t <= c->in; t++) { /* t = in: the bias */
            double sum = 0;
            for (size_t i = 0; i < c->n; i++) sum += c->d[i * c->out + j] * (t < c->in ? c->x[i * c->in + t] : 1);
            g[t < c->in ? j * c->in + t : weights + j] = sum;
        }
    return g;
}

/* All combinations of terms, as for sgd above; two steps. */
static void connected_step(const fli_ops *o, const connected *c, const double *g, int which)
{
    size_t size = c->in * c->out + c->out;
    double *z = draw(24, size), *shift = draw(25, size), *anchor = draw(26, size), *m = draw(27, size);
    void *rz = reals(o, size, z), *rs = reals(o, size, shift), *ra = reals(o, size, anchor), *rm = reals(o, size, m);
    void *room = reals(o, size, z);
    fli_sgd_step step = {.lr = 0.125, .wd = 0.5, .rho = 0.25, .momentum = 0.75};
    if (which & 4) step.shift = rs;
    if (which & 2) step.anchor = ra;
    if (which & 1) step.buffer = rm;
    for (int k = 0; k < 2; k++) {
        o->layer_step(c->n, c->in, c->out, c->rd, c->rx, &step, room, rz);
        for (size_t i = 0; i < size; i++) {
            double d = g[i] + 0.5 * z[i];
            if (which & 4) d += shift[i];
            if (which & 2) d += 0.25 * (z[i] - anchor[i]);
            if (which & 1) d = m[i] = 0.75 * m[i] + d;
            z[i] -= 0.125 * d;
        }
    }
    check(o, "layer_step", size, rz, z, 4 * (double)(c->n + 8));
    check(o, "layer_step momentum", size, rm, m, 4 * (double)(c->n + 8));
    check(o, "layer_step shift", size, rs, shift, 0);
    check(o, "layer_step anchor", size, ra, anchor, 0);
    check_guard(o, size, room);
    free(z), free(shift), free(anchor), free(m), free(rz), free(rs), free(ra), free(rm), free(room);
}

static void connected_case(const fli_ops *o, size_t n, size_t in, size_t out)
{
    connected c = connected_of(o, n, in, out);
    size_t size = in * out + out;
    double *g = connected_gradient(&c);
    void *got = reals(o, size, c.w);
    connected_forward(o, &c, 0);
    connected_forward(o, &c, 1);
    connected_back(o, &c);
    o->layer_grad(n, in, out, c.rd, c.rx, got);
    check(o, "layer_grad", size, got, g, 4 * (double)(n + 4));
    for (int which = 0; which < 8; which++) connected_step(o, &c, g, which);
    check(o, "layer keeps x", n * in, c.rx, c.x, 0);
    check(o, "layer keeps w", size, c.rw, c.w, 0);
    check(o, "layer keeps d", n * out, c.rd, c.d, 0);
    free(g), free(got);
    connected_free(&c);
}

/* Every number of rows and vectors that a tile can have, with and without a rest, and the sizes at which another way is
 * taken. */
static void fully_connected(void **state)
{
    (void)state;
    static const size_t large[][3] = {{10, 60, 32}, {50, 200, 33}, {129, 520, 5}, {300, 50, 20},
                                      {9, 30, 260}, {4, 2100, 3},  {7, 1030, 2}};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++) {
        for (size_t n = 1; n < 20; n++) connected_case(o, n, 15 * n % 67 + 1, 7 * n % 23 + 1);
        for (size_t out = 1; out < 12; out++) connected_case(o, 8 + out, 8 * out + out % 3, out);
        for (size_t i = 0; i < sizeof large / sizeof *large; i++)
            connected_case(o, large[i][0], large[i][1], large[i][2]);
    }
}

/* What is not finite stays so. */
static void fully_connected_nan(void **state)
{
    (void)state;
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t at = 0; at < 130; at += 43) {
            double x[130] = {0}, w[131] = {0}, d[1] = {1}, z[1] = {0}, h[130], e[130];
            for (size_t i = 0; i < 130; i++) h[i] = 1, e[i] = 0;
            x[at] = NAN;
            w[at] = NAN;
            void *rx = reals(o, 130, x), *rw = reals(o, 131, w), *rd = reals(o, 1, d), *rz = reals(o, 1, z);
            void *rh = reals(o, 130, h), *re = reals(o, 130, e);
            o->layer(1, 130, 1, rx, rw, 1, rz);
            assert_int_equal(o->finite(1, rz), 0);
            o->layer_back(1, 130, 1, rd, rw, rh, re);
            assert_int_equal(o->finite(130, re), 0);
            o->layer_grad(1, 130, 1, rd, rx, rw);
            assert_int_equal(o->finite(131, rw), 0);
            free(rx), free(rw), free(rd), free(rz), free(rh), free(re);
        }
}

/* Logits, labels and what must come of them, all in long double. */
typedef struct {
    size_t rows, classes, hits;
    double *z, *p, *delta; /* logits; softmax; (softmax - onehot) * scale */
    int32_t *label;
    double loss;
} xent;

static xent xent_of(size_t rows, size_t classes, double *z, const int32_t *label, double scale)
{
    xent x = {.rows = rows, .classes = classes, .z = z};
    size_t n = rows * classes;
    x.p = malloc((n + 1) * sizeof *x.p);
    x.delta = malloc((n + 1) * sizeof *x.delta);
    x.label = malloc((rows + 1) * sizeof *x.label);
    for (size_t r = 0; r < rows; r++) {
        const double *row = z + r * classes;
        size_t best = 0, label_r = label ? (size_t)label[r] : (r * 7) % classes;
        long double sum = 0;
        for (size_t c = 1; c < classes; c++)
            if (row[c] > row[best]) best = c;
        for (size_t c = 0; c < classes; c++) sum += expl((long double)row[c] - row[best]);
        for (size_t c = 0; c < classes; c++) {
            x.p[r * classes + c] = (double)(expl((long double)row[c] - row[best]) / sum);
            x.delta[r * classes + c] = (x.p[r * classes + c] - (c == label_r)) * scale;
        }
        x.label[r] = (int32_t)label_r;
        x.hits += best == label_r;
        x.loss += (double)(logl(sum) - ((long double)row[label_r] - row[best]));
    }
    return x;
}

static void xent_check(const fli_ops *o, xent *x, double scale)
{
    size_t n = x->rows * x->classes, hits = 999;
    void *z = reals(o, n, x->z);
    double tolerance = 8 * eps(o) * (double)(n + 4) * (1 + fabs(x->loss) / (double)(x->rows ? x->rows : 1));
    assert_near(o->softmax_loss(x->rows, x->classes, x->label, z, &hits), x->loss, tolerance);
    assert_int_equal(hits, x->hits);
    check(o, "softmax_loss keeps z", n, z, x->z, 0);
    hits = 999;
    assert_near(o->softmax_xent(x->rows, x->classes, x->label, scale, z, &hits), x->loss, tolerance);
    assert_int_equal(hits, x->hits);
    check(o, "softmax_xent", n, z, x->delta, 16 + (double)x->classes);
    o->from_f64(n, x->z, z);
    o->softmax_error(x->rows, x->classes, x->label, scale, z);
    check(o, "softmax_error", n, z, x->delta, 16 + (double)x->classes);
    o->from_f64(n, x->z, z);
    o->softmax(x->rows, x->classes, z);
    check(o, "softmax", n, z, x->p, 16 + (double)x->classes);
    free(z), free(x->p), free(x->delta), free(x->label);
}

static void softmax_losses_match_long_doubles(void **state)
{
    (void)state;
    static const size_t classes[] = {2, 3, 10, 16, 17, 33, 1000};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t rows = 0; rows < 8; rows += 7)
            for (size_t c = 0; c < 7; c++) {
                double *z = draw(19, rows * classes[c]);
                for (size_t i = 0; i < rows * classes[c]; i++) z[i] *= 4;
                xent x = xent_of(rows, classes[c], z, NULL, 0.25);
                xent_check(o, &x, 0.25);
                free(z);
            }
}

/* Equal logits: the first counts as the answer, so only label 0 is a hit. */
static void softmax_ties(void **state)
{
    (void)state;
    double z[12] = {1, 1, 1, 1, 5, 2, 5, 5, 0, 7, 7, 7};
    const int32_t label[] = {0, 2, 2}, first[] = {1, 0, 1};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++) {
        xent x = xent_of(3, 4, z, label, 1);
        assert_int_equal(x.hits, 1);
        xent_check(o, &x, 1);
        x = xent_of(3, 4, z, first, 1);
        assert_int_equal(x.hits, 2);
        xent_check(o, &x, 1);
    }
}

static void softmax_extremes(void **state)
{
    (void)state;
    double z[12] = {1e4, -1e4, 0, 1e4, -1e4, -1e4, -1e4, 1e4, -1e4, 1e4, 9999, 1e4};
    const int32_t label[] = {1, 1, 0, 2};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++) {
        xent x = xent_of(4, 3, z, label, 0.5);
        assert_near(x.loss, 6e4 + log(2 + exp(-1)), 1e-9); /* rows 1 to 3: 1e4 - (-1e4) */
        size_t hits;
        void *r = reals(o, 12, z);
        double got = o->softmax_xent(4, 3, label, 0.5, r, &hits);
        assert_true(isfinite(got));
        assert_near(got, x.loss, 1e-6 * x.loss);
        assert_int_equal(hits, x.hits);
        check(o, "extreme logits", 12, r, x.delta, 32);
        o->from_f64(12, z, r);
        o->softmax_error(4, 3, label, 0.5, r);
        check(o, "extreme logits", 12, r, x.delta, 32);
        free(r), free(x.p), free(x.delta), free(x.label);
    }
}

/* A NaN among the logits shows in the loss, wherever it is. */
static void softmax_nan(void **state)
{
    (void)state;
    const int32_t label[] = {1};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++)
        for (size_t at = 0; at < 3; at++) {
            double z[3] = {1, 2, 3};
            size_t hits;
            z[at] = NAN;
            void *r = reals(o, 3, z);
            assert_true(isnan(o->softmax_loss(1, 3, label, r, &hits)));
            assert_true(isnan(o->softmax_xent(1, 3, label, 1, r, &hits)));
            o->from_f64(3, z, r);
            o->softmax_error(1, 3, label, 1, r);
            assert_int_equal(o->finite(3, r), 0);
            free(r);
        }
}

static void logistic_losses_match_long_doubles(void **state)
{
    (void)state;
    enum { N = 20 };
    static const double logit[N] = {0,   0,   1,    1,    -1,  -1,  30,   30,   -30,   -30,
                                    700, 700, -700, -700, 1e4, 1e4, -1e4, -1e4, 0.001, -0.001};
    for (const fli_ops *const *p = tables, *o; (o = *p); p++) {
        double z[N], want[N], loss = 0;
        int32_t label[N];
        size_t hits = 0, got_hits;
        for (size_t i = 0; i < N; i++) {
            z[i] = (double)(float)logit[i];
            label[i] = (int32_t)(i % 2);
            long double e = expl(-fabsl(z[i])), s = z[i] >= 0 ? 1 / (1 + e) : e / (1 + e);
            want[i] = (double)(s - label[i]) * 0.5;
            loss += (double)(log1pl(e) + (label[i] ? fmaxl(0, -z[i]) : fmaxl(0, z[i])));
            hits += (z[i] > 0) == label[i];
        }
        void *r = reals(o, N, z);
        assert_near(o->logistic_xent(N, label, 0.5, r, &got_hits), loss, 1e-14 * loss);
        assert_int_equal(got_hits, hits);
        check(o, "logistic_xent", N, r, want, 4);

        z[3] = NAN;
        o->from_f64(N, z, r);
        assert_true(isnan(o->logistic_xent(N, label, 0.5, r, &got_hits)));
        o->to_f64(N, r, want);
        assert_true(isnan(want[3]) && !isnan(want[2]) && !isnan(want[4]));
        free(r);
    }
}

/* ---- samples ------------------------------------------------------------------------------------------- */

static void gather_case(const fli_ops *o, size_t dim, size_t segments)
{
    enum { ROWS = 6, STORED = 5 };
    static const uint32_t idx[ROWS] = {4, 0, 0, 3, 4, 1};
    double *scale = draw(20, segments), *shift = draw(21, segments), *raw = draw(22, STORED * dim);
    double *want[3], *zero = calloc(ROWS * dim + 1, sizeof *zero);
    uint8_t *bytes = malloc(STORED * dim + 1);
    float *floats = malloc((STORED * dim + 1) * sizeof *floats);
    for (size_t i = 0; i < STORED * dim; i++) {
        bytes[i] = (uint8_t)(i * 37 % 256);
        floats[i] = (float)raw[i];
    }
    for (int kind = 0; kind < 3; kind++) {
        want[kind] = malloc((ROWS * dim + 1) * sizeof(double));
        for (size_t r = 0; r < ROWS; r++)
            for (size_t j = 0; j < dim; j++) {
                size_t at = idx[r] * dim + j, s = segments ? j / (dim / segments) : 0;
                double v = kind == 0 ? bytes[at] : kind == 1 ? (double)floats[at] : raw[at];
                want[kind][r * dim + j] = segments ? v * scale[s] + shift[s] : v;
            }
    }
    void *out = reals(o, ROWS * dim, zero);
    const double *a = segments ? scale : NULL, *b = segments ? shift : NULL;
    o->gather_u8(ROWS, dim, bytes, idx, segments, a, b, out);
    check(o, "gather_u8", ROWS * dim, out, want[0], 256);
    o->gather_f32(ROWS, dim, floats, idx, segments, a, b, out);
    check(o, "gather_f32", ROWS * dim, out, want[1], 8);
    o->gather_f64(ROWS, dim, raw, idx, segments, a, b, out);
    check(o, "gather_f64", ROWS * dim, out, want[2], 8);
    o->fill(ROWS * dim, 0, out);
    o->gather_f64(0, dim, raw, idx, segments, a, b, out);
    check(o, "gather of nothing", ROWS * dim, out, zero, 0);
    for (int kind = 0; kind < 3; kind++) free(want[kind]);
    free(scale), free(shift), free(raw), free(zero), free(bytes), free(floats), free(out);
}

static void gathering_normalizes_the_chosen_rows(void **state)
{
    (void)state;
    for (const fli_ops *const *p = tables, *o; (o = *p); p++) {
        static const size_t dims[] = {1, 3, 12, 33, 48};
        for (size_t d = 0; d < 5; d++) {
            gather_case(o, dims[d], 0);                       /* as they are */
            gather_case(o, dims[d], 1);                       /* one pair for all features */
            gather_case(o, dims[d], dims[d]);                 /* one per feature */
            if (dims[d] % 3 == 0) gather_case(o, dims[d], 3); /* channels */
        }
    }
}

static void precisions_are_found_by_name(void **state)
{
    (void)state;
    for (const fli_ops *const *p = fli_ops_list, *o; (o = *p); p++) {
        assert_ptr_equal(fli_ops_find(o->name), o);
        assert_true(o->size == 4 || o->size == 8);
    }
    assert_null(fli_ops_find("f16"));
    assert_null(fli_ops_find(""));
}

/* The level in use is one of those listed, its tables are the ones that everybody sees, and words for it are
 * understood. */
static void the_level_in_use_is_listed(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    const fli_kernels *now = fli_kernels_now(), *found;
    int listed = 0;
    for (const fli_kernels *l = fli_kernels_list; l->name; l++) {
        listed |= l == now;
        assert_string_equal(l->f32->level, l->name);
        assert_string_equal(l->f64->level, l->name);
        assert_true(l->f32->size == 4 && l->f64->size == 8);
        assert_int_equal(fli_kernels_find(ctx, l->name, &found), l->runs_here() ? FL_OK : FL_ECONFIG);
        assert_ptr_equal(found, l);
        fli_clear(ctx);
    }
    assert_true(listed && now->runs_here());
    assert_true(fli_ops_f32.layer == now->f32->layer && fli_ops_f64.layer == now->f64->layer);
    assert_ok(ctx, fli_kernels_check(ctx));
    assert_fails(ctx, fli_kernels_find(ctx, "v", &found), FL_ECONFIG,
                 "FEDLOOM_KERNELS is v, but this program has kernels");
    fl_ctx_free(ctx);
}

/* Without FEDLOOM_KERNELS it is the highest that can run; with it, that one. */
static void the_highest_level_here_is_chosen(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    const char *wish = getenv("FEDLOOM_KERNELS");
    const fli_kernels *want = NULL;
    for (const fli_kernels *l = fli_kernels_list; l->name; l++)
        if (l->runs_here()) want = l;
    if (wish && *wish) assert_ok(ctx, fli_kernels_find(ctx, wish, &want));
    assert_ptr_equal(fli_kernels_now(), want);
    fl_ctx_free(ctx);
}

static void list_tables(void)
{
    size_t n = 0;
    for (const fli_kernels *l = fli_kernels_list; l->name; l++)
        if (l->runs_here()) {
            assert_true(n + 2 <= MOST_TABLES);
            tables[n++] = l->f32;
            tables[n++] = l->f64;
        }
}

/* OpenBLAS does not fall back to its oldest kernels for being older than the processor. */
static void blas_kernels(void **state)
{
    (void)state;
#if defined __x86_64__
    if (!getenv("OPENBLAS_CORETYPE") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        assert_string_not_equal(openblas_get_corename(), "Prescott");
#endif
}

/* Others in the process may give BLAS threads; the next run takes them away. */
static void blas_threads(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    for (int i = 0; i < 2; i++) {
        openblas_set_num_threads(2);
        assert_int_equal(openblas_get_num_threads(), 2);
        assert_int_equal(fli_blas_prepare(ctx), FL_OK);
        assert_int_equal(openblas_get_num_threads(), 1);
    }
    fl_ctx_free(ctx);
}

int main(void)
{
    list_tables();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(precisions_are_found_by_name),
        cmocka_unit_test(the_level_in_use_is_listed),
        cmocka_unit_test(the_highest_level_here_is_chosen),
        cmocka_unit_test(blas_kernels),
        cmocka_unit_test(blas_threads),
        cmocka_unit_test(vector_operations_match_plain_loops),
        cmocka_unit_test(maps_compute_each_entry_in_double),
        cmocka_unit_test(one_bad_number_is_found),
        cmocka_unit_test(finiteness_opposite),
        cmocka_unit_test(sgd_steps_match_the_formula),
        cmocka_unit_test(matrix_products_match_plain_loops),
        cmocka_unit_test(matrix_vector_products_match_plain_loops),
        cmocka_unit_test(sparse_products_match_plain_loops),
        cmocka_unit_test(bias_and_relu_match_plain_loops),
        cmocka_unit_test(softmax_losses_match_long_doubles),
        cmocka_unit_test(softmax_ties),
        cmocka_unit_test(softmax_extremes),
        cmocka_unit_test(softmax_nan),
        cmocka_unit_test(logistic_losses_match_long_doubles),
        cmocka_unit_test(gathering_normalizes_the_chosen_rows),
        cmocka_unit_test(fully_connected),
        cmocka_unit_test(fully_connected_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
