#include "model/init.h"

#include <math.h>

void fli_init_layer(fli_init_rule rule, size_t fan_in, size_t fan_out, size_t weights, size_t biases, fli_rng *r,
                    double *w, double *bias)
{
    double in = (double)fan_in, out = (double)fan_out, bound;
    switch (rule) {
    case FLI_INIT_PYTORCH:
        bound = 1 / sqrt(in);
        for (size_t i = 0; i < weights; i++) w[i] = fli_rng_range(r, -bound, bound);
        for (size_t i = 0; i < biases; i++) bias[i] = fli_rng_range(r, -bound, bound);
        return;
    case FLI_INIT_HE:
        for (size_t i = 0; i < weights; i++) w[i] = sqrt(2 / in) * fli_rng_normal(r);
        return;
    case FLI_INIT_GLOROT:
        bound = sqrt(6 / (in + out));
        for (size_t i = 0; i < weights; i++) w[i] = fli_rng_range(r, -bound, bound);
        return;
    }
}
