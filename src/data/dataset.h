/* Samples are stored once, in the type of their source: bytes stay bytes, sparse stays sparse. A client is a list of
 * indices into the set; models get mini-batches. Where samples come from: data/source.h. */
#ifndef FLI_DATA_DATASET_H
#define FLI_DATA_DATASET_H

#include "base/ctx.h"
#include "base/rng.h"
#include "data/augment.h"
#include "format/stream.h"
#include "vec/ops.h"

/* ==== data sets ============================================================================================= */

/* Arrays that a data set borrows: it neither changes nor frees them. */
enum {
    FLI_BORROWS_SAMPLES = 1, /* x, row, col and target */
    FLI_BORROWS_LABELS = 2
};

typedef enum { FLI_X_U8, FLI_X_F32, FLI_X_F64, FLI_X_CSR, FLI_X_CSR64 } fli_xkind;

/* A set may have no features (dim 0, x NULL). Its samples are then known by their numbers alone, and may have neither
 * labels nor targets. */
typedef struct {
    size_t n, dim; /* samples, features that a model sees */
    fli_xkind kind;
    void *x;          /* n rows of the kind's type; sparse: the stored values, float or double, row by row */
    size_t *row;      /* sparse: n + 1 starts */
    uint32_t *col;    /* sparse: feature of each value, ascending within a row */
    int32_t *label;   /* class of each sample, 0 .. classes-1; NULL for regression */
    double *target;   /* regression; NULL for classification. A set with features has exactly one of label and target */
    size_t classes;   /* 0 for regression */
    unsigned borrows; /* FLI_BORROWS_ */
    fli_mapping map;  /* the mapping that x points into; base NULL: none */
    char **class_name;     /* labels as the file writes them, one per class, one allocation; NULL: 0, 1, ... */
    char *named_in;        /* path of the file that names the classes; NULL: none */
    int32_t *group;        /* natural owner of each sample (writer, user, generated client); NULL: no groups */
    size_t groups;         /* group ids are 0 .. groups-1 */
    size_t shape[3];       /* channels, height, width that a model sees; {1, 1, dim} when not an image */
    size_t frame[2];       /* height and width of stored images if a model sees a crop of them; 0: no crop */
    size_t segments;       /* normalisation: value * scale + shift, one pair per run of length/segments features */
    double *scale, *shift; /* NULL: not normalised. Sparse: one scale per feature, and every shift is 0 */
    int each;              /* instead: scale every image by its own mean and deviation, over the part that is seen */
    /* Random changes and users' objectives identify sample i by its number: number[i], or from + i if number is NULL. A
     * set that is a part of a larger one keeps the numbers of that one. */
    uint32_t *number;
    uint32_t from;
    int augment;    /* fli_augment: the random change that training makes each time it reads a sample */
    uint64_t still; /* how many of FLI_CROP_DRAWS draws keep the middle of the image, mirrored or not */
    char *origin;   /* where the samples come from, for messages; NULL: unknown */
    int test;       /* the federation's separate test set */
} fli_dataset;

size_t fli_xkind_size(fli_xkind kind); /* bytes of a value */

/* A dense set with room for n samples: x zeroed; label allocated, or target if classes is 0. */
fl_status fli_dataset_new(fl_ctx *ctx, fli_xkind kind, size_t n, size_t dim, size_t classes, fli_dataset **out);
void fli_dataset_free(fli_dataset *ds);

/* Checks what every later stage relies on: labels in range, finite targets and values, sparse rows in order, product of
 * the shape. */
fl_status fli_dataset_check(fl_ctx *ctx, const fli_dataset *ds, const char *name);

/* FL_EFORMAT if f32 cannot hold a normalised value or a target: for federations whose models compute in f32. */
fl_status fli_dataset_check_f32(fl_ctx *ctx, const fli_dataset *ds, const char *name);

/* Makes models see size x size pixels of every image; evaluation sees the middle. Call once, after normalisation. */
fl_status fli_dataset_crop(fl_ctx *ctx, size_t size, fli_dataset *ds);

/* out[0 .. dim-1] = sample i, normalised. For generators' tests, statistics and look-ups; too slow for training. */
void fli_dataset_row(const fli_dataset *ds, size_t i, double *out);

/* The sample's number, which random changes depend on. */
static inline uint32_t fli_dataset_number(const fli_dataset *ds, uint32_t i)
{
    return ds->number ? ds->number[i] : ds->from + i;
}

