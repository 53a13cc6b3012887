/* The data of a whole federation: who holds what for training, what is kept for testing, one client's view of it, and
 * its digest. Immutable once built, so threads share it without locks.
 *
 * Stored federations keep all samples in one data set and give every client a list of indices. On-demand federations
 * keep nothing: a client's samples are made when its turn comes and forgotten afterwards. Both look the same through a
 * view.
 *
 * Where clients are elsewhere (remote_data.h), the server has a federation of sizes alone, and a client one in which it
 * is the only one whose samples are here. Where several processes make one run, each keeps the samples of a part of the
 * clients, and the sizes of all (fli_fed_keep). */
#ifndef FLI_DATA_FEDERATION_FEDERATION_H
#define FLI_DATA_FEDERATION_FEDERATION_H

#include "base/digest.h"
#include "data/dataset.h"
#include "data/federation/in_memory.h"
#include "data/partition/partition.h"
#include "data/source.h"

typedef struct fli_fed {
    fli_dataset *train; /* all stored samples; NULL when on demand */
    fli_dataset *test;  /* a separate test set; NULL: none. Of `tests` samples those from test_first on are here */
    size_t tests, test_first;
    /* Samples of clients: `start` of all whose sizes are known, `index` of those that are here. A client's last
     * test_count samples are its own test part. */
    fli_partition part;
    uint32_t *test_count;
    /* the samples just before its test part have lost their labels; NULL: nobody has such samples */
    uint32_t *unlabelled_count;
    /* their labels, one per stored sample, -1 where it is still in place; for evaluation, see below */
    int32_t *truth;
    size_t first, here;      /* the clients whose samples are here, or can be made: `here` from the first on, */
    uint32_t *kept;          /* or these, ascending, whose lists begin at kept_start; NULL: no others were dropped */
    size_t *kept_start;      /* here + 1, in part.index */
    size_t known;            /* the first whose size is known: where part.start and the counts above begin */
    size_t clients, samples; /* samples: training samples over all clients */
    size_t dim, classes;
    double *weight;   /* w_i as they came with the data, adding up to 1; NULL: as the run says */
    size_t largest;   /* training samples of the largest client */
    double magnitude; /* of the features of all samples, before some were dropped; NaN: none were */
    /* on demand: */
    const fli_source *source;
    const void *params; /* borrowed */
    uint64_t seed;
    double test_fraction;
} fli_fed;

/* One client's data. */
typedef struct {
    const fli_dataset *ds;
    const uint32_t *train, *test;
    size_t n_train, n_test;     /* labelled training samples, where some are not */
    const uint32_t *unlabelled; /* their labels in ds are -1 */
    size_t n_unlabelled;
    fli_dataset *made; /* on demand: owned by the view */
    uint32_t *index;
} fli_view;

typedef enum {
    FLI_NORM_AUTO,     /* bytes to [0, 1], everything else as it is */
    FLI_NORM_NONE,     /* as stored */
    FLI_NORM_UNIT,     /* bytes to [0, 1]; other features by the largest magnitude of each */
    FLI_NORM_STANDARD, /* mean 0, deviation 1: per channel for images, per feature otherwise; not for sparse data */
    FLI_NORM_COLUMNS,  /* each feature divided by its Euclidean norm over all training samples */
    FLI_NORM_GIVEN,    /* (pixel/255 - mean) / std for bytes, (value - mean) / std otherwise */
    FLI_NORM_IMAGE,    /* each image by its own mean and deviation, of all channels together, after cropping */
    FLI_NORM_AFFINE    /* value * scale + shift, of values as stored */
} fli_normalize;
#define FLI_NORMALIZE_WORDS "auto|none|unit|standard|columns|given|image|affine"

typedef struct {
    const fli_source *source;
    const void *source_params; /* borrowed, must outlive the federation */
    const fli_memory *memory;  /* a program's own arrays, which must outlive the federation; NULL: none */
    const fli_partitioner *partitioner;
    const void *partitioner_params;
    size_t clients;
    uint64_t seed;
    double test_fraction;  /* of each client's samples, for its own test part */
    double unlabelled;     /* of each client's training samples; not on demand, and not for regression */
    int normalize;         /* fli_normalize */
    fl_reals mean, std;    /* for FLI_NORM_GIVEN: one value, or one per channel, of pixels in [0, 1] or raw features */
    fl_reals scale, shift; /* for FLI_NORM_AFFINE: one value, or one per channel or feature; no shift: 0 */
    int on_demand;
    int wide;    /* models compute in f64 */
    int map;     /* training samples may stay in their files until fli_fed_keep: nobody else maps them */
    size_t crop; /* height and width that models see of images; 0: all */
    int augment; /* fli_augment, of the training samples; only images that are stored */
    int augment_once;
    double augment_still; /* the share of draws that keep the middle */
} fli_fed_spec;

