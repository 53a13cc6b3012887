/* What an algorithm is: a descriptor. It poses local problems and reads the answers; it never trains, allocates, prints or sends.
 * The tables say which vectors it has; the engine allocates, zeroes, ships and counts them.
 *
 * One round: for every client of the cohort, in parallel, `pose`, solve, `answer`; then on the server, in client order, `absorb`
 * for each, and `advance` once. */
#ifndef FLI_ALGO_ALGO_H
#define FLI_ALGO_ALGO_H

#include "base/keys.h"
#include "local/local.h"
#include "model/bilevel.h"
#include "vec/space.h"

enum {                         /* traits */
       FLI_ALGO_EVERYONE = 1,  /* all clients must take part in every round */
       FLI_ALGO_UNIFORM = 2,   /* weighs clients equally: w_i = 1/N */
       FLI_ALGO_PLAIN_SGD = 4, /* reads gradients out of displacements */
       FLI_ALGO_COMPOSITE = 8, /* minimises f + g: takes a proximal step of the regulariser on the server */
       FLI_ALGO_INITIAL = 16,  /* clients know the start model, whenever they come in first */
       FLI_ALGO_BYSTANDERS =
           32, /* clients outside the cohort take a turn as well, in every round; see fli_turn.chosen */
       FLI_ALGO_LABELLED = 128, /* trains on labelled samples alone, whatever there is beside them */
       FLI_ALGO_BLOCKS =
           256, /* made for objectives with a second block y_i (latent.h); without one it works, but is another method */
       FLI_ALGO_SURVEY = 64,  /* the warm-up uploads the scalars and no vector, rounds the vectors and no scalar */
       FLI_ALGO_BILEVEL = 512 /* for problems of two levels, and only for them: see model/bilevel.h */
};

/* A client's turn, from the algorithm's point of view. */
typedef struct {
    const fli_space *space;
    const void *params;
    size_t clients; /* N */
    size_t cohort;  /* m = |S| */
    size_t round;
    uint32_t client;
    double weight;           /* w_i */
    double lr;               /* this round's step size */
    size_t steps;            /* Q_i */
    double momentum;         /* of the local steps */
    size_t staleness;        /* asynchronous methods, in absorb: server steps since the client was given its model */
    double probability;      /* p_i: how likely the client takes part in a round */
    int first;               /* methods with client state: the client's first turn, its vectors and scalars are zero */
    int news;                /* the broadcast changed since this client's last turn */
    int chosen;              /* in the cohort; only turns of FLI_ALGO_BYSTANDERS are taken by others too */
    int warm_up;             /* the turn everyone takes before the first round; see `warms_up` */
    const void *initial;     /* the start model, for methods with FLI_ALGO_INITIAL */
    const void *const *down; /* the broadcast: the first `down` server vectors, */
    const double *down_scalars; /* and the first `down_scalars` of its scalars, as they are when the client works */
    void *const *state;         /* the client's own vectors, */
    double *scalars;            /* and scalars, kept between its turns */
    void *const *work;          /* scratch vectors, contents undefined at pose, kept until answer */
    void *const *up;            /* to be written by answer */
    double *up_scalars;
    size_t phase, phases;       /* which exchange of the round this is, of how many */
    const fli_bilevel *bilevel; /* NULL: a single level */
    void *const *past;          /* the server's `past` vectors, for a client that was sent them in an earlier phase */
} fli_turn;

typedef struct {
    const fli_space *space;
    const void *params;
    size_t clients, cohort, round;
    double cohort_weight; /* sum of w_i over the cohort */
    void *const *vec;     /* server vectors; vec[0] is the global model x */
    void *const *sum;     /* zero before the first absorb of a round */
    double *scalar_sum;
    int warm_up; /* this is the advance after the warm-up turns */
    /* x <- prox_{eta g}(x) for the regulariser g of the configuration; the identity if there is none */
    void (*prox)(const void *arg, double eta, void *x);
    const void *prox_arg;
    double *scalars;                                  /* the server's own, kept between rounds; zero at first */
    double (*weight)(const void *arg, size_t client); /* w_i of any client */
    const void *weight_arg;
    unsigned model_traits;
    size_t samples; /* of all clients */
    size_t phase, phases;
    const fli_bilevel *bilevel; /* NULL: a single level */
    void *const *past;
} fli_server;

/* What a method's theory asks for, seen at one client: see `check`. */
typedef struct {
    size_t clients;
    uint32_t client;
    int convex; /* f_i is, for sure */
    unsigned model_traits;
    size_t samples; /* of all clients */
    size_t parameters;
    double smoothness; /* L_i; with two levels that of g_i in y */
    double lr, probability, weight;
    size_t steps; /* Q_i */
    double momentum;
    size_t least_steps; /* for `advise`: steps is the most that anyone may take in a round, this the fewest */
} fli_facts;

/* Receives conditions `have <= most`, requirements that hold or do not, and assumptions, which nobody can verify here; see conditions.h. */
typedef struct fli_conditions fli_conditions;
void fli_condition(fli_conditions *c, const char *name, const char *formula, const fli_facts *f, double have,
                   double most);
