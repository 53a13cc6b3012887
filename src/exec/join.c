#include "exec/join.h"

#include "base/bytes.h"

#include <math.h>
#include <string.h>

/* ---- what a client says ---------------------------------------------------------------------------------- */

fl_status fli_card_make(fl_ctx *ctx, const fli_fed *fed, uint32_t client, int digest, fli_card *out)
{
    *out = (fli_card){.samples = fli_fed_size(fed, client),
                      .unlabelled = fli_fed_unlabelled(fed, client),
                      .test_samples = fed->test_count ? fed->test_count[client] : 0,
                      .digested = digest != 0};
    return digest ? fli_digest_client(ctx, fed, client, &out->digest) : FL_OK;
}

void fli_card_write(const fli_card *c, unsigned char *out)
{
    out = fli_put_u64(out, c->samples, 8);
    out = fli_put_u64(out, c->unlabelled, 8);
    out = fli_put_u64(out, c->test_samples, 8);
    out = fli_put_u64(out, c->digested != 0, 8);
    memcpy(out, c->digest.byte, sizeof c->digest.byte);
}

fl_status fli_card_read(fl_ctx *ctx, const unsigned char *in, fli_card *c)
{
    uint64_t digested;
    in = fli_get_u64(in, &c->samples, 8);
    in = fli_get_u64(in, &c->unlabelled, 8);
    in = fli_get_u64(in, &c->test_samples, 8);
    in = fli_get_u64(in, &digested, 8);
    memcpy(c->digest.byte, in, sizeof c->digest.byte);
    c->digested = digested == 1;
    if (digested > 1 || c->unlabelled > c->samples || c->samples > UINT32_MAX || c->test_samples > UINT32_MAX)
        return fli_fail(ctx, FL_EFORMAT,
                        "a client that joins says that it has %llu samples, %llu of them without a label and %llu for "
                        "testing, which cannot be",
                        (unsigned long long)c->samples, (unsigned long long)c->unlabelled,
                        (unsigned long long)c->test_samples);
    return FL_OK;
}

/* ---- what a client is told ------------------------------------------------------------------------------- */

static fl_status copy_name(fl_ctx *ctx, const char *name, char out[FLI_TERMS_NAME])
{
    size_t n = strlen(name);
    if (n >= FLI_TERMS_NAME) return fli_fail(ctx, FL_ECONFIG, "%s: a name of %zu letters is too long", name, n);
    memcpy(out, name, n + 1);
    return FL_OK;
}

static fl_status copy_scales(fl_ctx *ctx, const fli_dataset *ds, fli_terms *out)
{
    if (!ds || !ds->scale) return FL_OK;
    size_t n = fli_dataset_sparse(ds) ? ds->dim : ds->segments;
    if (n > FLI_TERMS_SCALES)
        return fli_fail(ctx, FL_ECONFIG, "%zu features have a scale of their own; a client can be told %d", n,
                        FLI_TERMS_SCALES);
    out->scales = (uint32_t)n;
    memcpy(out->scale, ds->scale, n * sizeof *ds->scale);
    if (ds->shift) memcpy(out->shift, ds->shift, n * sizeof *ds->shift);
    return FL_OK;
}

fl_status fli_terms_make(fl_ctx *ctx, const fli_clients_spec *spec, uint32_t client, fli_terms *out)
{
    const fli_model *m = spec->model;
    memset(out, 0, sizeof *out);
    out->seed = spec->seed;
    out->features = m->features;
    out->classes = m->classes;
    out->parameters = m->space.n;
    out->upper = m->bilevel ? m->bilevel->upper : m->space.n;
    out->clients = spec->clients;
    out->batch = spec->sgd.batch;
    out->latent = spec->sgd.latent;
    out->momentum = spec->sgd.momentum;
    out->fraction = spec->sgd.fraction;
    out->weight_decay = m->weight_decay;
    out->client = client;
    out->precision = (uint32_t)m->space.ops->size;
    fl_status s = copy_name(ctx, m->desc->name, out->model);
    if (!s) s = copy_name(ctx, spec->algo->name, out->method);
    return s ? s : copy_scales(ctx, spec->fed->train, out);
}

