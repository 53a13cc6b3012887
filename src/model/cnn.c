/* Convolutional network: convolutions and pools over images, then fully connected layers; ReLU, mean cross-entropy. The
 * computing is in convnet.c; here are its settings and its start values.
 *
 * Networks that papers name, as layers:
 *     McMahan et al. 2017, MNIST        conv 32x5 same, pool 2, conv 64x5 same, pool 2, fc 512
 *     the same, CIFAR-10 (24 x 24)      conv 64x5 same, pool 2, conv 64x5 same, pool 2, fc 384, fc 192
 *     Acar et al. (FedDyn), CIFAR-10    conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192
 *     LeCun et al. (LeNet-5, 7 layers)  conv 6x5, pool 2, conv 16x5, pool 2, fc 120, fc 84 */
#include "model/convnet.h"
#include "model/init.h"

typedef struct {
    char *layers;
    int init; /* fli_init_rule */
} cnn_params;

static const fli_key keys[] = {
    FLI_KEY_STRING(
        cnn_params, layers, "conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192",
        "what lies between the image and the output layer: conv CxK [stride S] [pad P | same] for C filters of "
        "K x K, pool K and avgpool K for the largest and the mean of each K x K, fc N for N fully connected "
        "units; ReLU follows every conv and fc"),
    FLI_KEY_CHOICE(cnn_params, init, "pytorch", FLI_START_WORDS, FLI_START_HELP),
    FLI_KEY_END,
};

static fl_status setup(fl_ctx *ctx, fli_model *m)
{
    const cnn_params *p = m->params;
    fli_layer layers[FLI_LAYERS_MAX];
    size_t count;
    fl_status s = fli_layers_read(ctx, p->layers, layers, &count);
    return s ? s : fli_convnet_setup(ctx, m, layers, count);
}

static void init(const fli_model *m, fli_rng *r, double *x)
{
    const fli_convnet *net = m->priv;
    const cnn_params *p = m->params;
    for (size_t l = 0; l < net->depth; l++) {
        const fli_stage *t = &net->stage[l];
        if (!t->outs) continue;
        size_t taps = t->kind == FLI_STAGE_CONV ? t->conv.in.kernel * t->conv.in.kernel : 1;
        fli_init_layer((fli_init_rule)p->init, fli_stage_fan_in(t), t->outs * taps, t->weights, t->outs, r,
                       x + t->weight, x + t->bias);
    }
}

const char *fl_convolutions(void) { return fli_conv_onednn ? fli_conv_library() : fli_blas_library(); }

const fli_model_desc fli_model_cnn = {
    .name = "cnn",
    .title = "convolutional network with ReLU, for images",
    .traits = FLI_MODEL_CLASSIFIER | FLI_MODEL_SOFTMAX | FLI_MODEL_IMAGES | FLI_MODEL_NONNEGATIVE,
    .keys = keys,
    .params_size = sizeof(cnn_params),
    .setup = setup,
    .scratch = fli_convnet_scratch,
    .init = init,
    .grad = fli_convnet_grad,
    .logits = fli_convnet_logits,
    .pullback = fli_convnet_pullback,
    .hvp = fli_convnet_hvp,
    .fini = fli_convnet_fini,
    .network = fli_convnet_network,
    .layers = fli_convnet_layers,
};
