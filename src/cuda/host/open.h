/* What the host's code of this folder knows of an open device and of data on it, beyond the backend's slots. */
#ifndef FLI_CUDA_HOST_OPEN_H
#define FLI_CUDA_HOST_OPEN_H

#include "cuda/kernels/kernels.h"
#include "device/engine.h"

/* The stream on which all happens, for the calling thread, which uses the device from now on: engine.c. */
fli_cuda_stream fli_cuda_engine_stream(fli_engine *e);
/* What kernels are given of a data set: data.c. */
const fli_cuda_data *fli_cuda_engine_data(const fli_engine_data *d);
/* Where samples are that are part of its list (fli_backend.data_list); NULL: they are not. */
const uint32_t *fli_cuda_engine_list(const fli_engine_data *d, const uint32_t *samples, size_t n);

#endif
