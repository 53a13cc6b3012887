/* The local problem, and solving it: what an algorithm poses, what a solver answers, and the turn of a client in which
 * that happens. How steps are computed is the business of this folder alone.
 *
 *     minimise  f_i(z) + <shift, z> + rho/2 ||z - anchor||^2 ,  z starts at `start`, `steps` steps of size lr
 *
 * or to an accuracy. */
#ifndef FLI_SOLVER_SOLVER_H
#define FLI_SOLVER_SOLVER_H

#include "base/rng.h"
#include "data/federation/federation.h"
#include "format/snapshot.h"
#include "model/model.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* ==== step sizes that shrink, by the round or by the step ================================================= */

#define FLI_SCHEDULE_WORDS "constant|sqrt|log2|exponential"

typedef struct {
    int kind; /* one of FLI_SCHEDULE_WORDS */
    double decay;
    int by_step; /* what k counts: local steps instead of rounds */
} fli_schedule;

/* Step size number k = 1, 2, ...: lr; lr/sqrt(k); lr/log2(k+1); lr decay^(k-1). */
double fli_schedule_lr(const fli_schedule *s, double lr, double k);
/* What steps from+1 .. from+steps average to, of lr = 1. */
double fli_schedule_mean(const fli_schedule *s, uint64_t from, size_t steps);

/* ==== the problem and its answer ========================================================================== */

#define FLI_FIRST_MIX 0.75 /* what the pair solver begins with, while the two models are still the same: [CPSL]'s */

/* How mini-batches are drawn and steps taken: the part of the local solver that is the same for everybody. */
typedef struct {
    size_t batch;    /* samples per step; 0: all of the client's */
    double momentum; /* 0: plain SGD */
    double fraction; /* > 0: this share of the client's samples per step, instead of batch */
    size_t latent;   /* samples with a y per step beside the labelled ones (model/model.h); 0: by the same rule */
    int epoch;       /* FLI_EPOCH_..., where there are such samples */
    fli_schedule
        schedule; /* by_step: the steps of a problem shrink, and average to its lr; else lr is what they have */
} fli_sgd_spec;

/* What an epoch passes over: all samples, until both kinds have come up; or one kind. */
#define FLI_EPOCH_WORDS "all|labelled|unlabelled"
enum { FLI_EPOCH_ALL, FLI_EPOCH_LABELLED, FLI_EPOCH_UNLABELLED };

/* What a client's objective is looked at with; below. */
typedef struct fli_objective_at fli_objective_at;
typedef struct fli_objective fli_objective;

/* An evaluation of a model on some samples that will follow: fli_device_eval.foresee. */
typedef struct {
    const fli_dataset *ds;
    const uint32_t *idx;
    size_t n;
    const void *x, *own; /* own NULL: x alone */
    double mix;
} fli_peek;

/* Evaluation on a device, in the place of this processor: device/. Vectors are there; all else is as in the functions
 * of the same names, which come here where an evaluation has one of these. */
typedef struct fli_device_eval {
    void *arg;
    fli_place *place;
    double (*loss)(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, void *g,
                   size_t *correct);
    double (*pair)(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, const void *own,
                   double mix, size_t *correct);
    fli_objective (*objective)(void *arg, const fli_view *v, const fli_objective_at *at, void *g);
    double (*second_block)(void *arg, const fli_view *v, const fli_objective_at *at);
    /* logits of samples, classes doubles each */
    void (*logits)(void *arg, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, double *out);
    /* These evaluations will come next, without gradients: they may be computed together now. n 0: the vectors change,
     * what was foreseen is no longer valid. */
    void (*foresee)(void *arg, const fli_peek *list, size_t n);
    /* Whether something has failed there. */
    fl_status (*status)(void *arg, fl_ctx *ctx);
} fli_device_eval;

/* Memory in which a model is evaluated on samples: one per thread. */
typedef struct {
    const fli_model *model;
    const fli_device_eval *elsewhere; /* NULL: here; fli_eval_init sets none */
    fli_batch batch;                  /* as many samples as are computed at a time */
    void *scratch;                    /* the model's, for such a batch */
    void *part;                       /* a vector: the gradient of a piece; free between evaluations */
    void *rows; /* of the second block, twice those of a piece; NULL: there is none beside labels */
} fli_eval;

fl_status fli_eval_init(fl_ctx *ctx, const fli_model *m, fli_eval *out);
void fli_eval_fini(fli_eval *e);
double fli_eval_bytes(const fli_model *m); /* what fli_eval_init takes */
/* Mean loss and, unless g is NULL, gradient at x over n samples. Weight decay is left to the caller. */
double fli_eval_loss(fli_eval *e, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, void *g,
                     size_t *correct);
/* Mean loss of the mixture of two models (model/semi.h). */
double fli_eval_pair(fli_eval *e, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, const void *own,
                     double mix, size_t *correct);

