/* Predictions of a loaded model (fl_model_predict): splits samples of any type into blocks and makes each a batch
 * exactly as for training. */
#include "model_file/model_file.h"

#include "base/ctx.h"
#include "data/federation/in_memory.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256 }; /* most samples in a block */

/* The state of one call. */
typedef struct {
    fl_ctx *ctx;
    const fl_model *m;
    const fl_samples *s;
    size_t block;
    fli_xkind kind;
    fli_batch batch;
    void *scratch;
    uint32_t *all; /* 0, 1, ...: indices of a block's samples */
    void *dense;   /* a block of sparse samples made dense; NULL: not needed */
} call;

/* ---- checks -------------------------------------------------------------------------------------------- */

static fl_status check_shape(const call *c)
{
    const fl_model_info *info = fl_model_about(c->m);
    const size_t *is = c->s->shape, *was = info->shape;
    if (c->s->dim != info->dim)
        return fli_fail(c->ctx, FL_ECONFIG, "the samples have %zu features, but the model is for %zu (%zu x %zu x %zu)",
                        c->s->dim, info->dim, was[0], was[1], was[2]);
    if ((is[0] || is[1] || is[2]) && memcmp(is, was, sizeof info->shape))
        return fli_fail(c->ctx, FL_ECONFIG, "the samples are %zu x %zu x %zu, but the model is for %zu x %zu x %zu",
                        is[0], is[1], is[2], was[0], was[1], was[2]);
    return FL_OK;
}

