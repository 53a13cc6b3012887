/* The CPU backend, compiled once per precision and level (precision.h; the build defines LEVEL_NAME, see kernels.h).
 * Every function is static, so the copies do not collide. Sums over long vectors run in double, in a fixed order. */
#include "vec/ops.h"
#include "vec/precision.h"
#include "vec/tile.h"

#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if FLI_PRECISION == 32
#define REAL_EXP exp_below_0

/* e^x for x <= 0 without a call, so that loops over it can be vectorised. Within two units in the last place; 0 below
 * the smallest normal number, NaN for NaN. With k = x/ln 2 rounded (adding 1.5 2^23 rounds, and leaves k in the last
 * bits) and r = x - k ln 2: e^x = 2^k e^r, and e^r = 1 + r + r^2 p(r) with the polynomial of Cephes' expf. */
static inline float exp_below_0(float x)
{
    const float rounder = 12582912.0f;
    float shifted = x * 1.44269504f + rounder, k = shifted - rounder, power;
    float r = x - k * 0.693359375f + k * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    uint32_t bits;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof power);
    return x < -87.0f ? 0 : (1 + (r + r * r * p)) * power;
}
#else
#define REAL_EXP exp
#endif

/* ---- vectors ------------------------------------------------------------------------------------------- */

static void fill(size_t n, double a, void *y_)
{
    REAL *y = y_;
    for (size_t i = 0; i < n; i++) y[i] = (REAL)a;
}

static void axpy(size_t n, double a_, const void *x_, void *y_)
{
    const REAL a = (REAL)a_, *restrict x = x_;
    REAL *restrict y = y_;
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* out may be x or y: element i is read before it is written. */
static void lin(size_t n, double a_, const void *x_, double b_, const void *y_, void *out_)
{
    const REAL a = (REAL)a_, b = (REAL)b_, *x = x_, *y = y_;
    REAL *out = out_;
    for (size_t i = 0; i < n; i++) out[i] = a * x[i] + b * y[i];
}

static void scale(size_t n, double a_, void *y_)
{
    const REAL a = (REAL)a_;
    REAL *y = y_;
    for (size_t i = 0; i < n; i++) y[i] *= a;
}

static double dot(size_t n, const void *x_, const void *y_)
{
    enum { LANES = 16 }; /* independent sums: the compiler can use vectors without reordering any of them */
    const REAL *x = x_, *y = y_;
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)y[i + j];
    for (; i < n; i++) sum += (double)x[i] * (double)y[i];
    for (size_t j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

static void map(size_t n, size_t vectors, void *const *x, fli_map_fn *fn, const void *arg)
{
    double v[FLI_MAP_MOST];
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < vectors; k++) v[k] = (double)((REAL *)x[k])[i];
        fn(arg, v);
        for (size_t k = 0; k < vectors; k++) ((REAL *)x[k])[i] = (REAL)v[k];
    }
}

/* x - x is 0 for a finite x and NaN otherwise; a sum keeps the NaN. */
static int finite_all(size_t n, const void *x_)
{
    enum { LANES = 32 };
    const REAL *x = x_;
    REAL lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) lane[j] += x[i + j] - x[i + j];
    for (; i < n; i++) lane[0] += x[i] - x[i];
    for (size_t j = 0; j < LANES; j++)
        if (lane[j] != 0) return 0;
    return 1;
}

static void from_f64(size_t n, const double *x, void *y_)
{
    REAL *y = y_;
    for (size_t i = 0; i < n; i++) y[i] = (REAL)x[i];
}

static void to_f64(size_t n, const void *x_, double *y)
{
    const REAL *x = x_;
    for (size_t i = 0; i < n; i++) y[i] = (double)x[i];
}