/* What a client's objective is looked at with. */
struct fli_objective_at {
    const void *x;
    const void *own; /* NULL: f_i(x, y_i); else F_i, of the mixture of the outputs of own and x */
    double mix;      /* own's share in that */
    /* what the client's solver keeps, where y_i is if it is kept; NULL: not to be looked at, and y_i is as in a first
     * turn that starts at x */
    void *const *kept;
    int ahead; /* a y_i that is kept counts as the next turn would begin with it */
};

struct fli_objective {
    double value;    /* without weight decay */
    double labelled; /* the part of it over labelled samples: their mean loss */
    size_t correct;  /* of them */
};

/* A client's objective over all of its samples, with its second block (model/model.h) as it is now: what is kept or,
 * where nothing is, what belongs to x. Unless g is NULL: its gradient in x or, where there is an own model, in that; of
 * a mixture in plain memory alone. */
fli_objective fli_eval_objective(fli_eval *e, const fli_view *v, const fli_objective_at *at, void *g);
/* ||y+ - y||^2 for the y+ that a turn which starts at x would begin with; 0 where y is a function of x. */
double fli_eval_second_block(fli_eval *e, const fli_view *v, const fli_objective_at *at);
/* ||y - P(y - lr grad_y f_i)||^2/lr^2 for a step of the size that turns take, over all samples; NaN where y is not kept
 * and improved by steps over all samples, or elsewhere. */
double fli_eval_block_slope(fli_eval *e, const fli_view *v, const fli_objective_at *at);

/* Samples per step of a client with n: at most n. */
size_t fli_batch_size(const fli_sgd_spec *spec, size_t n);
/* Steps in one epoch over n samples: ceil(n / batch size), 1 for full batches. */
size_t fli_epoch_steps(const fli_sgd_spec *spec, size_t n);
/* Steps of an epoch on a model's objective: until all of the client's samples that it uses have come up, or as many as
 * those of the kind that `epoch` names take, used or not: methods that are compared then do equal work. */
size_t fli_objective_steps(const fli_model *m, const fli_sgd_spec *spec, size_t labelled, size_t unlabelled);

/* From one of several vectors to the next: each starts on a cache line. */
static inline size_t fli_vector_stride(const fl_space *s) { return (fli_bytes(s) + 63) / 64 * 64; }

/* A client's turn: the problem, the answer, and the memory that the answer lies in, whichever instance solves it. */
typedef struct {
    /* set by whoever poses it */
    fl_problem problem;
    const fli_view *view;
    fli_rng rng;     /* of mini-batches */
    void **cache;    /* the client's own, NULL at first and kept between its turns: a factorisation, say */
    uint64_t taken;  /* steps before this turn, as a schedule by steps counts them */
    uint64_t round;  /* server steps so far */
    uint64_t seed;   /* names what lasts from turn to turn, such as which samples are for validation, */
    uint32_t client; /* together with the client */
    /* set by the solver */
    fl_status status;
    fl_failure why;   /* FL_ECALLBACK: the sentence, where this task has one */
    fl_answer answer; /* where status is FL_OK */
    /* the task's own */
    void *z, *kept; /* the solution, and the solver's further `vectors`: fli_task_vector */
    size_t stride;  /* bytes from one of those to the next */
    fli_place *place;
} fli_task;

/* How a turn under way is ended: by anybody at any time, or when its time is up. A solver that takes many steps looks
 * between them, and what it answers then is nobody's. */
typedef struct {
    atomic_int asked;
    double until; /* on fli_clock_now; 0: any time */
} fli_halt;
int fli_halted(const fli_halt *h); /* NULL: nobody can */

/* What a solver works for. */
typedef struct {
    const fli_model *model;
    fli_sgd_spec sgd;
    size_t largest; /* training samples of the largest client */
    fli_eval *eval; /* lent: an instance may use it whenever it solves */
    const fli_halt *halt;
} fli_open;

/* Further traits of solvers, fedloom's own. */
#define FLI_SOLVER_REGISTERED   0x80000000u /* a user's: fails by FL_ECALLBACK, and is not called again */
#define FLI_SOLVER_SECOND_BLOCK 0x40000000u /* knows objectives with a block y_i (model/model.h); others leave it out */
#define FLI_SOLVER_HESSIAN      0x20000000u /* computes products with the model's Hessian */

/* What a solver that comes with fedloom may have beside an fl_solver's: all of it optional. */
typedef struct fli_solver_engine {
    unsigned model_traits;   /* what it asks of the model, */
    const char *models;      /* and in words: those that have them */
    const fl_solver *latent; /* takes its place on models with a second block */
    /* Of caches that are more than a way to be faster: what could not be computed again, with the same bits, from
     * the client's samples at a later turn. A checkpoint holds it. Both NULL: nothing is lost with a cache. */
    void (*save)(const void *cache, fli_saver *out);
    fl_status (*load)(fl_ctx *ctx, fli_loader *in, void **cache);
    /* Elsewhere than on this processor, where tasks are solved together, and `solve` is NULL; all or none. */
    fl_status (*open)(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **instance);
    void (*run)(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n); /* sets status and answer of each */
    void (*close)(void *instance);
    double (*bytes)(const fl_solver *solver, const fli_open *how);
} fli_solver_engine;
const fli_solver_engine *fli_solver_engine_of(const fl_solver *s); /* an empty one where it has none */

