/* Running the turns of a cohort. The thread pool executor: clients in parallel, each by one worker with one BLAS thread; uploads
 * are absorbed in the cohort's order, so the result does not depend on the number of threads. */
#ifndef FLI_EXEC_EXEC_H
#define FLI_EXEC_EXEC_H

#include "algo/algo.h"
#include "base/pool.h"
#include "exec/store.h"
#include "model/regularizer.h"

typedef struct fli_exec fli_exec;

/* Uploads wait for their turn to be absorbed. A cohort is run in blocks of this many clients, so that memory is bounded when
 * everybody takes part in a large federation. The block size is fixed: it must not depend on the number of threads. */
enum { FLI_EXEC_BLOCK = 64 };

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
    size_t threads;     /* 0: one per processor */
    size_t memory;      /* bytes of client state to hold, see store.h; 0: no limit */
    const char *folder; /* for what is beyond that */
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
    size_t phases;               /* exchanges with this cohort; 0 counts as 1 */
} fli_round;

/* One client's turn: what is asked of it, and what it uploaded. */
typedef struct {
    size_t round;  /* server steps when it began */
    size_t stream; /* names its mini-batches: a client never has the same twice */
    uint32_t client;
    size_t cohort;
    size_t steps;
    double lr, probability;
    int news;
    int bystander;           /* not in the cohort */
    size_t phase, phases;    /* which exchange of its round */
    const void *const *down; /* the broadcast it works from; must stay until it has worked */
    size_t staleness;        /* server steps since it was given its model, when it is absorbed */
    /* filled: */
    void **up;
    double *up_scalars;
    size_t spent;     /* inner steps of the local solver */
    int missed;       /* it did not reach the accuracy it was asked for */
    int own_diverged; /* of a turn that failed: it was the client's own model that left the finite range */
    fl_status status;
} fli_job;

fl_status fli_exec_new(fl_ctx *ctx, const fli_exec_spec *spec, fli_exec **out);
void fli_exec_free(fli_exec *e);

/* The server's vectors; [0] is the model x. The caller sets the start model. */
void *const *fli_exec_server(fli_exec *e);
/* Whether the method wants everyone to take a turn before the first round. */
int fli_exec_warms_up(const fli_exec *e);
/* Those turns: `r` names all clients. */
fl_status fli_exec_warm_up(fli_exec *e, const fli_round *r);
/* Runs one round: the turns of its cohort, or of all clients for a method with FLI_ALGO_BYSTANDERS. A client whose model leaves the finite range ends it with FL_EDIVERGED. */
fl_status fli_exec_round(fli_exec *e, const fli_round *r);

/* Inner steps that the local solvers of the last round took in all. */
double fli_exec_spent(const fli_exec *e);
/* Uploads absorbed since the start, and how many of them came from solvers that missed their accuracy. */
size_t fli_exec_missed(const fli_exec *e, size_t *uploads);

/* The same in parts, for whoever does not work in rounds. A job's uploads live as long as the executor or until fli_job_fini. */
fl_status fli_job_init(fli_exec *e, fli_job *job); /* of a zeroed job */
void fli_job_fini(fli_job *job);
/* The turn itself: on any thread, `worker` naming a workspace nobody else uses; job->status says how it went. */
void fli_exec_work(fli_exec *e, fli_job *job, size_t worker);
/* The status of a job that failed, with a sentence for a person. */
fl_status fli_exec_failed(const fli_exec *e, const fli_job *job);
/* A server step: begin, absorb any number of uploads, advance. cohort_weight: sum of their w_i. */
void fli_exec_begin(fli_exec *e, size_t round, size_t cohort, double cohort_weight);
void fli_exec_absorb(fli_exec *e, const fli_job *job);
/* Begins again, after fli_exec_load, a step that had begun: the uploads absorbed so far stay. */
void fli_exec_resume_step(fli_exec *e, size_t round, size_t cohort, double cohort_weight);
fl_status fli_exec_advance(fli_exec *e);

/* The broadcast, the first `down` server vectors, lies in one piece from fli_exec_server(e)[0] on; copies of it: */
size_t fli_exec_broadcast_bytes(const fli_exec *e);
fl_status fli_exec_broadcast_new(fli_exec *e, void ***out); /* the table of vectors lives as long as the executor */
void fli_exec_broadcast_free(void **vectors);

/* g(x) of the regulariser; 0 if there is none. */
double fli_exec_regularizer(fli_exec *e);
double fli_exec_weight(const fli_exec *e, size_t client); /* w_i */
fli_pool *fli_exec_pool(fli_exec *e);
fli_eval *fli_exec_eval(fli_exec *e, size_t worker); /* for evaluation between rounds */

/* The client's own model, for evaluation between rounds: its vector, if the method has one and the client has had a turn; before
 * that the start model, for methods whose clients know it; else the global model, fli_exec_server(e)[0] itself. To be released. */
fl_status fli_exec_own_model(fli_exec *e, size_t client, const void **out);
/* The share of the own model in what the client predicts with; the rest is the global model's. 1: its own alone. Between the two
 * other calls. */
double fli_exec_own_mix(fli_exec *e, size_t client);
void fli_exec_own_model_release(fli_exec *e, size_t client, const void *model);

/* Bytes of client state in memory, and of what is in a file because it is beyond `memory`. */
size_t fli_exec_state(const fli_exec *e, size_t *spilled);

/* Between rounds: all that changes. Loading is for an executor that has not run. */
void fli_exec_save(fli_exec *e, fli_saver *out);
fl_status fli_exec_load(fli_exec *e, fli_loader *in);
/* The part of it that a job has: what was asked of it, and its upload. Not the broadcast it works from. */
void fli_job_save(const fli_exec *e, const fli_job *job, fli_saver *out);
void fli_job_load(const fli_exec *e, fli_job *job, fli_loader *in);

#endif