/* Compiled once per combination of terms, so that the loop has no branch. */
static inline __attribute__((always_inline)) void sgd_pass(size_t n, const fli_sgd_step *s, REAL *restrict z,
                                                           int shifted, int anchored, int buffered)
{
    const REAL lr = (REAL)s->lr, wd = (REAL)s->wd, rho = (REAL)s->rho, momentum = (REAL)s->momentum;
    const REAL *restrict g = s->grad, *restrict shift = s->shift, *restrict anchor = s->anchor;
    REAL *restrict m = s->buffer;
    for (size_t i = 0; i < n; i++) {
        REAL d = g[i] + wd * z[i];
        if (shifted) d += shift[i];
        if (anchored) d += rho * (z[i] - anchor[i]);
        if (buffered) d = m[i] = momentum * m[i] + d;
        z[i] -= lr * d;
    }
}

static int sgd_terms(const fli_sgd_step *s) { return (s->shift ? 4 : 0) | (s->anchor ? 2 : 0) | (s->buffer ? 1 : 0); }

static void sgd(size_t n, const fli_sgd_step *s, void *z)
{
    switch (sgd_terms(s)) {
    case 0: sgd_pass(n, s, z, 0, 0, 0); break;
    case 1: sgd_pass(n, s, z, 0, 0, 1); break;
    case 2: sgd_pass(n, s, z, 0, 1, 0); break;
    case 3: sgd_pass(n, s, z, 0, 1, 1); break;
    case 4: sgd_pass(n, s, z, 1, 0, 0); break;
    case 5: sgd_pass(n, s, z, 1, 0, 1); break;
    case 6: sgd_pass(n, s, z, 1, 1, 0); break;
    default: sgd_pass(n, s, z, 1, 1, 1);
    }
}

/* ---- dense algebra ------------------------------------------------------------------------------------- */

static void gemm(int ta, int tb, size_t m, size_t n, size_t k, double alpha, const void *a, size_t lda, const void *b,
                 size_t ldb, double beta, void *c, size_t ldc)
{
    REAL_GEMM(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n,
              (blasint)k, (REAL)alpha, a, (blasint)lda, b, (blasint)ldb, (REAL)beta, c, (blasint)ldc);
}

static void gemv(int ta, size_t m, size_t n, double alpha, const void *a, size_t lda, const void *x, double beta,
                 void *y)
{
    REAL_GEMV(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (REAL)alpha, a, (blasint)lda, x, 1,
              (REAL)beta, y, 1);
}

/* ---- sparse algebra ------------------------------------------------------------------------------------ */

/* Rounds as gathering a dense batch does, so that both give the same number. */
static inline __attribute__((always_inline)) REAL csr_value(const fli_csr *a, size_t k, int scaled, int wide)
{
    if (!wide && !scaled) return (REAL)((const float *)a->value)[k];
    double v = wide ? ((const double *)a->value)[k] : (double)((const float *)a->value)[k];
    return (REAL)(scaled ? v * a->scale[a->col[k]] : v);
}

static inline __attribute__((always_inline)) void csr_mul_pass(size_t rows, size_t dim, size_t outs, const fli_csr *a,
                                                               const REAL *restrict w, REAL *restrict z, int scaled,
                                                               int wide)
{
    for (size_t r = 0; r < rows; r++) {
        size_t from = a->row[a->idx[r]], to = a->row[a->idx[r] + 1];
        for (size_t o = 0; o < outs; o++) {
            const REAL *restrict v = w + o * dim;
            double sum = 0;
            for (size_t k = from; k < to; k++) sum += (double)csr_value(a, k, scaled, wide) * (double)v[a->col[k]];
            z[r * outs + o] = (REAL)sum;
        }
    }
}

static void csr_mul(size_t rows, size_t dim, size_t outs, const fli_csr *a, const void *w, void *z)
{
    if (a->wide && a->scale)
        csr_mul_pass(rows, dim, outs, a, w, z, 1, 1);
    else if (a->wide)
        csr_mul_pass(rows, dim, outs, a, w, z, 0, 1);
    else if (a->scale)
        csr_mul_pass(rows, dim, outs, a, w, z, 1, 0);
    else
        csr_mul_pass(rows, dim, outs, a, w, z, 0, 0);
}

