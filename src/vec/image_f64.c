/* Images in double precision on the CPU. */
#include "vec/level.h"

#define REAL  double
#define PLACE int64_t
#define IMAGE LEVELLED(fli_image_f64)
#include "vec/image.inc"
