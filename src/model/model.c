/* What all models share: construction, start values, weight decay, and the status of user functions. */
#include "model/model.h"

#include "base/number.h"
#include "vec/kernels.h"

#include <math.h>
#include <stdarg.h>

static fl_status check_data(fl_ctx *ctx, const fli_model_desc *desc, size_t features, size_t classes)
{
    if (desc->traits & FLI_MODEL_USER) return FL_OK;
    if (!features) return fli_fail(ctx, FL_ECONFIG, "model %s needs features, but the data has none", desc->name);
    if (desc->traits & FLI_MODEL_UNSUPERVISED) return FL_OK;
    if (!(desc->traits & FLI_MODEL_CLASSIFIER)) {
        if (!classes) return FL_OK;
        return fli_fail(ctx, FL_ECONFIG, "model %s needs real-valued targets, but the data has labels (of %zu classes)",
                        desc->name, classes);
    }
    if (!classes)
        return fli_fail(ctx, FL_ECONFIG, "model %s needs labels, but the data has real-valued targets", desc->name);
    if (classes < 2)
        return fli_fail(ctx, FL_ECONFIG, "model %s needs at least 2 classes, but the data has %zu", desc->name,
                        classes);
    if ((desc->traits & FLI_MODEL_BINARY) && classes != 2)
        return fli_fail(ctx, FL_ECONFIG, "model %s needs exactly 2 classes, but the data has %zu", desc->name, classes);
    return FL_OK;
}

static fl_status check_shape(fl_ctx *ctx, const fli_model_desc *desc, const size_t shape[3])
{
    if (!(desc->traits & FLI_MODEL_IMAGES) || (shape[1] > 1 && shape[2] > 1)) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "model %s needs images, but the data has samples of %zu features in a row",
                    desc->name, shape[0] * shape[1] * shape[2]);
}

fl_status fli_model_new(fl_ctx *ctx, const fli_model_desc *desc, const void *params, const fli_ops *ops,
                        size_t features, size_t classes, double weight_decay, fli_model **out)
{
    const size_t shape[3] = {1, 1, features};
    return fli_model_new_for(ctx, desc, params, ops, shape, classes, weight_decay, out);
}

fl_status fli_model_new_for(fl_ctx *ctx, const fli_model_desc *desc, const void *params, const fli_ops *ops,
                            const size_t shape[3], size_t classes, double weight_decay, fli_model **out)
{
    fli_model *m = NULL;
    size_t features = shape[0] * shape[1] * shape[2];
    fl_status status = check_data(ctx, desc, features, classes);
    if (!status) status = check_shape(ctx, desc, shape);
    if (status) goto done;
    if (fli_kernels_check(ctx)) status = FL_ESYSTEM; /* not the configuration's fault: the error names no place in it */
    if (status || (status = fli_blas_prepare(ctx))) goto done;
    status = FL_ENOMEM;
    m = fli_alloc(ctx, 1, sizeof *m);
    if (!m) goto done;
    m->desc = desc;
    m->params = params;
    m->space.ops = ops;
    m->space.real = ops->size;
    m->features = features;
    memcpy(m->shape, shape, sizeof m->shape);
    m->classes = classes;
    m->weight_decay = weight_decay;
    fli_arena_init(&m->arena, ctx);
    status = desc->setup(ctx, m);
    if (status) goto done;
    *out = m;
    m = NULL;
done:
    fli_model_free(m);
    return status;
}

void fli_model_free(fli_model *m)
{
    if (!m) return;
    if (m->desc->fini) m->desc->fini(m);
    fli_arena_fini(&m->arena);
    fli_free(m);
}

void fli_model_expect(fli_model *m, int sparse) { m->sparse = sparse && m->desc->traits & FLI_MODEL_SPARSE; }

fl_status fli_model_batch(fl_ctx *ctx, const fli_model *m, size_t capacity, fli_batch *b)
{
    return m->sparse ? fli_batch_init_sparse(ctx, m->space.ops, m->features, capacity, b)
                     : fli_batch_init(ctx, m->space.ops, m->features, capacity, b);
}

