/* Samples, stored once and as they came: bytes stay bytes, sparse stays sparse. Clients see them through lists of indices. */
#ifndef FLI_DATA_DATASET_H
#define FLI_DATA_DATASET_H

#include "base/ctx.h"
#include "vec/ops.h"

typedef enum { FLI_X_U8, FLI_X_F32, FLI_X_F64, FLI_X_CSR } fli_xkind;

typedef struct {
    size_t n, dim; /* samples, features */
    fli_xkind kind;
    void *x;               /* n x dim of the kind's type; CSR: float values, row by row */
    size_t *row;           /* CSR: n + 1 starts */
    uint32_t *col;         /* CSR: feature of each value, ascending within a row */
    int32_t *label;        /* class of each sample, 0 .. classes-1; NULL for regression */
    double *target;        /* regression; NULL for classification. Exactly one of label and target is there */
    size_t classes;        /* 0 for regression */
    int32_t *group;        /* who the sample belongs to by nature (writer, user, generated client); NULL: nobody */
    size_t groups;         /* group ids are 0 .. groups-1 */
    size_t shape[3];       /* channels, height, width; {1, 1, dim} when not an image */
    size_t segments;       /* normalisation: value * scale + shift, one pair per run of dim/segments features. */
    double *scale, *shift; /* NULL: as they are */
} fli_dataset;

/* An empty one with room for n samples: x zeroed, label or target (classes 0) allocated. Not for CSR. */
fl_status fli_dataset_new(fl_ctx *ctx, fli_xkind kind, size_t n, size_t dim, size_t classes, fli_dataset **out);
void fli_dataset_free(fli_dataset *ds);

/* Checks what every later stage relies on: labels in range, finite targets and values, CSR in order, product of the shape. */
fl_status fli_dataset_check(fl_ctx *ctx, const fli_dataset *ds, const char *name);

/* Sample i as doubles, normalised; for generators' tests, statistics and look-ups, not for training. */
void fli_dataset_row(const fli_dataset *ds, size_t i, double *out);

/* A mini-batch, gathered into contiguous reals. */
typedef struct {
    const fli_ops *ops;
    size_t n, dim, capacity;
    void *x;        /* n x dim */
    int32_t *label; /* n; meaningless for regression */
    void *target;   /* n reals; meaningless for classification */
} fli_batch;

fl_status fli_batch_init(fl_ctx *ctx, const fli_ops *ops, size_t dim, size_t capacity, fli_batch *b);
void fli_batch_fini(fli_batch *b);
/* b = samples idx[0 .. n-1]; n <= capacity. No allocation. */
void fli_batch_gather(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, size_t n);

#endif
