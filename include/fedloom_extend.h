/* Extensions of fedloom by a program: an objective, a local solver, a federated method, a regulariser.
 *
 * Each is a struct that the program registers once under a name. Any configuration can then choose it by that name, as
 * it chooses the built-in ones:
 *
 *     fl_objective_register(ctx, &mine);   model: mine
 *     fl_solver_register(ctx, &mine);      local: {solver: mine}
 *     fl_method_register(ctx, &mine);      algorithm: mine
 *     fl_regularizer_register(ctx, &mine); regularizer: mine
 *
 * Its functions are called from several threads at the same time, unless FL_SERIAL is among the traits. They return 0,
 * or another value to end the run: fl_failed gives the reason, in a sentence, and the run returns FL_ECALLBACK with it.
 * Calling fl_failed is enough. A C++ exception must not leave them. Numbers that are not finite end a run as a
 * divergence does. The functions must not free, continue or forget the objects that call them.
 *
 * The built-in methods are written against the same types: a registered method may do all that they do.
 *
 * A registered struct begins with its size (fedloom.h says why). The library owns the structs that it passes to
 * functions; these may grow at their end, except those inside others (fl_space, fl_ask, the groups of fl_method). These
 * and the rows of tables (fl_key, fl_part, fl_tensor, fl_tune_range) will not grow. */
#ifndef FEDLOOM_EXTEND_H
#define FEDLOOM_EXTEND_H

#include "fedloom.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Gives the reason of a failure; the first call counts. The text is copied, and cut if it is too long. */
typedef struct fl_failure fl_failure;
void fl_failed(fl_failure *f, const char *sentence);

/* Traits. */
enum {
    /* For all structs: one call at a time, over all runs of the process. Such a function must not wait for another
     * thread that may call one: a run with several threads would deadlock. */
    FL_SERIAL = 1,

    FL_OBJECTIVE_CONVEX = 2,
    FL_OBJECTIVE_CLASSIFIER = 4, /* fills `correct`: hits in the batch */

    FL_SOLVER_FULL_GRADIENT = 2, /* a turn computes the gradient over all samples of the client */
    /* reads samples again in every step, so that data.augment takes effect; set for registered solvers */
    FL_SOLVER_AUGMENTS = 4,
    FL_SOLVER_COUNTS_STEPS = 8, /* follows the problem's lr and steps, in mini-batches; set for registered solvers */
    FL_SOLVER_READS_RHO = 16,   /* uses rho also without an anchor; other solvers get 0 then */

    /* all clients take part in every round; if a round ends without an exchange they keep what they need of the model,
     * and are not sent it again */
    FL_METHOD_EVERYONE = 2,
    FL_METHOD_UNIFORM = 4,    /* weighs clients equally: w_i = 1/N */
    FL_METHOD_EQUAL_LR = 8,   /* wants the same step size at all clients */
    FL_METHOD_PLAIN_SGD = 16, /* reads gradients out of displacements */
    FL_METHOD_COMPOSITE = 32, /* minimises f + g, by fl_prox on the server */
    /* absorb and advance read more than one entry at a time, or an entry's index: they are called once, for whole
     * vectors. Without it they are called for every slice of the vectors, on several threads, and must do the same to
     * scalars in each call. For one of the two functions alone: */
    FL_METHOD_WHOLE = 320,
    FL_METHOD_WHOLE_ABSORB = 64,
    FL_METHOD_WHOLE_ADVANCE = 256,
    /* accesses vectors other than by the operations below, so they must be in host memory: only `device: cpu` */
    FL_METHOD_TOUCHES = 128,
    /* clients outside the cohort also take a turn, in every round: fl_ask.bystander */
    FL_METHOD_BYSTANDERS = 512,
    FL_METHOD_LABELLED = 1024, /* trains on the labelled samples only */
    /* for objectives with a second block y_i, such as pseudo labels; without one it is another method */
    FL_METHOD_BLOCKS = 2048,
    FL_METHOD_BILEVEL = 4096, /* for two-level problems only */
    /* its clients read their weight, which tells them how many samples all clients have; clients of other methods are
     * not sent it. Registered methods have this trait. */
    FL_METHOD_TELLS_WEIGHT = 16384,
    /* divides displacements by the weight of their gradients, with any solver: exact if the solver gives that weight */
    FL_METHOD_NORMALISES = 32768
};

/* A registration lasts until the process ends or the name is forgotten. The struct and what it points to are copied,
 * `arg` and functions are not. Built-in names are refused. A registered name may be registered again: configurations
 * that are bound later get the new version; older versions can be chosen by number: `algorithm: mine@1` is the first
 * version of that name. Results and messages show the name without number, so a file, or another process, gets the
 * newest. */

/* Removes a registered name, by its section ("model", "solver", "algorithm", "regularizer"). No run may still use it.
 * FL_ECONFIG: the name is not registered. */
fl_status fl_forget(fl_ctx *ctx, const char *section, const char *name);

/* ---- vectors ------------------------------------------------------------------------------------------------ */

/* A space of vectors: n reals of 4 or 8 bytes (float or double). A method may use the operations below in all its
 * functions. If it uses no others it also runs on a GPU (`device: cuda`), where the host cannot read vectors through
 * their addresses. */
typedef struct {
    size_t n, real;
    const struct fli_ops *ops; /* the engine's */
    struct fli_place *place;
} fl_space;