fl_status fli_model_start_from(fl_ctx *ctx, const fli_model *m, const fli_fed *fed, uint64_t seed, void *x)
{
    int from_data = fed && m->desc->start_from;
    fl_status status = FL_OK;
    fli_zero(&m->space, x);
    if (!from_data && !m->desc->init) return FL_OK;
    /* Drawn in double in any precision, so that f32 and f64 runs start from the same point up to rounding. */
    double *wide = fli_alloc(ctx, m->space.n, sizeof *wide);
    if (!wide) return FL_ENOMEM;
    fli_rng r;
    fli_rng_init(&r, seed, FLI_RNG_INIT, 0, 0);
    if (from_data)
        status = m->desc->start_from(ctx, m, fed, &r, wide);
    else
        m->desc->init(m, &r, wide);
    m->space.ops->from_f64(m->space.n, wide, x);
    fli_free(wide);
    return status ? status : fli_model_status(ctx, m, " at the start model");
}

size_t fli_tensor_shape(const fli_tensor *t, size_t shape[4])
{
    const size_t filters[4] = {t->rows, t->kernel ? t->cols / t->kernel / t->kernel : t->cols, t->kernel, t->kernel};
    memcpy(shape, t->dims ? t->shape : filters, sizeof filters);
    return t->dims ? t->dims : t->kernel ? 4 : t->cols ? 2 : 1;
}

static fl_status ask_why(const fli_model *m, fl_failure *why, const char *where, va_list ap)
{
    char place[128];
    if (!fli_model_failed(m)) return FL_OK;
    fli_vsnprintf(place, sizeof place, where, ap);
    m->desc->failed(m, place, why);
    return FL_ECALLBACK;
}

fl_status fli_model_why(const fli_model *m, fl_failure *why, const char *where, ...)
{
    va_list ap;
    va_start(ap, where);
    fl_status s = ask_why(m, why, where, ap);
    va_end(ap);
    return s;
}

fl_status fli_model_status(fl_ctx *ctx, const fli_model *m, const char *where, ...)
{
    fl_failure why = {{0}};
    va_list ap;
    va_start(ap, where);
    fl_status s = ask_why(m, &why, where, ap);
    va_end(ap);
    return fli_has_failed(&why) ? fli_fail(ctx, s, "%s", why.text) : s;
}

fl_status fli_model_needs_hvp(fl_ctx *ctx, const fli_model *m, const char *who)
{
    if (m->desc->hvp) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "%s needs products with the Hessian, but model %s has none (fl_objective.product)",
                    who, m->desc->name);
}

fl_status fli_model_start(fl_ctx *ctx, const fli_model *m, uint64_t seed, void *x)
{
    return fli_model_start_from(ctx, m, NULL, seed, x);
}

size_t fli_model_scratch(const fli_model *m, size_t n)
{
    size_t own = fli_scratch_pad(m->desc->scratch(m, n)), latent = m->latent ? m->latent->scratch(m, n) : 0;
    size_t pair = m->desc->logits ? fli_pair_scratch(m, n) : 0;
    return (own + (latent > pair ? latent : pair)) * m->space.ops->size;
}

double fli_model_decay(const fli_model *m, size_t samples)
{
    return m->decay_by == FLI_DECAY_AS_IT_IS ? m->weight_decay : m->weight_decay / (double)samples;
}

double fli_model_step_decay(const fli_model *m, size_t samples, size_t batch)
{
    return fli_model_decay(m, m->decay_by == FLI_DECAY_BY_BATCH ? batch : samples);
}

double fli_model_eval(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch)
{
    double wd = fli_model_decay(m, b->n), loss = m->desc->grad(m, x, b, g, correct, scratch);
    if (wd == 0) return loss;
    if (g) fli_axpy(&m->space, wd, x, g);
    return loss + wd / 2 * fli_dot(&m->space, x, x);
}

void fli_model_hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch)
{
    m->desc->hvp(m, x, b, v, out, scratch);
    if (m->weight_decay != 0) fli_axpy(&m->space, fli_model_decay(m, b->n), v, out);
}

/* ==== start values of a layer ============================================================================= */

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

/* ==== models with one weight per feature ================================================================== */

fl_status fli_linear_setup(fl_ctx *ctx, fli_model *m)
{
    (void)ctx;
    fli_tensor *t = fli_arena_alloc(&m->arena, 1, sizeof *t);
    if (!t) return FL_ENOMEM;
    *t = (fli_tensor){.name = "weight", .rows = m->features};
    m->space.n = m->features;
    m->tensors = t;
    m->tensor_count = 1;
    return FL_OK;
}

/* ==== predictions ========================================================================================= */
