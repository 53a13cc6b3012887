/* Local problems and their solvers: the problem that an algorithm poses, the answer of a solver, and the turn of a
 * client that connects them. Only this folder computes steps.
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
/* The average of steps from+1 .. from+steps, for lr = 1. */
double fli_schedule_mean(const fli_schedule *s, uint64_t from, size_t steps);

/* ==== the problem and its answer ========================================================================== */

#define FLI_FIRST_MIX 0.75 /* initial mix of the pair solver, while the two models are equal, as in [CPSL] */

/* How mini-batches are drawn and steps taken: the part of the local solver that all clients share. */
typedef struct {
    size_t batch;    /* samples per step; 0: all of the client's */
    double momentum; /* 0: plain SGD */
    double fraction; /* > 0: this share of the client's samples per step, instead of batch */
    size_t latent;   /* samples with a y per step, in addition to labelled ones (model/model.h); 0: by the same rule */
    int epoch;       /* FLI_EPOCH_..., if there are such samples */
    fli_schedule
        schedule; /* by_step: the sizes of a problem's steps shrink, with its lr as average; else all have that size */
} fli_sgd_spec;

/* The samples that an epoch covers: all samples, until both kinds have been used; or one kind. */
#define FLI_EPOCH_WORDS "all|labelled|unlabelled"
enum { FLI_EPOCH_ALL, FLI_EPOCH_LABELLED, FLI_EPOCH_UNLABELLED };

/* The point and settings of an evaluation of a client's objective; below. */
typedef struct fli_objective_at fli_objective_at;
typedef struct fli_objective fli_objective;

/* A coming evaluation of a model on some samples: fli_device_eval.foresee. */
typedef struct {
    const fli_dataset *ds;
    const uint32_t *idx;
    size_t n;
    const void *x, *own; /* own NULL: x alone */
    double mix;
} fli_peek;

/* Evaluation on a device instead of this processor: device/. Vectors are on the device; otherwise these are the
 * functions of the same names, which call them if an evaluation has such a table. */
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
    /* Announces the next evaluations, without gradients: the device may compute them together now. n 0: the vectors are
     * about to change; earlier announcements are void. */
    void (*foresee)(void *arg, const fli_peek *list, size_t n);
    /* Whether an evaluation on the device has failed. */
    fl_status (*status)(void *arg, fl_ctx *ctx);
} fli_device_eval;

/* Memory for evaluating a model on samples: one per thread. */
typedef struct {
    const fli_model *model;
    const fli_device_eval *elsewhere; /* NULL: this processor; fli_eval_init leaves it NULL */
    fli_batch batch;                  /* holds the samples that are computed at a time */
    void *scratch;                    /* the model's, for such a batch */
    void *part;                       /* a vector: the gradient of a piece; free between evaluations */
    void *rows; /* of the second block, twice those of a piece; NULL: no second block but labels */
} fli_eval;

fl_status fli_eval_init(fl_ctx *ctx, const fli_model *m, fli_eval *out);
void fli_eval_fini(fli_eval *e);
double fli_eval_bytes(const fli_model *m); /* memory of fli_eval_init */
/* The mean loss and, unless g is NULL, the gradient at x over n samples. The caller adds weight decay. */
double fli_eval_loss(fli_eval *e, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, void *g,
                     size_t *correct);
/* The mean loss of the mixture of two models (model/semi.h). */
double fli_eval_pair(fli_eval *e, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, const void *own,
                     double mix, size_t *correct);

/* The point and settings of an evaluation of a client's objective. */
struct fli_objective_at {
    const void *x;
    const void *own; /* NULL: f_i(x, y_i); else F_i, of the mixture of the outputs of own and x */
    double mix;      /* the share of own */
    /* the client's solver cache, which holds a y_i that is kept; NULL: do not read it, y_i is as in a first turn that
     * starts at x */
    void *const *kept;
    int ahead; /* update a y_i that is kept as the beginning of the next turn would */
};

struct fli_objective {
    double value;    /* without weight decay */
    double labelled; /* the mean loss over the labelled samples alone */
    size_t correct;  /* of the labelled samples */
};

/* A client's objective over all of its samples, with its current second block (model/model.h): the one that is kept or,
 * otherwise, the one that belongs to x. Unless g is NULL: its gradient in x or, if there is an own model, in that; for
 * a mixture only in host memory. */
