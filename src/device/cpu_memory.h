/* Memory of the CPU backend: addresses that cannot be followed, as those of a device, and where it really lies. */
#ifndef FLI_DEVICE_CPU_MEMORY_H
#define FLI_DEVICE_CPU_MEMORY_H

#include "base/ctx.h"

typedef struct {
    char *there; /* pages that may neither be read nor written */
    char *here;
    size_t bytes;
} fli_cpu_device_block;

typedef struct {
    fli_cpu_device_block *block; /* by address */
    size_t count, room;
} fli_cpu_device_memory;

#endif