static inline __attribute__((always_inline)) void csr_tmul_pass(size_t rows, size_t dim, size_t outs, REAL alpha,
                                                                const fli_csr *a, const REAL *restrict d,
                                                                REAL *restrict g, int scaled, int wide)
{
    memset(g, 0, outs * dim * sizeof *g);
    for (size_t r = 0; r < rows; r++) {
        size_t from = a->row[a->idx[r]], to = a->row[a->idx[r] + 1];
        for (size_t o = 0; o < outs; o++) {
            const REAL factor = alpha * d[r * outs + o];
            REAL *restrict t = g + o * dim;
            for (size_t k = from; k < to; k++) t[a->col[k]] += factor * csr_value(a, k, scaled, wide);
        }
    }
}

static void csr_tmul(size_t rows, size_t dim, size_t outs, double alpha, const fli_csr *a, const void *d, void *g)
{
    if (a->wide && a->scale)
        csr_tmul_pass(rows, dim, outs, (REAL)alpha, a, d, g, 1, 1);
    else if (a->wide)
        csr_tmul_pass(rows, dim, outs, (REAL)alpha, a, d, g, 0, 1);
    else if (a->scale)
        csr_tmul_pass(rows, dim, outs, (REAL)alpha, a, d, g, 1, 0);
    else
        csr_tmul_pass(rows, dim, outs, (REAL)alpha, a, d, g, 0, 0);
}

/* ---- networks ------------------------------------------------------------------------------------------ */

static void add_bias(size_t rows, size_t cols, const void *bias_, void *z_)
{
    const REAL *restrict bias = bias_;
    REAL *restrict z = z_;
    for (size_t r = 0; r < rows; r++, z += cols)
        for (size_t c = 0; c < cols; c++) z[c] += bias[c];
}

/* A NaN stays a NaN, so that a diverged model does not look like a dead one. */
static void add_bias_relu(size_t rows, size_t cols, const void *bias_, void *z_)
{
    const REAL *restrict bias = bias_;
    REAL *restrict z = z_;
    for (size_t r = 0; r < rows; r++, z += cols)
        for (size_t c = 0; c < cols; c++) {
            REAL v = z[c] + bias[c];
            z[c] = v < 0 ? 0 : v;
        }
}

static void relu_mask(size_t n, const void *h_, void *d_)
{
    const REAL *restrict h = h_;
    REAL *restrict d = d_;
    for (size_t i = 0; i < n; i++) d[i] = h[i] > 0 ? d[i] : 0;
}

static void col_sum(size_t rows, size_t cols, const void *z_, void *out_)
{
    const REAL *restrict z = z_;
    REAL *restrict out = out_;
    memset(out, 0, cols * sizeof *out);
    for (size_t r = 0; r < rows; r++, z += cols)
        for (size_t c = 0; c < cols; c++) out[c] += z[c];
}

/* ---- fully connected layers ---------------------------------------------------------------------------- */

/* The three matrix products of a fully connected layer by register tiles. BLAS packs and copies its operands, which
 * pays for products that are large in all dimensions; those of a mini-batch are not.
 *
 * Each finished tile (tile.c), still in the cache, goes to a `finish` function that applies ReLU's mask or an SGD step.
 * Blocks depend on the sizes alone, never on threads, so that equal calls give equal bits. BLAS remains where it was
 * measured to be faster (short rows, large batches); docs/performance.md has the figures. */

/* Divides 0 .. n-1 into the fewest blocks of at most `most`, as evenly as possible: block q has size + (q < longer). */
typedef struct {
    size_t count, size, longer;
} blocks;

static blocks blocks_of(size_t n, size_t most)
{
    size_t count = (n + most - 1) / most;
    return (blocks){count, n / count, n % count};
}

/* Processes a tile: rows row .. row + rows - 1 and columns col .. of the result; its rows are PANEL reals apart. */
typedef void finish_fn(const void *arg, size_t row, size_t rows, size_t col, size_t cols, const REAL *tile);

/* ---- outer products by tiles --------------------------------------------------------------------------- */

