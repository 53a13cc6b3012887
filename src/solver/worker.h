/* The instance of solvers that run on a CPU: the memory that a thread needs to solve one task after another. It is
 * allocated once; the inner loop allocates nothing. For this folder, device/, tests and benchmarks. */
#ifndef FLI_SOLVER_WORKER_H
#define FLI_SOLVER_WORKER_H

#include "solver/solver.h"

typedef struct {
    const fli_model *model;
    fli_sgd_spec spec;
    fli_eval *eval; /* borrowed */
    const fli_halt *halt;
    void *grad, *linear, *buffer;
    uint32_t *order; /* the client's samples in the order of the current epoch */
    void *extra;     /* the solver's `work`: fli_worker_vector */
    /* for objectives with a second block: see minibatch.h */
    uint32_t *latent_order, *index; /* of the samples that have a y; of those in the batch */
    void *y, *rows;                 /* the client's, unless it keeps its own; those of the samples in the batch */
} fli_worker;

/* Vector i < `work` of the solver; undefined at the beginning of a task. */
void *fli_worker_vector(const fli_worker *w, size_t i);

/* fli_solver_open and the functions like it, for this processor. */
fl_status fli_worker_open(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **instance);
void fli_worker_close(void *instance);
double fli_worker_bytes(const fl_solver *solver, const fli_open *how);

/* g = the gradient of f_i at the problem's start over all of the client's samples, with weight decay. Returns its cost,
 * as in fl_answer.steps. */
size_t fli_start_gradient(fli_worker *w, const fli_task *t, void *g);

/* For pairs whose mix is chosen (sgd_personal.c): writes the client's labelled samples to `order`, held-out ones last;
 * returns the number of those to train on. */
size_t fli_pair_hold_out(const fli_task *t, uint32_t *order);
/* The mix that maximises the likelihood of n held-out samples. ab: the probabilities of their right classes under the
 * own model and the other one, interleaved. */
double fli_pair_mix(size_t n, const double *ab);

/* The state of SGD on a problem. */
typedef struct {
    fli_sgd_step step; /* the current one */
    double flat;       /* the part of step.wd that is not weight decay */
    double mean;       /* schedule by steps: its average over this turn */
    double share;      /* the step's size divided by that */
    size_t k;          /* steps so far */
    double momentum;   /* the sum of the weights in the buffer, */
    double weight;     /* and of those in (start - z)/lr */
} fli_sgd_course;

/* Call it before the first step of a task. Uses the worker's gradient and buffer; zeroes the buffer. */
fli_sgd_course fli_sgd_begin(fli_worker *w, const fli_task *t);
/* Advances to the next step, on a mini-batch of this many samples. */
void fli_sgd_next(const fli_worker *w, const fli_task *t, size_t batch, fli_sgd_course *c);
/* fl_answer.weight after the last step. */
double fli_sgd_course_weight(const fli_worker *w, const fli_task *t, const fli_sgd_course *c);
/* SGD on the task's problem, from its z, which is the start; returns the answer. y: the second block, from
 * fli_latents_improve; NULL: none. */
fl_answer fli_sgd_train(fli_worker *w, fli_task *t, const void *y);

#endif