/* An instance of a solver, which takes any number of tasks at a time; these do not influence each other, nor those
 * before. */
fl_status fli_solver_open(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **instance);
void fli_solver_run(fl_ctx *ctx, const fl_solver *solver, void *instance, fli_task *const *tasks, size_t n);
void fli_solver_close(const fl_solver *solver, void *instance); /* NULL: nothing to close */
/* What an instance takes, without the samples' own bookkeeping; how->eval is not looked at. */
double fli_solver_bytes(const fl_solver *solver, const fli_open *how);

extern const fl_solver fli_solver_sgd;
/* The same for f_i(x, y_i): y_i is brought up to date at `start`, then x is trained. What SGD means for models with a
 * second block. */
extern const fl_solver fli_solver_blocks;
/* The gradient of f_i at the start, weight decay included and all samples as they are: alone, where z is the start, or
 * before the steps of SGD. */
extern const fl_solver fli_solver_gradient, fli_solver_sgd_gradient;
/* A global model and the client's own, trained side by side on the same mini-batches. */
extern const fl_solver fli_solver_pair;
/* The exact minimiser for least squares, by a Cholesky factor that is kept; where that would be too large, by
 * conjugate gradients. */
extern const fl_solver fli_solver_exact;
/* To the accuracy that the problem asks for, with gradients over all samples, for any model. */
extern const fl_solver fli_solver_accurate;
/* f_i replaced by a quadratic that lies above it: curved like the client's Gram matrix, which is factored once and
 * kept, or equally in all directions. */
extern const fl_solver fli_solver_gram, fli_solver_diagonal;

/* Bilevel problems: does what the problem's `levels.work` says. */
extern const fl_solver fli_solver_bilevel;

extern const fl_solver *const fli_solver_list[]; /* all of these; NULL-terminated */

/* The solver that does what was requested for this model. */
const fl_solver *fli_solver_on(const fli_model *m, const fl_solver *wanted);
/* Refuses a model that the solver is not for. */
fl_status fli_solver_fits(fl_ctx *ctx, const fl_solver *solver, const fli_model *m);

/* What a turn costs, in gradients of mini-batches, where it is asked for this many steps and an epoch has this many.
 * Solvers that work to an accuracy cost what they are asked for: nobody knows before. */
size_t fli_solver_cost(const fl_solver *solver, size_t steps, size_t per_epoch);

/* Where a federation computes, if not in plain memory and on this processor. One thread at a time. */
typedef struct {
    fli_place *place; /* of vectors */
    const fli_device_eval *elsewhere;
    /* The solver there that does what this one does; NULL: there is none. Its instances know where they are from the
     * evaluation that is lent to them. */
    const fl_solver *(*solver)(const fl_solver *solver);
    size_t lanes; /* tasks that it is best given at a time */
} fli_site;

/* Of several solvers that whose tasks can be given to all of them. */
const fl_solver *fli_solver_roomiest(const fl_solver *const *list, size_t n);
/* A task that this solver can be given, with vectors of the space. */
fl_status fli_task_init(fl_ctx *ctx, const fl_solver *solver, const fl_space *s, fli_task *out);
void fli_task_fini(fli_task *t);
double fli_task_bytes(const fl_solver *solver, const fli_model *m); /* what fli_task_init takes */
/* Vector i < solver->vectors. */
void *fli_task_vector(const fli_task *t, size_t i);

/* Sum over this many steps of the weight that a gradient has in (start - z)/lr. */
double fli_sgd_weight(double momentum, size_t steps);

/* a_k, and their sum over this many steps, ||a||_1. */
double fli_coef(const fl_coefs *c, size_t k);
double fli_coef_sum(const fl_coefs *c, size_t steps);

fl_epochs fli_epochs_of(const fli_model *m, const fli_sgd_spec *spec, size_t labelled, size_t unlabelled);

/* What a turn of such work costs, in gradients of mini-batches; a product with a Hessian counts as one. */
size_t fli_levels_cost(const fl_levels *l, size_t steps, const fl_epochs *e);

/* How many of a client's n training samples are for validation. */
size_t fli_validation_count(double share, size_t n);

/* A derivative of a bilevel problem over all of a client's samples of that level, outside of its turns. */
typedef struct {
    fl_level_work work; /* FL_WORK_LOWER_GRADIENT, _UPPER_GRADIENT or _PRODUCT */
    const void *z, *v;  /* (x, y); of a product the direction, in the lower block */
    double *value;      /* of an upper gradient: where f_i is to be put; NULL: nowhere */
    uint64_t seed;      /* as in fli_task */
    uint32_t client;
} fli_derivative;
/* Of grad_y g the upper block is zero. */
fl_status fli_derivative_over(fl_ctx *ctx, fli_eval *e, const fli_view *view, const fli_derivative *d, void *out);

#endif
