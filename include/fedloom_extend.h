/* fedloom with parts of one's own: an objective, a local solver, a federated method.
 *
 * Each is a struct that is registered once under a name and chosen by that name in any configuration from then on, like
 * those that come with fedloom:
 *
 *     fl_objective_register(ctx, &mine);   model: mine
 *     fl_solver_register(ctx, &mine);      local: {solver: mine}
 *     fl_method_register(ctx, &mine);      algorithm: mine
 *
 * Functions here are called from several threads at the same time, unless FL_SERIAL is among the traits. They return 0,
 * or anything else to end the run: fl_failed then says why, in a sentence, and the run returns FL_ECALLBACK with it.
 * Having called fl_failed is enough. A C++ exception must not leave them. Numbers that are not finite end a run as a
 * divergence does. They must not free, go on with or forget what they are called by.
 *
 * What is registered begins with its size (fedloom.h says why). Structs that functions are handed are the library's and
 * may grow at their end, but for fl_space and fl_ask, which lie in others; those and the rows of tables (fl_key,
 * fl_part, fl_tensor) will not. */
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

    FL_METHOD_EVERYONE = 2,   /* all clients must take part in every round */
    FL_METHOD_UNIFORM = 4,    /* weighs clients equally */
    FL_METHOD_EQUAL_LR = 8,   /* wants the same step size at all clients */
    FL_METHOD_PLAIN_SGD = 16, /* reads gradients out of displacements */
    FL_METHOD_COMPOSITE = 32, /* minimises f + g, by fl_prox on the server */
    /* absorb and advance look at more than one entry at a time, or at an entry's place: they are called once, for whole
     * vectors. Without it they are called for every slice of the vectors, on several threads, and must do the same to
     * scalars each time. */
    FL_METHOD_WHOLE = 64,
    /* touches vectors otherwise than by the operations below, so they must be in plain memory: `device: cpu` alone */
    FL_METHOD_TOUCHES = 128
};

/* What is registered under a name is kept until the process ends, or until it is forgotten; the struct and what it
 * points to are copied, `arg` and functions are not. The name of something that comes with fedloom is refused. A name
 * of one's own may be given again: configurations that are bound from then on get the new one, and the older ones stay
 * to be had by their numbers: `algorithm: mine@1` is the first that was registered under the name. Results and messages
 * show the name alone, so that a file, or another process, gets the newest. */

/* Takes the name out of the lists: of what fl_*_register took, by section ("model", "solver", "algorithm"). No run may
 * use it any more. FL_ECONFIG: there is none of that name. */
fl_status fl_forget(fl_ctx *ctx, const char *section, const char *name);

/* ---- vectors ------------------------------------------------------------------------------------------------ */

/* A space of vectors: n reals of 4 or 8 bytes each (float or double). The operations below work in it; they are what a
 * method may use everywhere. With them alone it also runs on a GPU (`device: cuda`), where addresses of vectors lead
 * nowhere. */
typedef struct {
    size_t n, real;
    const void *ops; /* the engine's */
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
    /* Numbers of one's own, one per name, whenever metrics are taken: columns of metrics.csv, after all others. At most
     * 8, and as many names in a process as FL_METRICS_MAX leaves room for. */
    const char *const *metrics; /* NULL-terminated */
    int (*measure)(void *arg, size_t real, const void *x, double *out, fl_failure *f);
} fl_objective;

fl_status fl_objective_register(fl_ctx *ctx, const fl_objective *o);

/* ---- a local solver of one's own --------------------------------------------------------------------------------- */

/* What a client is to solve:  minimise f_i(z) + <shift, z> + rho/2 ||z - anchor||^2  from `start`, by so many steps. */
typedef struct {
    const void *start;
    const void *anchor; /* NULL: no proximal term */
    double rho;
    const void *shift; /* NULL: no linear term */
    double lr;
    size_t steps; /* Q_i */
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

typedef struct {
    double weight; /* sum over the steps of the weight of a gradient in (start - z)/lr; comes in as that of SGD */
    size_t steps;  /* spent, in gradients of mini-batches; comes in as those asked for */
    int missed;    /* the solver knows that it is not accurate enough */
    /* `weight` is the solver's own, though it may be that of SGD. Methods that read gradients out of displacements
     * divide by it, and a run of theirs warns of a solver that leaves it as it came. */
    int weighed;
} fl_solution;

typedef struct {
    size_t size; /* sizeof(fl_solver) */
    const char *name, *title;
    void *arg;
    unsigned traits;
    /* z comes in as a copy of the start and leaves as the solution. */
    int (*solve)(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f);
} fl_solver;

/* In a configuration: local.solver. It takes the place of SGD, in methods that pose problems for SGD. */
fl_status fl_solver_register(fl_ctx *ctx, const fl_solver *s);

/* ---- a method of one's own --------------------------------------------------------------------------------------- */

/* A parameter: a row of the method's table. In the method's functions all are doubles, in the order of the table: a
 * choice is the number of its word, a bool 0 or 1. Methods may have rows of the first four types. */
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
    const double *params;
    fl_ask ask;
    size_t clients;          /* N */
    int first;               /* the client's first turn: its vectors and scalars are zero */
    const void *initial;     /* the start model, in turns in which it is sent */
    const void *const *down; /* what it has of the server's vectors, numbered as there; NaN if it is never sent, */
    const double *down_scalars;
    void *const *state; /* its own vectors, kept between its turns, */
    double *scalars;
    void *const *work; /* scratch, contents undefined at pose, kept until answer */
    void *const *up;   /* to be written by answer */
    double *up_scalars;
    fl_failure *failure;
} fl_turn;

/* What a solver answered. */
typedef struct {
    const void *z;        /* the solution */
    const void *gradient; /* of f_i at the start over all samples, of solvers that compute it; else NULL */
    double weight;        /* (start - z)/(lr weight) is a mean gradient */
    size_t steps;         /* spent */
    int missed;
} fl_answer;

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
    const double *params;
    size_t clients, cohort;
    double cohort_weight; /* sum of w_i over the cohort */
    double momentum;      /* of the clients' local steps */
    size_t phase, phases;
    int warm_up;
    void *const *vec; /* vec[0] is the model x */
    void *const *sum; /* zero before the first absorb of a round */
    double *scalars, *scalar_sum;
    const void *engine; /* for fl_prox and fl_weight */
    fl_failure *failure;
} fl_coordinator;

/* x <- prox_{eta g}(x) for the regulariser of the configuration; nothing if there is none. In start and advance. */
void fl_prox(const fl_coordinator *s, double eta, void *x);
double fl_weight(const fl_coordinator *s, size_t client); /* w_i */

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
     * (before the steps), "exact", or a solver of one's own, registered before. A method with phases may name one for
     * each: "gradient|sgd". */
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
} fl_method;

fl_status fl_method_register(fl_ctx *ctx, const fl_method *m);

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
