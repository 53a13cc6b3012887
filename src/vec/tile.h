/* Register tiles: declarations shared by cpu.c and tile.c. Included after precision.h. */
#ifndef FLI_VEC_TILE_H
#define FLI_VEC_TILE_H

/* A tile stays in registers: 24 of 32 with AVX-512 and on 64-bit ARM, 12 and 8 of 16 with AVX2. On other processors
 * BLAS is faster, because it detects the processor at run time. */
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
/* for every i below n, unrolled early, so that arrays indexed by i can become registers */
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

/* C = A B on one tile: `rows` x `vecs` vectors, k long. A has the given steps between rows and between columns, a panel
 * of B rows of PANEL reals, C rows of ldc. */
void OUTER_TILE(size_t rows, size_t vecs, size_t k, const REAL *a, size_t row_step, size_t col_step, const REAL *panel,
                REAL *c, size_t ldc);
/* An SGD step on a whole matrix, with the product as its gradient: z <- z - lr (A B + wd z + times shift). */
typedef struct {
    REAL *z;           /* rows of ld */
    const REAL *shift; /* rows of ld; NULL: none */
    size_t ld;
    REAL lr, wd, times;
} STEP;
/* The step on one full tile, OUTER_ROWS x PANEL, whose first element of z is `at`. Meanwhile fetches the tile that
 * starts at `next`, a row at a time: fetching all at once would delay the other loads. */
void STEP_TILE(size_t k, const REAL *a, size_t row_step, size_t col_step, const REAL *panel, const STEP *s, size_t at,
               size_t next);
/* C = A B' on one tile: `rows` x INNER_COLS; A has rows of k >= TILE_LANES; b[j] points at row j of B. */
void INNER_TILE(size_t rows, size_t k, const REAL *a, const REAL *const *b, REAL *c, size_t ldc);

#endif
