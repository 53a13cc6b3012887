/* fedloom with parts of one's own: an objective, a local solver, a federated method, a regulariser.
 *
 * Each is a struct that is registered once under a name and chosen by that name in any configuration from then on, like
 * those that come with fedloom:
 *
 *     fl_objective_register(ctx, &mine);   model: mine
 *     fl_solver_register(ctx, &mine);      local: {solver: mine}
 *     fl_method_register(ctx, &mine);      algorithm: mine
 *     fl_regularizer_register(ctx, &mine); regularizer: mine
 *
 * Functions here are called from several threads at the same time, unless FL_SERIAL is among the traits. They return 0,
 * or anything else to end the run: fl_failed then says why, in a sentence, and the run returns FL_ECALLBACK with it.
 * Having called fl_failed is enough. A C++ exception must not leave them. Numbers that are not finite end a run as a
 * divergence does. They must not free, go on with or forget what they are called by.
 *
 * What comes with fedloom is written against the same types: whatever a method here may do, one of one's own may.
 *
 * What is registered begins with its size (fedloom.h says why). Structs that functions are handed are the library's and
 * may grow at their end, but for those that lie in others (fl_space, fl_ask, the groups of fl_method); these and the
 * rows of tables (fl_key, fl_part, fl_tensor, fl_tune_range) will not. */
#ifndef FEDLOOM_EXTEND_H
#define FEDLOOM_EXTEND_H

#include "fedloom.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* For the message of a function that fails; the first call counts. The text is copied, and cut where it is too long. */
typedef struct fl_failure fl_failure;
void fl_failed(fl_failure *f, const char *sentence);

/* Traits. */
enum {
    /* Of anything: one call at a time, over all runs of the process. Such a function must not wait for another thread
     * that may call one: a run of several threads inside it would hang. */
    FL_SERIAL = 1,

    FL_OBJECTIVE_CONVEX = 2,
    FL_OBJECTIVE_CLASSIFIER = 4, /* `correct` is filled: hits among the batch */

    FL_SOLVER_FULL_GRADIENT = 2, /* a turn computes a gradient over all of the client's samples */
    /* sees samples afresh in every step, so that data.augment has a meaning. What is registered has it, */
    FL_SOLVER_AUGMENTS = 4,
    FL_SOLVER_COUNTS_STEPS = 8, /* and this: lr and steps of the problem are what is done, in mini-batches */
    FL_SOLVER_READS_RHO = 16,   /* rho means something without an anchor, where other solvers find 0 */

    /* all clients must take part in every round; they keep what they need of the model where a round ends without an
     * exchange, and are not sent it again */
    FL_METHOD_EVERYONE = 2,
    FL_METHOD_UNIFORM = 4,    /* weighs clients equally: w_i = 1/N */
    FL_METHOD_EQUAL_LR = 8,   /* wants the same step size at all clients */
    FL_METHOD_PLAIN_SGD = 16, /* reads gradients out of displacements */
    FL_METHOD_COMPOSITE = 32, /* minimises f + g, by fl_prox on the server */
    /* absorb and advance look at more than one entry at a time, or at an entry's place: they are called once, for
     * whole vectors. Without it they are called for every slice of the vectors, on several threads, and must do the
     * same to scalars each time. Either of the two alone: */
    FL_METHOD_WHOLE = 320,
    FL_METHOD_WHOLE_ABSORB = 64,
    FL_METHOD_WHOLE_ADVANCE = 256,
    /* touches vectors otherwise than by the operations below, so they must be in plain memory: `device: cpu` alone */
    FL_METHOD_TOUCHES = 128,
    /* clients outside the cohort take a turn as well, in every round: fl_ask.bystander */
    FL_METHOD_BYSTANDERS = 512,
    FL_METHOD_LABELLED = 1024, /* trains on labelled samples alone, whatever there is beside them */
    /* made for objectives with a second block y_i, such as pseudo labels; works without, as another method */
    FL_METHOD_BLOCKS = 2048,
    FL_METHOD_BILEVEL = 4096, /* for two-level problems, and only for them */
    /* its clients read their weight, which tells them how many samples all of them have; others are not told it. What
     * is registered has it. */
    FL_METHOD_TELLS_WEIGHT = 16384,
    /* divides displacements by the weight of their gradients, whatever the solver: exact where the solver states it */
    FL_METHOD_NORMALISES = 32768
};

/* What is registered under a name is kept until the process ends, or until it is forgotten; the struct and what it
 * points to are copied, `arg` and functions are not. The name of something that comes with fedloom is refused. A name
 * of one's own may be given again: configurations that are bound from then on get the new one, and the older ones stay
 * to be had by their numbers: `algorithm: mine@1` is the first that was registered under the name. Results and
 * messages show the name alone, so that a file, or another process, gets the newest. */

/* Takes the name out of the lists: of what fl_*_register took, by section ("model", "solver", "algorithm",
 * "regularizer"). No run may use it any more. FL_ECONFIG: there is none of that name. */
fl_status fl_forget(fl_ctx *ctx, const char *section, const char *name);

/* ---- vectors ------------------------------------------------------------------------------------------------ */