fli_objective fli_eval_objective(fli_eval *e, const fli_view *v, const fli_objective_at *at, void *g);
/* ||y+ - y||^2 for the y+ with which a turn that starts at x would begin; 0 if y is a function of x. */
double fli_eval_second_block(fli_eval *e, const fli_view *v, const fli_objective_at *at);
/* ||y - P(y - lr grad_y f_i)||^2/lr^2 for a step of the turns' size, over all samples; NaN on a device, and unless y is
 * kept and improved by steps over all samples. */
double fli_eval_block_slope(fli_eval *e, const fli_view *v, const fli_objective_at *at);

/* Samples per step of a client with n: at most n. */
size_t fli_batch_size(const fli_sgd_spec *spec, size_t n);
/* Steps in one epoch over n samples: ceil(n / batch size), 1 for full batches. */
size_t fli_epoch_steps(const fli_sgd_spec *spec, size_t n);
/* The steps of an epoch on a model's objective: until all of the client's samples that it uses have been drawn, or as
 * many as the samples of the kind in `epoch` need, whether it uses them or not, so that compared methods do equal
 * work. */
size_t fli_objective_steps(const fli_model *m, const fli_sgd_spec *spec, size_t labelled, size_t unlabelled);

/* The distance between vectors in one block: each starts on a cache line. */
static inline size_t fli_vector_stride(const fl_space *s) { return (fli_bytes(s) + 63) / 64 * 64; }

/* A client's turn: the problem, the answer, and the memory of the answer. Any instance may solve it. */
typedef struct {
    /* set by the code that poses it */
    fl_problem problem;
    const fli_view *view;
    fli_rng rng;     /* of mini-batches */
    void **cache;    /* the client's own, NULL at first and kept between its turns, for example a factorisation */
    uint64_t taken;  /* steps before this turn, as a schedule by steps counts them */
    uint64_t round;  /* server steps so far */
    uint64_t seed;   /* determines random choices that last from turn to turn, such as validation samples, */
    uint32_t client; /* together with the client */
    /* set by the solver */
    fl_status status;
    fl_failure why;   /* FL_ECALLBACK: the sentence, if this task has one */
    fl_answer answer; /* if status is FL_OK */
    /* the task's own */
    void *z, *kept; /* the solution, and the solver's further `vectors`: fli_task_vector */
    size_t stride;  /* bytes from one of those to the next */
    fli_place *place;
} fli_task;

/* Ends a turn early: on request from any thread at any time, or at a deadline. Solvers that take many steps check it
 * between steps; their answer is then discarded. */
typedef struct {
    atomic_int asked;
    double until; /* on fli_clock_now; 0: no deadline */
} fli_halt;
int fli_halted(const fli_halt *h); /* NULL: never */

/* The surroundings of an instance. */
typedef struct {
    const fli_model *model;
    fli_sgd_spec sgd;
    size_t largest; /* training samples of the largest client */
    fli_eval *eval; /* lent: an instance may use it while it solves */
    const fli_halt *halt;
} fli_open;

/* Further traits of solvers, fedloom's own. */
#define FLI_SOLVER_REGISTERED   0x80000000u /* a registered solver: fails by FL_ECALLBACK, and is not called again */
#define FLI_SOLVER_SECOND_BLOCK 0x40000000u /* supports a block y_i (model/model.h); others leave it out */
#define FLI_SOLVER_HESSIAN      0x20000000u /* computes products with the model's Hessian */

/* Additions of built-in solvers to fl_solver; all optional. */
typedef struct fli_solver_engine {
    unsigned model_traits;   /* required of the model, */
    const char *models;      /* and in words: models that have them */
    const fl_solver *latent; /* replaces it on models with a second block */
    /* For caches whose content could not be computed again, with the same bits, from the client's samples at a later
     * turn: a checkpoint holds that content. Both NULL: the cache only saves time. */
    void (*save)(const void *cache, fli_saver *out);
    fl_status (*load)(fl_ctx *ctx, fli_loader *in, void **cache);
    /* For solvers on a device, which solve tasks together; `solve` is then NULL. All or none. */
    fl_status (*open)(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **instance);
    void (*run)(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n); /* sets status and answer of each */
    void (*close)(void *instance);
    double (*bytes)(const fl_solver *solver, const fli_open *how);
} fli_solver_engine;
const fli_solver_engine *fli_solver_engine_of(const fl_solver *s); /* an empty one if it has none */