void fl_vec_copy(const fl_space *s, const void *x, void *y);                                     /* y = x */
void fl_vec_zero(const fl_space *s, void *y);                                                    /* y = 0 */
void fl_vec_axpy(const fl_space *s, double a, const void *x, void *y);                           /* y += a x */
void fl_vec_lin(const fl_space *s, double a, const void *x, double b, const void *y, void *out); /* out = a x + b y */
void fl_vec_scale(const fl_space *s, double a, void *y);                                         /* y *= a */
double fl_vec_dot(const fl_space *s, const void *x, const void *y);                              /* <x, y> */
/* (x_1[i], ..., x_k[i]) <- fn(x_1[i], ..., x_k[i]) for every i; k <= 8 */
void fl_vec_map(const fl_space *s, size_t k, void *const *x, void (*fn)(const void *arg, double *v), const void *arg);

/* ---- a program's own objective ----------------------------------------------------------------------------------- */

/* Some samples of one client, or of the test set: at most 256; larger sets come in pieces. */
typedef struct {
    size_t n;    /* at least 1 */
    size_t dim;  /* 0: samples have numbers, but no features */
    size_t real; /* bytes of a real here and in x, g, v: 4 or 8 */
    /* the samples' numbers in the data, from 0; test samples have their own numbering, and with data.on_demand each
     * client has its own */
    const uint32_t *sample;
    int test;             /* samples of the separate test set */
    const void *x;        /* n x dim reals, normalised */
    const int32_t *label; /* NULL: none */
    const void *target;   /* n reals; NULL: none */
} fl_batch;

typedef struct {
    size_t size; /* sizeof(fl_objective) */
    const char *name, *title;
    void *arg; /* handed to every function */
    unsigned traits;
    size_t parameters;
    const fl_tensor *tensors; /* cover the parameters without gaps, for saving; NULL: a single vector "x" */
    size_t tensor_count;
    /* Computes the mean loss over the batch at x and, unless g is NULL, the whole gradient. *correct is 0 at the call.
     * The engine adds weight decay. Give this function, */
    int (*batch)(void *arg, const fl_batch *b, const void *x, void *g, double *loss, size_t *correct, fl_failure *f);
    /* or this one: f_i and its gradient over all of client i, whose only "sample" has the number i (an fl_holding of
     * one sample each, and no test set). `real` as in a batch. */
    int (*client)(void *arg, uint32_t client, size_t real, const void *x, void *g, double *loss, fl_failure *f);
    /* All below are optional. */
    /* out = (Hessian of the mean loss over the batch at x) v: for methods that need curvature. */
    int (*product)(void *arg, const fl_batch *b, const void *x, const void *v, void *out, fl_failure *f);
    /* Writes the start model; x is zero at the call. `seed` is derived from the configuration's. */
    int (*start)(void *arg, uint64_t seed, double *x, fl_failure *f);
    /* Additional metrics, one number per name, computed when metrics are taken: columns of metrics.csv, after all
     * others. At most 8, and a process has no more in all than FL_METRICS_MAX leaves room for. */
    const char *const *metrics; /* NULL-terminated */
    int (*measure)(void *arg, size_t real, const void *x, double *out, fl_failure *f);
} fl_objective;

fl_status fl_objective_register(fl_ctx *ctx, const fl_objective *o);

/* ---- a program's own local solver -------------------------------------------------------------------------------- */

/* For solvers that work to an accuracy; others ignore it. 0: not required; all that are set must be met. A solver can
 * prove accuracy by ||z - minimiser|| <= ||gradient at z||/m, which holds for an m-strongly convex problem. */
typedef struct {
    double accuracy;   /* ||z - minimiser|| <= accuracy */
    double relative;   /* ||z - minimiser|| <= relative ||z - start|| */
    double modulus;    /* m, of the whole local problem; 0: unknown, so no accuracy can be proven */
    size_t most_steps; /* the solver stops there, accurate or not */
} fl_stopping;

/* For the solver "pair", which also trains the client's own model. */
typedef struct {
    const void *start;
    double lr;
    double mix; /* share of the own model in the mixture of the two; NaN: the solver chooses, by held-out samples */
} fl_pair;

/* What a turn on a two-level problem computes, and its z. Vectors have both blocks; work on one leaves the other
 * unchanged. */
typedef enum {
    /* y, v and x together: the weighted sums (q_x, q_y) of the directions; v = q_v, norm = ||grad_y f_i|| at the first
     * step */
    FL_WORK_TOGETHER,
    FL_WORK_LOWER_GRADIENT, /* grad_y g_i in the lower block */
    FL_WORK_UPPER_GRADIENT, /* grad f_i in both */
    FL_WORK_PRODUCT,        /* (g_xy v, g_yy v) */
    FL_WORK_HYPERGRADIENT,  /* grad_x f_i - g_xy v in the upper one */
    /* local steps: on y, on x with y fixed, and on x along the client's own hypergradient */
    FL_WORK_LOWER_STEPS,
    FL_WORK_UPPER_STEPS,
    FL_WORK_OWN_STEPS
} fl_level_work;

/* The coefficients of local steps k = 0, 1, ...: a_k = scale v[k] decay^k; the last entry of v holds for all later
 * steps. */
typedef struct {
    const double *v;
    size_t n;
    double decay, scale;
} fl_coefs;

/* For the solver "bilevel": start is (x, y); shift, anchor and rho are ignored. */
typedef struct {
    fl_level_work work;
    const void *v; /* a direction, in the lower block */
    /* the federation's direction, in the block of the steps; NULL: steps follow the client's own */
    const void *shift;
    double lr_y, lr_v; /* the problem's lr is that of x, or of the only block of the steps */
    fl_coefs coefs;    /* of the steps */
    size_t neumann;    /* the highest power in the series that approximates the inverse Hessian; */
    double ell;        /* its terms are (I - H/ell)^n/ell */
    /* > 0: replaces the problem's steps: this many passes over the samples of the level of the steps */
    size_t epochs;
    int full; /* derivatives use all samples of a level, not mini-batches */
} fl_levels;

