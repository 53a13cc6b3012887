/* The kernels of matrix products by register tiles. Only these files are compiled with contraction (a product and a sum
 * rounded as one), which doubles their speed. Elsewhere it would do harm: a x - a y must be 0 if x = y.
 *
 * A tile is a block of the result that stays in registers during the loop over the common dimension:
 *   outer   C = A B, rows of B contiguous: a column of A times a row of B, vectors along the columns of C
 *   inner   C = A B', rows of both contiguous: vectors along the common dimension, summed at the end
 * Plain C with vector types: the compiler chooses the instructions. */
#include <stddef.h>
#include <stdint.h>

#include "vec/precision.h"
#include "vec/tile.h"

/* ---- outer --------------------------------------------------------------------------------------------- */

/* Adds a column of A times a row of B to a tile. */
TILE void add_outer(size_t rows, size_t vecs, const REAL *const *half, size_t row_step, const REAL *panel,
                    vec (*acc)[3])
{
    EACH (i, rows)
        EACH (j, vecs) acc[i][j] += half[i / 4][i % 4 * row_step] * ((const vec *)panel)[j];
}

TILE void outer(size_t rows, size_t vecs, size_t k, const REAL *a, size_t row_step, size_t col_step, const REAL *panel,
                REAL *c, size_t ldc)
{
    vec acc[8][3];
    const REAL *half[2] = {a, a + 4 * row_step}; /* addressing modes have offsets of up to 3 rows */
    EACH (i, rows)
        EACH (j, vecs) acc[i][j] = (vec){0};
    for (size_t t = 0; t < k; t++, half[0] += col_step, half[1] += col_step, panel += PANEL)
        add_outer(rows, vecs, half, row_step, panel, acc);
    EACH (i, rows)
        EACH (j, vecs) ((vec_anywhere *)(c + i * ldc))[j] = acc[i][j];
}

/* One copy of the code per shape, so that the tile is in registers. */
TILE void outer_rows(size_t rows, size_t vecs, size_t k, const REAL *a, size_t row_step, size_t col_step,
                     const REAL *panel, REAL *c, size_t ldc)
{
    switch (rows) {
    case 1: outer(1, vecs, k, a, row_step, col_step, panel, c, ldc); break;
    case 2: outer(2, vecs, k, a, row_step, col_step, panel, c, ldc); break;
    case 3: outer(3, vecs, k, a, row_step, col_step, panel, c, ldc); break;
    case 4: outer(4, vecs, k, a, row_step, col_step, panel, c, ldc); break;
    case 5: outer(5, vecs, k, a, row_step, col_step, panel, c, ldc); break;
    case 6: outer(6, vecs, k, a, row_step, col_step, panel, c, ldc); break;
    case 7: outer(7, vecs, k, a, row_step, col_step, panel, c, ldc); break;
    default: outer(8, vecs, k, a, row_step, col_step, panel, c, ldc);
    }
}

void OUTER_TILE(size_t rows, size_t vecs, size_t k, const REAL *a, size_t row_step, size_t col_step, const REAL *panel,
                REAL *c, size_t ldc)
{
    switch (vecs) {
    case 1: outer_rows(rows, 1, k, a, row_step, col_step, panel, c, ldc); break;
    case 2: outer_rows(rows, 2, k, a, row_step, col_step, panel, c, ldc); break;
    default: outer_rows(rows, 3, k, a, row_step, col_step, panel, c, ldc);
    }
}

/* ---- outer and a step ---------------------------------------------------------------------------------- */

TILE void fetch_row(const STEP *s, size_t at)
{
    EACH (j, OUTER_VECS) __builtin_prefetch(s->z + at + j * TILE_LANES, 1);
    if (!s->shift) return;
    EACH (j, OUTER_VECS) __builtin_prefetch(s->shift + at + j * TILE_LANES);
}

TILE void outer_step(size_t k, const REAL *a, size_t row_step, size_t col_step, const REAL *panel, const STEP *s,
                     size_t at, size_t next, int shifted)
{
    vec acc[8][3];
    const REAL *half[2] = {a, a + 4 * row_step};
    const REAL lr = s->lr, wd = s->wd, times = s->times;
    EACH (i, OUTER_ROWS)
        EACH (j, OUTER_VECS) acc[i][j] = (vec){0};
    for (size_t r = 0, t = 0; r < OUTER_ROWS; r++) {
        fetch_row(s, next + r * s->ld);
        for (size_t end = k * (r + 1) / OUTER_ROWS; t < end;
             t++, half[0] += col_step, half[1] += col_step, panel += PANEL)
            add_outer(OUTER_ROWS, OUTER_VECS, half, row_step, panel, acc);
    }
    EACH (i, OUTER_ROWS)
        EACH (j, OUTER_VECS) {
            vec_anywhere *z = (vec_anywhere *)(s->z + at + i * s->ld) + j;
            vec d = acc[i][j] + wd * *z;
            if (shifted) d += times * ((const vec_anywhere *)(s->shift + at + i * s->ld))[j];
            *z -= lr * d;
        }
}