fl_status fli_fed_new(fl_ctx *ctx, const fli_fed_spec *spec, fli_fed **out);

/* Steps of it, also for remote_data.c. What becomes of data sets, once checked, before they are split; test may be
 * NULL. */
fl_status fli_fed_prepare(fl_ctx *ctx, const fli_fed_spec *spec, fli_dataset *train, fli_dataset *test);
/* Every client's test part and unlabelled samples, of a federation that has all but these: seed, test_fraction, train
 * and part are set. */
fl_status fli_fed_split(fl_ctx *ctx, double unlabelled, fli_fed *fed);
/* Draws every training sample that is here once, if the specification says so: after that they are as if
 * the data had been so. For a federation that is split. */
fl_status fli_fed_freeze(fl_ctx *ctx, const fli_fed_spec *spec, fli_fed *fed);
/* This share of n samples, but never all of them. */
size_t fli_fed_share(double fraction, size_t n);

/* Keeps the samples of these clients alone, in ascending order, NULL: of all. Those of others, and those of
 * nobody, give their memory back, and views of others are refused. Sizes and weights stay known of all clients,
 * and what is kept is seen as before: samples keep their numbers. Nothing is dropped of a federation on demand,
 * and nothing of a program's own arrays, which stay as they are. Once; after a failure the federation can only be
 * freed. */
fl_status fli_fed_keep(fl_ctx *ctx, fli_fed *fed, const uint32_t *clients, size_t n);

/* The same for the test set, of which the samples from `from` up to, but without, `to` are kept. */
fl_status fli_fed_keep_tests(fl_ctx *ctx, fli_fed *fed, size_t from, size_t to);

/* From parts at hand (golden cases, tests); takes the data sets and the partition, also on failure. test may be
 * NULL. */
fl_status fli_fed_take(fl_ctx *ctx, fli_dataset *train, fli_dataset *test, fli_partition *part, fli_fed **out);
void fli_fed_free(fli_fed *fed);

size_t fli_fed_size(const fli_fed *fed, size_t client);       /* training samples of a client, labelled or not */
size_t fli_fed_unlabelled(const fli_fed *fed, size_t client); /* those without a label among them */
size_t fli_fed_tests(const fli_fed *fed, size_t client);      /* its own test part; on demand: not known, 0 */
/* A client's place in lists of those that are here, which are fed->here; for the others some number that is not below
 * that. And the other way round. */
size_t fli_fed_place(const fli_fed *fed, size_t client);
static inline size_t fli_fed_at(const fli_fed *fed, size_t place)
{
    return fed->kept ? fed->kept[place] : fed->first + place;
}
size_t fli_fed_listed(const fli_fed *fed); /* entries of part.index */
/* The largest magnitude of a stored feature, as models see it, whether all samples are still here or not. */
fl_status fli_fed_magnitude(fl_ctx *ctx, const fli_fed *fed, double *out);

/* The class of a stored sample, whether its label was taken away or not. Views do not lead here: local solvers are
 * given a view, so whatever they do they cannot see it. */
int32_t fli_fed_truth(const fli_fed *fed, uint32_t sample);

/* Takes labels away: each client's last count[i] training samples lose theirs. For federations from fli_fed_take;
 * once. */
fl_status fli_fed_hide(fl_ctx *ctx, fli_fed *fed, const uint32_t *count);

/* One client's data. Thread-safe. Close it before the next open into the same variable. */
fl_status fli_view_open(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_view *v);
void fli_view_close(fli_view *v);

/* ==== the digest ============================================================================================ */

/* What a federation's data are, in 32 bytes: values, labels, who holds what, what they are scaled by, and weights that
 * come with them. Two federations with the same digest give the same results under the same settings.
 *
 * Each client's part is a digest of its own samples alone, in its own order, so that it can be made where the samples
 * are; the whole is made of those, in the order of the clients, and of what all share. */

/* One client's samples: training, unlabelled and test parts, values as they are stored, with their labels or
 * targets. */
fl_status fli_digest_client(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_digest *out);
/* The whole federation. Of one that is made on demand only the sizes: its samples are a function of the settings and
 * the seed. */
fl_status fli_digest_fed(fl_ctx *ctx, const fli_fed *fed, fli_digest *out);

/* ==== scaling of features =================================================================================== */

/* For federation.c, and tests. Scales are kept beside the samples and applied when a batch is gathered: samples stay as
 * stored.
 *
 * Sets segments, scale and shift of train, from train's own samples, and the same on test (which may be NULL). `how`
 * is an fli_normalize. `first` and `second` are mean and std for FLI_NORM_GIVEN, scale and shift for FLI_NORM_AFFINE.
 * Both sets must be as loaded, without scale. */
fl_status fli_normalize_sets(fl_ctx *ctx, int how, const fl_reals *first, const fl_reals *second, fli_dataset *train,
                             fli_dataset *test);

#endif
