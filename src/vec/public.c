/* The vectors of the public header: the engine's own operations. */
#include "vec/space.h"

#include "fedloom_extend.h"

/* `ops` is the engine's own space, which the callee may have made shorter. */
static fli_space internal_space(const fl_space *s)
{
    fli_space own = *(const fli_space *)s->ops;
    own.n = s->n;
    return own;
}

void fl_vec_copy(const fl_space *s, const void *x, void *y)
{
    fli_space own = internal_space(s);
    fli_copy(&own, x, y);
}

void fl_vec_zero(const fl_space *s, void *y)
{
    fli_space own = internal_space(s);
    fli_zero(&own, y);
}

void fl_vec_axpy(const fl_space *s, double a, const void *x, void *y)
{
    fli_space own = internal_space(s);
    fli_axpy(&own, a, x, y);
}

void fl_vec_lin(const fl_space *s, double a, const void *x, double b, const void *y, void *out)
{
    fli_space own = internal_space(s);
    fli_lin(&own, a, x, b, y, out);
}

void fl_vec_scale(const fl_space *s, double a, void *y)
{
    fli_space own = internal_space(s);
    fli_scale(&own, a, y);
}

double fl_vec_dot(const fl_space *s, const void *x, const void *y)
{
    fli_space own = internal_space(s);
    return fli_dot(&own, x, y);
}

void fl_vec_map(const fl_space *s, size_t k, void *const *x, void (*fn)(const void *arg, double *v), const void *arg)
{
    fli_space own = internal_space(s);
    if (k <= FLI_MAP_MOST) fli_map(&own, k, x, fn, arg);
}