/* A space of vectors: n reals of 4 or 8 bytes each (float or double). The operations below work in it; they are what a
 * method may use everywhere. With them alone it also runs on a GPU (`device: cuda`), where addresses of vectors lead
 * nowhere. */
typedef struct {
    size_t n, real;
    const struct fli_ops *ops; /* the engine's, as is */
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

/* ---- an objective of one's own --------------------------------------------------------------------------------- */

/* Some samples of one client, or of the test set: at most 256, many are computed in pieces. */
typedef struct {
    size_t n;    /* at least 1 */
    size_t dim;  /* 0: samples are known by their numbers alone */
    size_t real; /* bytes of a real here and in x, g, v: 4 or 8 */
    /* their numbers in the data, from 0; test samples have numbers of their own, and with data.on_demand each client's
     * samples have */
    const uint32_t *sample;
    int test;             /* they are of the separate test set */
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
    const fl_tensor *tensors; /* cover the parameters without gaps, for saving; NULL: one vector "x" */
    size_t tensor_count;
    /* Mean loss over the batch at x and, unless g is NULL, its gradient, all of it. *correct comes in as 0. Weight
     * decay is the engine's business. Either this, */
    int (*batch)(void *arg, const fl_batch *b, const void *x, void *g, double *loss, size_t *correct, fl_failure *f);
    /* or this: f_i and its gradient on all that client i has, where each client's only "sample" has the number i (an
     * fl_holding of one sample each, and no test set). `real` as in a batch. */
    int (*client)(void *arg, uint32_t client, size_t real, const void *x, void *g, double *loss, fl_failure *f);
    /* All below are optional. */
    /* out = (Hessian of the mean loss over the batch at x) v: for methods that need curvature. */
    int (*product)(void *arg, const fl_batch *b, const void *x, const void *v, void *out, fl_failure *f);
    /* The start model; x comes in zeroed. `seed` follows from the configuration's. */
    int (*start)(void *arg, uint64_t seed, double *x, fl_failure *f);
    /* Numbers of one's own, one per name, whenever metrics are taken: columns of metrics.csv, after all others. At
     * most 8, and as many names in a process as FL_METRICS_MAX leaves room for. */
    const char *const *metrics; /* NULL-terminated */
    int (*measure)(void *arg, size_t real, const void *x, double *out, fl_failure *f);
} fl_objective;

fl_status fl_objective_register(fl_ctx *ctx, const fl_objective *o);

/* ---- a local solver of one's own --------------------------------------------------------------------------------- */

/* For solvers that work to an accuracy; the others ignore it. 0: not required. With several, all must be met. For an
 * m-strongly convex problem ||z - minimiser|| <= ||gradient at z||/m, which is how a solver can be certain. */
typedef struct {
    double accuracy;   /* ||z - minimiser|| <= accuracy */
    double relative;   /* ||z - minimiser|| <= relative ||z - start|| */
    double modulus;    /* m, of the whole local problem; 0: not known, so that no accuracy is ever certain */
    size_t most_steps; /* ends there, accurate or not */
} fl_stopping;

/* For the solver "pair", which trains the client's own model beside z. */
typedef struct {
    const void *start;
    double lr;
    double mix; /* share of the own model in the mixture of the two; NaN: the solver chooses, by held-out samples */
} fl_pair;

/* What is done in a turn on a two-level problem, and its z. Vectors are whole; work on one
 * block leaves the other as it was. */
typedef enum {
    /* y, v and x together: the weighted sums (q_x, q_y) of the directions; v = q_v, norm = ||grad_y f_i|| at the first
     * step */
    FL_WORK_TOGETHER,
    FL_WORK_LOWER_GRADIENT, /* grad_y g_i in the lower block */
    FL_WORK_UPPER_GRADIENT, /* grad f_i in both */
    FL_WORK_PRODUCT,        /* (g_xy v, g_yy v) */
    FL_WORK_HYPERGRADIENT,  /* grad_x f_i - g_xy v in the upper one */
    /* where steps lead: on y, on x with y fixed, and on x along the client's own hypergradient */
    FL_WORK_LOWER_STEPS,
    FL_WORK_UPPER_STEPS,
    FL_WORK_OWN_STEPS
} fl_level_work;

/* The coefficients of local steps k = 0, 1, ...: a_k = scale v[k] decay^k, where the last of v holds for all later
 * steps. */
typedef struct {
    const double *v;
    size_t n;
    double decay, scale;
} fl_coefs;

/* For the solver "bilevel": start is (x, y), and shift, anchor and rho mean nothing. */
typedef struct {
    fl_level_work work;
    const void *v; /* a direction, in the lower block */
    /* the federation's direction, in the block that is stepped; NULL: the client's own is followed */
    const void *shift;
    double lr_y, lr_v; /* beside the problem's lr, which is that of x or of the only block that is stepped */
    fl_coefs coefs;    /* of the steps */
    size_t neumann;    /* the last power in the sum that stands for the inverse Hessian, */
    double ell;        /* whose terms are (I - H/ell)^n/ell */
    /* > 0: instead of the problem's steps, this many passes over the samples of the level that is stepped */
    size_t epochs;
    int full; /* derivatives are over all samples of a level instead of mini-batches */
} fl_levels;

/* What a client is to solve:  minimise f_i(z) + <shift, z> + rho/2 ||z - anchor||^2  from `start`, in `steps` steps,
 * or to an accuracy. Vectors are borrowed: usually the broadcast model, or the client's own state. The solvers "gram"
 * and "diagonal" read start, rho, shift and steps alone: shift is the multiplier, which changes with every step, and
 * steps = 0 stands for the limit of many; rho = 0: nothing is solved, only the curvature is wanted. */
typedef struct {
    const void *start;
    const void *anchor; /* NULL: no proximal term */
    double rho;
    const void *shift; /* NULL: no linear term */
    double lr;
    size_t steps; /* Q_i */
    fl_stopping stop;
    union { /* what one kind of solver asks for beyond that, and only that kind reads */
        fl_pair pair;
        fl_levels levels;
    };
} fl_problem;

/* Who is to solve it, and with what. */
typedef struct {
    fl_space space;
    uint32_t client;
    uint64_t round;
    uint64_t seed;  /* differs for every run, round and client: for mini-batches */
    size_t samples; /* n_i */
    size_t batch;   /* samples of a mini-batch, as `local` says; at most n_i */
    double momentum;
    double decay; /* weight decay, part of f_i */
    void *engine; /* for the functions below */
    void **kept;  /* of solvers with `forget`: what the client keeps between its turns, NULL at first */
} fl_local;

/* f_i with weight decay and, unless g is NULL, its gradient at x: over all of the client's samples, */
int fl_local_loss(const fl_local *l, const void *x, void *g, double *loss);
/* and over the mini-batch that fedloom's own SGD would take next: every call goes one further. `loss` may be NULL.
 * Nonzero: the objective failed, and the failure is known already. */
int fl_local_batch(const fl_local *l, const void *x, void *g, double *loss);
/* The samples of that mini-batch by their numbers in the data, for a solver that computes gradients itself: as many as
 * it returns, valid until the next call; unless NULL, *decay receives the weight decay of this step. A call goes one
 * further, like that above. */
size_t fl_local_next(const fl_local *l, const uint32_t **sample, double *decay);

/* The solver's own vectors, for as long as the call: i < fl_solver.work, with anything in them; */
void *fl_local_work(const fl_local *l, size_t i);
/* and those that last as long as its answer, which may point to them: i < fl_solver.vectors. */
void *fl_local_vector(const fl_local *l, size_t i);

/* What a solver answers. Vectors that it does not answer are NULL. */
typedef struct {
    const void *z;        /* the solution; as all vectors here it is valid until the end of the turn */
    const void *gradient; /* of f_i at the start over all samples, of solvers that compute it */
    /* (start - z)/(lr weight) is a mean gradient. The sum over the steps of the weight a gradient has in (start -
     * z)/lr: Q_i for plain SGD, whatever its schedule, and with momentum gam Q/(1-gam) - gam (1-gam^Q)/(1-gam)^2 for
     * steps of one size. It comes in as that of SGD. */
    double weight;
    /* `weight` is the solver's own, though it may be that of SGD. Methods that read gradients out of displacements
     * divide by it, and a run of theirs warns of a solver that leaves it as it came. */
    int weighed;
    /* spent: gradients of mini-batches; one over all samples counts as an epoch, a factor as 1. Comes in as those asked
     * for. */
    size_t steps;
    int missed; /* the required accuracy, for want of steps or precision; never for SGD, which cannot tell */
    struct {
        const void *multiplier; /* after the last step */
        double curvature;       /* the largest eigenvalue of the quadratic that takes the place of f_i */
    } linearised;
    struct {
        const void *own; /* the client's own model after the last step */
        double mix;      /* as requested, or chosen */
    } pair;
    struct {
        const void *v; /* what belongs to v, in the lower block */
        double norm;   /* see FL_WORK_TOGETHER */
    } levels;
} fl_answer;
typedef fl_answer fl_solution;

typedef struct fl_solver {
    size_t size; /* sizeof(fl_solver) */
    const char *name, *title;
    void *arg;
    unsigned traits;
    /* z comes in as a copy of the start and leaves as the solution: out->z is it already. */
    int (*solve)(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f);
    /* All below are optional. */
    size_t work, vectors; /* how many it has: fl_local_work, fl_local_vector */
    /* Gives back what a client keeps of it, fl_local.kept; NULL: clients keep nothing. What is kept makes turns faster
     * and nothing else: it may be forgotten between any two of a client's turns. Never called with NULL. */
    void (*forget)(void *kept);
    const struct fli_solver_engine *engine; /* the engine's; NULL in one of one's own */
} fl_solver;

/* In a configuration: local.solver. There it takes the place of SGD, in methods that pose problems for SGD. A method
 * may also name it as its own (fl_method.solver). */
fl_status fl_solver_register(fl_ctx *ctx, const fl_solver *s);

/* ---- a method of one's own --------------------------------------------------------------------------------------- */

/* A parameter: a row of the method's table. In the method's functions all are doubles, in the order of the table: a
 * choice is the number of its word, a bool 0 or 1. Rows are then of the first four types; with fl_method.params_size
 * they are of all types, and functions get a struct. */
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
    int word; /* as below */
} fl_ints;
typedef struct {
    size_t n;
    double *v;
    int word; /* an empty list: which of the key's words stands for it */
} fl_reals;
typedef struct {
    const char *name; /* NULL ends a table */
    fl_key_type type;
    const char *def;     /* as a user would write it; NULL: must be given */
    double min, max;     /* numbers, also in lists: inclusive; both 0: no bounds */
    const char *choices; /* "one|two|three"; lists: words, one of which may stand for the list, as "auto" */
    const char *help;    /* one sentence, lower case, no full stop */
    size_t offset;       /* of the field in the struct that the table fills */
    int per_client;      /* a list of reals with one value, or one per client */
} fl_key;