/* What a client is to solve:  minimise f_i(z) + <shift, z> + rho/2 ||z - anchor||^2  from `start`, in `steps` steps, or
 * to an accuracy. Vectors are borrowed: usually the broadcast model, or the client's own state. The solvers "gram" and
 * "diagonal" read only start, rho, shift and steps: shift is the multiplier, which changes in every step; steps = 0 is
 * the limit of infinitely many; with rho = 0 they solve nothing and give only the curvature. */
typedef struct {
    const void *start;
    const void *anchor; /* NULL: no proximal term */
    double rho;
    const void *shift; /* NULL: no linear term */
    double lr;
    size_t steps; /* Q_i */
    fl_stopping stop;
    union { /* the part that only one kind of solver reads */
        fl_pair pair;
        fl_levels levels;
    };
} fl_problem;

/* The client and resources for solving it. */
typedef struct {
    fl_space space;
    uint32_t client;
    uint64_t round;
    uint64_t seed;  /* differs between runs, rounds and clients: for mini-batches */
    size_t samples; /* n_i */
    size_t batch;   /* size of a mini-batch, as `local` says; at most n_i */
    double momentum;
    double decay; /* weight decay, part of f_i */
    void *engine; /* for the functions below */
    void **kept;  /* for solvers with `forget`: what the client keeps between its turns, NULL at first */
} fl_local;

/* f_i with weight decay and, unless g is NULL, its gradient at x, over all samples of the client; */
int fl_local_loss(const fl_local *l, const void *x, void *g, double *loss);
/* or over the next mini-batch of fedloom's own SGD: every call advances by one. `loss` may be NULL. Nonzero: the
 * objective failed, and has given the reason. */
int fl_local_batch(const fl_local *l, const void *x, void *g, double *loss);
/* The same mini-batch for a solver that computes gradients itself: returns its size, *sample the samples' numbers in
 * the data, valid until the next call; unless NULL, *decay receives the weight decay of this step. Every call advances
 * by one mini-batch. */
size_t fl_local_next(const fl_local *l, const uint32_t **sample, double *decay);

/* Vector i < fl_solver.work, for the duration of the call, with undefined contents; */
void *fl_local_work(const fl_local *l, size_t i);
/* vector i < fl_solver.vectors, valid as long as the answer, which may point to it. */
void *fl_local_vector(const fl_local *l, size_t i);

/* What a solver answers. Vectors that it does not compute are NULL. */
typedef struct {
    const void *z;        /* the solution; valid, as all vectors here, until the end of the turn */
    const void *gradient; /* of f_i at the start over all samples, from solvers that compute it */
    /* The number for which (start - z)/(lr weight) is a mean gradient: the sum over the steps of the weight that a
     * gradient has in (start - z)/lr. Q_i for plain SGD with any schedule; with momentum gam, Q/(1-gam) - gam
     * (1-gam^Q)/(1-gam)^2 for steps of one size. At the call it has SGD's value. */
    double weight;
    /* The solver has set `weight`, perhaps to SGD's value. Methods that read gradients out of displacements divide by
     * `weight`; their runs warn if a solver does not set it. */
    int weighed;
    /* The cost in gradients of mini-batches; a gradient over all samples counts as an epoch, a factorisation as 1. At
     * the call: the steps asked for. */
    size_t steps;
    int missed; /* accuracy not reached, for lack of steps or precision; never set by SGD, which cannot tell */
    struct {
        const void *multiplier; /* after the last step */
        double curvature;       /* the largest eigenvalue of the quadratic that approximates f_i */
    } linearised;
    struct {
        const void *own; /* the client's own model after the last step */
        double mix;      /* as requested, or chosen */
    } pair;
    struct {
        const void *v; /* q_v, in the lower block */
        double norm;   /* see FL_WORK_TOGETHER */
    } levels;
} fl_answer;
typedef fl_answer fl_solution;

typedef struct fl_solver {
    size_t size; /* sizeof(fl_solver) */
    const char *name, *title;
    void *arg;
    unsigned traits;
    /* z is a copy of the start at the call, and the solution at the return: out->z points to it already. */
    int (*solve)(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f);
    /* All below are optional. */
    size_t work, vectors; /* numbers of fl_local_work and fl_local_vector */
    /* Frees what a client keeps in fl_local.kept; NULL: clients keep nothing. Kept data may only make turns faster: the
     * engine may free them between any two turns of a client. Never called with NULL. */
    void (*forget)(void *kept);
    const struct fli_solver_engine *engine; /* the engine's; NULL for a registered solver */
} fl_solver;

/* A configuration chooses it as local.solver: it then replaces SGD, in methods that pose problems for SGD. A method may
 * also name it as its own (fl_method.solver). */
fl_status fl_solver_register(fl_ctx *ctx, const fl_solver *s);

/* ---- a program's own method -------------------------------------------------------------------------------------- */

/* A parameter: a row of the method's table. The method's functions get all parameters as doubles, in the order of the
 * table: a choice as the index of its word, a bool as 0 or 1; rows then have the first four types. With
 * fl_method.params_size rows may have all types, and functions get a struct. */
