/* Multi-layer perceptron: fully connected layers of any depth and width, ReLU, mean cross-entropy. Settings and start
 * values; dense.c computes. */
#include "model/dense.h"
#include "model/model.h"

typedef struct {
    fl_ints hidden;
    int init; /* fli_init_rule */
} mlp_params;

static const fl_key keys[] = {
    FLI_KEY_INTS(mlp_params, hidden, "[200]", 1, 65536, "widths of the hidden layers, at most 16 of them"),
    FLI_KEY_CHOICE(mlp_params, init, "pytorch", FLI_START_WORDS, FLI_START_HELP),
    FLI_KEY_END,
};

static fl_status setup(fl_ctx *ctx, fli_model *m)
{
    const mlp_params *p = m->params;
    return fli_dense_setup(ctx, m, p->hidden.v, p->hidden.n, 1);
}

static void init(const fli_model *m, fli_rng *r, double *x)
{
    const fli_dense *d = m->priv;
    const mlp_params *p = m->params;
    for (size_t l = 0; l < d->depth; l++) {
        const fli_dense_layer *a = &d->layer[l];
        fli_init_layer((fli_init_rule)p->init, a->in, a->out, a->in * a->out, a->out, r, x + a->weight, x + a->bias);
    }
}

const fli_model_desc fli_model_mlp = {
    .name = "mlp",
    .title = "multi-layer perceptron with ReLU",
    .traits = FLI_MODEL_CLASSIFIER | FLI_MODEL_SOFTMAX | FLI_MODEL_NONNEGATIVE,
    .keys = keys,
    .params_size = sizeof(mlp_params),
    .setup = setup,
    .scratch = fli_dense_scratch,
    .init = init,
    .grad = fli_dense_grad,
    .logits = fli_dense_logits,
    .pullback = fli_dense_pullback,
    .hvp = fli_dense_hvp,
    .step = fli_dense_step,
    .network = fli_dense_network,
    .layers = fli_dense_layers,
};
