/* What is known of a federation when a method's theorem is held against it, seen at one client. What was not measured
 * is NAN. `check` has all of it; `warn`, which is asked before a run, has neither what is measured nor `all`. */
#ifndef FLI_ALGO_FACTS_H
#define FLI_ALGO_FACTS_H

#include "model/latent.h"

/* How an asynchronous server goes forward. */
typedef struct {
    size_t buffer; /* uploads per server step: absorb for each, then advance once */
    size_t tau;    /* no upload is older than this many server steps; 0: no bound */
} fli_pace;

/* What lies ahead of the federation, as far as the plan can tell: means over all clients in the first round, weighed by
 * w_i. 0: not known. */
typedef struct {
    double travel;      /* lr_i Q_i: how far a unit gradient takes a client in its turn */
    double probability; /* p_i */
} fli_outlook;

typedef struct fli_facts fli_facts;

/* Over all clients that were measured. */
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
    const fli_facts *each;     /* those that were measured, */
    size_t count, clients;     /* how many those are, and how many there are in all */
    size_t cohort;             /* clients in every round; 0: the number changes */
} fli_facts_all;

struct fli_facts {
    size_t clients;
    uint32_t client;
    int convex; /* f_i is, for sure */
    /* L_i and mu_i hold for all x, and were measured over all samples; otherwise they are estimates at the start */
    int bounded;
    int composite;    /* there is a regulariser g; */
    double g_modulus; /* g + g_modulus/2 ||x||^2 is convex; 0: so is g itself */
    unsigned model_traits;
    double smoothness; /* L_i; with two levels that of g_i in y */
    double lr, probability, weight;
    double most_likely; /* p_i in the round where it is largest; probability is where it is smallest */
    int dropped;    /* who is invited may be left out of the round: there is a deadline, or a round waits for some */
    int planned;    /* who takes part follows a plan, such as a trace, and not chance: in some rounds p_i^r is 0 */
    double base_lr; /* local.lr: lr without the client's factor */
    fli_outlook outlook;
    size_t steps; /* Q_i */
    double momentum;
    int full_batch;     /* a local step is over all of the client's samples, of either kind */
    int constant_lr;    /* in all rounds */
    size_t least_steps; /* for `fix`: steps is the most that anyone may take in a round, this the fewest */

    /* mu_i: the smallest eigenvalue of the same Hessian, measured from above; never below what is certain. Only where
     * f_i is convex for sure, or with two levels. */
    double convexity;
    double
        sure_convexity; /* what weight decay (two levels: bilevel.l2) makes certain for a convex loss; NAN: nothing */
    double upper_smoothness; /* two levels: L of f_i in (x, y), */
    double upper_slope;      /* and ||grad_y f_i|| at the start */
    int second_block;        /* f_i(x, y_i) has a block y_i of the client's own: pseudo labels, memberships; then */
    fli_latent_steps block;  /* how it is improved */
    double label_entropy;    /* pseudo labels: alpha_r; NAN: there are none */
    double confidence;       /* pseudo labels: the least probability that makes one; 0: all samples get one */
    int uniform_cohort;      /* as many clients in every round, all equally likely, without replacement; or everyone */
    const fli_facts_all *all;
};

#endif