typedef enum {
    FL_KEY_REAL,   /* double */
    FL_KEY_INT,    /* int64_t */
    FL_KEY_BOOL,   /* int */
    FL_KEY_CHOICE, /* int: which of the words in `choices` */
    FL_KEY_STRING, /* char *, never NULL */
    FL_KEY_INTS,   /* fl_ints */
    FL_KEY_REALS,  /* fl_reals; a single number counts as a list of one */
    FL_KEY_SIZE    /* int64_t: bytes, written 4096, 512KiB, 1.5GiB; 0 is written auto */
} fl_key_type;
typedef struct {
    size_t n;
    int64_t *v;
    int word; /* as in fl_reals */
} fl_ints;
typedef struct {
    size_t n;
    double *v;
    int word; /* of an empty list: the index of the word that stands for it */
} fl_reals;
typedef struct {
    const char *name; /* NULL ends a table */
    fl_key_type type;
    const char *def;     /* as a user would write it; NULL: must be given */
    double min, max;     /* of numbers, also in lists: inclusive; both 0: no bounds */
    const char *choices; /* "one|two|three"; of lists: words such as "auto" that may stand for the list */
    const char *help;    /* one sentence, lower case, no full stop */
    size_t offset;       /* of the field in the struct that the table fills */
    int per_client;      /* the list of reals has one value, or one per client */
} fl_key;

/* A message consists of parts: rows of a table. */
typedef enum {
    FL_PART_VECTOR,
    FL_PART_NUMBER, /* scalars: `count` of them from `at` on; 0 counts as 1 */
    FL_PART_START,  /* down: the start model */
    FL_PART_UPPER,  /* two levels: a block of a vector */
    FL_PART_LOWER
} fl_what;
typedef enum {
    FL_PART_FORGET,   /* down: dropped after the turn */
    FL_PART_KEEP,     /* down: the client keeps it until the end of the round, so that later phases need not send it */
    FL_PART_VALUE,    /* up: replaces the server's value */
    FL_PART_CHANGE,   /* up: added, scaled, to the server's value; it shrinks as a run converges */
    FL_PART_KEEP_EACH /* down: kept, with its values in all phases that sent it: fl_turn.history */
} fl_use;
/* When it is sent; 0: always. */
enum { FL_STAGES = 24 };
#define FL_IN_PHASE(k) (1u << (k)) /* k < FL_STAGES */
#define FL_IN_ROUNDS   0x00ffffffu /* any phase */
#define FL_IN_WARM_UP  0x01000000u
#define FL_AT_FIRST    0x02000000u /* with a client's first turn, whatever the phase */
typedef struct {
    const char *name; /* NULL ends a table */
    fl_what what;
    size_t at; /* which one: down, of the server's vectors or scalars; up, of the upload's */
    fl_use use;
    unsigned when;
    size_t count;
} fl_part;

/* What a client is asked to do. */
typedef struct {
    uint64_t round;     /* server steps before the ask was made */
    uint64_t steps;     /* Q_i */
    double lr;          /* step size; of a schedule that counts steps, its mean */
    double weight;      /* w_i */
    double probability; /* p_i: the probability that the client takes part in a round */
    /* its number; clients that take part, or were invited: over a network fewer may answer, and absorb gets the number
     * that did */
    uint32_t client, cohort;
    uint32_t phase, phases; /* the exchange within the round, and their number */
    int warm_up;            /* before the first round */
    int bystander;          /* not in the cohort */
    uint64_t stream;        /* identifies its mini-batches: a client never gets the same value twice */
    uint32_t kind, flags;   /* the engine's */
} fl_ask;

/* A client's turn: its ask, what it was sent, and what it keeps. */
typedef struct {
    fl_space space;
    void *arg;
    union {
        const double *params; /* in the order of the table, */
        const void *bound;    /* or the struct of methods with params_size */
    };
    fl_ask ask;
    size_t clients;      /* N */
    size_t stage;        /* of the ask's phase: fl_rounds.stage */
    int first;           /* the client's first turn: its vectors and scalars are zero */
    int sent;            /* the broadcast changed since its last turn, and was sent */
    const void *initial; /* the start model, in turns that send it */
    /* the server's vectors and scalars, numbered as there, that were sent now or kept from earlier phases; in a
     * registered method NaN if they are never sent */
    const void *const *down;
    const double *down_scalars;
    const void *const *history; /* FL_PART_KEEP_EACH: that vector in phases 0, 1, ... of the round */
    void *const *state;         /* its own vectors and scalars, kept between its turns */
    double *scalars;
    int watched; /* fl_potential's own ones are at the ends of both */
    /* fl_potential, asynchronous methods: the client has begun the turn of ask.stream, whose answer is not absorbed */
    int away;
    void *const *work; /* scratch, contents undefined at pose, kept until answer */
    void *const *up;   /* written by answer */
    double *up_scalars;
    fl_failure *failure;
} fl_turn;

/* A client's upload. */
typedef struct {
    fl_ask ask;
    const void *const *up;
    const double *up_scalars;
    size_t staleness; /* asynchronous methods: server steps since the client received its model */
} fl_upload;

/* The server's side of a method. */
typedef struct {
    fl_space space;
    void *arg;
    union {
        const double *params; /* as in a turn */
        const void *bound;
    };
    size_t clients, cohort;
    double cohort_weight; /* sum of w_i over the cohort */
    double momentum;      /* of the clients' local steps */
    size_t phase, phases, stage;
    int warm_up;      /* this step follows the warm-up turns */
    void *const *vec; /* vec[0] is the model x */
    void *const *sum; /* zero before the first absorb of a round */
    double *scalars;  /* the server's own, kept between rounds; zero at the start */
    double *scalar_sum;
    const double *moves; /* fl_potential.remembers; NULL: not kept */
    const void *engine;  /* for fl_prox and fl_weight */
    const struct fli_bilevel *bilevel;
    fl_failure *failure;
} fl_coordinator;

