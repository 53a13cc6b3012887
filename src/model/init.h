/* Start values of a network's layer. Private to this folder. */
#ifndef FLI_MODEL_INIT_H
#define FLI_MODEL_INIT_H

#include "base/rng.h"

typedef enum { FLI_INIT_PYTORCH, FLI_INIT_HE, FLI_INIT_GLOROT } fli_init_rule;

/* The key that networks have for it. */
#define FLI_START_WORDS "pytorch|he|glorot"
#define FLI_START_HELP                                                                                                 \
    "start values: pytorch is uniform +-1/sqrt(fan in) for weights and biases, he is normal with variance "            \
    "2/fan in, glorot is uniform +-sqrt(6/(fan in + fan out)); the latter two start biases at zero"

/* The weights in their order, then the biases, which come in zeroed. */
void fli_init_layer(fli_init_rule rule, size_t fan_in, size_t fan_out, size_t weights, size_t biases, fli_rng *r,
                    double *w, double *bias);

#endif