enum { WHOLES = 8, REALS = 3, SHORTS = 3, FIXED = WHOLES * 8 + REALS * 8 + SHORTS * 4 + 2 * FLI_TERMS_NAME };

size_t fli_terms_bytes(const fli_terms *t) { return FIXED + 2 * sizeof(double) * t->scales; }

void fli_terms_write(const fli_terms *t, unsigned char *out)
{
    const uint64_t wholes[WHOLES] = {t->seed,  t->features, t->classes, t->parameters,
                                     t->upper, t->clients,  t->batch,   t->latent};
    const double reals[REALS] = {t->momentum, t->fraction, t->weight_decay};
    const uint32_t shorts[SHORTS] = {t->client, t->precision, t->scales};
    for (size_t i = 0; i < WHOLES; i++) out = fli_put_u64(out, wholes[i], 8);
    for (size_t i = 0; i < REALS; i++) out = fli_put_real(out, reals[i]);
    for (size_t i = 0; i < SHORTS; i++) out = fli_put_u64(out, shorts[i], 4);
    memcpy(out, t->model, FLI_TERMS_NAME);
    memcpy(out + FLI_TERMS_NAME, t->method, FLI_TERMS_NAME);
    out += 2 * FLI_TERMS_NAME;
    for (size_t i = 0; i < t->scales; i++) out = fli_put_real(out, t->scale[i]);
    for (size_t i = 0; i < t->scales; i++) out = fli_put_real(out, t->shift[i]);
}

static const unsigned char *read_numbers(const unsigned char *in, fli_terms *t)
{
    uint64_t *wholes[WHOLES] = {&t->seed,  &t->features, &t->classes, &t->parameters,
                                &t->upper, &t->clients,  &t->batch,   &t->latent},
             v;
    double *reals[REALS] = {&t->momentum, &t->fraction, &t->weight_decay};
    uint32_t *shorts[SHORTS] = {&t->client, &t->precision, &t->scales};
    for (size_t i = 0; i < WHOLES; i++) in = fli_get_u64(in, wholes[i], 8);
    for (size_t i = 0; i < REALS; i++) in = fli_get_real(in, reals[i]);
    for (size_t i = 0; i < SHORTS; i++) {
        in = fli_get_u64(in, &v, 4);
        *shorts[i] = (uint32_t)v;
    }
    return in;
}

/* What a client would otherwise find out too late. */
static const char *impossible(const fli_terms *t)
{
    if (t->client >= t->clients) return "the client's number is not below the number of clients";
    if (t->precision != 4 && t->precision != 8) return "the precision is neither 4 nor 8 bytes";
    if (!t->parameters || t->upper > t->parameters) return "the model has no parameters, or too few";
    if (!isfinite(t->momentum) || !isfinite(t->fraction) || !isfinite(t->weight_decay)) return "a number is not finite";
    if (!memchr(t->model, 0, FLI_TERMS_NAME) || !memchr(t->method, 0, FLI_TERMS_NAME)) return "a name does not end";
    return NULL;
}

fl_status fli_terms_read(fl_ctx *ctx, const unsigned char *in, size_t n, fli_terms *t)
{
    memset(t, 0, sizeof *t);
    if (n < FIXED) return fli_fail(ctx, FL_EFORMAT, "the terms of a federation have %zu bytes, not %d", n, FIXED);
    in = read_numbers(in, t);
    if (t->scales > FLI_TERMS_SCALES || n != fli_terms_bytes(t))
        return fli_fail(ctx, FL_EFORMAT, "the terms of a federation have %zu bytes and %u scales, which does not fit",
                        n, t->scales);
    memcpy(t->model, in, FLI_TERMS_NAME);
    memcpy(t->method, in + FLI_TERMS_NAME, FLI_TERMS_NAME);
    in += 2 * FLI_TERMS_NAME;
    for (size_t i = 0; i < t->scales; i++) in = fli_get_real(in, &t->scale[i]);
    for (size_t i = 0; i < t->scales; i++) in = fli_get_real(in, &t->shift[i]);
    const char *wrong = impossible(t);
    return wrong ? fli_fail(ctx, FL_EFORMAT, "the terms of a federation cannot be: %s", wrong) : FL_OK;
}
