/* Images in single precision on the CPU. */
#include "vec/level.h"

#define REAL  float
#define PLACE int32_t
#define IMAGE LEVELLED(fli_image_f32)
#include "vec/image.inc"
