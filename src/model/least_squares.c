/* Linear least squares, no intercept. With A (n x features) the batch and b its targets:
 *
 *     f(x) = 1/(2n) ||Ax - b||^2,   grad f(x) = A'(Ax - b)/n,   Hessian = A'A/n                                   */
#include "model/model.h"

/* One real per sample: the residual, or A v. */
static size_t scratch(const fli_model *m, size_t n)
{
    (void)m;
    return fli_scratch_pad(n);
}

static double grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch_)
{
    const fli_ops *ops = m->space.ops;
    size_t n = b->n;
    void *r = scratch_;
    /* r = Ax - b */
    fli_batch_mul(b, 1, x, r);
    ops->axpy(n, -1, b->target, r);
    /* g = A'r / n */
    if (g) fli_batch_tmul(b, 1, 1.0 / (double)n, r, g);
    if (correct) *correct = 0;
    return ops->dot(n, r, r) / (2.0 * (double)n);
}

static void hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch_)
{
    (void)m;
    (void)x;
    /* out = A'(Av) / n */
    fli_batch_mul(b, 1, v, scratch_);
    fli_batch_tmul(b, 1, 1.0 / (double)b->n, scratch_, out);
}

static void predict(const fli_model *m, const void *x, const fli_batch *b, double *out, void *scratch_)
{
    fli_batch_mul(b, 1, x, scratch_);
    m->space.ops->to_f64(b->n, scratch_, out);
}

static void layers(const fli_model *m, fli_text *t) { fli_linear_layers(m, "none", t); }

const fli_model_desc fli_model_least_squares = {
    .name = "least_squares",
    .title = "linear least squares, no intercept",
    .traits = FLI_MODEL_CONVEX | FLI_MODEL_QUADRATIC | FLI_MODEL_SPARSE | FLI_MODEL_GLM | FLI_MODEL_NONNEGATIVE,
    .curvature = 1,
    .setup = fli_linear_setup,
    .scratch = scratch,
    .grad = grad,
    .hvp = hvp,
    .predict = predict,
    .layers = layers,
};
