/* Register tiles: what cpu.c and the two kernels of tile.c agree on. Included after precision.h. */
#ifndef FLI_VEC_TILE_H
#define FLI_VEC_TILE_H

/* The tile stays in registers: 24 of 32 with AVX-512 and on 64-bit ARM, 12 and 8 of 16 with AVX2. Elsewhere BLAS is the
 * faster, which looks at the processor when it runs. */
#if defined __AVX512F__
#define TILE_BYTES 64
enum { TILES_PAY = 1, OUTER_ROWS = 8, OUTER_VECS = 3, INNER_ROWS = 6 };
#elif defined __AVX2__ && defined __FMA__
#define TILE_BYTES 32
enum { TILES_PAY = 1, OUTER_ROWS = 6, OUTER_VECS = 2, INNER_ROWS = 2 };
#elif defined __aarch64__
#define TILE_BYTES 16
enum { TILES_PAY = 1, OUTER_ROWS = 8, OUTER_VECS = 3, INNER_ROWS = 6 };
#else
#define TILE_BYTES 16
enum { TILES_PAY = 0, OUTER_ROWS = 4, OUTER_VECS = 2, INNER_ROWS = 2 };
#endif
#define TILE_LANES (TILE_BYTES / REAL_SIZE)
#define TILE       static inline __attribute__((always_inline))
/* for every i below n, unrolled early: what the loop indexes can then become registers */
#define EACH(i, n) _Pragma("GCC unroll 8") for (size_t i = 0; i < (n); i++)

typedef REAL vec __attribute__((vector_size(TILE_BYTES)));
typedef REAL vec_anywhere __attribute__((vector_size(TILE_BYTES), aligned(REAL_SIZE), may_alias));
typedef REAL four_anywhere __attribute__((vector_size(4 * REAL_SIZE), aligned(REAL_SIZE), may_alias));
typedef REAL_BITS bits_anywhere __attribute__((vector_size(TILE_BYTES), aligned(REAL_SIZE), may_alias));

enum {
    PANEL = OUTER_VECS * TILE_LANES, /* columns of an outer tile */
    DEPTH = 256, /* longest common dimension of an outer tile: a panel of B fits into the first cache */
    INNER_COLS = 4,
    CHUNK =
        192 << 10 /* bytes of A that an inner product passes over for a few rows of B: they stay in the second cache */
};

/* C = A B on one tile: `rows` x `vecs` vectors, k long. A has its own steps from row to row and from column to column,
 * a panel of B rows of PANEL reals, C rows of ldc. */
void OUTER_TILE(size_t rows, size_t vecs, size_t k, const REAL *a, size_t row_step, size_t col_step, const REAL *panel,
                REAL *c, size_t ldc);
/* An SGD step with the product as its gradient, on a whole matrix: z <- z - lr (A B + wd z + times shift). */
typedef struct {
    REAL *z;           /* rows of ld */
    const REAL *shift; /* likewise; NULL: none */
    size_t ld;
    REAL lr, wd, times;
} STEP;
/* The same on one full tile, OUTER_ROWS x PANEL, with the step on z's elements from `at` on; what belongs to the tile
 * from `next` on is fetched meanwhile, a row at a time: all at once, it would keep the other loads waiting. */
void STEP_TILE(size_t k, const REAL *a, size_t row_step, size_t col_step, const REAL *panel, const STEP *s, size_t at,
               size_t next);
/* C = A B' on one tile: `rows` x INNER_COLS; A has rows of k >= TILE_LANES, b points at as many rows of B as there are
 * columns. */
void INNER_TILE(size_t rows, size_t k, const REAL *a, const REAL *const *b, REAL *c, size_t ldc);

#endif
