/* Elementwise operations on vectors, recorded to be executed later: for many lanes at once, by one kernel. Since each
 * operation uses one entry at a time, a player may give every entry to another thread, which executes the operations in
 * their order.
 *
 * All vectors of a tape have the same length and precision. Before an operation of another kind is recorded, the tape
 * is played. */
#ifndef FLI_DEVICE_TAPE_H
#define FLI_DEVICE_TAPE_H

#include "vec/ops.h"

typedef enum {
    FLI_TAPE_COPY,  /* out = x */
    FLI_TAPE_FILL,  /* out = a */
    FLI_TAPE_AXPY,  /* out += a x, rounded as ops->axpy does */
    FLI_TAPE_LIN,   /* out = a x + b y */
    FLI_TAPE_SCALE, /* out *= a */
    FLI_TAPE_SUM    /* out += a_1 x_1, then += a_2 x_2, ...: terms[first .. first + count - 1] */
} fli_tape_kind;

typedef struct {
    double a, b;
    const void *x, *y;
    void *out;
    uint32_t kind, first, count;
    uint32_t spare;
} fli_tape_op;

typedef struct {
    double a;
    const void *x;
} fli_tape_term;

/* Lane i's operations are op[begin[i] .. begin[i + 1] - 1]. Lanes do not access vectors that other lanes write. */
typedef struct {
    const fli_ops *ops;
    size_t n; /* entries of every vector */
    fli_tape_op *op;
    size_t count, room;
    fli_tape_term *term;
    size_t terms, terms_room;
    uint32_t *begin; /* lanes + 1 */
    size_t lanes, lanes_room;
} fli_tape;

#endif