/* What a message is made of: rows of a table. */
typedef enum {
    FL_PART_VECTOR,
    FL_PART_NUMBER, /* scalars: `count` of them from `at` on; 0 counts as 1 */
    FL_PART_START,  /* down: the start model */
    FL_PART_UPPER,  /* two levels: a block of a vector */
    FL_PART_LOWER
} fl_what;
typedef enum {
    FL_PART_FORGET,   /* down: gone when the turn is over */
    FL_PART_KEEP,     /* down: the client has it until the round is over, so that later phases need not send it */
    FL_PART_VALUE,    /* up: takes the place of what the server has */
    FL_PART_CHANGE,   /* up: is added, scaled, to what the server has, so that it shrinks as a run converges */
    FL_PART_KEEP_EACH /* down: kept, and what it was in every phase in which it was sent: fl_turn.history */
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
    size_t at; /* which: down of the server's vectors or scalars, up of the upload's */
    fl_use use;
    unsigned when;
    size_t count;
} fl_part;

/* What a client is asked. */
typedef struct {
    uint64_t round;     /* server steps when it was made */
    uint64_t steps;     /* Q_i */
    double lr;          /* of a step; by a schedule that counts steps, their mean */
    double weight;      /* w_i */
    double probability; /* p_i: how likely the client takes part in a round */
    /* its number; how many take part, or were invited: over a network fewer may come, and absorb sees how many did */
    uint32_t client, cohort;
    uint32_t phase, phases; /* which exchange of the round this is, of how many */
    int warm_up;            /* before the first round */
    int bystander;          /* not in the cohort */
    uint64_t stream;        /* names its mini-batches: a client never has the same twice */
    uint32_t kind, flags;   /* the engine's */
} fl_ask;

