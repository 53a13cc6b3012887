/* Gaussian blobs: one round cluster per class.
 *
 * Centres have coordinates a N(0, 1), so two of them are about a sqrt(2 features) apart; samples deviate by `spread`
 * times that distance in every direction. The border between two classes is thus 1 / (2 spread) deviations from either
 * centre: spread 0.25 makes a few percent of a pair overlap. a is chosen so that every feature has variance 1. */
#include "data/source.h"

#include <math.h>

typedef struct {
    int64_t classes, features, samples, test_samples;
    double spread;
} blobs_params;

static const fl_key keys[] = {
    FLI_KEY_INT(blobs_params, classes, "10", 2, 1e5, "number of classes"),
    FLI_KEY_INT(blobs_params, features, "20", 1, 1e6, "number of features"),
    FLI_KEY_INT(blobs_params, samples, "2000", 1, 4e9, "training samples, the same number of each class"),
    FLI_KEY_INT(blobs_params, test_samples, "500", 0, 4e9, "test samples; 0: none"),
    FLI_KEY_REAL(blobs_params, spread, "0.25", 0, 1e6,
                 "deviation of a cluster relative to the distance of two centres"),
    FLI_KEY_END,
};

enum { ITEM_CENTRES, ITEM_TRAIN, ITEM_TEST };

static fl_status make(fl_ctx *ctx, const blobs_params *p, uint64_t seed, uint32_t item, int64_t n, const double *centre,
                      double deviation, fli_dataset **out)
{
    size_t dim = (size_t)p->features, classes = (size_t)p->classes;
    fli_rng r;
    fl_status s = fli_dataset_new(ctx, FLI_X_F32, (size_t)n, dim, classes, out);
    if (s) return s;
    fli_rng_init(&r, seed, FLI_RNG_DATA, item, 0);
    float *x = (*out)->x;
    for (size_t i = 0; i < (size_t)n; i++, x += dim) {
        size_t k = i % classes;
        (*out)->label[i] = (int32_t)k;
        for (size_t j = 0; j < dim; j++) x[j] = (float)(centre[k * dim + j] + deviation * fli_rng_normal(&r));
    }
    return FL_OK;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const blobs_params *p = request->params;
    uint64_t seed = request->seed;
    size_t dim = (size_t)p->features, classes = (size_t)p->classes;
    double ratio = p->spread * sqrt(2 * (double)dim), a = 1 / sqrt(1 + ratio * ratio);
    fli_rng r;
    double *centre = fli_alloc(ctx, classes, dim * sizeof *centre);
    if (!centre) return FL_ENOMEM;
    fli_rng_init(&r, seed, FLI_RNG_DATA, ITEM_CENTRES, 0);
    for (size_t i = 0; i < classes * dim; i++) centre[i] = a * fli_rng_normal(&r);
    fl_status s = make(ctx, p, seed, ITEM_TRAIN, p->samples, centre, a * ratio, train);
    if (!s && p->test_samples) s = make(ctx, p, seed, ITEM_TEST, p->test_samples, centre, a * ratio, test);
    if (s) {
        fli_dataset_free(*train);
        *train = NULL;
    }
    fli_free(centre);
    return s;
}

const fli_source fli_source_blobs = {
    .name = "blobs",
    .title = "Gaussian blobs, one per class",
    .keys = keys,
    .params_size = sizeof(blobs_params),
    .load = load,
};