/* C is m x n; A is m x k with the given steps between rows and between columns; B is k x n. */
typedef struct {
    size_t m, n, k;
    const REAL *a;
    size_t row_step, col_step;
    const REAL *b;
    REAL *c;               /* full tiles are written here without `finish`; NULL: all tiles need it */
    const STEP *step;      /* the step that full tiles take instead of `finish`; NULL: they need it, too */
    const void *beside[4]; /* m x n each, then NULL: finish reads them, so they are fetched while a tile is computed */
} product;

TILE void pack_whole(size_t k, size_t vecs, const REAL *b, size_t ldb, REAL *panel)
{
    for (size_t t = 0; t < k; t++, b += ldb, panel += PANEL)
        EACH (v, vecs) ((vec *)panel)[v] = ((const vec_anywhere *)b)[v];
}

/* Copies rows of B, `cols` wide, below each other, filled up with zeros. Uncopied, rows a power of two apart would
 * evict each other from the cache. */
static void pack(size_t k, size_t cols, size_t vecs, const REAL *b, size_t ldb, REAL *panel)
{
    const size_t whole = cols / TILE_LANES;
    switch (whole) {
    case 0: break;
    case 1: pack_whole(k, 1, b, ldb, panel); break;
    case 2: pack_whole(k, 2, b, ldb, panel); break;
    default: pack_whole(k, 3, b, ldb, panel);
    }
    if (whole == vecs) return;
    for (size_t t = 0; t < k; t++, b += ldb, panel += PANEL)
        for (size_t j = whole * TILE_LANES; j < vecs * TILE_LANES; j++) panel[j] = j < cols ? b[j] : 0;
}

static void fetch(const product *p, size_t row, size_t rows, size_t col, size_t cols)
{
    for (size_t v = 0; v < 4 && p->beside[v]; v++)
        for (size_t i = row; i < row + rows; i++)
            for (size_t j = col; j < col + cols; j += 64 / sizeof(REAL))
                __builtin_prefetch((const REAL *)p->beside[v] + i * p->n + j);
}

/* Full tiles take their step in registers, so there are as many full tiles as possible. */
static size_t full_first(size_t vecs) { return vecs < OUTER_VECS ? vecs : OUTER_VECS; }

/* C = A B, k <= DEPTH. */
static void outer_product(const product *p, finish_fn *finish, const void *arg)
{
    REAL panel[DEPTH * PANEL] __attribute__((aligned(64))), tile[8 * PANEL] __attribute__((aligned(64)));
    const size_t vecs_in_all = (p->n + TILE_LANES - 1) / TILE_LANES;
    blocks across = blocks_of(vecs_in_all, OUTER_VECS), down = blocks_of(p->m, OUTER_ROWS);
    for (size_t q = 0, col = 0; q < across.count; q++) {
        size_t vecs = p->step ? full_first(vecs_in_all - col / TILE_LANES) : across.size + (q < across.longer);
        size_t width = vecs * TILE_LANES, cols = p->n - col < width ? p->n - col : width;
        int direct = p->c && cols == width;
        pack(p->k, cols, vecs, p->b + col, p->n, panel);
        for (size_t i = 0, row = 0; i < down.count; i++) {
            size_t rows = down.size + (i < down.longer);
            const REAL *a = p->a + row * p->row_step;
            if (p->step && rows == OUTER_ROWS && cols == PANEL) {
                size_t at = row * p->n + col, next = i + 1 < down.count ? at + rows * p->n : at;
                STEP_TILE(p->k, a, p->row_step, p->col_step, panel, p->step, at, next);
                row += rows;
                continue;
            }
            fetch(p, row, rows, col, cols);
            OUTER_TILE(rows, vecs, p->k, a, p->row_step, p->col_step, panel, direct ? p->c + row * p->n + col : tile,
                       direct ? p->n : PANEL);
            if (!direct) finish(arg, row, rows, col, cols, tile);
            row += rows;
        }
        col += width;
    }
}

/* ---- inner products by tiles --------------------------------------------------------------------------- */

