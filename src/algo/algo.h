/* What an algorithm is: a descriptor. It poses local problems and reads the answers; it never trains, allocates, prints
 * or sends. The tables say which vectors it has; the engine allocates, zeroes, ships and counts them.
 *
 * One round: for every client of the cohort, in parallel, `pose`, solve, `answer`; then on the server, in client order,
 * `absorb` for each, and `advance` once. */
#ifndef FLI_ALGO_ALGO_H
#define FLI_ALGO_ALGO_H

#include "algo/message.h"
#include "algo/theory.h"
#include "base/user_registry.h"
#include "bilevel/bilevel.h"
#include "format/keys.h"
#include "solver/solver.h"
#include "vec/space.h"

/* Traits. */
enum {
    /* all clients must take part in every round; they keep what they need of the model where a round ends without an
     * exchange, and are not sent it again */
    FLI_ALGO_EVERYONE = 1,
    FLI_ALGO_UNIFORM = 2,   /* weighs clients equally: w_i = 1/N */
    FLI_ALGO_EQUAL_LR = 4,  /* wants the same step size at all clients */
    FLI_ALGO_PLAIN_SGD = 8, /* reads gradients out of displacements */
    /* minimises f + g: takes a proximal step of the regulariser on the server */
    FLI_ALGO_COMPOSITE = 16,
    /* clients outside the cohort take a turn as well, in every round; see fl_ask.bystander */
    FLI_ALGO_BYSTANDERS = 32,
    /* trains on labelled samples alone, whatever there is beside them */
    FLI_ALGO_LABELLED = 64,
    /* made for objectives with a second block y_i (model/model.h); without one it works, but is another method */
    FLI_ALGO_BLOCKS = 128,
    /* for two-level problems, and only for them: see bilevel/bilevel.h */
    FLI_ALGO_BILEVEL = 256,
    /* `advance` looks at more than one entry at a time: inner products, blocks, their number */
    FLI_ALGO_WHOLE_ADVANCE = 512,
    /* so does `absorb`: the vectors are never cut into slices */
    FLI_ALGO_WHOLE_ABSORB = 1024,
    /* touches vectors otherwise than by the operations of their space, so it runs on no device */
    FLI_ALGO_TOUCHES = 2048,
    /* `absorb` only adds to the server's sums, and what it adds is a function of the upload and the step: partial sums
     * may be added up instead, in any grouping. It neither reads sums, nor changes vectors or scalars. Asynchronous
     * methods, which take uploads one by one, have no use for it. */
    FLI_ALGO_ADDS = 4096,
    /* its clients may read their weight, which tells them how many samples all of them have; others are not told it */
    FLI_ALGO_TELLS_WEIGHT = 8192,
    /* divides displacements by the weight of their gradients, whatever the solver: exact where the solver states it */
    FLI_ALGO_NORMALISES = 16384,
};

/* A client's turn, from the algorithm's point of view: what it was asked, what it was sent, what it keeps. */
typedef struct {
    const fli_space *space;
    const void *params;
    const fl_ask *ask;
    size_t clients;          /* N */
    size_t stage;            /* of the ask's phase; see fli_rounds.stage */
    int is_first_turn;       /* methods with client state: the client's first turn, its vectors and scalars are zero */
    const void *start_model; /* the start model, in turns in which it is sent */
    const void *const *down; /* what the client has of the server's vectors and scalars, numbered as there: what was */
    const double *down_scalars; /* sent now, and what it keeps of earlier phases */
    const void *const *history; /* FL_PART_KEEP_EACH: that vector as it was in phase 0, 1, ... of the round */
    void *const *state;         /* the client's own vectors, */
    double *scalars;            /* and scalars, kept between its turns */
    int watched;                /* both have at their ends what fli_potential keeps */
    void *const *work;          /* scratch vectors, contents undefined at pose, kept until answer */
    void *const *up;            /* to be written by answer */
    double *up_scalars;
    fl_failure *failure; /* for methods that can fail */
} fli_turn;

/* What came up, for absorb. */
typedef struct {
    const fl_ask *ask;
    void *const *up;
    const double *up_scalars;
    size_t staleness; /* asynchronous methods: server steps since the client was given its model */
} fli_upload;

