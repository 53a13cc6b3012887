/* All backends. To add one: a folder or file with its fli_backend, and a line here. */
#include "device/engine.h"

const fli_backend *const fli_backend_list[] = {
#ifdef FEDLOOM_CUDA
    &fli_backend_cuda,
#endif
    &fli_backend_cpu,
    NULL,
};