/* C = A B', where A is m x k and B n x k. */
static void inner_chunk(size_t m, size_t n, size_t k, const REAL *a, const REAL *b, REAL *c)
{
    REAL tile[6 * INNER_COLS] __attribute__((aligned(64)));
    blocks down = blocks_of(m, INNER_ROWS);
    for (size_t col = 0; col < n; col += INNER_COLS) {
        size_t cols = n - col < INNER_COLS ? n - col : INNER_COLS;
        const REAL *rows_of_b[INNER_COLS]; /* beyond the last row of B, that row again */
        EACH (j, INNER_COLS) rows_of_b[j] = b + (col + (j < cols ? j : cols - 1)) * k;
        for (size_t q = 0, row = 0; q < down.count; q++) {
            size_t rows = down.size + (q < down.longer);
            if (cols == INNER_COLS) {
                INNER_TILE(rows, k, a + row * k, rows_of_b, c + row * n + col, n);
            } else {
                INNER_TILE(rows, k, a + row * k, rows_of_b, tile, INNER_COLS);
                EACH (i, rows)
                    for (size_t j = 0; j < cols; j++) c[(row + i) * n + col + j] = tile[i * INNER_COLS + j];
            }
            row += rows;
        }
    }
}

static void inner_product(size_t m, size_t n, size_t k, const REAL *a, const REAL *b, REAL *c)
{
    size_t most = CHUNK / (k * sizeof(REAL));
    blocks down = blocks_of(m, most < INNER_ROWS ? INNER_ROWS : most);
    for (size_t q = 0, row = 0; q < down.count; q++) {
        size_t rows = down.size + (q < down.longer);
        inner_chunk(rows, n, k, a + row * k, b, c + row * n);
        row += rows;
    }
}

/* ---- a layer, by tiles or BLAS ------------------------------------------------------------------------- */

/* The argument of the finish functions. */
typedef struct {
    size_t ld;
    REAL *out;
    const REAL *input; /* the layer's input, for the mask */
    const fli_sgd_step *step;
} aftermath;

/* C = A B' for rows shorter than a vector. BLAS would spend its time on preparation, and on a lock that all threads
 * share. */
static void short_rows(size_t m, size_t n, size_t k, const REAL *a, const REAL *b, REAL *c)
{
    for (size_t i = 0; i < m; i++, a += k)
        for (size_t j = 0; j < n; j++) {
            REAL sum = 0;
            for (size_t t = 0; t < k; t++) sum += a[t] * b[j * k + t];
            *c++ = sum;
        }
}

static void layer(size_t n, size_t in, size_t out, const void *x, const void *w, int relu, void *z)
{
    const REAL *bias = (const REAL *)w + in * out;
    if (TILES_PAY && in >= (n <= 128 ? TILE_LANES : 512) && in * sizeof(REAL) <= 8192)
        inner_product(n, out, in, x, w, z);
    else if (in < TILE_LANES && n <= 128)
        short_rows(n, out, in, x, w, z);
    else
        gemm(0, 1, n, out, in, 1, x, in, w, in, 0, z, out);
    if (relu)
        add_bias_relu(n, out, bias, z);
    else
        add_bias(n, out, bias, z);
}

static void finish_copy(const void *arg, size_t row, size_t rows, size_t col, size_t cols, const REAL *tile)
{
    const aftermath *f = arg;
    for (size_t i = 0; i < rows; i++, tile += PANEL)
        memcpy(f->out + (row + i) * f->ld + col, tile, cols * sizeof *tile);
}

/* A constant number of columns lets the compiler omit the loop's head and tail, hence two versions of the callers. */
TILE void mask_rows(const aftermath *f, size_t at, size_t rows, size_t cols, const REAL *restrict tile)
{
    const REAL *restrict h = f->input + at;
    REAL *restrict e = f->out + at;
    for (size_t i = 0; i < rows; i++, e += f->ld, h += f->ld, tile += PANEL)
        for (size_t j = 0; j < cols; j++) e[j] = h[j] > 0 ? tile[j] : 0;
}

