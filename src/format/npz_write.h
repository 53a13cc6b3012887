/* NumPy archives as numpy.savez writes them: arrays in a zip file, not compressed. */
#ifndef FLI_FORMAT_NPZ_WRITE_H
#define FLI_FORMAT_NPZ_WRITE_H

#include "base/file.h"

#include <stdint.h>

/* An array in the machine's own byte order, row by row. */
typedef struct {
    const char *name; /* without .npy */
    char kind;        /* 'u' unsigned, 'i' signed, 'f' float */
    size_t width;     /* bytes of a value */
    size_t dims, size[4];
    const void *data;
} fli_npz_array;

/* FL_ECONFIG for more than 4 GiB, which would need another kind of zip file. */
fl_status fli_npz_write(fl_ctx *ctx, const char *path, const fli_npz_array *array, size_t count);

#endif
