/* A vector space: a backend, a length, and the place of its vectors. Algorithms use these calls; the comment above each
 * is its formula. */
#ifndef FLI_VEC_SPACE_H
#define FLI_VEC_SPACE_H

#include "fedloom_extend.h"
#include "vec/ops.h"
#include "vec/place.h"

#include <string.h>

static inline fl_space fli_space_of(const fli_ops *ops, size_t n, fli_place *place)
{
    return (fl_space){.n = n, .real = ops->size, .ops = ops, .place = place};
}

static inline size_t fli_bytes(const fl_space *s) { return s->n * s->real; }

/* y = x */
static inline void fli_copy(const fl_space *s, const void *x, void *y)
{
    if (s->place)
        s->place->does->copy(s->place, s->ops, s->n, x, y);
    else
        memcpy(y, x, fli_bytes(s));
}
/* y = a */
static inline void fli_fill(const fl_space *s, double a, void *y)
{
    if (s->place)
        s->place->does->fill(s->place, s->ops, s->n, a, y);
    else
        s->ops->fill(s->n, a, y);
}
/* y = 0 */
static inline void fli_zero(const fl_space *s, void *y)
{
    if (s->place)
        fli_fill(s, 0, y);
    else
        memset(y, 0, fli_bytes(s));
}
/* y += a x */
static inline void fli_axpy(const fl_space *s, double a, const void *x, void *y)
{
    if (s->place)
        s->place->does->axpy(s->place, s->ops, s->n, a, x, y);
    else
        s->ops->axpy(s->n, a, x, y);
}
/* out = a x + b y */
static inline void fli_lin(const fl_space *s, double a, const void *x, double b, const void *y, void *out)
{
    if (s->place)
        s->place->does->lin(s->place, s->ops, s->n, a, x, b, y, out);
    else
        s->ops->lin(s->n, a, x, b, y, out);
}
/* out = x - y */
static inline void fli_sub(const fl_space *s, const void *x, const void *y, void *out) { fli_lin(s, 1, x, -1, y, out); }
/* y *= a */
static inline void fli_scale(const fl_space *s, double a, void *y)
{
    if (s->place)
        s->place->does->scale(s->place, s->ops, s->n, a, y);
    else
        s->ops->scale(s->n, a, y);
}
static inline double fli_dot(const fl_space *s, const void *x, const void *y)
{
    return s->place ? s->place->does->dot(s->place, s->ops, s->n, x, y) : s->ops->dot(s->n, x, y);
}
static inline int fli_finite(const fl_space *s, const void *x)
{
    unsigned char finite = 0;
    if (!s->place) return s->ops->finite(s->n, x);
    s->place->does->finite(s->place, s->ops, s->n, 1, &x, &finite);
    return finite;
}

/* out[k] = 0 if x[k] has a NaN or an infinity */
static inline void fli_finite_all(const fl_space *s, size_t count, const void *const *x, unsigned char *out)
{
    if (s->place)
        s->place->does->finite(s->place, s->ops, s->n, count, x, out);
    else
        for (size_t k = 0; k < count; k++) out[k] = s->ops->finite(s->n, x[k]) != 0;
}

/* The same without waiting: out is set when fli_found returns. One query at a time. */
static inline void fli_finite_soon(const fl_space *s, size_t count, const void *const *x, unsigned char *out)
{
    if (s->place && s->place->does->finite_soon)
        s->place->does->finite_soon(s->place, s->ops, s->n, count, x, out);
    else
        fli_finite_all(s, count, x, out);
}

static inline void fli_found(const fl_space *s)
{
    if (s->place && s->place->does->found) s->place->does->found(s->place);
}

/* The status of the place, with a sentence. Check it before NaN counts as an algorithm's divergence. */
static inline fl_status fli_space_status(const fl_space *s, fl_ctx *ctx)
{
    return s->place ? s->place->does->status(s->place, ctx) : FL_OK;
}

/* (x_1[i], x_2[i], ...) <- fn(x_1[i], x_2[i], ...) for every i */
static inline void fli_map(const fl_space *s, size_t vectors, void *const *x, fli_map_fn *fn, const void *arg)
{
    if (s->place)
        s->place->does->map(s->place, s->ops, s->n, vectors, x, fn, arg);
    else
        s->ops->map(s->n, vectors, x, fn, arg);
}

/* Zeroed memory for vectors of the space, `bytes` in one block. */
static inline void *fli_vector_alloc(fl_ctx *ctx, const fl_space *s, size_t bytes)
{
    return s->place ? s->place->does->alloc(s->place, ctx, bytes) : fli_alloc(ctx, bytes, 1);
}
static inline void fli_vector_free(const fl_space *s, void *v)
{
    if (s->place)
        s->place->does->release(s->place, v);
    else
        fli_free(v);
}
/* Copy `bytes` of a vector to plain memory, and back. */
static inline void fli_vector_read(const fl_space *s, size_t bytes, const void *v, void *here)
{
    if (s->place)
        s->place->does->read(s->place, bytes, v, here);
    else
        memcpy(here, v, bytes);
}
static inline void fli_vector_write(const fl_space *s, size_t bytes, const void *here, void *v)
{
    if (s->place)
        s->place->does->write(s->place, bytes, here, v);
    else
        memcpy(v, here, bytes);
}

/* Address of real number i of an array. */
static inline void *fli_at(const fli_ops *ops, void *p, size_t i) { return (char *)p + i * ops->size; }
static inline const void *fli_cat(const fli_ops *ops, const void *p, size_t i)
{
    return (const char *)p + i * ops->size;
}

#endif