typedef struct {
    const fli_space *space;
    const void *params;
    size_t clients, cohort;
    double cohort_weight; /* sum of w_i over the cohort */
    double momentum;      /* of the clients' local steps */
    size_t phase, phases, stage;
    int warm_up;      /* this is the advance after the warm-up turns */
    void *const *vec; /* server vectors; vec[0] is the global model x */
    void *const *sum; /* zero before the first absorb of a round */
    double *scalars;  /* the server's own, kept between rounds; zero at first */
    double *scalar_sum;
    /* x <- prox_{eta g}(x) for the regulariser g of the configuration; the identity if there is none */
    void (*prox)(const void *arg, double eta, void *x);
    const void *prox_arg;
    double (*weight)(const void *arg, size_t client); /* w_i of any client */
    const void *weight_arg;
    const fli_bilevel *bilevel; /* NULL: a single level */
    const double *moves;        /* see fli_potential.remembers; NULL: not kept */
    fl_failure *failure;        /* for methods that can fail */
} fli_server_step;

/* A potential: what a method's theorem shows to fall from round to round. It is made of what every client contributes,
 * weighted by w_i, and of what the server adds. Measured between rounds and on request alone; measuring changes
 * nothing. A turn here is one that is not taken: its ask has lr, steps and probability of the client's next turn, it
 * is sent the model x and the numbers that the method sends down, and `state` is NULL if the client keeps nothing
 * yet. */
enum { FLI_POTENTIAL_TERMS = 2, FLI_REMEMBERED = 65536 };
typedef struct {
    const char *name; /* as in "the potential is %s"; NULL: the method has none */
    /* Vectors and scalars that clients keep for it at the ends of their own, in runs that measure it. */
    size_t vectors, scalars;
    /* How many of the newest ||x^{k+1} - x^k||^2 the server remembers for it (fli_server_step.moves: the newest first,
     * 0 for steps before the first one), at most FLI_REMEMBERED; more, or NULL: none. */
    size_t (*remembers)(const void *params);
    /* Where f_i and its gradient, weight decay included, are wanted. On a worker thread, as is the next. */
    const void *(*point)(const fli_turn *t);
    /* What the client contributes, given f_i and its gradient there, which may be overwritten. */
    void (*client)(const fli_turn *t, double f, void *gradient, double out[FLI_POTENTIAL_TERMS]);
    /* The potential, given the weighted sums of that and g(x). */
    double (*server)(const fli_server_step *s, const double *sum, double g);
    /* Two levels, in the place of the three above: given F(x, y*), ||y - y*|| and ||v - v*||, each for the weights with
     * which clients count (fli_two_levels.work). */
    double (*levels)(double value, double lower_distance, double system_distance);
    /* What has to hold at one client for it never to rise, surely and not only in expectation; by the calls above. */
    void (*falls)(const void *params, const fli_facts *f, fli_conditions *out);
    size_t after; /* which is promised after this many rounds */
} fli_potential;

/* f at the start model, and its slopes. */
typedef struct {
    double value;                /* f(x0) + g(x0), of which 0 is a lower bound */
    double slope2;               /* ||grad f(x0)||^2 */
    const double *client_slope2; /* ||grad f_i(x0)||^2 of the clients that were measured */
} fli_start_values;

/* After how many rounds, at most, a theorem promises that the mean of a quantity over the rounds has been eps. */
typedef struct {
    const char *theorem, *bounds; /* "(19)", "||grad f(x)||^2" */
    const char *metric;           /* its column; */
    int squared;                  /* which it is the square of */
    int expected;                 /* a promise in the mean over cohorts, not for each */
    int full;                     /* for steps over all samples; with mini-batches there is an error that stays */
    double times_eps, before;     /* before + times_eps/eps */
    const char *missing;          /* why there is no such number; NULL: there is */
} fli_promise;

/* The optimality gap that a method's theorem bounds, where it is more than ||grad f(x)||^2: 0 where x and the second
 * blocks y_i are stationary together. With a second block alone, and one that is improved by steps. */
