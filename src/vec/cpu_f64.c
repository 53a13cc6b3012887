/* Double precision on the CPU. */
#include "vec/real_f64.h"
#define REAL_EXP  exp
#define REAL_GEMM cblas_dgemm
#define REAL_GEMV cblas_dgemv
#define OPS       LEVELLED(fli_ops_f64)
#define OPS_NAME  "f64"
#define OPS_IMAGE LEVELLED(fli_image_f64)
#include "vec/cpu.inc"
