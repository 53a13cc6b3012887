#include "client/card.h"

#include "base/bytes.h"

#include <math.h>
#include <string.h>

/* ---- cards ----------------------------------------------------------------------------------------------- */

fl_status fli_card_make(fl_ctx *ctx, const fli_fed *fed, uint32_t client, int digest, fli_card *out)
{
    const fli_dataset *ds = fed->train;
    *out = (fli_card){.samples = fli_fed_size(fed, client),
                      .unlabelled = fli_fed_unlabelled(fed, client),
                      .test_samples = fli_fed_tests(fed, client),
                      .digested = digest != 0,
                      .classes = fed->classes,
                      .kind = ds ? (uint64_t)ds->kind : 0};
    for (size_t k = 0; ds && k < 3; k++) out->shape[k] = ds->shape[k];
    return digest ? fli_digest_client(ctx, fed, client, &out->digest) : FL_OK;
}

void fli_card_write(const fli_card *c, unsigned char *out)
{
    out = fli_put_u64(out, c->samples, 8);
    out = fli_put_u64(out, c->unlabelled, 8);
    out = fli_put_u64(out, c->test_samples, 8);
    out = fli_put_u64(out, c->digested != 0, 8);
    memcpy(out, c->digest.byte, sizeof c->digest.byte);
    out += sizeof c->digest.byte;
    for (size_t k = 0; k < 3; k++) out = fli_put_u64(out, c->shape[k], 8);
    out = fli_put_u64(out, c->classes, 8);
    fli_put_u64(out, c->kind, 8);
}

fl_status fli_card_read(fl_ctx *ctx, const unsigned char *in, fli_card *c)
{
    uint64_t digested;
    in = fli_get_u64(in, &c->samples, 8);
    in = fli_get_u64(in, &c->unlabelled, 8);
    in = fli_get_u64(in, &c->test_samples, 8);
    in = fli_get_u64(in, &digested, 8);
    memcpy(c->digest.byte, in, sizeof c->digest.byte);
    in += sizeof c->digest.byte;
    for (size_t k = 0; k < 3; k++) in = fli_get_u64(in, &c->shape[k], 8);
    in = fli_get_u64(in, &c->classes, 8);
    fli_get_u64(in, &c->kind, 8);
    c->digested = digested == 1;
    if (c->kind > FLI_X_CSR64)
        return fli_fail(ctx, FL_EFORMAT, "a client that joins has samples of a kind that does not exist");
    if (digested > 1 || c->unlabelled > c->samples || c->samples > UINT32_MAX || c->test_samples > UINT32_MAX)
        return fli_fail(ctx, FL_EFORMAT,
                        "a client that joins says that it has %llu samples, %llu of them without a label and %llu for "
                        "testing, which is impossible",
                        (unsigned long long)c->samples, (unsigned long long)c->unlabelled,
                        (unsigned long long)c->test_samples);
    return FL_OK;
}

/* ---- terms ----------------------------------------------------------------------------------------------- */

void fli_terms_make(const fli_setup *setup, uint32_t client, fli_terms *out)
{
    const fli_model *m = setup->model;
    const fli_dataset *ds = setup->fed->train; /* NULL: the federation makes samples on demand */
    int elsewhere = ds && !setup->fed->part.index;
    int numbered =
        ds && (ds->augment != FLI_AUGMENT_NONE || m->desc->traits & FLI_MODEL_USER); /* these use sample numbers */
    const size_t *start = setup->fed->part.start;
    *out = (fli_terms){
        .seed = setup->seed,
        .clients = setup->clients,
        .shape = {m->shape[0], m->shape[1], m->shape[2]},
        .classes = m->classes,
        .parameters = m->space.n,
        .upper = fli_model_upper(m),
        .before = elsewhere && numbered ? start[client] : 0,
        .samples = elsewhere ? start[client + 1] - start[client] : 0,
        .client = client,
        .precision = (uint32_t)m->space.ops->size,
        .sparse = ds && fli_dataset_sparse(ds),
        .model = m->desc->name,
        .method = setup->algo->name,
        .settings = setup->settings ? setup->settings : "",
    };
    if (ds && ds->classes == m->classes) out->class_name = ds->class_name;
    if (!ds || !ds->scale) return;
    out->scales = (uint32_t)(fli_dataset_sparse(ds) ? ds->dim : ds->segments);
    out->scale = ds->scale;
    out->shift = ds->shift;
}

enum { WHOLES = 10, SHORTS = 5, FIXED = WHOLES * 8 + SHORTS * 4 };

/* The form of terms: numbers, then scales and shifts, then names of classes, then the other texts. Texts end with a
 * zero. */
size_t fli_terms_bytes(const fli_terms *t)
{
    size_t bytes = FIXED + 2 * sizeof(double) * t->scales;
    for (size_t i = 0; t->class_name && i < t->classes; i++) bytes += strlen(t->class_name[i]) + 1;
    return bytes + strlen(t->model) + strlen(t->method) + strlen(t->settings) + 3;
}

static unsigned char *put_text(unsigned char *out, const char *text)
{
    size_t n = strlen(text) + 1;
    memcpy(out, text, n);
    return out + n;
}

