/* Images, for networks that look at them: windows, pooling, and the two orders of their values. Part of a backend's
 * table, as `ops->image`; the rules of ops.h hold. Unless a comment says otherwise an image lies channels last: row,
 * column, channel. */
#ifndef FLI_VEC_IMAGE_H
#define FLI_VEC_IMAGE_H

#include <stddef.h>
#include <stdint.h>

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

#endif
