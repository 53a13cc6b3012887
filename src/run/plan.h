/* A plan: a configuration validated and frozen. Descriptors are resolved, traits checked, data loaded, dimensions known. Nothing in
 * it changes while it runs. */
#ifndef FLI_RUN_PLAN_H
#define FLI_RUN_PLAN_H

#include "algo/algo.h"
#include "data/digest.h"
#include "regularizer/regularizer.h"
#include "run/config.h"

typedef struct {
    fl_ctx *ctx;
    fli_arena arena; /* settings and parameters */
    fli_settings settings;
    const fli_algo *algo;
    fli_fed *fed;
    fli_digest samples; /* of fed */
    fli_digest data;    /* of all that is read: those, and traces; known when the plan is finished */
    size_t runs;        /* that work on these data at the same time; 0 counts as 1 */
    int borrowed;       /* the data belong to another plan */
    fli_model *model;
    const fli_regularizer *regularizer; /* NULL: none */
    fli_participation *participation;
    fli_system *system; /* NULL: nobody knows how long turns last */
    int uniform;        /* client weights are 1/N */
} fli_plan;

/* What can be refused before any data are read: a method's demands on participation, weights and partition. */
fl_status fli_plan_check(fl_ctx *ctx, const fli_settings *s);
/* Binds the settings and loads the data: what `fedloom data` needs. `like`, unless NULL, is a plan whose data are used instead: it
 * must have the same data and partition settings and seed, and outlive this one. */
fl_status fli_plan_data(fl_config *cfg, const fli_plan *like, fli_plan *p);
/* The digest of everything that settings name files for: of the samples, whose own digest comes in, and of traces. Without a trace it is that
 * digest, and a trace that is a pipe does not count. FL_EIO if one cannot be read. */
fl_status fli_plan_digest(fl_ctx *ctx, const fli_settings *s, const fli_digest *samples, fli_digest *out);
/* The rest: model, method, participation. */
fl_status fli_plan_finish(fli_plan *p);
void fli_plan_fini(fli_plan *p);

#endif
