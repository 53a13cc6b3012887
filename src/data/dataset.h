/* Samples, stored once and as they came: bytes stay bytes, sparse stays sparse. Clients see them through lists of
 * indices; models get them in batches. Where samples come from: data/source.h. */
#ifndef FLI_DATA_DATASET_H
#define FLI_DATA_DATASET_H

#include "base/ctx.h"
#include "base/rng.h"
#include "data/augment.h"
#include "format/stream.h"
#include "vec/ops.h"

/* ==== data sets ============================================================================================= */

/* What a data set leads to but does not own: it is neither changed nor freed. */
enum {
    FLI_BORROWS_SAMPLES = 1, /* x, row, col and target */
    FLI_BORROWS_LABELS = 2
};

typedef enum { FLI_X_U8, FLI_X_F32, FLI_X_F64, FLI_X_CSR, FLI_X_CSR64 } fli_xkind;

/* Samples may have no features at all (dim 0, x NULL): then they are known by their numbers alone, and may have neither
 * labels nor targets. */
typedef struct {
    size_t n, dim; /* samples, features that a model sees */
    fli_xkind kind;
    void *x;          /* n rows of the kind's type; sparse: the values that are stored, floats or doubles, row by row */
    size_t *row;      /* sparse: n + 1 starts */
    uint32_t *col;    /* sparse: feature of each value, ascending within a row */
    int32_t *label;   /* class of each sample, 0 .. classes-1; NULL for regression */
    double *target;   /* regression; NULL for classification. Exactly one of label and target is there */
    size_t classes;   /* 0 for regression */
    unsigned borrows; /* FLI_BORROWS_ */
    fli_mapping map;  /* what x lies in, where it is a part of a file */
    char **class_name;     /* labels as a file writes them, one per class, one allocation; NULL: 0, 1, ... */
    char *named_in;        /* the file that says so; NULL: none */
    int32_t *group;        /* who the sample belongs to by nature (writer, user, generated client); NULL: nobody */
    size_t groups;         /* group ids are 0 .. groups-1 */
    size_t shape[3];       /* channels, height, width that a model sees; {1, 1, dim} when not an image */
    size_t frame[2];       /* height and width of the stored images, of which a model sees a part; 0: all of it */
    size_t segments;       /* normalisation: value * scale + shift, one pair per run of length/segments features. */
    double *scale, *shift; /* NULL: as they are. Sparse: one scale per feature, and no shift but 0 */
    int each;              /* instead of these: every image by its own mean and deviation, of what is seen of it */
    /* The number of a sample, where the set is a part of some larger one, by which random changes and users' objectives
     * know it: of each, NULL: `from` and its place. */
    uint32_t *number;
    uint32_t from;
    int augment;    /* fli_augment: what training makes of a sample each time that it looks */
    uint64_t still; /* of FLI_CROP_DRAWS draws: those that keep the middle, mirrored or not */
    char *origin;   /* where the samples are from, for messages; NULL: nothing to say */
    int test;       /* it is a federation's separate test set */
} fli_dataset;

size_t fli_xkind_size(fli_xkind kind); /* bytes of a value */

/* An empty one with room for n samples: x zeroed, label or target (classes 0) allocated. Not for sparse kinds. */
fl_status fli_dataset_new(fl_ctx *ctx, fli_xkind kind, size_t n, size_t dim, size_t classes, fli_dataset **out);
void fli_dataset_free(fli_dataset *ds);

/* Checks what every later stage relies on: labels in range, finite targets and values, sparse rows in order, product of
 * the shape. */
fl_status fli_dataset_check(fl_ctx *ctx, const fli_dataset *ds, const char *name);

/* Normalised values and targets that f32 cannot hold are FL_EFORMAT: for federations whose models compute in f32. */
fl_status fli_dataset_check_f32(fl_ctx *ctx, const fli_dataset *ds, const char *name);

/* Makes a model see a part of every image, size x size pixels: evaluation the middle. For normalised images, once. */
fl_status fli_dataset_crop(fl_ctx *ctx, size_t size, fli_dataset *ds);

/* Sample i as doubles, normalised; for generators' tests, statistics and look-ups, not for training. */
void fli_dataset_row(const fli_dataset *ds, size_t i, double *out);