typedef struct {
    const char *name; /* as in "the gap is %s"; NULL: the method has none */
    /* The length of the proximal step that x is looked at with; 0: there is no gap. NULL: the gradient itself is. */
    double (*eta)(const fli_server_step *s);
    int ahead;  /* the gradient in x is wanted where the next steps of all clients take the y_i, */
    int smooth; /* and the largest L_i */
    /* Given ||grad f||^2, or the square of the gradient mapping of that length; sum w_i ||y_i+ - y_i||^2 of the next
     * turn; and sum w_i ||y_i - P(y_i - eta_y grad_y f_i)||^2/eta_y^2 of a single step. */
    double (*value)(double slope, double moves, double block_slopes, double smoothness);
} fli_gap;

/* What theory says of a method, and what it makes of that. All optional. */
typedef struct {
    /* The eta of the gradient mapping G_eta in which its theorems are stated; NULL: there is none. */
    double (*mapping_eta)(const void *params);
    fli_potential potential;
    fli_gap gap;
    /* What the theorem asks for at one client, by the calls above, */
    void (*check)(const void *params, const fli_facts *f, fli_conditions *out);
    /* and of all of them together: sums over clients, cohorts. NULL: nothing. */
    void (*check_all)(const void *params, const fli_facts_all *all, fli_conditions *out);
    /* Its number of rounds. `start` NULL: all but the numbers. */
    void (*promise)(const void *params, const fli_facts_all *all, const fli_start_values *start, fli_promise *out);
    /* Settings that would satisfy it, for the worst constants over all clients: rows of theory.h. A condition that no
     * row names is one that no setting satisfies. Asked again with what comes of it, a few times. */
    void (*fix)(const void *params, const fli_facts *worst, fli_fixes *out);
    /* What a person should know before a run, as a sentence about one client, or nothing. Neither smoothness nor weight
     * are known by then; lr and steps are those of the first round. Asked for one client after the other until there is
     * a sentence. */
    void (*warn)(const void *params, const fli_facts *f, fli_text *out);
} fli_theory;

/* Methods whose rounds are more than one exchange with a cohort. All optional. */
typedef struct {
    /* Whether everyone takes a turn before the first round (warm_up is set in turn and server); NULL: no. */
    int (*warms_up)(const void *params);
    /* Whether a round, the first is 0, ends with an exchange; NULL: always. `coin` is uniform in [0, 1), a function of
     * seed and round. Without an exchange nothing is uploaded, absorb and advance are not called, and the next round's
     * broadcast is unchanged. */
    int (*exchanges)(const void *params, size_t round, double coin);
    /* How many exchanges make up a round: turns, absorb, advance, one after the other, with the same cohort unless
     * `redraws` says otherwise; NULL: one. `coin` as above, of the same round. */
    size_t (*phases)(const void *params, double coin);
    /* Whether a phase begins with a cohort of its own, which has nothing of the round yet; phase 0 always does. NULL:
     * no other does. A way of participation that follows a plan, such as a trace, names the same clients again. */
    int (*redraws)(const void *params, size_t phase, size_t phases);
    /* Which of the method's stages such a phase is, from 0: tables of parts name them. NULL: there is only one. */
    size_t (*stage)(const void *params, size_t phase, size_t phases);
    /* How many local steps everyone takes in a round, at least 1; NULL: what `local` says of each client. `coin` as
     * above; the larger, the more steps. */
    size_t (*steps)(const void *params, double coin);
    /* What the work of a stage counts as, in gradients of mini-batches, for a client that is asked for `steps` and has
     * samples for such epochs: for its length in simulated time. NULL: what the stage's solver says
     * (fli_solver_cost). */
    size_t (*counts_as)(const void *params, size_t stage, size_t steps, const fli_epochs *e);
} fli_rounds;

/* Asynchronous methods. */
typedef struct {
    /* Non-NULL: the method is one. The server takes uploads one by one and clients never wait for each other. */
    fli_pace (*pace)(const void *params);
} fli_asynchrony;

/* Methods whose clients have models of their own. */
typedef struct {
    size_t model; /* 1 + the index of the client vector that is the client's own model; 0: the global model is */
    /* Non-NULL: a client predicts with a mixture of its own model and the global one; returns its own model's share.
     * `scalars` are the client's, NULL before its first turn. */
    double (*mix)(const void *params, size_t client, const double *scalars);
    const char *remedy; /* what to try when it is these models that grow without bound; NULL: as below */
} fli_personal;

