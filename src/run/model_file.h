/* Trained models on disk: the files model.safetensors of results. */
#ifndef FLI_RUN_MODEL_FILE_H
#define FLI_RUN_MODEL_FILE_H

#include "model/model.h"

fl_status fli_model_file_write(fl_ctx *ctx, const char *path, const fli_model *m, const void *x);

#endif
