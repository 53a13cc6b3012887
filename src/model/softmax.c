/* Softmax (multinomial logistic) regression: parameters W (classes x features, row-major), then the bias (classes);
 * mean cross-entropy. A dense network of a single layer; it is convex and starts at zero. */
#include "model/dense.h"

static fl_status setup(fl_ctx *ctx, fli_model *m) { return fli_dense_setup(ctx, m, NULL, 0, 0); }

const fli_model_desc fli_model_softmax = {
    .name = "softmax",
    .title = "softmax regression",
    .traits = FLI_MODEL_CLASSIFIER | FLI_MODEL_SOFTMAX | FLI_MODEL_CONVEX | FLI_MODEL_SPARSE | FLI_MODEL_NONNEGATIVE,
    .curvature = 0.5, /* diag p - pp' <= 1/2, reached where two classes share a sample */
    .setup = setup,
    .scratch = fli_dense_scratch,
    .grad = fli_dense_grad,
    .logits = fli_dense_logits,
    .pullback = fli_dense_pullback,
    .hvp = fli_dense_hvp,
    .step = fli_dense_step,
    .network = fli_dense_network,
    .layers = fli_dense_layers,
};
