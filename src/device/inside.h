/* What a device is made of. Private to this folder. */
#ifndef FLI_DEVICE_INSIDE_H
#define FLI_DEVICE_INSIDE_H

#include "base/arena.h"
#include "device/device.h"
#include "device/recorder.h"

/* A look that was foreseen. */
typedef struct {
    fli_glance at;
    double loss;
    size_t correct;
} fli_seen;

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
    fli_elsewhere elsewhere;
    fl_status failed; /* of an evaluation, which could not say so itself */
    char why[512];
    fli_seen *seen;
    size_t seen_count, seen_room, seen_next;
};

/* The data set there that this one was made from. */
const fli_engine_data *fli_device_data(const fli_device *d, const fli_dataset *ds);

/* Slots of d->elsewhere. */
void fli_elsewhere_init(fli_device *d);
void fli_elsewhere_fini(fli_device *d);

/* ---- the second block, by logits from there: labels.c ---------------------------------------------------- */

/* Rows of y, in plain memory, of a client's n samples at x. */
typedef struct {
    const fli_dataset *ds;
    const void *x; /* there */
    const uint32_t *samples;
    size_t n;
    void *y;
} fli_labels;

/* As fli_latent.improve, for several clients at once. */
fl_status fli_labels_improve(fl_ctx *ctx, fli_device *d, const fli_labels *list, size_t count);
/* What a turn does to y: the same, or stochastic steps where the objective takes those; rng[i] draws for list[i]. */
fl_status fli_labels_turn(fl_ctx *ctx, fli_device *d, const fli_labels *list, size_t count, fli_rng *const *rng);

/* A vector's length there, and what computes on such vectors. */
static inline const fli_space *fli_device_space(const fli_device *d) { return &d->model.space; }

#endif