/* x <- prox_{eta g}(x) for the configured regulariser; without one, nothing. For start and advance. */
void fl_prox(const fl_coordinator *s, double eta, void *x);
double fl_weight(const fl_coordinator *s, size_t client); /* w_i */
/* Two levels: the length of the upper block, which comes first in a vector; 0: there is one level. */
size_t fl_upper(const fl_coordinator *s);

/* ---- additions of some methods ------------------------------------------------------------------------------------
 *
 * Groups of members, all optional. Their functions get the parameters as a turn does: the values in the order of the
 * table, or the struct of methods with params_size. They may be called at any time for any run, and their results must
 * depend on their arguments alone. With FL_SERIAL they are called one at a time, as all others. */

/* For the functions of these groups, in registered methods and regularisers: what `begin` returned in the run that the
 * parameters belong to, or the method's `arg` before that. */
void *fl_begun(const void *params);

/* The number of mini-batches in a pass over a client's samples: over all that its objective uses and, with two levels,
 * over those of either level. */
typedef struct {
    size_t all, upper, lower;
} fl_epochs;

/* Rounds with more, or fewer, than one exchange. */
typedef struct {
    /* Whether everyone takes a turn before the first round; NULL: as fl_method.warms_up says. */
    int (*warms_up)(const void *params);
    /* Whether a round (the first is 0) ends with an exchange; NULL: always. `coin` is uniform in [0, 1), a function of
     * seed and round. Without an exchange clients upload nothing, absorb and advance are not called, and the next
     * round's broadcast is unchanged. */
    int (*exchanges)(const void *params, size_t round, double coin);
    /* The number of exchanges (turns, absorb, advance) in a round, with the same cohort unless `redraws` says
     * otherwise; NULL: fl_method.phases. `coin` as above, of the same round. */
    size_t (*phases)(const void *params, double coin);
    /* Whether a phase begins with a new cohort, which has received nothing in this round; always for phase 0. NULL: no
     * other phase does. Participation that follows a plan, such as a trace, gives the same clients again. */
    int (*redraws)(const void *params, size_t phase, size_t phases);
    /* The method's stage, below FL_STAGES, that a phase belongs to: FL_IN_PHASE and solvers are given by stage. NULL:
     * the phases of fl_method.phases are the stages; with any other number of phases there is one stage. */
    size_t (*stage)(const void *params, size_t phase, size_t phases);
    /* The number of local steps of every client in a round, at least 1; NULL: each client's of `local`. `coin` as
     * above; the larger it is, the more steps. */
    size_t (*steps)(const void *params, double coin);
    /* The cost of a stage's work in gradients of mini-batches, for a client that is asked for `steps` and has such
     * epochs; it determines the simulated time. NULL: the stage's solver gives it. */
    size_t (*counts_as)(const void *params, size_t stage, size_t steps, const fl_epochs *e);
} fl_rounds;

/* When an asynchronous server takes a step. */
typedef struct {
    size_t buffer; /* uploads per server step: absorb for each, then advance once */
    size_t tau;    /* the largest age of an upload, in server steps; 0: no bound */
} fl_pace;

typedef struct {
    /* Not NULL: the method is asynchronous: the server takes uploads one by one, and clients never wait for each other.
     * NULL: fl_method.buffer decides. */
    fl_pace (*pace)(const void *params);
} fl_asynchrony;

/* Methods whose clients have models of their own (fl_method.own_model). */
typedef struct {
    /* The share of the client's own model if it predicts with a mixture of that and the global model. `scalars` are the
     * client's, NULL before its first turn. NULL: it predicts with its own model alone. */
    double (*mix)(const void *params, size_t client, const double *scalars);
    const char *remedy; /* what to try when these models grow without bound; NULL: fl_method.remedy */
} fl_personal;

/* Methods for two-level problems. */
typedef struct {
    size_t v; /* 1 + the index of the server vector whose lower block stands for v*(x); 0: none does */
    /* The weight of a turn with that many steps, if a client's weight depends on it: w_i is then proportional to p_i
     * times its mean over rounds. NULL: w_i is proportional to p_i. */
    double (*work)(const void *params, size_t client, size_t steps);
} fl_two_levels;

/* ---- what theory says of a method ---- */

/* The first round as far as the plan can tell: means over all clients, weighted by w_i. 0: not known. */
typedef struct {
    double travel;      /* lr_i Q_i: how far a unit gradient takes a client in its turn */
    double probability; /* p_i */
} fl_first_round;

/* How the block y_i of an objective with a second block is improved. */
typedef struct {
    size_t steps;      /* projected gradient steps on f_i in each turn; 0: the best y, by a formula or exactly */
    double lr;         /* the steps' size; NAN without steps */
    double smoothness; /* L of f_i in y, at the y that a client starts from */
    int drawn;         /* a step uses a mini-batch of the samples */
} fl_latent_steps;

typedef struct fl_facts fl_facts;

