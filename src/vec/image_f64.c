/* Images in double precision on the CPU. */
#define REAL  double
#define PLACE int64_t
#define IMAGE fli_image_f64
#include "vec/image.inc"
