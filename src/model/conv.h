/* Convolutions, linear and without bias, in two kinds: plain ones by the ops table, for any precision, and oneDNN's,
 * for single precision, if the build has oneDNN. Private to this folder.
 *
 * Images have channels last. A filter is out x in x kernel x kernel in the parameter vector, and is `packed` for use.
 * Any number of threads may call all functions but `make` and `free` at once. Calls allocate nothing and give the same
 * bits on any thread. */
#ifndef FLI_MODEL_CONV_H
#define FLI_MODEL_CONV_H

#include "base/ctx.h"
#include "vec/ops.h"

typedef struct {
    fli_window in; /* of the input */
    size_t outs;   /* channels of the output */
} fli_conv_shape;

/* The most images in one call. Callers split batches into such pieces, which stay in the cache from pass to pass. */
enum { FLI_CONV_PIECE = 16 };

typedef enum { FLI_CONV_FORWARD, FLI_CONV_BACKWARD } fli_conv_way;

typedef struct {
    const char *name;
    fl_status (*make)(fl_ctx *ctx, const fli_conv_shape *s, const fli_ops *ops, void **out);
    void (*free)(void *c);           /* NULL is legal */
    size_t (*packed)(const void *c); /* reals of a packed filter, or of its gradient */
    size_t (*work)(const void *c);   /* reals of work space that any of the calls needs */
    /* Packs the filter w for forward or backward. */
    void (*pack)(const void *c, fli_conv_way way, const void *w, void *packed, void *work);
    /* z = x filtered; n images */
    void (*forward)(const void *c, size_t n, const void *packed, const void *x, void *z, void *work);
    /* dx = the adjoint of forward, applied to dz */
    void (*backward)(const void *c, size_t n, const void *packed, const void *dz, void *dx, void *work);
    /* packed = the derivative of <dz, forward(x)> by the filter; added to packed if `more`. */
    void (*gradient)(const void *c, size_t n, const void *x, const void *dz, int more, void *packed, void *work);
    /* g = a packed gradient in the order of the parameter vector. */
    void (*unpack)(const void *c, const void *packed, void *g, void *work);
} fli_conv_kind;

extern const fli_conv_kind fli_conv_plain;
/* For f32 only. NULL in a build without oneDNN. */
extern const fli_conv_kind *const fli_conv_onednn;
/* Name and version, as in "oneDNN 2.6.3"; NULL in a build without oneDNN. */
const char *fli_conv_library(void);

#endif
