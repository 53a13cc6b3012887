/* Data sets on the device: the backend's slots data_new, data_list, data_free and data_bytes (device/engine.h). */
#ifndef FLI_CUDA_HOST_DATA_H
#define FLI_CUDA_HOST_DATA_H

#include "device/engine.h"

fl_status fli_cuda_data_new(fli_engine *e, fl_ctx *ctx, const fli_dataset *ds, fli_engine_data **out);
fl_status fli_cuda_data_list(fli_engine_data *d, fl_ctx *ctx, const uint32_t *samples, size_t n);
void fli_cuda_data_free(fli_engine_data *d);
double fli_cuda_data_bytes(const fli_dataset *ds);

#endif
