/* Models on disk, in the safetensors format: a JSON header with names, types and shapes, then the raw little-endian
 * numbers. */
#ifndef FLI_RUN_SAFETENSORS_H
#define FLI_RUN_SAFETENSORS_H

#include "model/model.h"

fl_status fli_safetensors_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x);

#endif
