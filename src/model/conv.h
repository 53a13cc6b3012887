/* Convolutions, linear and without bias, by one of two kinds of code: plain ones in terms of the ops table, for any
 * precision, and oneDNN's, for single precision where the library was there when fedloom was built. Private to this
 * folder.
 *
 * Images lie channels last; a filter is out x in x kernel x kernel in the parameter vector, and `packed` while it is
 * used. All calls but `make` and `free` may come from any number of threads at once. They allocate nothing, and give
 * the same bits in any thread. */
#ifndef FLI_MODEL_CONV_H
#define FLI_MODEL_CONV_H

#include "base/ctx.h"
#include "vec/ops.h"

typedef struct {
    fli_window in; /* of the input */
    size_t outs;   /* channels of the output */
} fli_conv_shape;

/* The most images in one call: callers go through a batch in such pieces, which stay in the cache from one pass to the
 * next. */
enum { FLI_CONV_PIECE = 16 };

typedef enum { FLI_CONV_FORWARD, FLI_CONV_BACKWARD } fli_conv_way;

typedef struct {
    const char *name;
    fl_status (*make)(fl_ctx *ctx, const fli_conv_shape *s, const fli_ops *ops, void **out);
    void (*free)(void *c);           /* NULL is legal */
    size_t (*packed)(const void *c); /* reals of a packed filter, or of a gradient by one */
    size_t (*work)(const void *c);   /* reals of work space for any of the calls */
    /* The filter w as forward or backward want it. */
    void (*pack)(const void *c, fli_conv_way way, const void *w, void *packed, void *work);
    /* z = x filtered; n images */
    void (*forward)(const void *c, size_t n, const void *packed, const void *x, void *z, void *work);
    /* dx = the adjoint of forward, applied to dz */
    void (*backward)(const void *c, size_t n, const void *packed, const void *dz, void *dx, void *work);
    /* The derivative of <dz, forward> by the filter; packed: overwritten, or added to if `more`. */
    void (*gradient)(const void *c, size_t n, const void *x, const void *dz, int more, void *packed, void *work);
    /* A packed gradient in the order of the parameter vector. */
    void (*unpack)(const void *c, const void *packed, void *g, void *work);
} fli_conv_kind;

extern const fli_conv_kind fli_conv_plain;
/* For f32 only. NULL in a build without oneDNN. */
extern const fli_conv_kind *const fli_conv_onednn;
/* "oneDNN 2.6.3"; NULL in a build without it. */
const char *fli_conv_library(void);

#endif
