/* The setup of a run, as both sides of every exchange know it: the objective, the method, the solvers of local
 * problems, the clients' weights. A plan makes it, and it does not change afterwards; the engine, the server, the
 * clients and the executors borrow it. A client in another process makes its own from the terms. */
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
    const struct fli_fed *fed; /* the samples of the clients here; the server's side does not use it */
    size_t clients;            /* N */
    size_t classes;            /* of the data; 0: regression */
    uint64_t seed;
    fli_sgd_spec sgd;
    int measure_potential; /* the run evaluates the method's potential: see fl_turn.watched, fl_potential.remembers */
    /* only known to the server's side: */
    int uniform;                       /* w_i = 1/N instead of n_i/n */
    const double *weights;             /* given w_i; NULL: by the rule above */
    const fl_regularizer *regularizer; /* NULL: none */
    const void *regularizer_params;
    /* for clients in other processes: */
    const char *settings;                    /* all that they make model and method from; NULL: not known */
    const struct fli_builder *builder;       /* makes them from it (client/card.h); NULL: unknown */
    struct fli_remote_queue *remote_queue;   /* the queue of their executor; NULL: the clients are here */
    const fl_ranks *ranks;                   /* the processes of this run; NULL: there is one process */
    const struct fli_rank_owner *rank_owner; /* which rank has which clients */
} fli_setup;

#endif