/* A client's turn: what it was asked, what it was sent, what it keeps. */
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
    const void *initial; /* the start model, in turns in which it is sent */
    const void *const
        *down; /* what it has of the server's vectors, numbered as there: what was sent now, and what it */
    const double *down_scalars; /* keeps of earlier phases. NaN if it is never sent (in methods that are registered) */
    const void *const *history; /* FL_PART_KEEP_EACH: that vector as it was in phase 0, 1, ... of the round */
    void *const *state;         /* its own vectors, kept between its turns, */
    double *scalars;
    int watched; /* both have at their ends what fl_potential keeps */
    /* fl_potential, asynchronous methods: the client has begun the turn named by ask.stream, and the server has not
     * absorbed its answer */
    int away;
    void *const *work; /* scratch, contents undefined at pose, kept until answer */
    void *const *up;   /* to be written by answer */
    double *up_scalars;
    fl_failure *failure;
} fl_turn;

/* What came up. */
typedef struct {
    fl_ask ask;
    const void *const *up;
    const double *up_scalars;
    size_t staleness; /* asynchronous methods: server steps since the client was given its model */
} fl_upload;

/* The server's side. */
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
    int warm_up;      /* this is the step after the warm-up turns */
    void *const *vec; /* vec[0] is the model x */
    void *const *sum; /* zero before the first absorb of a round */
    double *scalars;  /* the server's own, kept between rounds; zero at first */
    double *scalar_sum;
    const double *moves; /* fl_potential.remembers; NULL: not kept */
    const void *engine;  /* for fl_prox and fl_weight */
    const struct fli_bilevel *bilevel;
    fl_failure *failure;
} fl_coordinator;

/* x <- prox_{eta g}(x) for the regulariser of the configuration; nothing if there is none. In start and advance. */
void fl_prox(const fl_coordinator *s, double eta, void *x);
double fl_weight(const fl_coordinator *s, size_t client); /* w_i */
/* Two levels: how many entries come first in a vector, as its upper block; 0: there is one level. */
size_t fl_upper(const fl_coordinator *s);

/* ---- what some methods have beside that ---------------------------------------------------------------------------
 *
 * Groups of a method, all of whose members are optional. Their functions get the parameters as a turn does: the values
 * in the order of the table, or the struct of methods with params_size. They may be called at any time for any run, and
 * answer by what they are given alone; with FL_SERIAL one at a time, as all others. */

/* For these functions: what `begin` returned in the run whose parameters these are, or the method's `arg` before that.
 * Of methods and regularisers that are registered. */
void *fl_begun(const void *params);

/* Mini-batches in a pass over a client's samples: over all that its objective uses, and with two levels over those of
 * either. */
typedef struct {
    size_t all, upper, lower;
} fl_epochs;

