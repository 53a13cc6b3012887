#include "vec/real_f64.h"
#include "vec/tile.inc"