void STEP_TILE(size_t k, const REAL *a, size_t row_step, size_t col_step, const REAL *panel, const STEP *s, size_t at,
               size_t next)
{
    if (s->shift)
        outer_step(k, a, row_step, col_step, panel, s, at, next, 1);
    else
        outer_step(k, a, row_step, col_step, panel, s, at, next, 0);
}

/* ---- inner --------------------------------------------------------------------------------------------- */

#if TILE_LANES == 16
#define EVEN 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define ODD  1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define FOURS(v)                                                                                                       \
    (__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7) +                           \
     __builtin_shufflevector(v, v, 8, 9, 10, 11) + __builtin_shufflevector(v, v, 12, 13, 14, 15))
#elif TILE_LANES == 8
#define EVEN     0, 8, 2, 10, 4, 12, 6, 14
#define ODD      1, 9, 3, 11, 5, 13, 7, 15
#define LOW      0, 1, 8, 9, 4, 5, 12, 13
#define HIGH     2, 3, 10, 11, 6, 7, 14, 15
#define FOURS(v) (__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7))
#elif TILE_LANES == 4
#define EVEN     0, 4, 2, 6
#define ODD      1, 5, 3, 7
#define LOW      0, 1, 4, 5
#define HIGH     2, 3, 6, 7
#define FOURS(v) (v)
#else
#define EVEN 0, 2
#define ODD  1, 3
#endif

/* A mask of the last r lanes starts at element r. */
static const REAL_BITS last_lanes[2 * TILE_LANES] = {[TILE_LANES... 2 * TILE_LANES - 1] = -1};

/* Adds the lanes of four vectors in pairs, until each group of four lanes has the sums of the four columns. */
TILE void sum_lanes(const vec *acc, REAL *c)
{
    vec ab = __builtin_shufflevector(acc[0], acc[1], EVEN) + __builtin_shufflevector(acc[0], acc[1], ODD);
    vec cd = __builtin_shufflevector(acc[2], acc[3], EVEN) + __builtin_shufflevector(acc[2], acc[3], ODD);
#if TILE_LANES == 2
    ((vec_anywhere *)c)[0] = ab;
    ((vec_anywhere *)c)[1] = cd;
#else
    vec abcd = __builtin_shufflevector(ab, cd, LOW) + __builtin_shufflevector(ab, cd, HIGH);
    *(four_anywhere *)c = FOURS(abcd);
#endif
}

/* k >= TILE_LANES. The remainder of k comes first, as vectors that end where the rows end; A's lanes that the loop
 * covers are masked to zero. */
TILE void inner(size_t rows, size_t k, const REAL *a, const REAL *const *b, REAL *c, size_t ldc)
{
    vec acc[6][INNER_COLS];
    const size_t whole = k - k % TILE_LANES, end = k - TILE_LANES;
    const bits_anywhere *mask = (const bits_anywhere *)(last_lanes + k % TILE_LANES);
    EACH (i, rows) {
        vec rest = (vec)(*(const bits_anywhere *)(a + i * k + end) & *mask);
        EACH (j, INNER_COLS) acc[i][j] = rest * *(const vec_anywhere *)(b[j] + end);
    }
    for (size_t t = 0; t < whole; t += TILE_LANES)
        EACH (i, rows)
            EACH (j, INNER_COLS)
                acc[i][j] += *(const vec_anywhere *)(a + i * k + t) * *(const vec_anywhere *)(b[j] + t);
    EACH (i, rows) sum_lanes(acc[i], c + i * ldc);
}

void INNER_TILE(size_t rows, size_t k, const REAL *a, const REAL *const *b, REAL *c, size_t ldc)
{
    switch (rows) {
    case 1: inner(1, k, a, b, c, ldc); break;
    case 2: inner(2, k, a, b, c, ldc); break;
    case 3: inner(3, k, a, b, c, ldc); break;
    case 4: inner(4, k, a, b, c, ldc); break;
    case 5: inner(5, k, a, b, c, ldc); break;
    default: inner(6, k, a, b, c, ldc);
    }
}