/* Rounds that are more than one exchange with a cohort. */
typedef struct {
    /* Whether everyone takes a turn before the first round; NULL: as fl_method.warms_up says. */
    int (*warms_up)(const void *params);
    /* Whether a round, the first is 0, ends with an exchange; NULL: always. `coin` is uniform in [0, 1), a function of
     * seed and round. Without an exchange nothing is uploaded, absorb and advance are not called, and the next round's
     * broadcast is unchanged. */
    int (*exchanges)(const void *params, size_t round, double coin);
    /* How many exchanges make up a round: turns, absorb, advance, one after the other, with the same cohort unless
     * `redraws` says otherwise; NULL: as fl_method.phases says. `coin` as above, of the same round. */
    size_t (*phases)(const void *params, double coin);
    /* Whether a phase begins with a cohort of its own, which has nothing of the round yet; phase 0 always does. NULL:
     * no other does. A way of participation that follows a plan, such as a trace, names the same clients again. */
    int (*redraws)(const void *params, size_t phase, size_t phases);
    /* Which of the method's stages such a phase is, below FL_STAGES: FL_IN_PHASE and solvers go by stages. NULL:
     * phases as fl_method.phases has them are stages, and any other number of them is one. */
    size_t (*stage)(const void *params, size_t phase, size_t phases);
    /* How many local steps everyone takes in a round, at least 1; NULL: what `local` says of each client. `coin` as
     * above; the larger, the more steps. */
    size_t (*steps)(const void *params, double coin);
    /* What the work of a stage counts as, in gradients of mini-batches, for a client that is asked for `steps` and has
     * samples for such epochs: for its length in simulated time. NULL: what the stage's solver says. */
    size_t (*counts_as)(const void *params, size_t stage, size_t steps, const fl_epochs *e);
} fl_rounds;

/* How an asynchronous server goes forward. */
typedef struct {
    size_t buffer; /* uploads per server step: absorb for each, then advance once */
    size_t tau;    /* no upload is older than this many server steps; 0: no bound */
} fl_pace;

typedef struct {
    /* Non-NULL: the method is asynchronous. The server takes uploads one by one and clients never wait for each other.
     * NULL: as fl_method.buffer says. */
    fl_pace (*pace)(const void *params);
} fl_asynchrony;

/* Methods whose clients have models of their own (fl_method.own_model). */
typedef struct {
    /* A client predicts with a mixture of its own model and the global one; returns its own model's share. `scalars`
     * are the client's, NULL before its first turn. NULL: with its own model alone. */
    double (*mix)(const void *params, size_t client, const double *scalars);
    const char *remedy; /* what to try when it is these models that grow without bound; NULL: as fl_method.remedy */
} fl_personal;

/* Methods for two levels. */
typedef struct {
    size_t v; /* 1 + the index of the server vector whose lower block stands for v*(x); 0: there is none */
    /* How much a turn of that many steps weighs, where clients count by that too: w_i is then proportional to p_i
     * times the mean of it over rounds, up to a factor that all have. NULL: clients count by p_i. */
    double (*work)(const void *params, size_t client, size_t steps);
} fl_two_levels;

/* ---- what theory says of a method ---- */

/* What lies ahead of the federation, as far as the plan can tell: means over all clients in the first round, weighed
 * by w_i. 0: not known. */
typedef struct {
    double travel;      /* lr_i Q_i: how far a unit gradient takes a client in its turn */
    double probability; /* p_i */
} fl_first_round;

/* How the y_i of an objective with a second block is improved. */
typedef struct {
    size_t steps;      /* projected gradient steps on f_i in each turn; 0: the best y, by a formula or exactly */
    double lr;         /* their size; NAN without steps */
    double smoothness; /* L of f_i in y, at the y that a client starts from */
    int drawn;         /* a step is over a mini-batch of the samples */
} fl_latent_steps;

typedef struct fl_facts fl_facts;

/* What is known of a federation over all clients that were measured. */
typedef struct {
    double smoothness, least_smoothness; /* the largest L_i, the smallest */
    double mean_smoothness;
    double convexity, most_convexity; /* the smallest mu_i, the largest */
    double upper_smoothness;          /* two levels: the largest of f_i in (x, y) */
    double upper_slope;               /* two levels: the largest ||grad_y f_i|| at the start model */
    size_t steps, least_steps;        /* the most and the fewest that anyone may take in a round */
    double probability;
    double lr, least_lr;
    double reach, least_reach; /* the largest and the smallest lr_i Q_i */
    const double *weights;     /* w_i of all clients, measured or not */
    int equal_weights;         /* they are all the same */
    const fl_facts *each;      /* those that were measured, */
    size_t count, clients;     /* how many those are, and how many there are in all */
    size_t cohort;             /* clients in every round; 0: the number changes */
} fl_facts_all;

/* What is known when a method's theorem is held against a federation, seen at one client. What was not measured is
 * NAN. `check` has all of it; `warn`, which is asked before a run, has neither what is measured nor `all`. */
