/* A file of LIBSVM's as a sparse set, for those who know what it has. */
#ifndef FLI_DATA_SOURCE_LIBSVM_H
#define FLI_DATA_SOURCE_LIBSVM_H

#include "data/dataset.h"

/* Indices begin at 1. `classes` 0: regression; else labels are 0 to classes - 1. `wide`: values as doubles. */
fl_status fli_libsvm_read(fl_ctx *ctx, const char *path, size_t features, size_t classes, int wide, fli_dataset **out);

#endif
