#include "regularizer/parts.h"

double fli_norm_split(size_t n, const double *x, double *unit)
{
    double top = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs(x[i]) > top) top = fabs(x[i]);
    *unit = top > 0 && isfinite(top) ? ldexp(1, ilogb(top)) : 1;
    for (size_t i = 0; i < n; i++) sum += (x[i] / *unit) * (x[i] / *unit);
    return sqrt(sum);
}
