/* Runs on a device (device/device.h): which one the settings name, what it must hold, and opening it for a run. */
#ifndef FLI_RUN_ON_DEVICE_H
#define FLI_RUN_ON_DEVICE_H

#include "run/run.h"

/* Opens the device of the plan and puts it into the spec; for device: cpu nothing happens. */
fl_status fli_run_open_device(fl_run *run, fli_exec_spec *spec);
/* What the run is computed with: kernels, and the device beside them. */
enum { FLI_COMPUTED_WITH = 256 };
void fli_run_computed_with(const fl_run *run, char out[FLI_COMPUTED_WITH]);
/* Refuses ranks that compute with something else than the first, which would give other last digits for its clients. */
fl_status fli_run_same_kernels(fl_ctx *ctx, const fl_ranks *ranks, const char own[FLI_COMPUTED_WITH]);

#endif
