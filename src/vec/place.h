/* A place: memory for vectors that is not plain, such as a device's. A space with a place (space.h) computes there. Its
 * vectors are addresses that only the place may dereference; adding to an address gives that of a later element.
 *
 * A place may delay elementwise operations until a result is read. It makes sure that every result is as if all
 * operations had been executed at once, in the order of the calls. */
#ifndef FLI_VEC_PLACE_H
#define FLI_VEC_PLACE_H

#include "vec/ops.h"

typedef struct fli_place fli_place;

typedef struct {
    /* ---- memory ---- */
    /* Zeroed memory, aligned to 256 bytes. NULL: FL_ENOMEM, with a sentence in the context. */
    void *(*alloc)(fli_place *p, fl_ctx *ctx, size_t bytes);
    void (*release)(fli_place *p, void *v); /* v NULL is legal */
    /* Copy `bytes` from and to plain memory; complete when they return. */
    void (*read)(fli_place *p, size_t bytes, const void *v, void *here);
    void (*write)(fli_place *p, size_t bytes, const void *here, void *v);

    /* ---- elementwise: as in ops.h, in the precision of `ops` ---- */
    void (*copy)(fli_place *p, const fli_ops *ops, size_t n, const void *x, void *y);
    void (*fill)(fli_place *p, const fli_ops *ops, size_t n, double a, void *y);
    void (*axpy)(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, void *y);
    void (*lin)(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, double b, const void *y,
                void *out);
    void (*scale)(fli_place *p, const fli_ops *ops, size_t n, double a, void *y);
    void (*map)(fli_place *p, const fli_ops *ops, size_t n, size_t vectors, void *const *x, fli_map_fn *fn,
                const void *arg);

    /* ---- with a result ---- */
    double (*dot)(fli_place *p, const fli_ops *ops, size_t n, const void *x, const void *y);
    /* for `count` vectors at once: out[i] = 0 if x[i] has a NaN or an infinity */
    void (*finite)(fli_place *p, const fli_ops *ops, size_t n, size_t count, const void *const *x, unsigned char *out);
    /* The same for the current values of the vectors, without waiting: `out` is set when `found` returns. One such
     * query at a time. Both NULL: callers use `finite`. */
    void (*finite_soon)(fli_place *p, const fli_ops *ops, size_t n, size_t count, const void *const *x,
                        unsigned char *out);
    void (*found)(fli_place *p);

    /* ---- lanes: independent sequences of operations, such as clients' turns ---- */
    /* The following calls belong to lane i = 0, 1, ... No lane reads or writes what another lane writes. */
    void (*lane)(fli_place *p, size_t i);
    /* Ends the lanes. The following calls see all of their results. */
    void (*join)(fli_place *p);
    /* FL_OK, or how the device has failed, perhaps some calls ago. After a failure nothing is computed. */
    fl_status (*status)(fli_place *p, fl_ctx *ctx);
} fli_place_ops;

struct fli_place {
    const fli_place_ops *does;
};

#endif