struct fl_facts {
    size_t clients;
    uint32_t client;
    int convex; /* f_i is, for sure */
    /* L_i and mu_i hold for all x, and were measured over all samples; otherwise they are estimates at the start */
    int bounded;
    int composite;         /* there is a regulariser g; */
    double g_modulus;      /* g + g_modulus/2 ||x||^2 is convex; 0: so is g itself */
    unsigned model_traits; /* the engine's */
    double smoothness;     /* L_i; with two levels that of g_i in y */
    double lr, probability, weight;
    double most_likely; /* p_i in the round where it is largest; probability is where it is smallest */
    int dropped;    /* who is invited may be left out of the round: there is a deadline, or a round waits for some */
    int planned;    /* who takes part follows a plan, such as a trace, and not chance: in some rounds p_i^r is 0 */
    double base_lr; /* local.lr: lr without the client's factor */
    fl_first_round first_round;
    size_t steps; /* Q_i */
    double momentum;
    int full_batch;     /* a local step is over all of the client's samples, of either kind */
    int constant_lr;    /* in all rounds */
    size_t least_steps; /* for `fix`: steps is the most that anyone may take in a round, this the fewest */

    /* mu_i: the smallest eigenvalue of the same Hessian, measured from above; never below what is certain. Only where
     * f_i is convex for sure, or with two levels. */
    double convexity;
    /* what weight decay (two levels: bilevel.l2) makes certain for a convex loss; NAN: nothing */
    double sure_convexity;
    double upper_smoothness; /* two levels: L of f_i in (x, y), */
    double upper_slope;      /* and ||grad_y f_i|| at the start */
    int second_block;        /* f_i(x, y_i) has a block y_i of the client's own: pseudo labels, memberships; then */
    fl_latent_steps block;   /* how it is improved */
    double label_entropy;    /* pseudo labels: alpha_r; NAN: there are none */
    double confidence;       /* pseudo labels: the least probability that makes one; 0: all samples get one */
    int uniform_cohort;      /* as many clients in every round, all equally likely, without replacement; or everyone */
    const fl_facts_all *all;
};

/* Receives what a theorem asks for: conditions `have <= most`, or `have < most`, requirements that hold or do not,
 * assumptions, which cannot be verified here, a paper's own wording of a condition where that is not what its proof
 * needs, and what a theorem leaves out. f NULL: of the federation as a whole. Texts must last as long as the method. */
typedef struct fl_conditions fl_conditions;
void fl_condition(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have, double most);
void fl_condition_below(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have,
                        double most);
void fl_as_printed(fl_conditions *c, const char *name, const char *formula, const fl_facts *f, double have,
                   double most);
void fl_requirement(fl_conditions *c, const char *name, const char *sentence, const fl_facts *f, int holds);
void fl_assumption(fl_conditions *c, const char *name, const char *sentence);
void fl_not_covered(fl_conditions *c, const char *name, const char *sentence);

/* Receives settings that satisfy it: what `check` advises, and what `check --fix` writes. `conditions` are names as
 * above, separated by '|', and a row counts where one of them fails; a name also stands for those that go on after a
 * space, "(18)" for "(18) first". `why` stands in brackets behind it; NULL: nothing to add. */
typedef struct fl_fixes fl_fixes;
/* A number, rounded to four digits: downwards where less is safe, upwards where more is. One that is not finite, or
 * not above 0, is no setting: nothing is added. */
void fl_fix_most(fl_fixes *out, const char *conditions, const char *key, double value, const char *why);
void fl_fix_least(fl_fixes *out, const char *conditions, const char *key, double value, const char *why);
/* The key's value now, divided or multiplied by how many times too large the left sides of these conditions are. For
 * conditions whose sides have a ratio that grows with the key (falls, for `grow`; grows with its square, for `root`);
 * whatever else they depend on is looked at when they are checked again. */
void fl_fix_shrink(fl_fixes *out, const char *conditions, const char *key, double now, const char *why);
void fl_fix_grow(fl_fixes *out, const char *conditions, const char *key, double now, const char *why);
void fl_fix_shrink_root(fl_fixes *out, const char *conditions, const char *key, double now, const char *why);
/* A value as it stands in a file. */
void fl_fix_word(fl_fixes *out, const char *conditions, const char *key, const char *value, const char *why);
/* What several theorems ask for: everyone in every round, local steps over all samples, no momentum, the same step
 * size in all rounds. */
void fl_fix_everyone(fl_fixes *out, const char *conditions);
void fl_fix_full_batch(fl_fixes *out, const char *conditions);
void fl_fix_plain_steps(fl_fixes *out, const char *conditions);
void fl_fix_constant_lr(fl_fixes *out, const char *conditions);

/* Text that is being written. */
typedef struct fli_text fl_text;
void fl_text_add(fl_text *t, const char *text);

/* A potential: what a method's theorem shows to fall from round to round. It is made of what every client contributes,
 * weighted by w_i, and of what the server adds. Measured between rounds and on request alone; measuring changes
 * nothing. A turn here is one that is not taken: its ask has lr, steps and probability of the client's next turn, it
 * is sent the model x and the numbers that the method sends down, and `state` is NULL if it keeps nothing yet. */
