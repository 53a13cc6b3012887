#include "vec/real_f32.h"
#include "vec/tile.inc"
