/* Memory of the CPU backend: invalid addresses, as those of a device, and the true ones. */
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
