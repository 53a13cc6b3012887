/* The vector functions of the public header, by the engine's own operations. */
#include "vec/space.h"

void fl_vec_copy(const fl_space *s, const void *x, void *y) { fli_copy(s, x, y); }

void fl_vec_zero(const fl_space *s, void *y) { fli_zero(s, y); }

void fl_vec_axpy(const fl_space *s, double a, const void *x, void *y) { fli_axpy(s, a, x, y); }

void fl_vec_lin(const fl_space *s, double a, const void *x, double b, const void *y, void *out)
{
    fli_lin(s, a, x, b, y, out);
}

void fl_vec_scale(const fl_space *s, double a, void *y) { fli_scale(s, a, y); }

double fl_vec_dot(const fl_space *s, const void *x, const void *y) { return fli_dot(s, x, y); }

void fl_vec_map(const fl_space *s, size_t k, void *const *x, void (*fn)(const void *arg, double *v), const void *arg)
{
    if (k <= FLI_MAP_MOST) fli_map(s, k, x, fn, arg);
}