/* An instance of a solver. It takes any number of tasks at a time; no task affects another. */
fl_status fli_solver_open(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **instance);
void fli_solver_run(fl_ctx *ctx, const fl_solver *solver, void *instance, fli_task *const *tasks, size_t n);
void fli_solver_close(const fl_solver *solver, void *instance); /* NULL: nothing to close */
/* The memory of an instance, without bookkeeping of samples; how->eval is not read. */
double fli_solver_bytes(const fl_solver *solver, const fli_open *how);

extern const fl_solver fli_solver_sgd;
/* The same for f_i(x, y_i): updates y_i at `start`, then trains x. It replaces SGD for models with a second block. */
extern const fl_solver fli_solver_blocks;
/* The gradient of f_i at the start, with weight decay and over all samples without augmentation: alone (z is the
 * start), or before the steps of SGD. */
extern const fl_solver fli_solver_gradient, fli_solver_sgd_gradient;
/* Trains a global model and the client's own on the same mini-batches. */
extern const fl_solver fli_solver_pair;
/* The exact minimiser for least squares, by a Cholesky factor that is kept; by conjugate gradients if that would be too
 * large. */
extern const fl_solver fli_solver_exact;
/* Solves to the required accuracy, with gradients over all samples, for any model. */
extern const fl_solver fli_solver_accurate;
/* f_i replaced by a quadratic upper bound: with the client's Gram matrix as curvature, which is factored once and kept,
 * or with equal curvature in all directions. */
extern const fl_solver fli_solver_gram, fli_solver_diagonal;

/* Bilevel problems: the work of the problem's `levels.work`. */
extern const fl_solver fli_solver_bilevel;

extern const fl_solver *const fli_solver_list[]; /* all of these; NULL-terminated */

/* The solver that implements the requested one for this model. */
const fl_solver *fli_solver_on(const fli_model *m, const fl_solver *wanted);
/* Refuses models that the solver does not support. */
fl_status fli_solver_fits(fl_ctx *ctx, const fl_solver *solver, const fli_model *m);

/* The cost of a turn of `steps`, in gradients of mini-batches, with `per_epoch` in an epoch. For solvers that work to
 * an accuracy it is that of the requested steps: the true cost is known only afterwards. */
size_t fli_solver_cost(const fl_solver *solver, size_t steps, size_t per_epoch);

/* The device on which a federation computes, if not this processor. One thread at a time. */
typedef struct {
    fli_place *place; /* of vectors */
    const fli_device_eval *elsewhere;
    /* The device's solver that corresponds to this one, or NULL. Its instances find their device through the evaluation
     * that is lent to them. */
    const fl_solver *(*solver)(const fl_solver *solver);
    size_t lanes; /* the best number of tasks at a time */
} fli_site;

/* The solver of the list whose tasks can be given to all of them. */
const fl_solver *fli_solver_roomiest(const fl_solver *const *list, size_t n);
/* A task for this solver, with vectors of the space. */
fl_status fli_task_init(fl_ctx *ctx, const fl_solver *solver, const fl_space *s, fli_task *out);
void fli_task_fini(fli_task *t);
double fli_task_bytes(const fl_solver *solver, const fli_model *m); /* memory of fli_task_init */
/* Vector i < solver->vectors. */
void *fli_task_vector(const fli_task *t, size_t i);

/* The sum over the steps of the weight that a gradient has in (start - z)/lr. */
double fli_sgd_weight(double momentum, size_t steps);

/* a_k, and the sum ||a||_1 over the steps. */
double fli_coef(const fl_coefs *c, size_t k);
double fli_coef_sum(const fl_coefs *c, size_t steps);

fl_epochs fli_epochs_of(const fli_model *m, const fli_sgd_spec *spec, size_t labelled, size_t unlabelled);

/* The cost of a turn with this work, in gradients of mini-batches; a product with a Hessian counts as one. */
size_t fli_levels_cost(const fl_levels *l, size_t steps, const fl_epochs *e);

/* The number of validation samples among a client's n training samples. */
size_t fli_validation_count(double share, size_t n);

/* A derivative of a bilevel problem over all of a client's samples of a level, outside of its turns. */
typedef struct {
    fl_level_work work; /* FL_WORK_LOWER_GRADIENT, _UPPER_GRADIENT or _PRODUCT */
    const void *z, *v;  /* (x, y); for a product the direction, in the lower block */
    double *value;      /* of an upper gradient: receives f_i; may be NULL */
    uint64_t seed;      /* as in fli_task */
    uint32_t client;
} fli_derivative;
/* The upper block of grad_y g is zero. */
fl_status fli_derivative_over(fl_ctx *ctx, fli_eval *e, const fli_view *view, const fli_derivative *d, void *out);

#endif
