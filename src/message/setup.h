/* What a run is made of, as both sides of every exchange know it: the objective, the method, how local problems are
 * solved, how much clients weigh. A plan makes it, and it does not change afterwards; the engine, the server, the
 * clients and the executors borrow it. A client that is elsewhere makes its own from the terms that it is sent. */
#ifndef FLI_MESSAGE_SETUP_H
#define FLI_MESSAGE_SETUP_H

#include "algo/algo.h"
#include "regularizer/regularizer.h"

#include "fedloom_ranks.h"

/* All borrowed. */
typedef struct {
    const fli_model *model;
    const fl_method *algo;
    const void *params;
    fli_solvers solvers;       /* of local problems */
    const struct fli_fed *fed; /* the samples of those that live here; the server's side does not look at it */
    size_t clients;            /* N */
    size_t classes;            /* of the data; 0: values are predicted */
    uint64_t seed;
    fli_sgd_spec sgd;
    int measure_potential; /* the method's potential will be asked for: see fl_turn.watched, fl_potential.remembers */
    /* known to the server's side alone: */
    int uniform;                       /* w_i = 1/N instead of n_i/n */
    const double *weights;             /* w_i given; NULL: by the rule above */
    const fl_regularizer *regularizer; /* NULL: none */
    const void *regularizer_params;
    /* where clients are elsewhere: */
    const char *settings;                    /* all that they make model and method from; NULL: not known */
    const struct fli_builder *builder;       /* how they make them (client/card.h); NULL: not known */
    struct fli_remote_queue *remote_queue;   /* where their executor finds them; NULL: they are here */
    const fl_ranks *ranks;                   /* that make this run together; NULL: there is one process */
    const struct fli_rank_owner *rank_owner; /* which of them has which clients */
} fli_setup;

#endif
