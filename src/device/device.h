/* Runs on a device: `device: cuda`. Vectors live there (a fli_place that records what is asked of it), local problems
 * of many clients are solved there at once (solvers that stand in for those of the CPU), and models are evaluated there
 * (fli_elsewhere, local.h). Algorithms do not notice. */
#ifndef FLI_DEVICE_DEVICE_H
#define FLI_DEVICE_DEVICE_H

#include "device/engine.h"
#include "solver/local.h"

typedef struct fli_device fli_device;

typedef struct {
    const fli_backend *backend;
    size_t which; /* of its devices */
    int tf32;
    const fli_model *model; /* all borrowed */
    const fli_fed *fed;
    fli_sgd_spec sgd;
    double memory; /* bytes there that the caller's own vectors will take, for the sentence if it does not fit */
} fli_device_spec;

/* "cuda", "cuda:1", "twin": the backend and the number. FL_ECONFIG, with what there is, for anything else. "cpu" is not
 * asked for here. */
fl_status fli_device_find(fl_ctx *ctx, const char *name, const fli_backend **backend, size_t *which);

/* Which one a process takes that is number `local` of those on its machine: where the name has no number, the devices
 * there in turn. */
size_t fli_device_of_rank(const char *name, const fli_backend *backend, size_t which, size_t local);

/* Opens it, uploads the data. Refuses models, data and memory that do not fit, before anything runs. */
fl_status fli_device_new(fl_ctx *ctx, const fli_device_spec *spec, fli_device **out);
void fli_device_free(fli_device *d);

/* All that a federation must know of it. */
fli_site fli_device_site(fli_device *d);
/* fli_site.solver of any device: the solver there that does what `solver` does on the CPU; NULL: there is none. */
const fli_solver *fli_device_solver(const fli_solver *solver);
/* What --version and manifests say, such as "NVIDIA H200, driver 13.0". */
const char *fli_device_name(const fli_device *d);

#endif
