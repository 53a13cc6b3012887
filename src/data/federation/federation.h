/* The data of a whole federation: each client's training and test samples, the server's test set, one client's view,
 * and the digest of the data. Immutable once built, so threads share it without locks.
 *
 * A stored federation keeps all samples in one data set and gives every client a list of indices. An on-demand
 * federation stores nothing: it makes a client's samples for a turn and frees them afterwards. A view hides the
 * difference.
 *
 * If clients are remote (remote_data.h), the server's federation has sizes alone, and a client's federation has only
 * its own samples. If several processes share a run, each keeps the samples of some clients and the sizes of all
 * (fli_fed_keep). */
#ifndef FLI_DATA_FEDERATION_FEDERATION_H
#define FLI_DATA_FEDERATION_FEDERATION_H

#include "base/digest.h"
#include "data/dataset.h"
#include "data/federation/in_memory.h"
#include "data/partition/partition.h"
#include "data/source.h"

typedef struct fli_fed {
    fli_dataset *train; /* all stored samples; NULL when on demand */
    fli_dataset *test;  /* a separate test set of `tests` samples, here from number test_first on; NULL: none */
    size_t tests, test_first;
    /* part.start has the sizes of all clients from `known` on, part.index the samples of those that are here. A
     * client's last test_count samples are its own test part. */
    fli_partition part;
    uint32_t *test_count;
    /* per client: the samples before its test part whose labels are hidden; NULL: none are hidden */
    uint32_t *unlabelled_count;
    /* the hidden labels, one per stored sample, -1 where the data set has the label; see fli_fed_truth */
    int32_t *truth;
    size_t first, here;      /* the clients whose samples are here, or can be made: `here` from the first on, */
    uint32_t *kept;          /* or these, ascending, whose lists begin at kept_start; NULL: no clients were dropped */
    size_t *kept_start;      /* here + 1, in part.index */
    size_t known;            /* first client whose size is known: part.start and the counts above begin with it */
    size_t clients, samples; /* samples: training samples over all clients */
    size_t dim, classes;
    double *weight;   /* w_i given with the data, normalised to sum 1; NULL: the run's settings decide */
    size_t largest;   /* training samples of the largest client */
    double magnitude; /* largest magnitude of a feature before samples were dropped; NaN: none were */
    /* on demand: */
    const fli_source *source;
    const void *params; /* borrowed */
    uint64_t seed;
    double test_fraction;
} fli_fed;

/* One client's data. Sample lists index `ds`. */
typedef struct {
    const fli_dataset *ds;
    const uint32_t *train, *test;
    size_t n_train, n_test;     /* training samples that have labels */
    const uint32_t *unlabelled; /* their labels in ds are -1 */
    size_t n_unlabelled;
    fli_dataset *made; /* on demand: owned by the view */
    uint32_t *index;
} fli_view;

typedef enum {
    FLI_NORM_AUTO,     /* bytes to [0, 1], everything else as stored */
    FLI_NORM_NONE,     /* as stored */
    FLI_NORM_UNIT,     /* bytes to [0, 1]; other features by the largest magnitude of each */
    FLI_NORM_STANDARD, /* mean 0, deviation 1: per channel for images, per feature otherwise; not for sparse data */
    FLI_NORM_COLUMNS,  /* each feature divided by its Euclidean norm over all training samples */
    FLI_NORM_GIVEN,    /* (pixel/255 - mean) / std for bytes, (value - mean) / std otherwise */
    FLI_NORM_IMAGE,    /* each image by its own mean and deviation, over all its channels, after cropping */
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
    double test_fraction;  /* share of each client's samples for its own test part */
    double unlabelled;     /* share of each client's training samples; not on demand, and not for regression */
    int normalize;         /* fli_normalize */
    fl_reals mean, std;    /* for FLI_NORM_GIVEN: one value, or one per channel; of pixels in [0, 1] or raw features */
    fl_reals scale, shift; /* for FLI_NORM_AFFINE: one value, or one per channel or feature; empty shift: 0 */
    int on_demand;
    int wide;    /* models compute in f64 */
    int map;     /* training samples may stay mapped in their files until fli_fed_keep */
    size_t crop; /* height and width of what models see of images; 0: the whole image */
    int augment; /* fli_augment, of the training samples; for stored images only */
    int augment_once;
    double augment_still; /* the share of draws that keep the middle */
} fli_fed_spec;

fl_status fli_fed_new(fl_ctx *ctx, const fli_fed_spec *spec, fli_fed **out);