/* What is known of a federation, over all clients that were measured. */
typedef struct {
    double smoothness, least_smoothness; /* the largest and the smallest L_i */
    double mean_smoothness;
    double convexity, most_convexity; /* the smallest and the largest mu_i */
    double upper_smoothness;          /* two levels: the largest of f_i in (x, y) */
    double upper_slope;               /* two levels: the largest ||grad_y f_i|| at the start model */
    size_t steps, least_steps;        /* the most and the fewest of any client in a round */
    double probability;
    double lr, least_lr;
    double reach, least_reach; /* the largest and the smallest lr_i Q_i */
    const double *weights;     /* w_i of all clients, measured or not */
    int equal_weights;         /* all weights are equal */
    const fl_facts *each;      /* the clients that were measured, */
    size_t count, clients;     /* their number, and the number of all clients */
    size_t cohort;             /* clients in every round; 0: the number varies */
} fl_facts_all;

/* What is known of one client when a method's theorem is checked for a federation. NAN: not measured. `check` gets all
 * members; `warn`, which is called before a run, gets neither measurements nor `all`. */
struct fl_facts {
    size_t clients;
    uint32_t client;
    int convex; /* f_i is certainly convex */
    /* L_i and mu_i hold for all x, and were measured over all samples; otherwise they are estimates at the start */
    int bounded;
    int composite;         /* a regulariser g is configured; */
    double g_modulus;      /* g + g_modulus/2 ||x||^2 is convex; 0: so is g itself */
    unsigned model_traits; /* the engine's */
    double smoothness;     /* L_i; with two levels that of g_i in y */
    double lr, probability, weight;
    double most_likely; /* p_i in the round where it is largest; `probability` is its smallest value */
    int dropped;        /* an invited client may be left out: there is a deadline, or a round waits for some */
    int planned;        /* participation follows a plan, such as a trace, not chance: in some rounds p_i^r is 0 */
    double base_lr;     /* local.lr: lr without the client's factor */
    fl_first_round first_round;
    size_t steps; /* Q_i */
    double momentum;
    int full_batch;     /* a local step uses all samples of the client, of either kind */
    int constant_lr;    /* the same in all rounds */
    size_t least_steps; /* for `fix`: the fewest of any client in a round; `steps` is then the most */

    /* mu_i: the smallest eigenvalue of the same Hessian, measured from above; at least sure_convexity. Only if f_i is
     * certainly convex, or with two levels. */
    double convexity;
    /* the modulus that weight decay (two levels: bilevel.l2) ensures for a convex loss; NAN: none */
    double sure_convexity;
    double upper_smoothness; /* two levels: L of f_i in (x, y), */
    double upper_slope;      /* and ||grad_y f_i|| at the start */
    int second_block;        /* f_i(x, y_i) has a block y_i of the client's own (pseudo labels, memberships): */
    fl_latent_steps block;   /* how it is improved */
    double label_entropy;    /* pseudo labels: alpha_r; NAN: there are none */
    double confidence;       /* pseudo labels: the least probability for which one is made; 0: all samples get one */
    int uniform_cohort;      /* every round: the same number, all equally likely, without replacement; or everyone */
    const fl_facts_all *all;
};

/* Receives what a theorem asks for: conditions `have <= most` or `have < most`; requirements that hold or do not;
 * assumptions, which cannot be verified here; a condition as the paper prints it, if its proof needs another; and cases
 * that the theorem does not cover. f NULL: for the federation as a whole. Texts must be valid as long as the method. */
typedef struct fl_conditions fl_conditions;
void fl_condition(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have, double most);
void fl_condition_below(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have,
                        double most);
void fl_as_printed(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have,
                   double most);
void fl_requirement(fl_conditions *c, const char *name, const char *sentence, const fl_facts *f, int holds);
void fl_assumption(fl_conditions *c, const char *name, const char *sentence);
void fl_not_covered(fl_conditions *c, const char *name, const char *sentence);

/* Receives settings that satisfy the conditions: `check` advises them, `check --fix` writes them. `conditions` are
 * names as above, separated by '|'; a row counts if one of them fails. A name also matches longer ones that continue
 * after a space: "(18)" matches "(18) first". `why` is printed behind it in brackets; NULL: nothing to add. */
typedef struct fl_fixes fl_fixes;
/* Sets a number, rounded to four digits: downwards in `most`, upwards in `least`. Nothing is added if it is not finite,
 * or not above 0. */
void fl_fix_most(fl_fixes *out, const char *conditions, const char *key, double value, const char *why);
void fl_fix_least(fl_fixes *out, const char *conditions, const char *key, double value, const char *why);
/* Divides or multiplies the key's current value by the largest ratio of left to right side in these conditions.
 * `shrink` is for ratios that grow with the key, `grow` for ratios that fall, `shrink_root` for ratios that grow with
 * its square. Other dependences show when the conditions are checked again. */
void fl_fix_shrink(fl_fixes *out, const char *conditions, const char *key, double now, const char *why);
void fl_fix_grow(fl_fixes *out, const char *conditions, const char *key, double now, const char *why);
void fl_fix_shrink_root(fl_fixes *out, const char *conditions, const char *key, double now, const char *why);
/* Sets a value given as text, as in a file. */
void fl_fix_word(fl_fixes *out, const char *conditions, const char *key, const char *value, const char *why);
/* Requirements of several theorems: all clients in every round; local steps over all samples; no momentum; the same
 * step size in all rounds. */
void fl_fix_everyone(fl_fixes *out, const char *conditions);
void fl_fix_full_batch(fl_fixes *out, const char *conditions);
void fl_fix_plain_steps(fl_fixes *out, const char *conditions);
void fl_fix_constant_lr(fl_fixes *out, const char *conditions);

/* A text under construction. */
typedef struct fli_text fl_text;
void fl_text_add(fl_text *t, const char *text);

