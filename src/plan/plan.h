/* A plan: a configuration validated and frozen. Everything that settings and data decide is decided here, once:
 * descriptors and the solvers, weights, participation, devices, the pace of asynchronous methods, how turns are asked
 * for, what the executor is made from. Nothing in it changes while it runs. */
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
    const fli_settings *settings; /* those, or a copy with another output */
    /* Its params are those in the settings, or a copy in which everything is settled, or which `begin` may change.
     * Complete when the plan is finished. */
    fli_setup setup;
    const char *settled; /* what was, as in "eta = 0.4"; NULL: nothing was left open */
    fli_fed *fed;
    fli_digest samples;          /* of fed */
    size_t runs;                 /* that work on these data at the same time; 0 counts as 1 */
    int borrowed;                /* the data belong to another plan */
    fl_ranks ranks;              /* that make the run together; count 0: this process alone */
    fli_timed_ranks timed_ranks; /* for the others, by that table */
    fli_rank_owner rank_owner;   /* which of them has which clients */
    /* known when the plan is finished */
    fli_digest data; /* of all that is read: the samples, traces, a start model */
    fli_model *model;
    void *start; /* what model.start has; NULL: the start values are the model's own */
    fli_participation *participation;
    fli_system *system; /* NULL: the length of turns is not simulated */
    fl_pace pace;       /* of asynchronous methods; of others the buffer is 0 */
    size_t at_work;     /* clients of asynchronous methods that are at work at the same time */
    fli_ask_params ask_params;
    fli_exec_spec exec;     /* all that the executor is made from */
    double memory;          /* bytes that a run takes at least; known when it is known that there is room */
    double bytes_on_device; /* of a run on a device: bytes that its vectors take there at least */
} fli_plan;

/* Binds the settings and loads the data: what `fedloom data` needs. `like`, unless NULL, is a plan whose data are used
 * instead: it must have the same data and partition settings and seed, and outlive this one. */
fl_status fli_plan_data(fl_config *cfg, const fli_plan *like, fli_plan *p);
double fli_plan_weight(const fli_plan *p, size_t client); /* w_i */
/* The digest of everything that settings name files for: of the samples, whose own digest comes in, of traces and of a
 * start model. Without these it is that digest, and a trace that is a pipe does not count. FL_EIO if one cannot be
 * read. */
fl_status fli_plan_digest(fl_ctx *ctx, const fli_settings *s, const fli_digest *samples, fli_digest *out);
/* The rest: model, method, participation, all that was resolved. All problems are reported at
 * once; then it is logged what a person should know before a run. `cfg` is where the settings came from. */
fl_status fli_plan_finish(fli_plan *p, const fl_config *cfg);
/* Whether a metric of the run, an optimality gap, needs the largest L_i (fli_theory_smoothness). */
int fli_plan_needs_smoothness(const fli_plan *p);
/* Parts of fli_plan_finish (settle.c): gives the method's parameters that are auto their values, and logs what works
 * but probably not as meant. */
fl_status fli_plan_settle(fli_plan *p);
fl_status fli_plan_warn(const fli_plan *p);
/* A plan that is ready to be run: all of the above. Of several ranks, each has the samples of its own clients alone. */
fl_status fli_plan_make(fl_config *cfg, const fli_plan *like, fli_plan *p);
void fli_plan_fini(fli_plan *p);

#endif