void fli_terms_write(const fli_terms *t, unsigned char *out)
{
    const uint64_t wholes[WHOLES] = {t->seed,    t->clients,    t->shape[0], t->shape[1], t->shape[2],
                                     t->classes, t->parameters, t->upper,    t->before,   t->samples};
    const uint32_t shorts[SHORTS] = {t->client, t->precision, t->sparse, t->scales, t->class_name != NULL};
    for (size_t i = 0; i < WHOLES; i++) out = fli_put_u64(out, wholes[i], 8);
    for (size_t i = 0; i < SHORTS; i++) out = fli_put_u64(out, shorts[i], 4);
    for (size_t i = 0; i < t->scales; i++) out = fli_put_real(out, t->scale[i]);
    for (size_t i = 0; i < t->scales; i++) out = fli_put_real(out, t->shift ? t->shift[i] : 0);
    for (size_t i = 0; t->class_name && i < t->classes; i++) out = put_text(out, t->class_name[i]);
    out = put_text(out, t->model);
    out = put_text(out, t->method);
    put_text(out, t->settings);
}

/* A reader of bytes that stops at the first error. */
typedef struct {
    const unsigned char *at;
    size_t left;
    const char *wrong; /* what is wrong; NULL: nothing so far */
} reader;

static const unsigned char *take(reader *r, size_t n)
{
    const unsigned char *at = r->at;
    if (n > r->left) r->wrong = "they are cut short";
    if (r->wrong) return NULL;
    r->at += n;
    r->left -= n;
    return at;
}

static char *take_text(reader *r, char **room)
{
    const unsigned char *end = r->wrong ? NULL : memchr(r->at, 0, r->left);
    if (!end) {
        if (!r->wrong) r->wrong = "a text does not end";
        return "";
    }
    size_t n = (size_t)(end - r->at) + 1;
    char *text = memcpy(*room, take(r, n), n);
    *room += n;
    return text;
}

static void read_numbers(const unsigned char *in, fli_terms *t, int *named)
{
    uint64_t *wholes[WHOLES] = {&t->seed,    &t->clients,    &t->shape[0], &t->shape[1], &t->shape[2],
                                &t->classes, &t->parameters, &t->upper,    &t->before,   &t->samples},
             v;
    uint32_t names, *shorts[SHORTS] = {&t->client, &t->precision, &t->sparse, &t->scales, &names};
    for (size_t i = 0; i < WHOLES; i++) in = fli_get_u64(in, wholes[i], 8);
    for (size_t i = 0; i < SHORTS; i++) {
        in = fli_get_u64(in, &v, 4);
        *shorts[i] = (uint32_t)v;
    }
    *named = names != 0;
}

/* What is wrong with the numbers, before memory is allocated by them: every name and every scale needs bytes. */
static const char *impossible(const fli_terms *t, int named, size_t left)
{
    if (t->client >= t->clients) return "the client's number is not below the number of clients";
    if (t->precision != 4 && t->precision != 8) return "the precision is neither 4 nor 8 bytes";
    if (t->sparse > 1) return "the storage of samples is neither sparse nor dense";
    if (!t->parameters || t->upper > t->parameters) return "the model has no parameters, or too few";
    if (t->scales > left / (2 * sizeof(double)) || (named && t->classes > left)) return "they are cut short";
    return NULL;
}

/* t->memory has room for the reals, then for pointers to the names, then for all texts. */
static void read_lists(reader *r, fli_terms *t, int named)
{
    double *reals = t->memory;
    char **names = (char **)(reals + 2 * t->scales), *room = (char *)(names + (named ? t->classes : 0));
    for (size_t i = 0; i < 2 * t->scales; i++) {
        const unsigned char *at = take(r, sizeof(double));
        if (at) fli_get_real(at, &reals[i]);
        if (at && !isfinite(reals[i])) r->wrong = "a scale is not finite";
    }
    t->scale = t->scales ? reals : NULL;
    t->shift = t->scales ? reals + t->scales : NULL;
    for (size_t i = 0; named && i < t->classes; i++) names[i] = take_text(r, &room);
    t->class_name = named ? names : NULL;
    t->model = take_text(r, &room);
    t->method = take_text(r, &room);
    t->settings = take_text(r, &room);
    if (!r->wrong && r->left) r->wrong = "something follows them";
}

fl_status fli_terms_read(fl_ctx *ctx, const unsigned char *in, size_t n, fli_terms *t)
{
    reader r = {in, n, NULL};
    int named = 0;
    *t = (fli_terms){.model = "", .method = "", .settings = ""};
    const unsigned char *numbers = take(&r, FIXED);
    if (numbers) read_numbers(numbers, t, &named);
    if (!r.wrong) r.wrong = impossible(t, named, r.left);
    if (!r.wrong) {
        if (!(t->memory = fli_alloc(ctx, r.left + (named ? t->classes : 0) * sizeof(char *) + 1, 1))) return FL_ENOMEM;
        read_lists(&r, t, named);
    }
    return r.wrong ? fli_fail(ctx, FL_EFORMAT, "the terms of a federation, %zu bytes: %s", n, r.wrong) : FL_OK;
}

void fli_terms_fini(fli_terms *t)
{
    fli_free(t->memory);
    *t = (fli_terms){0};
}
