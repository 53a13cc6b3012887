/* NumPy's arrays as features, labels and groups: what the sources npy and npz share. */
#ifndef FLI_DATA_NUMPY_H
#define FLI_DATA_NUMPY_H

#include "data/load.h"
#include "data/names.h"
#include "data/source.h"

enum { FLI_NUMPY_DIMS = 8, FLI_NUMPY_TYPE = 15 };

/* An array as its header describes it. */
typedef struct {
    char type[FLI_NUMPY_TYPE + 1]; /* "<f4" */
    char kind;                     /* 'b' bool, 'i' signed, 'u' unsigned, 'f' float */
    size_t width;                  /* bytes of a value */
    int swapped;                   /* the bytes of a value are in the other order than ours */
    int fortran;                   /* the first index runs fastest, not the last */
    size_t dims;
    uint64_t size[FLI_NUMPY_DIMS];
} fli_numpy;

/* Reads the header; types that are no real numbers are FL_EFORMAT by name. */
fl_status fli_numpy_header(fl_ctx *ctx, fli_stream *s, fli_numpy *a);
/* Reads the n values behind the header, as numbers in the order in which the last index runs fastest. */
fl_status fli_numpy_numbers(fl_ctx *ctx, fli_stream *s, const fli_numpy *a, size_t n, double **out);
/* Reads them as features: u1 stays bytes; bool, i1, i2, u2, f2 and f4 become floats, which hold them exactly; i4, u4, i8, u8 and f8
 * become doubles. */
fl_status fli_numpy_features(fl_ctx *ctx, fli_stream *s, const fli_numpy *a, size_t n, fli_xkind *kind, void **out);

/* Where the arrays of a data set are: in files of their own (member NULL), or in archives. */
typedef struct {
    const char *file, *member;
} fli_array_place;

typedef struct {
    fli_array_place x, y, groups; /* groups.file "": none */
} fli_array_set;

/* The whole of a source: the test part is left out where test->x.file is "". */
fl_status fli_numpy_load(fl_ctx *ctx, const fli_array_set *train, const fli_array_set *test, int task, size_t classes,
                         fli_dataset **a, fli_dataset **b);

#define FLI_NUMPY_TYPES "of integers, floats (16, 32 or 64 bits) or bools"

#endif
