/* For files that the build compiles once per precision, FLI_PRECISION 32 or 64, and level (kernels.h): the type of a
 * real, its size in bytes for the preprocessor, the signed integer of that size, and the names of tables and kernels.
 * Symbols contain precision and level, so that the copies have different names: OPS is fli_ops_f32_v3 if the build
 * defines LEVEL as v3. */
#ifndef FLI_VEC_PRECISION_H
#define FLI_VEC_PRECISION_H

#include <stdint.h>

#define LEVEL_JOIN(name, level)        name##_##level
#define LEVEL_JOIN_VALUES(name, level) LEVEL_JOIN(name, level)
#define LEVELLED(name)                 LEVEL_JOIN_VALUES(name, LEVEL)

#if FLI_PRECISION == 32
#define REAL       float
#define REAL_SIZE  4
#define REAL_BITS  int32_t
#define REAL_GEMM  cblas_sgemm
#define REAL_GEMV  cblas_sgemv
#define OPS        LEVELLED(fli_ops_f32)
#define OPS_NAME   "f32"
#define OPS_IMAGE  LEVELLED(fli_image_f32)
#define OUTER_TILE LEVELLED(fli_outer_tile_f32)
#define STEP       fli_step_f32
#define STEP_TILE  LEVELLED(fli_step_tile_f32)
#define INNER_TILE LEVELLED(fli_inner_tile_f32)
#else
#define REAL       double
#define REAL_SIZE  8
#define REAL_BITS  int64_t
#define REAL_GEMM  cblas_dgemm
#define REAL_GEMV  cblas_dgemv
#define OPS        LEVELLED(fli_ops_f64)
#define OPS_NAME   "f64"
#define OPS_IMAGE  LEVELLED(fli_image_f64)
#define OUTER_TILE LEVELLED(fli_outer_tile_f64)
#define STEP       fli_step_f64
#define STEP_TILE  LEVELLED(fli_step_tile_f64)
#define INNER_TILE LEVELLED(fli_inner_tile_f64)
#endif

#endif