/* Methods for two levels. */
typedef struct {
    size_t v; /* 1 + the index of the server vector whose lower block stands for v*(x); 0: there is none */
    /* How much a turn of that many steps weighs, where clients count by that too: w_i is then proportional to p_i times
     * the mean of it over rounds, up to a factor that all have. NULL: clients count by p_i. */
    double (*work)(const void *params, size_t client, size_t steps);
} fli_two_levels;
/* Parameters that are `auto` until a run is planned, because they follow from the federation. The plan settles them in
 * a copy that everybody then works with, clients elsewhere too. */
enum { FLI_SETTLES_BY_WORK = 1, FLI_SETTLES_BY_SMOOTHNESS };
typedef struct {
    unsigned (*unsettled)(const void *params); /* by what; 0: nothing is left to settle */
    /* Knows whether f_i are convex, momentum, first_round, and if that is asked for the largest L_i measured. */
    void (*settle)(void *params, const fli_facts *f);
} fli_settling;
/* What `fedloom tune` tries: a key as --set takes it, and the ends of its range. */
typedef struct {
    const char *key; /* NULL ends a list */
    double from, to;
    int log; /* spread evenly over powers of ten, not over values */
} fli_tune_range;

#define FLI_TUNE_LR                                                                                                    \
    {                                                                                                                  \
        "local.lr", 0.001, 1, 1                                                                                        \
    }

typedef struct fli_algo {
    const char *name;
    const char *title;
    const char *citation;
    unsigned traits;
    const fl_key *keys;
    size_t params_size;
    /* Refuses parameters that no single row can refuse; NULL: nothing to refuse. Lists have the right lengths
     * already. */
    fl_status (*validate)(fl_ctx *ctx, const void *params, size_t clients);
    /* Called on parameters that have just been bound, or could not be, before anybody else looks at them; NULL: nothing
     * to do. */
    void (*bound)(const struct fli_algo *a, void *params);
    /* Around the life of a run, or of a client that is elsewhere: a user's method may have something of its own there.
     * Both or neither; `end` may be called without `begin`. */
    fl_status (*begin)(fl_ctx *ctx, void *params);
    void (*end)(void *params);
    fli_settling settling; /* NULLs: nothing is ever left open */
    /* What to try when the numbers grow without bound, as in "try %s": the keys that set this method's step; NULL:
     * local.lr does, and server_lr where there is one. */
    const char *remedy;
    /* What is tuned where a file does not say otherwise: the two or three keys that matter most; NULL: local.lr. */
    const fli_tune_range *tune;

    /* What it has. Names, NULL-terminated; NULL: none. */
    const char *const *server; /* the first is the model x, the others start at zero */
    const char *const *client;
    const char *const *sums;
    size_t server_scalars, client_scalars, scalar_sums;
    size_t work;
    const fl_part *down, *up; /* what is sent either way, and when */

    /* What it does. */
    /* How the local problems of a stage are solved (fli_rounds.stage; there may be a single one, 0); NULL: by SGD.
     * Asked for all numbers below FL_STAGES: those that the method does not have may get any of its solvers. */
    const fli_solver *(*solver)(const void *params, size_t stage);
    /* On the server, once before anything else: fills its scalars and further vectors. NULL: nothing to do. */
    void (*start)(const fli_server_step *s);
    /* On a worker thread. Fills the problem, whose lr and steps come filled. Vectors it points to must stay until
     * answer. */
    void (*pose)(const fli_turn *t, fli_problem *p);
    /* On the same thread, after the solver. */
    void (*answer)(const fli_turn *t, const fli_answer *a);
    /* On the server, for each client of the cohort in order. Entry by entry: it is called for slices of the vectors, on
     * several threads, while others of the cohort still work. So it looks neither at an entry's place nor at sums over
     * entries, and it changes nothing but sums and what no message down has; asynchronous methods, whose clients have
     * copies, may change anything. */
    void (*absorb)(const fli_server_step *s, const fli_upload *t);
    /* On the server, after the last absorb. Entry by entry as well, unless FLI_ALGO_WHOLE_ADVANCE says otherwise; a
     * prox may be taken. */
    void (*advance)(const fli_server_step *s);

    /* What some methods add. */
    fli_theory theory;
    fli_rounds rounds;
    fli_asynchrony async;
    fli_personal personal;
    fli_two_levels levels;
} fli_algo;