/* A potential: a quantity that falls from round to round, as a method's theorem shows. It is a sum of contributions of
 * all clients, weighted by w_i, and of the server. Measured between rounds, only on request; measuring changes nothing.
 * The turn passed here is not taken: its ask has lr, steps and probability of the client's next turn; its broadcast is
 * the model x and the numbers that the method sends down; `state` is NULL if the client has none yet. */
enum { FL_POTENTIAL_TERMS = 2, FL_REMEMBERED = 65536 };
typedef struct {
    const char *name; /* as in "the potential is %s"; NULL: the method has none */
    /* Vectors and scalars that clients keep for it at the ends of their own, in runs that measure it. */
    size_t vectors, scalars;
    /* The number of newest ||x^{k+1} - x^k||^2 that the server keeps for it (fl_coordinator.moves: newest first, 0
     * before the first step), at most FL_REMEMBERED. NULL, or more: none are kept. */
    size_t (*remembers)(const void *params);
    /* The point at which f_i and its gradient (with weight decay) are needed. On a worker thread, as `client`. */
    const void *(*point)(const fl_turn *t);
    /* The client's contribution (FL_POTENTIAL_TERMS numbers), from f_i and its gradient at that point. The function may
     * overwrite the gradient. */
    void (*client)(const fl_turn *t, double f, void *gradient, double *out);
    /* The potential, from the weighted sums of the contributions and g(x). */
    double (*server)(const fl_coordinator *s, const double *sum, double g);
    /* Two levels, in place of the three above: from F(x, y*), ||y - y*|| and ||v - v*||, with the weights of
     * fl_two_levels.work. */
    double (*levels)(double value, double lower_distance, double system_distance);
    /* What must hold at one client so that the potential surely never rises, not only in expectation. */
    void (*falls)(const void *params, const fl_facts *f, fl_conditions *out);
    size_t after; /* the promise holds after this many rounds */
} fl_potential;

/* f at the start model, and its gradient norms. */
typedef struct {
    double value;                /* f(x0) + g(x0), of which 0 is a lower bound */
    double slope2;               /* ||grad f(x0)||^2 */
    const double *client_slope2; /* ||grad f_i(x0)||^2 of the clients that were measured */
} fl_start_values;

/* The number of rounds after which a theorem bounds the mean of a quantity over the rounds by eps. */
typedef struct {
    const char *theorem, *bounds; /* "(19)", "||grad f(x)||^2" */
    const char *metric;           /* the metric's column; */
    int squared;                  /* the bound is on its square */
    int expected;                 /* the bound is on the mean over cohorts, not for each */
    int full;                     /* needs steps over all samples; with mini-batches an error remains */
    double times_eps, before;     /* before + times_eps/eps */
    const char *missing;          /* why no number is known; NULL: it is */
} fl_promise;

/* The optimality gap that a method's theorem bounds, if it is more than ||grad f(x)||^2: 0 where x and the second
 * blocks y_i are stationary together. Only with second blocks, which are improved by steps. */
typedef struct {
    const char *name; /* as in "the gap is %s"; NULL: the method has none */
    /* The step length of the gradient mapping in x; 0: there is no gap. NULL: the gradient is used. */
    double (*eta)(const fl_coordinator *s);
    int ahead;  /* needs the gradient in x at the y_i after the next steps of all clients, */
    int smooth; /* and the largest L_i */
    /* From ||grad f||^2, or the squared gradient mapping of that length; sum w_i ||y_i+ - y_i||^2 of the next turn; and
     * sum w_i ||y_i - P(y_i - eta_y grad_y f_i)||^2/eta_y^2 of a single step. */
    double (*value)(double slope, double moves, double block_slopes, double smoothness);
} fl_gap;

/* A method's theory, for `fedloom check` and its metrics. */
typedef struct {
    /* The eta of the gradient mapping G_eta in which its theorems are stated; NULL: they use none. */
    double (*mapping_eta)(const void *params);
    fl_potential potential;
    fl_gap gap;
    /* The theorem's conditions at one client, */
    void (*check)(const void *params, const fl_facts *f, fl_conditions *out);
    /* and on all clients together: sums over clients, cohorts. */
    void (*check_all)(const void *params, const fl_facts_all *all, fl_conditions *out);
    /* The theorem's number of rounds. `start` NULL: everything but the numbers. */
    void (*promise)(const void *params, const fl_facts_all *all, const fl_start_values *start, fl_promise *out);
    /* Settings that would satisfy the conditions, for the worst constants over all clients. A condition without a row
     * is one that no setting satisfies. Called a few times, each time with the result of the last. */
    void (*fix)(const void *params, const fl_facts *worst, fl_fixes *out);
    /* A warning before a run, as a sentence about one client, or nothing. Smoothness and weight are not known yet; lr
     * and steps are those of the first round. Called for one client after the other until one gives a sentence. */
    void (*warn)(const void *params, const fl_facts *f, fl_text *out);
} fl_theory;

/* Parameters that stay `auto` until a run is planned, because they depend on the federation. The plan settles them in a
 * copy, which the server and all clients then use. */
enum { FL_SETTLES_BY_WORK = 1, FL_SETTLES_BY_SMOOTHNESS };
typedef struct {
    unsigned (*unsettled)(const void *params); /* what the settling depends on; 0: nothing is left to settle */
    /* Gets the facts `convex`, `momentum` and `first_round` and, for FL_SETTLES_BY_SMOOTHNESS, the largest L_i
     * measured. */
    void (*settle)(void *params, const fl_facts *f);
} fl_settling;

