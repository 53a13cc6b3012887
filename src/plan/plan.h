/* A plan: a validated, constant configuration. All decisions that follow from settings and data are made here, once:
 * descriptors and solvers, weights, participation, devices, the pace of asynchronous methods, the parameters of asks,
 * and the specification of the executor. It does not change during the run. */
#ifndef FLI_PLAN_PLAN_H
#define FLI_PLAN_PLAN_H

#include "data/federation/federation.h"
#include "engine/engine.h"
#include "ranks/ranks.h"
#include "config/config.h"

typedef struct {
    fl_ctx *ctx;
    fli_arena arena; /* parameters and texts */
    fli_bound *bound;
    const fli_settings *settings; /* the configuration's, or a copy with another output */
    /* Its params are those of the settings, or a copy in which everything is settled, or which `begin` may change.
     * Complete when the plan is finished. */
    fli_setup setup;
    const char *settled; /* the settled parameters, as in "eta = 0.4"; NULL: none were open */
    fli_fed *fed;
    fli_digest samples;          /* digest of fed */
    size_t runs;                 /* runs that use these data at the same time; 0 counts as 1 */
    int borrowed;                /* the data belong to another plan */
    fl_ranks ranks;              /* ranks that make the run together; count 0: this process alone */
    fli_timed_ranks timed_ranks; /* for the others, by that table */
    fli_rank_owner rank_owner;   /* the rank of each client */
    /* known when the plan is finished: */
    fli_digest data; /* of all input: the samples, traces, a start model */
    fli_model *model;
    void *start; /* the model of model.start; NULL: the model's own start values */
    fli_participation *participation;
    fli_system *system; /* NULL: the length of turns is not simulated */
    fl_pace pace;       /* of asynchronous methods; otherwise buffer is 0 */
    size_t at_work;     /* clients of asynchronous methods that are at work at the same time */
    fli_ask_params ask_params;
    fli_exec_spec exec;     /* the executor's specification */
    double memory;          /* bytes that a run needs at least; set when memory has been checked */
    double bytes_on_device; /* bytes that the vectors of a run on a device need there at least */
} fli_plan;

/* Binds the settings and loads the data: enough for `fedloom data`. Unless NULL, `like` is a plan whose data are used
 * instead: it must have the same data and partition settings and seed, and outlive this one. */
fl_status fli_plan_data(fl_config *cfg, const fli_plan *like, fli_plan *p);
double fli_plan_weight(const fli_plan *p, size_t client); /* w_i */
/* The digest of all files that settings name: of the samples, whose own digest is given, of traces and of a start
 * model. Without these it equals the samples' digest; a trace that is a pipe is left out. FL_EIO if a file cannot be
 * read. */
fl_status fli_plan_digest(fl_ctx *ctx, const fli_settings *s, const fli_digest *samples, fli_digest *out);
/* The rest: model, method, participation. Reports all problems at once; then logs what a person should know before a
 * run. `cfg` is the configuration of the settings. */
fl_status fli_plan_finish(fli_plan *p, const fl_config *cfg);
/* Whether a metric of the run, an optimality gap, needs the largest L_i (fli_theory_smoothness). */
int fli_plan_needs_smoothness(const fli_plan *p);
/* Parts of fli_plan_finish (settle.c): sets the method's parameters that are auto, and logs warnings about settings
 * that are valid but probably not intended. */
fl_status fli_plan_settle(fli_plan *p);
fl_status fli_plan_warn(const fli_plan *p);
/* A plan that is ready to run: all of the above. With several ranks, each has the samples of its own clients only. */
fl_status fli_plan_make(fl_config *cfg, const fli_plan *like, fli_plan *p);
void fli_plan_fini(fli_plan *p);

#endif
