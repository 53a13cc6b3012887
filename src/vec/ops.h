/* The arithmetic of one backend, as a table. All code that computes with the reals of a model uses it, so the same
 * engine runs in f32 and f64. Vectors on devices: place.h.
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

/* Windows, pooling, and the two orders of an image's values. Part of a backend's table, as `ops->image`; the rules
 * above hold. Unless a comment says otherwise, an image has channels last: row, column, channel. */

/* Square windows that slide over an image with a border of `pad` zeros. A window that does not fit is left out. */
typedef struct {
    size_t channels, height, width;
    size_t kernel, stride, pad; /* height + 2 pad >= kernel, width + 2 pad >= kernel; pad < kernel */
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
    /* Transposes n matrices of rows x cols; y holds n of cols x rows. Converts images between channels first (channels
     * x pixels) and channels last. */
    void (*transpose)(size_t n, size_t rows, size_t cols, const void *x, void *y);
    /* One image: row r of col = the values in window r, ordered by row, column, channel; zeros outside the image. */
    void (*unfold)(const fli_window *w, const void *x, void *col);
    /* The adjoint: image x = the sum of all windows at their positions. */
    void (*fold)(const fli_window *w, const void *col, void *x);
    /* Pools of n images: windows with stride = kernel and no pad. which[i] = position of the largest value in the
     * window of y's value i: the first one on ties; of NaNs, which count as largest, the last one. */
    void (*max_pool)(const fli_window *w, size_t n, const void *x, uint8_t *which, void *y);
    void (*max_pick)(const fli_window *w, size_t n, const void *x, const uint8_t *which, void *y); /* y = x[which] */
    void (*max_put)(const fli_window *w, size_t n, const void *y, const uint8_t *which, void *x);  /* its adjoint */
    void (*mean_pool)(const fli_window *w, size_t n, const void *x, void *y);
    void (*mean_put)(const fli_window *w, size_t n, const void *y, void *x); /* its adjoint */
    /* One image with channels first, in place: mirrored left to right if `mirror`, then moved by (down, right). A value
     * moved in from outside is fill[i / run] at position i of the image; fill NULL: zero. */
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

/* Some rows of a sparse matrix, by reference: row r has the values value[k] scale[col[k]] in the columns col[k], for
 * row[idx[r]] <= k < row[idx[r] + 1]. */
typedef struct {
    const size_t *row;
    const uint32_t *col;
    const void *value; /* floats, or doubles if `wide` */
    const uint32_t *idx;
    const double *scale; /* one per column; NULL: 1 */
    int wide;
} fli_csr;

enum { FLI_MAP_MOST = 8 };
typedef void fli_map_fn(const void *arg, double *v);

typedef struct fli_ops {
    const char *name;  /* "f32", "f64" */
    const char *level; /* the processors that it is compiled for: vec/kernels.h */
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
    /* For every i: calls fn with the i-th reals of at most FLI_MAP_MOST vectors, and stores the values that fn
     * leaves. */
    void (*map)(size_t n, size_t vectors, void *const *x, fli_map_fn *fn, const void *arg);

    /* ---- dense algebra ---- */
    /* C = alpha op(A) op(B) + beta C; op(A) is m x k, op(B) k x n, C m x n; ld* are row strides */
    void (*gemm)(int ta, int tb, size_t m, size_t n, size_t k, double alpha, const void *a, size_t lda, const void *b,
                 size_t ldb, double beta, void *c, size_t ldc);
    /* y = alpha op(A) x + beta y; A is m x n */
    void (*gemv)(int ta, size_t m, size_t n, double alpha, const void *a, size_t lda, const void *x, double beta,
                 void *y);

    /* ---- sparse algebra: A is rows x dim; only its non-zeros are read ---- */
    /* Z = A W'; W is outs x dim, Z rows x outs */
    void (*csr_mul)(size_t rows, size_t dim, size_t outs, const fli_csr *a, const void *w, void *z);
    /* G = alpha D' A; D is rows x outs, G outs x dim */
    void (*csr_tmul)(size_t rows, size_t dim, size_t outs, double alpha, const fli_csr *a, const void *d, void *g);

    /* ---- networks ---- */
    void (*add_bias)(size_t rows, size_t cols, const void *bias, void *z);      /* z += bias on every row */
    void (*add_bias_relu)(size_t rows, size_t cols, const void *bias, void *z); /* z = max(0, z + bias) */
    void (*relu_mask)(size_t n, const void *h, void *d);                        /* d = 0 where h <= 0 */
    void (*col_sum)(size_t rows, size_t cols, const void *z, void *out);        /* out = column sums */
    /* A fully connected layer for n samples: X n x in, W out x in, directly followed by the bias b (out), Z and D n x
     * out. */
    /* Z = X W' + 1 b', or max(0, .) of it if `relu` */
    void (*layer)(size_t n, size_t in, size_t out, const void *x, const void *w, int relu, void *z);
    /* E = D W where h > 0, else 0; H and E n x in */
    void (*layer_back)(size_t n, size_t in, size_t out, const void *d, const void *w, const void *h, void *e);
    /* g = (D'X, D'1), laid out as W and b */
    void (*layer_grad)(size_t n, size_t in, size_t out, const void *d, const void *x, void *g);
    /* Takes the step of `sgd` on w = (W, b) with the same gradient; ignores step->grad. g is room for the gradient; its
     * contents are unspecified afterwards. */
    void (*layer_step)(size_t n, size_t in, size_t out, const void *d, const void *x, const fli_sgd_step *step, void *g,
                       void *w);
    /* z: logits (rows x classes) in, (softmax - onehot) * scale out. Returns the summed cross-entropy; *correct =
     * number of rows whose largest logit is the label's (the first one on ties). */
    double (*softmax_xent)(size_t rows, size_t classes, const int32_t *label, double scale, void *z, size_t *correct);
    /* computes the same z alone */
    void (*softmax_error)(size_t rows, size_t classes, const int32_t *label, double scale, void *z);
    /* returns the same loss and count, and leaves z; for evaluation */
    double (*softmax_loss)(size_t rows, size_t classes, const int32_t *label, const void *z, size_t *correct);
    /* z: logits in, probabilities out */
    void (*softmax)(size_t rows, size_t classes, void *z);
    /* two classes by one logit: z[i] in, (sigmoid(z[i]) - label[i]) * scale out. Returns the summed loss */
    double (*logistic_xent)(size_t rows, const int32_t *label, double scale, void *z, size_t *correct);

    /* ---- samples: row r of out = row idx[r] of x (row length dim), times scale plus shift per segment ---- */
    /* A row has `segments` runs of dim/segments features with one (scale, shift) each. scale NULL: the row is not
     * scaled. */
    void (*gather_u8)(size_t rows, size_t dim, const uint8_t *x, const uint32_t *idx, size_t segments,
                      const double *scale, const double *shift, void *out);
    void (*gather_f32)(size_t rows, size_t dim, const float *x, const uint32_t *idx, size_t segments,
                       const double *scale, const double *shift, void *out);
    void (*gather_f64)(size_t rows, size_t dim, const double *x, const uint32_t *idx, size_t segments,
                       const double *scale, const double *shift, void *out);

    const fli_image_ops *image; /* for networks on images: see above */
} fli_ops;

/* The tables of the level in use (vec/kernels.h), filled before main and constant afterwards. */
extern fli_ops fli_ops_f32, fli_ops_f64;
extern const fli_ops *const fli_ops_list[]; /* NULL-terminated */

const fli_ops *fli_ops_find(const char *name); /* NULL for an unknown name */

/* Makes OpenBLAS use the kernels of `core` if it does not know the processor; NULL: no core is suitable. Only kernels.c
 * calls it, before main, when no thread uses BLAS or reads the environment. */
void fli_blas_look_again(const char *core);
/* The library that a result's last digits depend on: "OpenBLAS for SkylakeX", or "BLAS of libblas.so.3" if another
 * library's functions replace OpenBLAS' own. */
void fli_blas_name(char *out, size_t room);
const char *fli_blas_library(void); /* the one that fedloom was built with */
/* Sets BLAS to one thread per call. Call it before computing (fli_model_new does). FL_ENOMEM if the limit on address
 * space leaves no room for BLAS. */
fl_status fli_blas_prepare(fl_ctx *ctx);
/* Address space that BLAS maps for each thread that calls it at the same time. If the mapping fails, BLAS retries for
 * ever, so it must not be called without that room. */
#define FLI_BLAS_BUFFER 0x1p27
/* True if several threads may call BLAS at once. A serial build of OpenBLAS returns wrong numbers then. */
int fli_blas_thread_safe(void);

#endif
