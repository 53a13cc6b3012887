#include "model/start.h"

#include <math.h>

void fli_start_layer(fli_start rule, size_t fan_in, size_t fan_out, size_t weights, size_t biases, fli_rng *r,
                     double *w, double *bias)
{
    double in = (double)fan_in, out = (double)fan_out, bound;
    switch (rule) {
    case FLI_START_PYTORCH:
        bound = 1 / sqrt(in);
        for (size_t i = 0; i < weights; i++) w[i] = fli_rng_range(r, -bound, bound);
        for (size_t i = 0; i < biases; i++) bias[i] = fli_rng_range(r, -bound, bound);
        return;
    case FLI_START_HE:
        for (size_t i = 0; i < weights; i++) w[i] = sqrt(2 / in) * fli_rng_normal(r);
        return;
    case FLI_START_GLOROT:
        bound = sqrt(6 / (in + out));
        for (size_t i = 0; i < weights; i++) w[i] = fli_rng_range(r, -bound, bound);
        return;
    }
}