/* Drops all samples but these n, given in ascending order, and frees the others' memory. Samples keep their numbers; a
 * mapped file is copied and unmapped. Not for borrowed sets. After a failure the set can only be freed. */
fl_status fli_dataset_keep(fl_ctx *ctx, fli_dataset *ds, const uint32_t *samples, size_t n);

/* *out = the largest magnitude of a normalised feature. */
fl_status fli_dataset_magnitude(fl_ctx *ctx, const fli_dataset *ds, double *out);

/* Turns a sparse set into a dense one of the same precision, in place. For sets as loaded: checked, not scaled. */
fl_status fli_dataset_densify(fl_ctx *ctx, fli_dataset *ds);

static inline int fli_dataset_sparse(const fli_dataset *ds) { return ds->kind == FLI_X_CSR || ds->kind == FLI_X_CSR64; }
size_t fli_dataset_length(const fli_dataset *ds); /* values per stored row; for dense sets */
size_t fli_dataset_stored(const fli_dataset *ds); /* feature values of all rows, or the non-zeros of a sparse set */
size_t fli_dataset_bytes(const fli_dataset *ds);  /* of memory, without names and scales */

/* A mini-batch is either dense, features gathered into contiguous reals, or sparse, a list of rows in the set. A set
 * must outlive the sparse batches gathered from it. */
typedef struct {
    const fli_ops *ops;
    size_t n, dim, capacity;
    void *x;        /* n x dim; NULL in a sparse batch */
    fli_csr csr;    /* the rows of a sparse batch */
    uint32_t *idx;  /* row numbers; NULL in a dense batch */
    int32_t *label; /* n; meaningless for regression */
    void *target;   /* n reals; meaningless for classification */
    /* the set and the sample numbers of the last gather; `sample` may alias the caller's idx, which must then stay */
    const fli_dataset *from;
    const uint32_t *sample;
    uint32_t *number; /* storage of `sample` when the set has its own numbers */
} fli_batch;

fl_status fli_batch_init(fl_ctx *ctx, const fli_ops *ops, size_t dim, size_t capacity, fli_batch *b);
/* For sparse sets only: allocates no features. */
fl_status fli_batch_init_sparse(fl_ctx *ctx, const fli_ops *ops, size_t dim, size_t capacity, fli_batch *b);
void fli_batch_fini(fli_batch *b);
/* b = samples idx[0 .. n-1]; n <= capacity. No allocation. A dense batch takes any set, a sparse one only sparse
 * sets. */
void fli_batch_gather(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, size_t n);

/* Gathers labels and targets without features. */
void fli_batch_gather_answers(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, size_t n);

/* b's features = samples idx[0 .. b->n-1], each changed by a random draw of ds->augment (not FLI_AUGMENT_NONE). A draw
 * depends on the sample, the epoch, and the seed, round and client of `turn`, not on the other samples of the batch. */
void fli_batch_augment(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, const fli_rng *turn, uint32_t epoch);

/* Replaces samples idx[0 .. n-1] by one random draw of ds->augment each, which depends on the seed and the sample's
 * number. The draw is stored in the middle of the frame, where evaluation looks; the rest of the frame becomes 0. */
fl_status fli_dataset_freeze(fl_ctx *ctx, fli_dataset *ds, uint64_t seed, const uint32_t *idx, size_t n);

/* The two matrix products of linear models and of first layers. X (n x dim) holds the samples of the batch. */
/* Z = X W'; W is outs x dim, Z n x outs */
void fli_batch_mul(const fli_batch *b, size_t outs, const void *w, void *z);
/* G = alpha D' X; D is n x outs, G outs x dim */
void fli_batch_tmul(const fli_batch *b, size_t outs, double alpha, const void *d, void *g);

/* ==== images, for dataset.c and images.c alone ============================================================== */

/* True if scale and shift per feature run are not enough to make a batch: images are cropped or scaled one by one. */
static inline int fli_images_need_gather(const fli_dataset *ds) { return ds->frame[0] || ds->each; }

/* Row r of out = sample idx[r] as evaluation sees it: the middle of the image. Dense sets only. */
void fli_images_gather(const fli_ops *ops, const fli_dataset *ds, const uint32_t *idx, size_t n, void *out);

#endif
