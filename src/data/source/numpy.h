/* NumPy arrays as features, labels and groups, for the sources npy and npz and for a server's test set. */
#ifndef FLI_DATA_SOURCE_NUMPY_H
#define FLI_DATA_SOURCE_NUMPY_H

#include "data/label_names.h"
#include "data/load.h"
#include "data/source.h"

enum { FLI_NUMPY_DIMS = 8, FLI_NUMPY_TYPE = 15 };
#define FLI_NUMPY_TYPES "of integers, floats (16, 32 or 64 bits) or bools"

/* An array as its header describes it. */
typedef struct {
    char type[FLI_NUMPY_TYPE + 1]; /* "<f4" */
    char kind;                     /* 'b' bool, 'i' signed, 'u' unsigned, 'f' float */
    size_t width;                  /* bytes of a value */
    int swapped;                   /* the byte order of values is not the host's */
    int fortran;                   /* the first index runs fastest, not the last */
    size_t dims;
    uint64_t size[FLI_NUMPY_DIMS];
} fli_numpy;

/* Where an array of a data set is: in its own file (member NULL) or in an archive. */
typedef struct {
    const char *file, *member;
} fli_array_place;

typedef struct {
    fli_array_place x, y, groups; /* groups.file "": none */
    int map, client;              /* as in fli_source_request */
} fli_array_set;

/* Loads both sets of a source. *b is NULL if test->x.file is "". */
fl_status fli_numpy_load(fl_ctx *ctx, const fli_array_set *train, const fli_array_set *test, int task, size_t classes,
                         fli_dataset **a, fli_dataset **b);

#endif