static void finish_mask(const void *arg, size_t row, size_t rows, size_t col, size_t cols, const REAL *tile)
{
    const aftermath *f = arg;
    if (cols == PANEL)
        mask_rows(f, row * f->ld + col, rows, PANEL, tile);
    else
        mask_rows(f, row * f->ld + col, rows, cols, tile);
}

static void layer_back(size_t n, size_t in, size_t out, const void *d, const void *w, const void *h, void *e)
{
    if (TILES_PAY && n >= 8 && out <= DEPTH) {
        product p = {.m = n, .n = in, .k = out, .a = d, .row_step = out, .col_step = 1, .b = w};
        outer_product(&p, finish_mask, &(aftermath){.ld = in, .out = e, .input = h});
        return;
    }
    gemm(0, 0, n, in, out, 1, d, out, w, in, 0, e, in);
    relu_mask(n * in, h, e);
}

static product weight_gradient(size_t n, size_t in, size_t out, const void *d, const void *x)
{
    return (product){.m = out, .n = in, .k = n, .a = d, .row_step = 1, .col_step = out, .b = x};
}

static void layer_grad(size_t n, size_t in, size_t out, const void *d, const void *x, void *g)
{
    if (TILES_PAY && n <= DEPTH) {
        product p = weight_gradient(n, in, out, d, x);
        p.c = g;
        outer_product(&p, finish_copy, &(aftermath){.ld = in, .out = g});
    } else {
        gemm(1, 0, out, in, n, 1, d, out, x, in, 0, g, in);
    }
    col_sum(n, out, d, (REAL *)g + in * out);
}

TILE void step_rows(const aftermath *f, size_t at, size_t rows, size_t cols, const REAL *tile, int shifted,
                    int anchored, int buffered)
{
    fli_sgd_step s = *f->step;
    for (size_t i = 0; i < rows; i++, at += f->ld, tile += PANEL) {
        s.grad = tile;
        if (shifted) s.shift = (const REAL *)f->step->shift + at;
        if (anchored) s.anchor = (const REAL *)f->step->anchor + at;
        if (buffered) s.buffer = (REAL *)f->step->buffer + at;
        sgd_pass(cols, &s, f->out + at, shifted, anchored, buffered);
    }
}

TILE void step_columns(const aftermath *f, size_t at, size_t rows, size_t cols, const REAL *tile)
{
    switch (sgd_terms(f->step)) {
    case 0: step_rows(f, at, rows, cols, tile, 0, 0, 0); break;
    case 1: step_rows(f, at, rows, cols, tile, 0, 0, 1); break;
    case 2: step_rows(f, at, rows, cols, tile, 0, 1, 0); break;
    case 3: step_rows(f, at, rows, cols, tile, 0, 1, 1); break;
    case 4: step_rows(f, at, rows, cols, tile, 1, 0, 0); break;
    case 5: step_rows(f, at, rows, cols, tile, 1, 0, 1); break;
    case 6: step_rows(f, at, rows, cols, tile, 1, 1, 0); break;
    default: step_rows(f, at, rows, cols, tile, 1, 1, 1);
    }
}

static void finish_step(const void *arg, size_t row, size_t rows, size_t col, size_t cols, const REAL *tile)
{
    const aftermath *f = arg;
    if (cols == PANEL)
        step_columns(f, row * f->ld + col, rows, PANEL, tile);
    else
        step_columns(f, row * f->ld + col, rows, cols, tile);
}

/* Takes the step on `count` parameters from `at` on, with gradient g. */
static void step_part(const fli_sgd_step *step, size_t at, size_t count, const REAL *g, REAL *z)
{
    fli_sgd_step s = *step;
    s.grad = g;
    if (s.shift) s.shift = (const REAL *)s.shift + at;
    if (s.anchor) s.anchor = (const REAL *)s.anchor + at;
    if (s.buffer) s.buffer = (REAL *)s.buffer + at;
    sgd(count, &s, z + at);
}

/* Steps with at most one vector besides z fit into STEP: rho (z - anchor) = rho z - rho anchor. Returns 0 for
 * others. */
