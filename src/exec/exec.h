/* Running the turns of a cohort. The thread pool executor: clients in parallel, each by one worker with one BLAS thread; uploads
 * are absorbed in the cohort's order, so the result does not depend on the number of threads. */
#ifndef FLI_EXEC_EXEC_H
#define FLI_EXEC_EXEC_H

#include "algo/algo.h"
#include "base/pool.h"
#include "exec/store.h"
#include "model/regularizer.h"

typedef struct fli_exec fli_exec;

/* All borrowed; must outlive the executor. */
typedef struct {
    const fli_model *model;
    const fli_fed *fed;
    const fli_algo *algo;
    const void *params;
    int uniform;                        /* w_i = 1/N instead of n_i/n */
    const double *weights;              /* w_i given; NULL: by the rule above */
    const fli_regularizer *regularizer; /* NULL: none */
    const void *regularizer_params;
    uint64_t seed;
    fli_sgd_spec sgd;
    size_t threads; /* 0: one per processor */
} fli_exec_spec;

/* What one round asks of its cohort. */
typedef struct {
    size_t round;
    const uint32_t *clients; /* m of them, distinct */
    const size_t *steps;     /* Q_i */
    size_t count;
    double lr;
    int news;                    /* the broadcast differs from the last round's */
    int exchange;                /* uploads are absorbed and the server advances */
    const double *lrs;           /* one per client of the cohort; NULL: lr for all */
    const double *probabilities; /* p_i, one per client of the cohort; NULL: m/N */
} fli_round;

fl_status fli_exec_new(fl_ctx *ctx, const fli_exec_spec *spec, fli_exec **out);
void fli_exec_free(fli_exec *e);

/* The server's vectors; [0] is the model x. The caller sets the start model. */
void *const *fli_exec_server(fli_exec *e);
/* Whether the method wants everyone to take a turn before the first round. */
int fli_exec_warms_up(const fli_exec *e);
/* Those turns: `r` names all clients. */
fl_status fli_exec_warm_up(fli_exec *e, const fli_round *r);
/* Runs one round. A client whose model leaves the finite range ends it with FL_EDIVERGED. */
fl_status fli_exec_round(fli_exec *e, const fli_round *r);

/* g(x) of the regulariser; 0 if there is none. */
double fli_exec_regularizer(fli_exec *e);
double fli_exec_weight(const fli_exec *e, size_t client); /* w_i */
fli_pool *fli_exec_pool(fli_exec *e);
fli_worker *fli_exec_worker(fli_exec *e, size_t worker); /* for evaluation between rounds */

#endif