static fl_status check(const call *c, const double *out)
{
    if (!c->m->info.outputs)
        return fli_fail(c->ctx, FL_ECONFIG, "this program cannot predict with a model of kind %s", c->m->info.kind);
    if (!out) return fli_fail(c->ctx, FL_ECONFIG, "there must be room for the outputs");
    fl_status s = fli_samples_check(c->ctx, "the samples", c->s);
    return s ? s : check_shape(c);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* True for sparse samples that normalisation or cropping makes dense. */
static int must_fill(const call *c) { return c->s->row && (c->m->shifted || c->m->like.each || c->m->like.frame[0]); }

static fl_status begin(call *c)
{
    const fli_model *model = c->m->model;
    const fl_samples *s = c->s;
    size_t most = model->piece && model->piece < BLOCK ? model->piece : BLOCK;
    int sparse = s->row && !must_fill(c) && model->desc->traits & FLI_MODEL_SPARSE;
    c->block = s->n < most ? s->n : most;
    c->kind = s->u8                     ? FLI_X_U8
              : s->row && !must_fill(c) ? (s->f32 ? FLI_X_CSR : FLI_X_CSR64)
              : s->f32                  ? FLI_X_F32
                                        : FLI_X_F64;
    fl_status status = sparse ? fli_batch_init_sparse(c->ctx, model->space.ops, model->features, c->block, &c->batch)
                              : fli_batch_init(c->ctx, model->space.ops, model->features, c->block, &c->batch);
    if (status) return status;
    c->scratch = fli_alloc(c->ctx, fli_model_scratch(model, c->block), 1);
    c->all = fli_alloc(c->ctx, c->block, sizeof *c->all);
    if (!c->scratch || !c->all) return FL_ENOMEM;
    for (size_t i = 0; i < c->block; i++) c->all[i] = (uint32_t)i;
    if (must_fill(c) && !(c->dense = fli_alloc(c->ctx, c->block * s->dim, fli_xkind_size(c->kind)))) return FL_ENOMEM;
    return FL_OK;
}

static void end(call *c)
{
    fli_batch_fini(&c->batch);
    fli_free(c->scratch);
    fli_free(c->all);
    fli_free(c->dense);
}

static double value_at(const fl_samples *s, size_t at) { return s->f32 ? (double)s->f32[at] : s->f64[at]; }

static fl_status not_finite(const call *c, size_t sample, size_t feature)
{
    return fli_fail(c->ctx, FL_EFORMAT, "sample %zu, feature %zu is not finite", sample, feature);
}

/* Checks indices and values of n sparse samples from `at` on. */
static fl_status look_at_rows(const call *c, size_t at, size_t n)
{
    const fl_samples *s = c->s;
    for (size_t i = at; i < at + n; i++) {
        if (s->row[i + 1] < s->row[i])
            return fli_fail(c->ctx, FL_EFORMAT, "sample %zu: its values end before they begin", i);
        if (s->row[i + 1] - s->row[i] > s->dim) /* checked before the values are read */
            return fli_fail(c->ctx, FL_EFORMAT, "sample %zu has %zu values, of only %zu features", i,
                            s->row[i + 1] - s->row[i], s->dim);
        for (size_t k = s->row[i]; k < s->row[i + 1]; k++) {
            if (s->col[k] >= s->dim || (k > s->row[i] && s->col[k] <= s->col[k - 1]))
                return fli_fail(c->ctx, FL_EFORMAT, "sample %zu: feature %u is out of order or not below %zu", i,
                                s->col[k], s->dim);
            if (!isfinite(value_at(s, k))) return not_finite(c, i, s->col[k]);
        }
    }
    return FL_OK;
}

static fl_status look_at(const call *c, size_t at, size_t n)
{
    const fl_samples *s = c->s;
    if (s->row) return look_at_rows(c, at, n);
    for (size_t k = at * s->dim; !s->u8 && k < (at + n) * s->dim; k++)
        if (!isfinite(value_at(s, k))) return not_finite(c, k / s->dim, k % s->dim);
    return FL_OK;
}

static void fill(const call *c, size_t at, size_t n)
{
    const fl_samples *s = c->s;
    size_t size = fli_xkind_size(c->kind);
    const char *value = s->f32 ? (const char *)s->f32 : (const char *)s->f64;
    memset(c->dense, 0, n * s->dim * size);
    for (size_t i = 0; i < n; i++)
        for (size_t k = s->row[at + i]; k < s->row[at + i + 1]; k++)
            memcpy((char *)c->dense + (i * s->dim + s->col[k]) * size, value + k * size, size);
}

/* The block as a data set that borrows the samples and is only read. */
static fli_dataset block_at(const call *c, size_t at, size_t n)
{
    const fl_samples *s = c->s;
    fli_dataset d = c->m->like;
    d.n = n;
    d.kind = c->kind;
    if (c->dense)
        d.x = c->dense;
    else if (s->row) {
        d.x = s->f32 ? (void *)s->f32 : (void *)s->f64;
        d.row = (size_t *)s->row + at;
        d.col = (uint32_t *)s->col;
        d.scale = c->m->each;
    } else
        d.x = s->u8    ? (void *)(s->u8 + at * s->dim)
              : s->f32 ? (void *)(s->f32 + at * s->dim)
                       : (void *)(s->f64 + at * s->dim);
    return d;
}

/* In double, so that logits in single precision keep their order. */
static void softmax(size_t classes, double *z)
{
    double most = z[0], sum = 0;
    for (size_t k = 1; k < classes; k++)
        if (z[k] > most) most = z[k];
    for (size_t k = 0; k < classes; k++) sum += z[k] = exp(z[k] - most);
    for (size_t k = 0; k < classes; k++) z[k] /= sum;
}

/* Writes n x outputs, row by row. Scratch as for grad. */
static void model_predict(const fli_model *m, const void *x, const fli_batch *b, double *out, void *scratch)
{
    if (m->desc->predict) {
        m->desc->predict(m, x, b, out, scratch);
        return;
    }
    m->space.ops->to_f64(b->n * m->classes, m->desc->logits(m, x, b, scratch), out);
    for (size_t i = 0; i < b->n; i++) softmax(m->classes, out + i * m->classes);
}

static fl_status predict_block(call *c, size_t at, size_t n, double *out)
{
    size_t outputs = c->m->info.outputs;
    fl_status s = look_at(c, at, n);
    if (s) return s;
    if (c->dense) fill(c, at, n);
    fli_dataset d = block_at(c, at, n);
    fli_batch_gather(&c->batch, &d, c->all, n);
    model_predict(c->m->model, c->m->x, &c->batch, out, c->scratch);
    for (size_t i = 0; i < n * outputs; i++)
        if (!isfinite(out[i]))
            return fli_fail(c->ctx, FL_EFORMAT,
                            "sample %zu: the output is not finite: its features, or the parameters of the model, are "
                            "too large",
                            at + i / outputs);
    return FL_OK;
}

fl_status fl_model_predict(fl_ctx *ctx, const fl_model *m, const fl_samples *samples, double *out)
{
    fl_samples given;
    fli_clear(ctx);
    if (!m || !samples) return fli_fail(ctx, FL_ECONFIG, "predictions need a model and samples");
    fl_status s = fli_take_versioned(ctx, "fl_samples", samples, samples->size, &given, sizeof given);
    if (s) return s;
    call c = {.ctx = ctx, .m = m, .s = &given};
    if (!(s = check(&c, out)) && given.n) s = begin(&c);
    for (size_t at = 0, n; !s && at < given.n; at += n) {
        n = given.n - at < c.block ? given.n - at : c.block;
        s = predict_block(&c, at, n, out + at * m->info.outputs);
    }
    end(&c);
    return s;
}
