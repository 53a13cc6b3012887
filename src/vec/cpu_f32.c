/* Single precision on the CPU. */
#define REAL      float
#define REAL_EXP  expf
#define REAL_GEMM cblas_sgemm
#define REAL_GEMV cblas_sgemv
#define OPS       fli_ops_f32
#define OPS_NAME  "f32"
#define OPS_IMAGE fli_image_f32
#include "vec/cpu.inc"
