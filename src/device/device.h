/* Runs on a device: `device: cuda`. Vectors are stored there (a fli_place that records operations), the local problems
 * of many clients are solved there at once (solvers that replace those of the CPU), and models are evaluated there
 * (fli_device_eval, solver/solver.h). Algorithms do not notice. */
#ifndef FLI_DEVICE_DEVICE_H
#define FLI_DEVICE_DEVICE_H

#include "base/memory.h"
#include "device/engine.h"
#include "solver/solver.h"
#include "vec/place.h"

typedef struct fli_device fli_device;

typedef struct {
    const fli_backend *backend;
    size_t which; /* index of the device */
    int tf32;
    const fli_model *model; /* all borrowed */
    const fli_fed *fed;
    fli_sgd_spec sgd;
    double memory; /* bytes on the device for the caller's own vectors, counted in the sentence if memory is short */
} fli_device_spec;

/* Finds the backend and the number of "cuda", "cuda:1" or "twin". FL_ECONFIG, with a list of the devices, for any other
 * name. Not for "cpu". */
fl_status fli_device_find(fl_ctx *ctx, const char *name, const fli_backend **backend, size_t *which);

/* The device of a process that is number `local` of those on its machine: if the name has no number, processes take the
 * machine's devices in turn. */
size_t fli_device_of_rank(const char *name, const fli_backend *backend, size_t which, size_t local);

/* Opens the device and uploads the data. Refuses models, data and memory that do not fit, before anything runs. */
fl_status fli_device_new(fl_ctx *ctx, const fli_device_spec *spec, fli_device **out);
void fli_device_free(fli_device *d);

/* The functions and sizes that a federation needs of it. */
fli_site fli_device_site(fli_device *d);
/* fli_site.solver of all devices: the device's solver that corresponds to `solver`, or NULL. */
const fl_solver *fli_device_solver(const fl_solver *solver);
/* The name in --version and manifests, such as "NVIDIA H200, driver 13.0". */
const char *fli_device_name(const fli_device *d);

/* ==== recorder of operations on vectors =================================================================== */

/* The place of a device's vectors (vec/place.h). It writes operations on a tape; the engine plays the tape when a
 * result is read, or before an operation that cannot go on the tape. Used by one thread at a time. */

typedef struct fli_recorder fli_recorder;

/* The engine is borrowed and must outlive the recorder. */
fl_status fli_recorder_new(fl_ctx *ctx, fli_engine *e, fli_recorder **out);
void fli_recorder_free(fli_recorder *r);

fli_place *fli_recorder_place(fli_recorder *r);
/* Makes the engine execute what is recorded. Call it before asking the engine for anything that is not on a tape. */
void fli_recorder_play(fli_recorder *r);
/* The same, unless the tape does not touch these vectors of n entries; NULLs are skipped. For calls that use no
 * others. */
void fli_recorder_settle(fli_recorder *r, size_t n, const void *const *v, size_t count);

/* ==== internals =========================================================================================== */

/* The parts of a device. For this folder alone. */

/* An evaluation that was announced by `foresee`. */
typedef struct {
    fli_peek at;
    double loss;
    size_t correct;
} fli_eval_ahead;

struct fli_device {
    fl_ctx *ctx;
    fli_engine *engine;
    fli_engine_net *net;
    fli_engine_data *train, *test; /* on the device; test NULL: there is no such set */
    fli_recorder *recorder;
    const fli_fed *fed; /* borrowed */
    fli_model model;    /* the caller's, with vectors on the device */
    size_t lanes;
    char name[264];
    fli_device_eval eval;
    fl_status failed; /* the first failure of an evaluation, which cannot return it */
    char why[512];
    fli_eval_ahead *seen;
    size_t seen_count, seen_room, seen_next;
};

/* The data set on the device that was made from this one. */
const fli_engine_data *fli_device_data(const fli_device *d, const fli_dataset *ds);

/* Sets d->eval. */
void fli_device_eval_init(fli_device *d);
void fli_device_eval_fini(fli_device *d);

/* ---- the second block, by logits from there: device_evaluate.c ------------------------------------------- */

/* Rows of y, in host memory, of a client's n samples at x. */
typedef struct {
    const fli_dataset *ds;
    const void *x; /* on the device */
    const uint32_t *samples;
    size_t n;
    void *y;
} fli_device_labels;

/* A turn's update of y: the usual one, or stochastic steps if the objective takes those; rng[i] draws for list[i]. */
fl_status fli_device_labels_turn(fl_ctx *ctx, fli_device *d, const fli_device_labels *list, size_t count,
                                 fli_rng *const *rng);

/* The space of vectors on the device. */
static inline const fl_space *fli_device_space(const fli_device *d) { return &d->model.space; }

#endif
