/* The arithmetic of one backend, as a table. Everything that touches the reals of a model goes through it, so the same
 * engine runs in f32 and f64. Vectors that live on a device are none of its business: place.h.
 *
 * Vectors and matrices are plain memory (`void *`) of `size`-byte reals; matrices are row-major. Scalars are double.
 * Results do not depend on the thread that computes them. Unless a comment says otherwise, outputs must not overlap
 * inputs. */
#ifndef FLI_VEC_OPS_H
#define FLI_VEC_OPS_H

#include "base/ctx.h"

#include <stddef.h>
#include <stdint.h>

/* ---- images -------------------------------------------------------------------------------------------------- */

/* Images, for networks that look at them: windows, pooling, and the two orders of their values. Part of a backend's
 * table, as `ops->image`; the rules above hold. Unless a comment says otherwise an image lies channels last: row,
 * column, channel. */

/* Square windows that slide over an image with a border of `pad` zeros around it. A window that does not fit is left
 * out. */
typedef struct {
    size_t channels, height, width;
    size_t kernel, stride, pad; /* height + 2 pad >= kernel, likewise the width; pad < kernel */
    size_t out_height, out_width;
} fli_window;

static inline void fli_window_init(fli_window *w, size_t channels, size_t height, size_t width, size_t kernel,
                                   size_t stride, size_t pad)
{
    *w = (fli_window){channels, height, width, kernel, stride, pad, 0, 0};
    w->out_height = (height + 2 * pad - kernel) / stride + 1;
    w->out_width = (width + 2 * pad - kernel) / stride + 1;
}

typedef struct fli_image_ops {
    /* n matrices, rows x cols each, turned: y holds n of cols x rows. Changes channels first (channels x pixels) to
     * last, and back. */
    void (*transpose)(size_t n, size_t rows, size_t cols, const void *x, void *y);
    /* One image: row r of col is what window r sees, in the order row, column, channel; zeros outside the image. */
    void (*unfold)(const fli_window *w, const void *x, void *col);
    /* The adjoint: x, an image, is the sum of all windows, each put back where it was. */
    void (*fold)(const fli_window *w, const void *col, void *x);
    /* Pools: windows with stride = kernel and no pad; n images. `which` gets the place of the largest value within each
     * window (the first one on ties; of NaNs, which are larger than anything, the last), one per value of y. */
    void (*max_pool)(const fli_window *w, size_t n, const void *x, uint8_t *which, void *y);
    void (*max_pick)(const fli_window *w, size_t n, const void *x, const uint8_t *which, void *y); /* y = x there */
    void (*max_put)(const fli_window *w, size_t n, const void *y, const uint8_t *which, void *x);  /* its adjoint */
    void (*mean_pool)(const fli_window *w, size_t n, const void *x, void *y);
    void (*mean_put)(const fli_window *w, size_t n, const void *y, void *x); /* its adjoint */
    /* One image with channels first, in place: turned left to right if `mirror`, then moved by (down, right) within its
     * frame; what comes in from outside has the value fill[i / run] at place i of the image. fill NULL: zeros. */
    void (*shift)(size_t channels, size_t height, size_t width, int mirror, int down, int right, const double *fill,
                  size_t run, void *x);
} fli_image_ops;

/* ---- vectors and matrices ------------------------------------------------------------------------------------- */

/* One step of momentum SGD on  f + wd/2 ||z||^2 + <shift, z> + rho/2 ||z - anchor||^2, fused into one pass:
 *     d = grad + wd z + shift + rho (z - anchor);  m = momentum m + d;  z = z - lr m      (m = d without momentum) */
typedef struct {
    double lr, wd, rho, momentum;
    const void *grad;
    const void *shift;  /* NULL: none */
    const void *anchor; /* NULL: none (rho is then ignored) */
    void *buffer;       /* m; NULL: no momentum */
} fli_sgd_step;

/* Chosen rows of a sparse matrix, used where they lie: row r has the values value[k] times scale[col[k]], in the
 * columns col[k], for row[idx[r]] <= k < row[idx[r] + 1]. */
typedef struct {
    const size_t *row;
    const uint32_t *col;
    const void *value; /* floats, or doubles if `wide` */
    const uint32_t *idx;
    const double *scale; /* one per column; NULL: as they are */
    int wide;
} fli_csr;

enum { FLI_MAP_MOST = 8 };
typedef void fli_map_fn(const void *arg, double *v);