static int step_of_one(const fli_sgd_step *step, size_t ld, REAL *z, STEP *out)
{
    *out = (STEP){z, step->shift, ld, (REAL)step->lr, (REAL)step->wd, 1};
    if (step->buffer || (step->shift && step->anchor)) return 0;
    if (step->anchor) {
        out->shift = step->anchor;
        out->times = (REAL)-step->rho;
        out->wd = (REAL)(step->wd + step->rho);
    }
    return 1;
}

static void layer_step(size_t n, size_t in, size_t out, const void *d, const void *x, const fli_sgd_step *step, void *g,
                       void *z)
{
    size_t weights = in * out, at = 0;
    if (!TILES_PAY || n > DEPTH) {
        layer_grad(n, in, out, d, x, g);
        step_part(step, 0, weights + out, g, z);
        return;
    }
    product p = weight_gradient(n, in, out, d, x);
    p.beside[at++] = z;
    if (step->shift) p.beside[at++] = step->shift;
    if (step->anchor) p.beside[at++] = step->anchor;
    if (step->buffer) p.beside[at++] = step->buffer;
    STEP fused;
    if (step_of_one(step, in, z, &fused)) p.step = &fused;
    outer_product(&p, finish_step, &(aftermath){.ld = in, .out = z, .step = step});
    col_sum(n, out, d, g);
    step_part(step, weights, out, g, z);
}

static size_t arg_max(size_t n, const REAL *z)
{
    size_t best = 0;
    for (size_t c = 1; c < n; c++)
        if (z[c] > z[best]) best = c;
    return best;
}

/* Softmax of one row in place; returns its cross-entropy against the label. */
static double softmax_row(size_t classes, int32_t label, REAL *z, size_t *hits)
{
    size_t best = arg_max(classes, z);
    REAL top = z[best], at_label = z[label] - top, sum = 0;
    *hits += best == (size_t)label;
    for (size_t c = 0; c < classes; c++) z[c] = REAL_EXP(z[c] - top);
    for (size_t c = 0; c < classes; c++) sum += z[c];
    REAL inverse = 1 / sum;
    for (size_t c = 0; c < classes; c++) z[c] *= inverse;
    return log((double)sum) - (double)at_label;
}

static double softmax_xent(size_t rows, size_t classes, const int32_t *label, double scale_, void *z_, size_t *correct)
{
    REAL *z = z_, factor = (REAL)scale_;
    double loss = 0;
    size_t hits = 0;
    for (size_t r = 0; r < rows; r++, z += classes) {
        loss += softmax_row(classes, label[r], z, &hits);
        z[label[r]] -= 1;
        for (size_t c = 0; c < classes; c++) z[c] *= factor;
    }
    *correct = hits;
    return loss;
}

/* One loop over the exponentials of all rows: a single row is too short for vectors. */
static void softmax_error(size_t rows, size_t classes, const int32_t *label, double scale_, void *z_)
{
    REAL *z = z_, *row = z_, factor = (REAL)scale_;
    for (size_t r = 0; r < rows; r++, row += classes) {
        REAL top = row[0];
        for (size_t c = 1; c < classes; c++) top = row[c] > top ? row[c] : top;
        for (size_t c = 0; c < classes; c++) row[c] -= top;
    }
    for (size_t i = 0; i < rows * classes; i++) z[i] = REAL_EXP(z[i]);
    row = z_;
    for (size_t r = 0; r < rows; r++, row += classes) {
        REAL sum = 0;
        for (size_t c = 0; c < classes; c++) sum += row[c];
        REAL inverse = factor / sum;
        for (size_t c = 0; c < classes; c++) row[c] *= inverse;
        row[label[r]] -= factor;
    }
}