enum { FL_POTENTIAL_TERMS = 2, FL_REMEMBERED = 65536 };
typedef struct {
    const char *name; /* as in "the potential is %s"; NULL: the method has none */
    /* Vectors and scalars that clients keep for it at the ends of their own, in runs that measure it. */
    size_t vectors, scalars;
    /* How many of the newest ||x^{k+1} - x^k||^2 the server remembers for it (fl_coordinator.moves: the newest first,
     * 0 for steps before the first one), at most FL_REMEMBERED; more, or NULL: none. */
    size_t (*remembers)(const void *params);
    /* Where f_i and its gradient, weight decay included, are wanted. On a worker thread, as is the next. */
    const void *(*point)(const fl_turn *t);
    /* What the client contributes (FL_POTENTIAL_TERMS numbers), given f_i and its gradient there, which may be
     * overwritten. */
    void (*client)(const fl_turn *t, double f, void *gradient, double *out);
    /* The potential, given the weighted sums of that and g(x). */
    double (*server)(const fl_coordinator *s, const double *sum, double g);
    /* Two levels, in the place of the three above: given F(x, y*), ||y - y*|| and ||v - v*||, each for the weights
     * with which clients count (fl_two_levels.work). */
    double (*levels)(double value, double lower_distance, double system_distance);
    /* What has to hold at one client for it never to rise, surely and not only in expectation. */
    void (*falls)(const void *params, const fl_facts *f, fl_conditions *out);
    size_t after; /* which is promised after this many rounds */
} fl_potential;

/* f at the start model, and its slopes. */
typedef struct {
    double value;                /* f(x0) + g(x0), of which 0 is a lower bound */
    double slope2;               /* ||grad f(x0)||^2 */
    const double *client_slope2; /* ||grad f_i(x0)||^2 of the clients that were measured */
} fl_start_values;

/* After how many rounds, at most, a theorem promises that the mean of a quantity over the rounds has been eps. */
typedef struct {
    const char *theorem, *bounds; /* "(19)", "||grad f(x)||^2" */
    const char *metric;           /* its column; */
    int squared;                  /* which it is the square of */
    int expected;                 /* a promise in the mean over cohorts, not for each */
    int full;                     /* for steps over all samples; with mini-batches there is an error that stays */
    double times_eps, before;     /* before + times_eps/eps */
    const char *missing;          /* why there is no such number; NULL: there is */
} fl_promise;

/* The optimality gap that a method's theorem bounds, where it is more than ||grad f(x)||^2: 0 where x and the second
 * blocks y_i are stationary together. With a second block alone, and one that is improved by steps. */
typedef struct {
    const char *name; /* as in "the gap is %s"; NULL: the method has none */
    /* The length of the proximal step that x is looked at with; 0: there is no gap. NULL: the gradient itself is. */
    double (*eta)(const fl_coordinator *s);
    int ahead;  /* the gradient in x is wanted where the next steps of all clients take the y_i, */
    int smooth; /* and the largest L_i */
    /* Given ||grad f||^2, or the square of the gradient mapping of that length; sum w_i ||y_i+ - y_i||^2 of the next
     * turn; and sum w_i ||y_i - P(y_i - eta_y grad_y f_i)||^2/eta_y^2 of a single step. */
    double (*value)(double slope, double moves, double block_slopes, double smoothness);
} fl_gap;

/* What theory says of a method, and what it makes of that: `fedloom check`. */
typedef struct {
    /* The eta of the gradient mapping G_eta in which its theorems are stated; NULL: there is none. */
    double (*mapping_eta)(const void *params);
    fl_potential potential;
    fl_gap gap;
    /* What the theorem asks for at one client, */
    void (*check)(const void *params, const fl_facts *f, fl_conditions *out);
    /* and of all of them together: sums over clients, cohorts. */
    void (*check_all)(const void *params, const fl_facts_all *all, fl_conditions *out);
    /* Its number of rounds. `start` NULL: all but the numbers. */
    void (*promise)(const void *params, const fl_facts_all *all, const fl_start_values *start, fl_promise *out);
    /* Settings that would satisfy it, for the worst constants over all clients. A condition that no row names is one
     * that no setting satisfies. Asked again with what comes of it, a few times. */
    void (*fix)(const void *params, const fl_facts *worst, fl_fixes *out);
    /* What a person should know before a run, as a sentence about one client, or nothing. Neither smoothness nor
     * weight are known by then; lr and steps are those of the first round. Asked for one client after the other until
     * there is a sentence. */
    void (*warn)(const void *params, const fl_facts *f, fl_text *out);
} fl_theory;

/* Parameters that are `auto` until a run is planned, because they follow from the federation. The plan settles them in
 * a copy that everybody then works with, clients elsewhere too. */
enum { FL_SETTLES_BY_WORK = 1, FL_SETTLES_BY_SMOOTHNESS };
typedef struct {
    unsigned (*unsettled)(const void *params); /* by what; 0: nothing is left to settle */
    /* Knows whether f_i are convex, momentum and first_round, and the largest L_i of those measured if it goes by
     * that. */
    void (*settle)(void *params, const fl_facts *f);
} fl_settling;