typedef struct fli_ops {
    const char *name;  /* "f32", "f64" */
    const char *level; /* the processors it is made for: vec/kernels.h */
    size_t size;       /* bytes per real */

    /* ---- vectors ---- */
    void (*fill)(size_t n, double a, void *y);
    void (*axpy)(size_t n, double a, const void *x, void *y); /* y += a x */
    /* out = a x + b y; out may be x or y */
    void (*lin)(size_t n, double a, const void *x, double b, const void *y, void *out);
    void (*scale)(size_t n, double a, void *y);            /* y *= a */
    double (*dot)(size_t n, const void *x, const void *y); /* summed in double */
    int (*finite)(size_t n, const void *x);                /* no NaN, no infinity */
    void (*from_f64)(size_t n, const double *x, void *y);
    void (*to_f64)(size_t n, const void *x, double *y);
    void (*sgd)(size_t n, const fli_sgd_step *step, void *z);
    /* For every i: fn is given the i-th reals of at most FLI_MAP_MOST vectors, and what it makes of them is written
     * back. */
    void (*map)(size_t n, size_t vectors, void *const *x, fli_map_fn *fn, const void *arg);

    /* ---- dense algebra ---- */
    /* C = alpha op(A) op(B) + beta C; op(A) is m x k, op(B) k x n, C m x n; ld* are row strides */
    void (*gemm)(int ta, int tb, size_t m, size_t n, size_t k, double alpha, const void *a, size_t lda, const void *b,
                 size_t ldb, double beta, void *c, size_t ldc);
    /* y = alpha op(A) x + beta y; A is m x n */
    void (*gemv)(int ta, size_t m, size_t n, double alpha, const void *a, size_t lda, const void *x, double beta,
                 void *y);

    /* ---- sparse algebra: A is rows x dim, and only its non-zeros are touched ---- */
    /* Z = A W'; W is outs x dim, Z rows x outs */
    void (*csr_mul)(size_t rows, size_t dim, size_t outs, const fli_csr *a, const void *w, void *z);
    /* G = alpha D' A; D is rows x outs, G outs x dim */
    void (*csr_tmul)(size_t rows, size_t dim, size_t outs, double alpha, const fli_csr *a, const void *d, void *g);

    /* ---- networks ---- */
    void (*add_bias)(size_t rows, size_t cols, const void *bias, void *z);      /* z += bias on every row */
    void (*add_bias_relu)(size_t rows, size_t cols, const void *bias, void *z); /* z = max(0, z + bias) */
    void (*relu_mask)(size_t n, const void *h, void *d);                        /* d = 0 where h <= 0 */
    void (*col_sum)(size_t rows, size_t cols, const void *z, void *out);        /* out = column sums */
    /* A fully connected layer and n samples: X n x in, W out x in with the bias b (out) right behind it, Z and D n x
     * out. */
    /* Z = X W' + 1 b', with relu max(0, .) of it */
    void (*layer)(size_t n, size_t in, size_t out, const void *x, const void *w, int relu, void *z);
    /* E = D W where h > 0, else 0; H and E n x in */
    void (*layer_back)(size_t n, size_t in, size_t out, const void *d, const void *w, const void *h, void *e);
    /* g = (D'X, D'1), laid out as W and b */
    void (*layer_grad)(size_t n, size_t in, size_t out, const void *d, const void *x, void *g);
    /* the same gradient and the step of `sgd` with it (step->grad is not looked at) on w = (W, b); g: room for it, of
     * which nothing can be expected */
    void (*layer_step)(size_t n, size_t in, size_t out, const void *d, const void *x, const fli_sgd_step *step, void *g,
                       void *w);
    /* z: logits (rows x classes) in, (softmax - onehot) * scale out. Returns the summed cross-entropy; *correct is the
     * number of rows whose largest logit is the label's (the first one on ties). */
    double (*softmax_xent)(size_t rows, size_t classes, const int32_t *label, double scale, void *z, size_t *correct);
    /* the same z alone */
    void (*softmax_error)(size_t rows, size_t classes, const int32_t *label, double scale, void *z);
    /* the same loss and count, z untouched; for evaluation */
    double (*softmax_loss)(size_t rows, size_t classes, const int32_t *label, const void *z, size_t *correct);
    /* z: logits in, probabilities out */
    void (*softmax)(size_t rows, size_t classes, void *z);
    /* two classes by one logit: z[i] in, (sigmoid(z[i]) - label[i]) * scale out. Returns the summed loss. */
    double (*logistic_xent)(size_t rows, const int32_t *label, double scale, void *z, size_t *correct);

    /* ---- samples: row r of out = row idx[r] of x (row length dim), times scale plus shift per segment ---- */
    /* A row consists of `segments` runs of dim/segments features with one (scale, shift) each. scale NULL: as it is. */
    void (*gather_u8)(size_t rows, size_t dim, const uint8_t *x, const uint32_t *idx, size_t segments,
                      const double *scale, const double *shift, void *out);
    void (*gather_f32)(size_t rows, size_t dim, const float *x, const uint32_t *idx, size_t segments,
                       const double *scale, const double *shift, void *out);
    void (*gather_f64)(size_t rows, size_t dim, const double *x, const uint32_t *idx, size_t segments,
                       const double *scale, const double *shift, void *out);

    const fli_image_ops *image; /* what networks for images need beside that: see above */
} fli_ops;

/* Those of the level in use (vec/kernels.h), filled before main; nobody else writes to them. */
extern fli_ops fli_ops_f32, fli_ops_f64;
extern const fli_ops *const fli_ops_list[]; /* NULL-terminated */

const fli_ops *fli_ops_find(const char *name); /* NULL if there is none */

/* Lets OpenBLAS choose the kernels of `core` if it did not know the processor; NULL: none would do. kernels.c calls it
 * before main, while nobody uses BLAS yet nor reads the environment beside it. */
void fli_blas_look_again(const char *core);
/* All that its last digits depend on: "OpenBLAS for SkylakeX", or "BLAS of libblas.so.3" where another library's
 * functions stand in its place. */
void fli_blas_name(char *out, size_t room);
const char *fli_blas_library(void); /* which one fedloom was built with */
/* Sets BLAS up: one thread per call. Whoever computes calls it first (fli_model_new does). FL_ENOMEM if the limit on
 * address space leaves it no room. */
fl_status fli_blas_prepare(fl_ctx *ctx);
/* Address space that it maps for every thread that calls it at the same time. Where it cannot have that it asks again,
 * for ever: so it must not be called then. */
#define FLI_BLAS_BUFFER 0x1p27
/* Whether BLAS may be called from several threads at once. A serial build of OpenBLAS may not: it returns wrong
 * numbers. */
int fli_blas_thread_safe(void);

#endif
