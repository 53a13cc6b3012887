/* Images in single precision on the CPU. */
#define REAL  float
#define PLACE int32_t
#define IMAGE fli_image_f32
#include "vec/image.inc"