extern const fli_algo *const fli_algo_list[]; /* NULL-terminated */

#define FLI_LOCAL_REMEDY "a smaller local.lr"
const char *fli_algo_remedy(const fli_algo *a);         /* never NULL */
const fli_tune_range *fli_algo_tune(const fli_algo *a); /* never NULL */
/* How local problems are solved on this model: all solvers that any stage uses, each once, and which of them a stage
 * uses. `own` takes the place of SGD; NULL: nobody does. */
typedef struct {
    const fli_solver *at[FL_STAGES];
    size_t count;
    unsigned char of[FL_STAGES];
} fli_solvers;
fli_solvers fli_algo_solvers(const fli_algo *a, const void *params, const fli_model *m, const fli_solver *own);
/* Whether the method poses problems for SGD, and no others: then a solver of the user's may take its place. */
int fli_algo_takes_solver(const fli_algo *a, const void *params);
/* Of an ask, and the moment that says which parts are sent with it (message.h). */
size_t fli_algo_stage(const fli_algo *a, const void *params, const fl_ask *ask);
unsigned fli_algo_moment(const fli_algo *a, const void *params, const fl_ask *ask);
/* Whether a phase of a round begins with a new cohort, and where the exchanges with the cohort of a phase end: the
 * phase after the last of them. */
int fli_algo_redraws(const fli_algo *a, const void *params, size_t phase, size_t phases);
size_t fli_algo_cohort_end(const fli_algo *a, const void *params, size_t phase, size_t phases);
/* What the turn of an ask costs, in gradients of mini-batches, where epochs have this many of them. */
size_t fli_algo_cost(const fli_algo *a, const void *params, const fli_solvers *all, const fl_ask *ask,
                     const fli_epochs *e);
/* An ask as its client gets it, without what would tell it of others and its turn does not need. */
fl_ask fli_algo_tell(const fli_algo *a, const fl_ask *ask);
/* Whether a client's first turn differs from others: it is shown the start model, or something else goes either way. */
int fli_algo_shows_start(const fli_algo *a);
size_t fli_names_count(const char *const *names); /* NULL counts as empty */
/* What a client keeps, in runs that measure the potential (`watched`) and in others. */
size_t fli_algo_client_vectors(const fli_algo *a, int watched);
size_t fli_algo_client_scalars(const fli_algo *a, int watched);

/* ==== the algorithms there are ============================================================================ */

/* To add one: its file, a line here, a line in list.c. */

extern const fli_algo fli_algo_fedavg;
extern const fli_algo fli_algo_local_sgd;
extern const fli_algo fli_algo_fedprox;
extern const fli_algo fli_algo_fednova;
extern const fli_algo fli_algo_scaffold;
extern const fli_algo fli_algo_vrl_sgd;
extern const fli_algo fli_algo_feddyn;
extern const fli_algo fli_algo_fedpd;
extern const fli_algo fli_algo_fedvra;
extern const fli_algo fli_algo_fedadmm;
extern const fli_algo fli_algo_feddr;
extern const fli_algo fli_algo_fedsplit;
extern const fli_algo fli_algo_fedgia;
extern const fli_algo fli_algo_asyncfeddr;
extern const fli_algo fli_algo_fedasync;
extern const fli_algo fli_algo_fedbuff;
extern const fli_algo fli_algo_fedvra_u;
extern const fli_algo fli_algo_fedcpsl;
extern const fli_algo fli_algo_fedshvr;
extern const fli_algo fli_algo_fedshvrp;
extern const fli_algo fli_algo_apfl;
extern const fli_algo fli_algo_apsfl;
extern const fli_algo fli_algo_simfbo;
extern const fli_algo fli_algo_shrofbo;
extern const fli_algo fli_algo_fednest;
extern const fli_algo fli_algo_lfednest;
extern const fli_algo fli_algo_fbo_aggitd;
extern const fli_algo fli_algo_fedadam;
extern const fli_algo fli_algo_fedyogi;
extern const fli_algo fli_algo_fedadagrad;
extern const fli_algo fli_algo_mime_lite;
extern const fli_algo fli_algo_fedlin;
extern const fli_algo fli_algo_scaffnew;

#endif
