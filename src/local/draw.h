/* Mini-batches of objectives with a second block (model/latent.h): so many labelled samples and so many that have a y, each kind in
 * passes of its own, fresh random orders one after the other. Without a second block, labelled samples alone. Images are augmented for the steps
 * on x, anew in every pass; y is found by the images as they are. Private to this folder. */
#ifndef FLI_LOCAL_DRAW_H
#define FLI_LOCAL_DRAW_H

#include "local/pass.h"
#include "local/worker.h"

typedef struct {
    fli_worker *w;
    const fli_dataset *ds;
    const uint32_t *latent; /* the samples that have a y, in the order of its rows */
    void *y;
    fli_rng *rng;
    fli_pass plain; /* by their numbers in the data set */
    fli_pass rest;  /* those with a y, by their rows in it */
    int gathered;   /* the batch under way is in the worker already: the only one there is, and it is not augmented */
} fli_draw;

/* The samples of a client that have a y. */
typedef struct {
    const uint32_t *samples;
    size_t n;
} fli_latents;
fli_latents fli_latents_of(const fli_model *m, const fli_view *v);

/* y_i brought up to date at x; `*y` is the worker's, or the client's own in `*cache`, made when it is NULL. NULL without a second block. */
fl_status fli_latents_improve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, void **cache, void **y);
/* What a solver's descriptor says of its cache: a y that is kept is state. */
#define FLI_LATENTS_KEPT .forget = fli_free, .save = fli_latents_save, .load = fli_latents_load
void fli_latents_save(const void *cache, fli_saver *out);
fl_status fli_latents_load(fl_ctx *ctx, fli_loader *in, void **cache);

/* labelled[0 .. n-1]: those of the client's labelled samples that are used; may be the worker's order itself. */
void fli_draw_init(fli_worker *w, const fli_view *v, const uint32_t *labelled, size_t n, void *y, fli_rng *rng,
                   fli_draw *d);
void fli_draw_next(fli_draw *d);

/* Where gradients are wanted; own NULL: of one model alone. */
typedef struct {
    const void *x, *own;
    double mix;
    void *g, *own_g;
    void *own_part; /* a spare vector beside own_g */
} fli_point;
/* Gradients over the batch under way, without weight decay. */
void fli_draw_grad(fli_draw *d, const fli_point *p);

#endif