static double softmax_loss(size_t rows, size_t classes, const int32_t *label, const void *z_, size_t *correct)
{
    const REAL *z = z_;
    double loss = 0;
    size_t hits = 0;
    for (size_t r = 0; r < rows; r++, z += classes) {
        size_t best = arg_max(classes, z);
        REAL top = z[best], sum = 0;
        hits += best == (size_t)label[r];
        for (size_t c = 0; c < classes; c++) sum += REAL_EXP(z[c] - top);
        loss += log((double)sum) - (double)(z[label[r]] - top);
    }
    *correct = hits;
    return loss;
}

static void softmax(size_t rows, size_t classes, void *z_)
{
    REAL *z = z_;
    size_t hits = 0;
    for (size_t r = 0; r < rows; r++, z += classes) softmax_row(classes, 0, z, &hits);
}

/* log(1 + e^z) - label z, from the exponential of -|z|, which cannot overflow. */
static double logistic_xent(size_t rows, const int32_t *label, double scale_, void *z_, size_t *correct)
{
    REAL *z = z_;
    double loss = 0;
    size_t hits = 0;
    for (size_t r = 0; r < rows; r++) {
        double v = (double)z[r], e = exp(-fabs(v)), y = label[r];
        double sigmoid = v >= 0 ? 1 / (1 + e) : e / (1 + e);
        loss += log1p(e) + (v > 0 ? v : 0) - y * v;
        hits += (v > 0) == (label[r] == 1);
        if (isnan(v)) loss = sigmoid = v;
        z[r] = (REAL)((sigmoid - y) * scale_);
    }
    *correct = hits;
    return loss;
}

/* ---- samples ------------------------------------------------------------------------------------------- */

#define GATHER(NAME, TYPE)                                                                                             \
    static void NAME(size_t rows, size_t dim, const TYPE *x, const uint32_t *idx, size_t segments,                     \
                     const double *factor, const double *offset, void *out_)                                           \
    {                                                                                                                  \
        REAL *restrict out = out_;                                                                                     \
        size_t run = factor ? dim / segments : dim;                                                                    \
        for (size_t r = 0; r < rows; r++, out += dim) {                                                                \
            const TYPE *restrict in = x + (size_t)idx[r] * dim;                                                        \
            if (!factor)                                                                                               \
                for (size_t i = 0; i < dim; i++) out[i] = (REAL)in[i];                                                 \
            else if (run == 1)                                                                                         \
                for (size_t i = 0; i < dim; i++) out[i] = (REAL)((double)in[i] * factor[i] + offset[i]);               \
            else                                                                                                       \
                for (size_t s = 0; s < segments; s++) {                                                                \
                    const REAL a = (REAL)factor[s], b = (REAL)offset[s];                                               \
                    for (size_t i = s * run; i < (s + 1) * run; i++) out[i] = (REAL)in[i] * a + b;                     \
                }                                                                                                      \
        }                                                                                                              \
    }

GATHER(gather_u8, uint8_t)
GATHER(gather_f32, float)
GATHER(gather_f64, double)

extern const fli_image_ops OPS_IMAGE;

const fli_ops OPS = {
    .name = OPS_NAME,
    .level = LEVEL_NAME,
    .size = sizeof(REAL),
    .fill = fill,
    .axpy = axpy,
    .lin = lin,
    .scale = scale,
    .dot = dot,
    .finite = finite_all,
    .map = map,
    .from_f64 = from_f64,
    .to_f64 = to_f64,
    .sgd = sgd,
    .gemm = gemm,
    .gemv = gemv,
    .csr_mul = csr_mul,
    .csr_tmul = csr_tmul,
    .add_bias = add_bias,
    .add_bias_relu = add_bias_relu,
    .relu_mask = relu_mask,
    .col_sum = col_sum,
    .layer = layer,
    .layer_back = layer_back,
    .layer_grad = layer_grad,
    .layer_step = layer_step,
    .softmax_xent = softmax_xent,
    .softmax_error = softmax_error,
    .softmax_loss = softmax_loss,
    .softmax = softmax,
    .logistic_xent = logistic_xent,
    .gather_u8 = gather_u8,
    .gather_f32 = gather_f32,
    .gather_f64 = gather_f64,
    .image = &OPS_IMAGE,
};
