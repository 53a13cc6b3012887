/* A client's second block y_i (model/latent.h): pseudo labels of its unlabelled samples, or memberships in clusters.
 * Private to this folder and to device/. */
#ifndef FLI_SOLVER_LATENTS_H
#define FLI_SOLVER_LATENTS_H

#include "solver/worker.h"

/* The samples of a client that have a y, in the order of its rows; none without a second block. */
typedef struct {
    const uint32_t *samples;
    size_t n;
} fli_latents;
fli_latents fli_latents_of(const fli_model *m, const fli_view *v);

/* Brings y_i up to date at x, by the samples as they are, without augmentation. Where the objective takes stochastic
 * steps in y, rng draws their mini-batches. `*y` is the worker's, or the client's own in `*cache`, which is made when
 * it is NULL. `*y` is NULL where no sample has a y. */
fl_status fli_latents_improve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, fli_rng *rng, void **cache,
                              void **y);

/* The client's own y, n rows: at first the centre of the simplex in every one. */
fl_status fli_latents_kept(fl_ctx *ctx, const fli_model *m, size_t n, void **cache, void **y);

/* Rows at .. at + n - 1 of the `all` rows of y, for a look between turns: what the client keeps in *kept, at first the
 * centre of the simplex. Returns 0 where that is only what improving begins with, because y is not kept or nobody may
 * look (kept is NULL). */
int fli_latents_now(const fli_model *m, size_t all, size_t at, size_t n, void *const *kept, void *rows);

/* What a solver's descriptor says of its cache: a y that is kept is state. */
#define FLI_LATENTS_KEPT .forget = fli_free, .save = fli_latents_save, .load = fli_latents_load
void fli_latents_save(const void *cache, fli_saver *out);
fl_status fli_latents_load(fl_ctx *ctx, fli_loader *in, void **cache);

#endif
