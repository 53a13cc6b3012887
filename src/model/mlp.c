/* Multi-layer perceptron: fully connected layers of any depth and width, ReLU, mean cross-entropy. The computing is in
 * dense.c; here are its settings and its start values. */
#include "model/dense.h"

#include <math.h>

typedef enum { INIT_PYTORCH, INIT_HE, INIT_GLOROT } init_rule;

typedef struct {
    fli_ints hidden;
    int init; /* init_rule */
} mlp_params;

static const fli_key keys[] = {
    FLI_KEY_INTS(mlp_params, hidden, "[200]", 1, 65536, "widths of the hidden layers, at most 16 of them"),
    FLI_KEY_CHOICE(
        mlp_params, init, "pytorch", "pytorch|he|glorot",
        "start values: pytorch is uniform +-1/sqrt(fan in) for weights and biases, he is normal with variance "
        "2/fan in, glorot is uniform +-sqrt(6/(fan in + fan out)); the latter two start biases at zero"),
    FLI_KEY_END,
};

static fl_status setup(fl_ctx *ctx, fli_model *m)
{
    const mlp_params *p = m->params;
    return fli_dense_setup(ctx, m, p->hidden.v, p->hidden.n, 1);
}

static void init_layer(init_rule rule, const fli_dense_layer *a, fli_rng *r, double *x)
{
    size_t weights = a->in * a->out;
    double fan_in = (double)a->in, fan_out = (double)a->out;
    double *w = x + a->weight, *bias = x + a->bias, bound;
    switch (rule) {
    case INIT_PYTORCH:
        bound = 1 / sqrt(fan_in);
        for (size_t i = 0; i < weights; i++) w[i] = fli_rng_range(r, -bound, bound);
        for (size_t i = 0; i < a->out; i++) bias[i] = fli_rng_range(r, -bound, bound);
        return;
    case INIT_HE:
        for (size_t i = 0; i < weights; i++) w[i] = sqrt(2 / fan_in) * fli_rng_normal(r);
        return;
    case INIT_GLOROT:
        bound = sqrt(6 / (fan_in + fan_out));
        for (size_t i = 0; i < weights; i++) w[i] = fli_rng_range(r, -bound, bound);
        return;
    }
}

static void init(const fli_model *m, fli_rng *r, double *x)
{
    const fli_dense *d = m->priv;
    const mlp_params *p = m->params;
    for (size_t l = 0; l < d->depth; l++) init_layer((init_rule)p->init, &d->layer[l], r, x);
}

const fli_model_desc fli_model_mlp = {
    .name = "mlp",
    .title = "multi-layer perceptron with ReLU",
    .traits = FLI_MODEL_CLASSIFIER | FLI_MODEL_SOFTMAX,
    .keys = keys,
    .params_size = sizeof(mlp_params),
    .setup = setup,
    .scratch = fli_dense_scratch,
    .init = init,
    .grad = fli_dense_grad,
    .logits = fli_dense_logits,
    .pullback = fli_dense_pullback,
    .hvp = fli_dense_hvp,
};