void fli_requirement(fli_conditions *c, const char *name, const char *sentence, const fli_facts *f, int holds);
void fli_assumption(fli_conditions *c, const char *name, const char *sentence);

/* How an asynchronous server goes forward. */
typedef struct {
    size_t buffer; /* uploads per server step: absorb for each, then advance once */
    size_t tau;    /* no upload is older than so many server steps; 0: no bound */
} fli_pace;

/* What one exchange costs, where the tables of vectors do not tell: blocks that are sent, and local work. */
typedef struct {
    size_t upper, lower, scalars;
} fli_load;
typedef struct {
    fli_load down, up;
    size_t steps; /* what a client's work counts as, in local steps: for its length in simulated time */
} fli_phase;

typedef struct fli_algo {
    const char *name;
    const char *title;
    const char *citation;
    unsigned traits;
    const fli_key *keys;
    size_t params_size;

    const char *const *server; /* names, NULL-terminated; the first is the model x, the others start at zero */
    size_t down;               /* so many of them, from the first, are broadcast */
    const char *const *client; /* NULL: none */
    size_t
        own_model; /* 1 + the index of the client vector that is the client's own model; 0: clients have none, and the global model
                       * stands for it */
    /* Non-NULL: a client predicts with a mixture of its own model and the global one; returns its own model's share. `scalars` are the
     * client's, NULL before its first turn. */
    double (*own_mix)(const void *params, size_t client, const double *scalars);
    size_t client_scalars;
    size_t server_scalars;
    size_t down_scalars; /* so many of them, from the first, are broadcast; not for asynchronous methods */
    const char *const *up;
    size_t up_scalars;
    const char *const *sums;
    size_t scalar_sums;
    size_t work;

    /* What to try when the numbers grow without bound, as in "try %s": the keys that set this method's step; NULL: local.lr does, and
     * server_lr where there is one. And when it is the clients' own models that do. */
    const char *remedy, *own_remedy;
    /* Refuses parameters that no single row can refuse; NULL: nothing to refuse. Lists have the right lengths already. */
    fl_status (*validate)(fl_ctx *ctx, const void *params, size_t clients);
    /* What the method's theorem asks for at one client, by the calls above; NULL: nothing known. */
    void (*check)(const void *params, const fli_facts *f, fli_conditions *out);
    /* A setting that would satisfy them, for the worst constants over all clients, in words; NULL: none known. */
    void (*advise)(const void *params, const fli_facts *worst, fli_text *out);
    /* What a person should know before a run, as a sentence about one client, or nothing. Neither smoothness nor weight
     * are known by then; lr and steps are those of the first round. Asked for one client after the other until there is a sentence. NULL: never anything. */
    void (*warn)(const void *params, const fli_facts *f, fli_text *out);

    /* Non-NULL: the method is asynchronous. The server takes uploads one by one and clients never wait for each other. */
    fli_pace (*pace)(const void *params);
    /* How its local problems are solved; NULL: by SGD. */
    const fli_solver *(*solver)(const void *params);
    /* Whether everyone takes a turn before the first round (warm_up is set in turn and server); NULL: no. */
    int (*warms_up)(const void *params);
    /* On the server, once before anything else: fills its scalars and further vectors. NULL: nothing to do. */
    void (*start)(const fli_server *s);
    /* Whether a round ends with an exchange; NULL: always. `coin` is uniform in [0, 1), a function of seed and round. Without an
     * exchange nothing is uploaded, absorb and advance are not called, and the next round has no news. */
    int (*exchanges)(const void *params, double coin);
    /* How many exchanges with the same cohort make up a round: turns, absorb, advance, one after the other; NULL: one. `coin` as above, of
     * the same round. */
    size_t (*phases)(const void *params, double coin);
    /* What exchange `at` of so many costs a client that is asked for `steps` steps; NULL: what the tables say. */
    fli_phase (*phase)(const void *params, size_t at, size_t phases, size_t steps);
    /* So many further server vectors, for a trajectory within a round; NULL: none. */
    size_t (*past)(const void *params);
    /* On a worker thread. Fills the problem, whose lr and steps come filled. Vectors it points to must stay until answer. */
    void (*pose)(const fli_turn *t, fli_problem *p);
    /* On the same thread, after the solver. */
    void (*answer)(const fli_turn *t, const fli_answer *a);
    /* On the server, for each client of the cohort in order: reads t->up and t->up_scalars (nothing else of the client's). */
    void (*absorb)(const fli_server *s, const fli_turn *t);
    /* On the server, after the last absorb. */
    void (*advance)(const fli_server *s);
} fli_algo;

extern const fli_algo *const fli_algo_list[]; /* NULL-terminated */

#define FLI_LOCAL_REMEDY "a smaller local.lr"
const char *fli_algo_remedy(const fli_algo *a);   /* never NULL */
size_t fli_names_count(const char *const *names); /* NULL counts as empty */

#endif