/* What `fedloom tune` tries: a key as --set takes it, and the ends of its range. */
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

    /* What it has. Names, NULL-terminated; NULL: none. The engine allocates, zeroes, ships, counts and checkpoints. At
     * most 64 vectors and 256 scalars of a kind. */
    const char *const *server; /* the first is the model x, the others start at zero */
    const char *const *client;
    const char *const *sums;
    size_t server_scalars, client_scalars, scalar_sums;
    size_t work;
    const fl_part *down, *up;
    /* How local problems are solved; NULL or "sgd", "gradient" (the gradient at the start alone), "sgd_gradient"
     * (before the steps), "pair" (with the client's own model beside it), "exact" (least squares), "accurate" (to an
     * accuracy), "gram" and "diagonal" (a quadratic in the place of f_i), or a solver of one's own, registered before.
     * A method with phases may name one for each: "gradient|sgd". */
    const char *solver;
    const char *own_model; /* which client vector is the client's own model; NULL: none is */
    int warms_up;          /* everyone takes a turn before the first round */
    size_t phases;         /* exchanges of a round with the same cohort; 0 counts as 1 */
    size_t buffer;         /* > 0: asynchronous, a server step after this many uploads */

    /* What it does. */
    int (*start)(const fl_coordinator *s);        /* optional: once, before anything else */
    int (*pose)(const fl_turn *t, fl_problem *p); /* lr and steps come filled */
    int (*answer)(const fl_turn *t, const fl_answer *a);
    int (*absorb)(const fl_coordinator *s, const fl_upload *u); /* changes sums alone */
    int (*advance)(const fl_coordinator *s);

    /* Optional, both or neither: what the functions above are handed in one run, or in one client of a federation
     * elsewhere, in the place of `arg`. It is made before any of them is called, and given back when the run is freed.
     * NULL: it cannot be made, and there will be no run. */
    void *(*begin)(void *arg, const double *params, fl_failure *f);
    void (*end)(void *begun);

    /* What some methods add. */
    /* > 0: the table fills a struct of this size, by the rows' offsets, and functions get that instead of doubles.
     * Rows may then be of all types. */
    size_t params_size;
    /* Refuses parameters that no single row can refuse, by fl_failed. Lists have the right lengths already. */
    int (*validate)(const void *params, size_t clients, fl_failure *f);
    /* The solver of a stage by the parameters, in the place of `solver`. Asked for all numbers below FL_STAGES: those
     * that the method does not have may get any of its solvers. */
    const char *(*solver_for)(const void *params, size_t stage);
    /* What to try when the numbers grow without bound, as in "try %s": the keys that set this method's step; NULL:
     * local.lr does, and server_lr where there is one. */
    const char *remedy;
    /* What is tuned where a file does not say otherwise: the two or three keys that matter most; NULL: local.lr. */
    const fl_tune_range *tune;
    fl_rounds rounds;
    fl_asynchrony async;
    fl_personal personal;
    fl_theory theory;
    fl_settling settling;
    fl_two_levels levels;
} fl_method;

fl_status fl_method_register(fl_ctx *ctx, const fl_method *m);

/* ---- a regulariser of one's own ---------------------------------------------------------------------------------- */

/* The g of composite problems F = f + g, in double, over the whole vector of parameters. Functions are called on the
 * server; they get the values in the order of the table, or the struct of regularisers with params_size, and `arg` by
 * fl_begun. They answer by what they are given alone, and cannot fail; where a prox leaves what is no number, the run
 * ends as one that diverges. */
typedef struct fl_regularizer {
    size_t size; /* sizeof(fl_regularizer) */
    const char *name, *title, *citation;
    void *arg;
    unsigned traits;    /* FL_SERIAL */
    const fl_key *keys; /* NULL: no parameters */
    size_t params_size; /* as in fl_method */
    /* How far g is from convex: the least m for which g(x) + m/2 ||x||^2 is convex; INFINITY: there is none. NULL: g is
     * convex whatever the parameters are. */
    double (*weak_convexity)(const void *params);
    /* Refuses parameters that no single row can refuse, by fl_failed, for vectors of length n; NULL: nothing to
     * refuse. */
    int (*validate)(const void *params, size_t n, fl_failure *f);
    /* g(x); INFINITY outside the set of an indicator (up to rounding: a relative 1e-12). */
    double (*value)(const void *params, size_t n, const double *x);
    /* x <- argmin_z g(z) + 1/(2 eta) ||z - x||^2: the global minimiser, where there are several local ones. `work` has
     * room for n doubles. */
    void (*prox)(const void *params, double eta, size_t n, double *x, double *work);
} fl_regularizer;

fl_status fl_regularizer_register(fl_ctx *ctx, const fl_regularizer *g);

/* Holds a method, by its name, to what the engine promises of every method: the same bits on any number of threads,
 * in slices of any size and through messages that are bytes; the same bits after a checkpoint, and while another run
 * of the method takes rounds between its uploads; numbers that stay finite on easy problems, in both precisions;
 * nothing read that was not sent. `out` receives a line per check. FL_EMISMATCH: one of them fails, and the error
 * says which. `settings` is YAML laid over the problems' own, such as "algorithm: {kind: mine, mu: 0.1}"; NULL: the
 * method's defaults. */
fl_status fl_conform(fl_ctx *ctx, const char *method, const char *settings, fl_text_fn *out, void *arg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