/* Steps of fli_fed_new, also for remote_data.c. Normalises and crops data sets after their check and before the split;
 * test may be NULL. */
fl_status fli_fed_prepare(fl_ctx *ctx, const fli_fed_spec *spec, fli_dataset *train, fli_dataset *test);
/* Sets every client's test part and unlabelled samples. The other members are set: seed, test_fraction, train, part. */
fl_status fli_fed_split(fl_ctx *ctx, double unlabelled, fli_fed *fed);
/* After the split: if the specification has augment_once, replaces every training sample that is here by one draw. */
fl_status fli_fed_freeze(fl_ctx *ctx, const fli_fed_spec *spec, fli_fed *fed);
/* fraction * n samples, rounded down, and at most n - 1. */
size_t fli_fed_share(double fraction, size_t n);

/* Keeps the samples of these clients, in ascending order; NULL: of all clients. Frees the other samples, also those of
 * no client; views of dropped clients then fail. Sizes and weights of all clients stay known, and kept samples keep
 * their numbers. Drops nothing on demand, and nothing of a program's own arrays. Call once; after a failure the
 * federation can only be freed. */
fl_status fli_fed_keep(fl_ctx *ctx, fli_fed *fed, const uint32_t *clients, size_t n);

/* The same for the test set: keeps samples from .. to - 1. */
fl_status fli_fed_keep_tests(fl_ctx *ctx, fli_fed *fed, size_t from, size_t to);

/* Builds a federation from its parts (golden cases, tests). Takes the data sets and the partition, also on failure.
 * test may be NULL. */
fl_status fli_fed_take(fl_ctx *ctx, fli_dataset *train, fli_dataset *test, fli_partition *part, fli_fed **out);
void fli_fed_free(fli_fed *fed);

size_t fli_fed_size(const fli_fed *fed, size_t client);       /* training samples of a client, with or without label */
size_t fli_fed_unlabelled(const fli_fed *fed, size_t client); /* those of them without a label */
size_t fli_fed_tests(const fli_fed *fed, size_t client);      /* samples of its own test part; on demand: 0 */
/* A client's place in 0 .. fed->here - 1, or SIZE_MAX if its samples are not here; and the client at a place. */
size_t fli_fed_place(const fli_fed *fed, size_t client);
static inline size_t fli_fed_at(const fli_fed *fed, size_t place)
{
    return fed->kept ? fed->kept[place] : fed->first + place;
}
size_t fli_fed_listed(const fli_fed *fed); /* entries of part.index */
/* The largest magnitude of a stored feature, normalised. Samples that were dropped count. */
fl_status fli_fed_magnitude(fl_ctx *ctx, const fli_fed *fed, double *out);

/* The class of a stored sample, even if its label is hidden. Local solvers get a view, which does not lead here. */
int32_t fli_fed_truth(const fli_fed *fed, uint32_t sample);

/* Hides the labels of each client's last count[i] training samples. Once, for federations from fli_fed_take. */
fl_status fli_fed_hide(fl_ctx *ctx, fli_fed *fed, const uint32_t *count);

/* Opens one client's data. Thread-safe. Close `v` before it is opened again. */
fl_status fli_view_open(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_view *v);
void fli_view_close(fli_view *v);

/* ==== the digest ============================================================================================ */

/* The digest of a federation's data: values, labels, holders, scales, and given weights. Two federations with the same
 * digest give the same results under the same settings.
 *
 * A client's digest covers its own samples in their order, so that it can be made where the samples are. The
 * federation's digest covers the clients' digests, in order, and what all share. */

/* One client's samples: training, unlabelled and test parts, as stored, with their labels or targets. */
fl_status fli_digest_client(fl_ctx *ctx, const fli_fed *fed, size_t client, fli_digest *out);
/* The whole federation. On demand, the sizes alone: samples depend only on the settings and the seed. */
fl_status fli_digest_fed(fl_ctx *ctx, const fli_fed *fed, fli_digest *out);

/* ==== scaling of features =================================================================================== */

/* For federation.c, and tests. Scales lie beside the samples and are applied when a batch is gathered.
 *
 * Computes segments, scale and shift from train's samples, and sets them on train and test (which may be NULL). `how`
 * is an fli_normalize. `first` and `second` are mean and std for FLI_NORM_GIVEN, scale and shift for FLI_NORM_AFFINE.
 * Both sets must be as loaded, without scale. */
fl_status fli_normalize_sets(fl_ctx *ctx, int how, const fl_reals *first, const fl_reals *second, fli_dataset *train,
                             fli_dataset *test);

#endif