/* The number that random changes of sample i go by. */
static inline uint32_t fli_dataset_number(const fli_dataset *ds, uint32_t i)
{
    return ds->number ? ds->number[i] : ds->from + i;
}

/* Of this set, only these n samples, in ascending order, stay; the others' memory goes back. They keep their numbers,
 * and are in no file any more. Not for sets that are borrowed. After a failure the set can only be freed. */
fl_status fli_dataset_keep(fl_ctx *ctx, fli_dataset *ds, const uint32_t *samples, size_t n);

/* The largest magnitude of a feature that a model sees. */
fl_status fli_dataset_magnitude(fl_ctx *ctx, const fli_dataset *ds, double *out);

/* Turns a sparse set into a dense one of the same precision, in place. It must be as loaded: checked, without scale. */
fl_status fli_dataset_densify(fl_ctx *ctx, fli_dataset *ds);

static inline int fli_dataset_sparse(const fli_dataset *ds) { return ds->kind == FLI_X_CSR || ds->kind == FLI_X_CSR64; }
size_t fli_dataset_length(const fli_dataset *ds); /* values of a stored row; dense sets */
size_t fli_dataset_stored(const fli_dataset *ds); /* feature values of all rows, or the non-zeros of a sparse set */
size_t fli_dataset_bytes(const fli_dataset *ds);  /* of memory */

/* A mini-batch: dense, gathered into contiguous reals; or sparse, which is a list of rows in the set it was gathered
 * from. That set must then outlive it. */
typedef struct {
    const fli_ops *ops;
    size_t n, dim, capacity;
    void *x;        /* n x dim; NULL in a sparse batch */
    fli_csr csr;    /* the rows of a sparse batch */
    uint32_t *idx;  /* their numbers; NULL in a dense batch */
    int32_t *label; /* n; meaningless for regression */
    void *target;   /* n reals; meaningless for classification */
    /* what was gathered: the numbers of the samples, good as long as the caller's list stays as it is */
    const fli_dataset *from;
    const uint32_t *sample;
    uint32_t *number; /* room for them, where they are not the caller's list */
} fli_batch;

fl_status fli_batch_init(fl_ctx *ctx, const fli_ops *ops, size_t dim, size_t capacity, fli_batch *b);
/* For sparse sets only. Takes no memory for features. */
fl_status fli_batch_init_sparse(fl_ctx *ctx, const fli_ops *ops, size_t dim, size_t capacity, fli_batch *b);
void fli_batch_fini(fli_batch *b);
/* b = samples idx[0 .. n-1]; n <= capacity. No allocation. A dense batch takes any set, a sparse one only sparse
 * sets. */
void fli_batch_gather(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, size_t n);

/* The same without features: labels and targets. */
void fli_batch_gather_answers(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, size_t n);

/* The features of samples idx[0 .. b->n-1], changed as ds->augment says; it must say something. The changes depend on
 * the sample, on the epoch, and on the seed, round and client of `turn`, not on the batch that the sample is in. */
void fli_batch_augment(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, const fli_rng *turn, uint32_t epoch);

/* Changes samples idx[0 .. n-1] for good, each by one draw of ds->augment, which depends on the seed and on the
 * sample's number. What was drawn lies where evaluation looks, the middle of the frame, and the rest of the frame is
 * 0. */
fl_status fli_dataset_freeze(fl_ctx *ctx, fli_dataset *ds, uint64_t seed, const uint32_t *idx, size_t n);

/* The two products that linear models, and the first layers of others, consist of; X (n x dim) are the samples of the
 * batch. */
/* Z = X W'; W is outs x dim, Z n x outs */
void fli_batch_mul(const fli_batch *b, size_t outs, const void *w, void *z);
/* G = alpha D' X; D is n x outs, G outs x dim */
void fli_batch_tmul(const fli_batch *b, size_t outs, double alpha, const void *d, void *g);

/* ==== images, for dataset.c and images.c alone ============================================================== */

/* Whether samples take more than one scale and shift per feature run on their way into a batch. */
static inline int fli_images_need_gather(const fli_dataset *ds) { return ds->frame[0] || ds->each; }

/* Row r of out = sample idx[r] as evaluation sees it: the middle of the image. For dense sets. */
void fli_images_gather(const fli_ops *ops, const fli_dataset *ds, const uint32_t *idx, size_t n, void *out);

#endif
