/* A place for vectors that is not plain memory: on a device. A space that has a place (space.h) computes there, and
 * what its vectors are is known to the place alone: they are addresses which nobody here may follow. Adding to an
 * address gives that of a later entry, as ever.
 *
 * Operations that work entry by entry may be put off, since nobody sees the difference before somebody reads: the place
 * sees to it that everything comes out as if it had been done at once, in the order in which it was called for. */
#ifndef FLI_VEC_PLACE_H
#define FLI_VEC_PLACE_H

#include "vec/ops.h"

typedef struct fli_place fli_place;

typedef struct {
    /* ---- memory ---- */
    /* Zeroed, on a line of 256 bytes. NULL: FL_ENOMEM, with a sentence in the context. */
    void *(*alloc)(fli_place *p, fl_ctx *ctx, size_t bytes);
    void (*release)(fli_place *p, void *v); /* NULL: nothing to do */
    /* From there and to there: done when they return. */
    void (*read)(fli_place *p, size_t bytes, const void *v, void *here);
    void (*write)(fli_place *p, size_t bytes, const void *here, void *v);

    /* ---- entry by entry: as in ops.h, of the precision that `ops` has ---- */
    void (*copy)(fli_place *p, const fli_ops *ops, size_t n, const void *x, void *y);
    void (*fill)(fli_place *p, const fli_ops *ops, size_t n, double a, void *y);
    void (*axpy)(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, void *y);
    void (*lin)(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, double b, const void *y,
                void *out);
    void (*scale)(fli_place *p, const fli_ops *ops, size_t n, double a, void *y);
    void (*map)(fli_place *p, const fli_ops *ops, size_t n, size_t vectors, void *const *x, fli_map_fn *fn,
                const void *arg);

    /* ---- with an answer ---- */
    double (*dot)(fli_place *p, const fli_ops *ops, size_t n, const void *x, const void *y);
    /* of `count` vectors at once: out[i] is 0 where x[i] has a NaN or an infinity */
    void (*finite)(fli_place *p, const fli_ops *ops, size_t n, size_t count, const void *const *x, unsigned char *out);
    /* The same of the vectors as they are now; `out` is set when `found` is called, so that the caller can go on until
     * then. One question at a time. Both NULL: there is no need to. */
    void (*finite_soon)(fli_place *p, const fli_ops *ops, size_t n, size_t count, const void *const *x,
                        unsigned char *out);
    void (*found)(fli_place *p);

    /* ---- lanes: sequences of operations that have nothing to do with each other, such as clients' turns ---- */
    /* What follows belongs to lane i = 0, 1, ...: what one lane writes no other lane reads or writes. */
    void (*lane)(fli_place *p, size_t i);
    /* The lanes are over. What follows sees all that they did. */
    void (*join)(fli_place *p);
    /* FL_OK, or how the device failed, which may have been a while ago; from then on nothing is computed. */
    fl_status (*status)(fli_place *p, fl_ctx *ctx);
} fli_place_ops;

struct fli_place {
    const fli_place_ops *does;
};

#endif
