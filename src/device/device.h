/* Runs on a device: `device: cuda`. Vectors live there (a fli_place that records what is asked of it), local problems
 * of many clients are solved there at once (solvers that stand in for those of the CPU), and models are evaluated there
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
const fl_solver *fli_device_solver(const fl_solver *solver);
/* What --version and manifests say, such as "NVIDIA H200, driver 13.0". */
const char *fli_device_name(const fli_device *d);

/* ==== recorder of operations on vectors =================================================================== */

/* The place of a device's vectors (vec/place.h): what is asked of it is written on a tape, which the engine plays when
 * somebody wants to know, or when something comes that does not go on that tape. Used by one thread at a time. */

typedef struct fli_recorder fli_recorder;

/* The engine is borrowed and must outlive it. */
fl_status fli_recorder_new(fl_ctx *ctx, fli_engine *e, fli_recorder **out);
void fli_recorder_free(fli_recorder *r);

fli_place *fli_recorder_place(fli_recorder *r);
/* Has the engine do what is recorded: before it is asked for anything that is not on a tape. */
void fli_recorder_play(fli_recorder *r);
/* The same, unless what is recorded has nothing to do with these vectors of n entries; NULLs are passed over. For what
 * uses no others. */
void fli_recorder_settle(fli_recorder *r, size_t n, const void *const *v, size_t count);

/* ==== internals =========================================================================================== */

/* What a device is made of. For this folder alone. */

/* An evaluation that was foreseen. */
typedef struct {
    fli_peek at;
    double loss;
    size_t correct;
} fli_eval_ahead;

struct fli_device {
    fl_ctx *ctx;
    fli_engine *engine;
    fli_engine_net *net;
    fli_engine_data *train, *test; /* test NULL: there is no such set */
    fli_recorder *recorder;
    const fli_fed *fed; /* borrowed */
    fli_model model;    /* the caller's, with vectors there */
    size_t lanes;
    char name[264];
    fli_device_eval eval;
    fl_status failed; /* of an evaluation, which could not say so itself */
    char why[512];
    fli_eval_ahead *seen;
    size_t seen_count, seen_room, seen_next;
};

/* The data set there that this one was made from. */
const fli_engine_data *fli_device_data(const fli_device *d, const fli_dataset *ds);

/* Sets d->eval. */
void fli_device_eval_init(fli_device *d);
void fli_device_eval_fini(fli_device *d);

/* ---- the second block, by logits from there: device_evaluate.c ------------------------------------------- */

/* Rows of y, in plain memory, of a client's n samples at x. */
typedef struct {
    const fli_dataset *ds;
    const void *x; /* there */
    const uint32_t *samples;
    size_t n;
    void *y;
} fli_device_labels;

/* What a turn does to y: the same, or stochastic steps where the objective takes those; rng[i] draws for list[i]. */
fl_status fli_device_labels_turn(fl_ctx *ctx, fli_device *d, const fli_device_labels *list, size_t count,
                                 fli_rng *const *rng);

/* A vector's length there, and what computes on such vectors. */
static inline const fl_space *fli_device_space(const fli_device *d) { return &d->model.space; }

#endif
