/* A vector space: a backend and a length. Algorithms speak in these calls; each stands under its line of maths. */
#ifndef FLI_VEC_SPACE_H
#define FLI_VEC_SPACE_H

#include "vec/ops.h"

#include <string.h>

typedef struct {
    const fli_ops *ops;
    size_t n;
} fli_space;

static inline size_t fli_bytes(const fli_space *s) { return s->n * s->ops->size; }

/* y = x */
static inline void fli_copy(const fli_space *s, const void *x, void *y) { memcpy(y, x, fli_bytes(s)); }
/* y = 0 */
static inline void fli_zero(const fli_space *s, void *y) { memset(y, 0, fli_bytes(s)); }
/* y += a x */
static inline void fli_axpy(const fli_space *s, double a, const void *x, void *y) { s->ops->axpy(s->n, a, x, y); }
/* out = a x + b y */
static inline void fli_lin(const fli_space *s, double a, const void *x, double b, const void *y, void *out)
{
    s->ops->lin(s->n, a, x, b, y, out);
}
/* out = x - y */
static inline void fli_sub(const fli_space *s, const void *x, const void *y, void *out)
{
    s->ops->lin(s->n, 1, x, -1, y, out);
}
/* y *= a */
static inline void fli_scale(const fli_space *s, double a, void *y) { s->ops->scale(s->n, a, y); }
static inline double fli_dot(const fli_space *s, const void *x, const void *y) { return s->ops->dot(s->n, x, y); }
static inline int fli_finite(const fli_space *s, const void *x) { return s->ops->finite(s->n, x); }

/* (x_1[i], x_2[i], ...) <- fn(x_1[i], x_2[i], ...) for every i */
static inline void fli_map(const fli_space *s, size_t vectors, void *const *x, fli_map_fn *fn, const void *arg)
{
    s->ops->map(s->n, vectors, x, fn, arg);
}

/* Real number i of an array, for walking through matrices. */
static inline void *fli_at(const fli_ops *ops, void *p, size_t i) { return (char *)p + i * ops->size; }
static inline const void *fli_cat(const fli_ops *ops, const void *p, size_t i)
{
    return (const char *)p + i * ops->size;
}

#endif