/* A range that `fedloom tune` searches: a key as --set takes it, and its ends. */
typedef struct {
    const char *key; /* NULL ends a list */
    double from, to;
    int log; /* spread evenly over powers of ten, not over values */
} fl_tune_range;

/* ---- the method ---- */

typedef struct {
    size_t size; /* sizeof(fl_method) */
    const char *name, *title, *citation;
    void *arg;
    unsigned traits;
    const fl_key *keys; /* NULL: no parameters */

    /* Its data. Names, NULL-terminated; NULL: none. The engine allocates, zeroes, ships, counts and checkpoints them.
     * At most 64 vectors and 256 scalars of a kind. */
    const char *const *server; /* the first is the model x, the others start at zero */
    const char *const *client;
    const char *const *sums;
    size_t server_scalars, client_scalars, scalar_sums;
    size_t work;
    const fl_part *down, *up;
    /* The local solver: NULL or "sgd"; "gradient" (only the gradient at the start), "sgd_gradient" (the gradient, then
     * steps), "pair" (also the client's own model), "exact" (least squares), "accurate" (to an accuracy), "gram" and
     * "diagonal" (a quadratic approximates f_i), or a solver registered before. A method with phases may name one for
     * each: "gradient|sgd". */
    const char *solver;
    const char *own_model; /* the client vector that is its own model; NULL: none is */
    int warms_up;          /* all clients take a turn before the first round */
    size_t phases;         /* exchanges of a round with the same cohort; 0 counts as 1 */
    size_t buffer;         /* > 0: asynchronous, a server step after this many uploads */

    /* Its functions. */
    int (*start)(const fl_coordinator *s);        /* optional: once, before all others */
    int (*pose)(const fl_turn *t, fl_problem *p); /* lr and steps are filled in already */
    int (*answer)(const fl_turn *t, const fl_answer *a);
    int (*absorb)(const fl_coordinator *s, const fl_upload *u); /* changes only sums */
    int (*advance)(const fl_coordinator *s);

    /* Optional, both or neither: an object that replaces `arg` in the functions above, for one run or for one client of
     * a remote federation. Made before any of them is called, freed with the run. NULL: a failure; there is no run. */
    void *(*begin)(void *arg, const double *params, fl_failure *f);
    void (*end)(void *begun);

    /* Additions of some methods. */
    /* > 0: the table fills a struct of this size, by the rows' offsets, and functions get that struct instead of
     * doubles. Rows may then have all types. */
    size_t params_size;
    /* Refuses, by fl_failed, parameters that are invalid only together. Lists have the right lengths already. */
    int (*validate)(const void *params, size_t clients, fl_failure *f);
    /* The solver of a stage by the parameters, in place of `solver`. Called for all numbers below FL_STAGES; for stages
     * that the method does not have it may return any of its solvers. */
    const char *(*solver_for)(const void *params, size_t stage);
    /* What to try when numbers grow without bound, as in "try %s": the keys that set this method's step; NULL:
     * local.lr, and server_lr if the method has one. */
    const char *remedy;
    /* What is tuned if a file gives no ranges: the two or three most important keys; NULL: local.lr. */
    const fl_tune_range *tune;
    fl_rounds rounds;
    fl_asynchrony async;
    fl_personal personal;
    fl_theory theory;
    fl_settling settling;
    fl_two_levels levels;
} fl_method;

fl_status fl_method_register(fl_ctx *ctx, const fl_method *m);

/* ---- a program's own regulariser --------------------------------------------------------------------------------- */

/* The g of composite problems F = f + g, in double, over the whole parameter vector. Functions are called on the
 * server; they get the values in the order of the table, or the struct of regularisers with params_size, and `arg` by
 * fl_begun. Their results must depend on their arguments alone, and they cannot fail; if a prox leaves a NaN, the run
 * ends as diverged. */
typedef struct fl_regularizer {
    size_t size; /* sizeof(fl_regularizer) */
    const char *name, *title, *citation;
    void *arg;
    unsigned traits;    /* FL_SERIAL */
    const fl_key *keys; /* NULL: no parameters */
    size_t params_size; /* as in fl_method */
    /* The least m for which g(x) + m/2 ||x||^2 is convex; INFINITY: there is none. NULL: g is always convex. */
    double (*weak_convexity)(const void *params);
    /* Refuses, by fl_failed, parameters that are invalid together or for vectors of length n; NULL: none are. */
    int (*validate)(const void *params, size_t n, fl_failure *f);
    /* g(x); INFINITY outside the set of an indicator (up to rounding: a relative 1e-12). */
    double (*value)(const void *params, size_t n, const double *x);
    /* x <- argmin_z g(z) + 1/(2 eta) ||z - x||^2: the global minimiser if there are several local ones. `work` has room
     * for n doubles. */
    void (*prox)(const void *params, double eta, size_t n, double *x, double *work);
} fl_regularizer;

fl_status fl_regularizer_register(fl_ctx *ctx, const fl_regularizer *g);

/* Tests a method, by its name, for what the engine promises of every method: the same bits on any number of threads, in
 * slices of any size and through messages in bytes; the same bits after a checkpoint, and while another run of the
 * method takes rounds between its uploads; finite numbers on easy problems, in both precisions; no read of data that
 * was not sent. `out` receives a line per check. FL_EMISMATCH: a check fails, and the error names it. `settings` is
 * YAML that overrides the problems' own, such as "algorithm: {kind: mine, mu: 0.1}"; NULL: the method's defaults. */
fl_status fl_conform(fl_ctx *ctx, const char *method, const char *settings, fl_text_fn *out, void *arg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
