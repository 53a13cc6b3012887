/* Double precision, for the files that are included once per precision: the type of a real, its size in bytes for the
 * preprocessor, the signed integer of that size, and the names of the kernels in tile.h. */
#include "vec/level.h"

#define REAL       double
#define REAL_SIZE  8
#define REAL_BITS  int64_t
#define OUTER_TILE LEVELLED(fli_outer_tile_f64)
#define STEP       fli_step_f64
#define STEP_TILE  LEVELLED(fli_step_tile_f64)
#define INNER_TILE LEVELLED(fli_inner_tile_f64)
