/* What a method says of its theorem: the facts about a federation that it goes by, the conditions that the theorem asks
 * for, and settings that satisfy them. Measuring, printing and applying are elsewhere: plan/constants.h, theory/. */
#ifndef FLI_ALGO_THEORY_H
#define FLI_ALGO_THEORY_H

#include "base/text.h"
#include "model/model.h"

#include <stddef.h>
#include <stdint.h>

/* ==== facts =============================================================================================== */

/* What is known of a federation when a method's theorem is held against it, seen at one client. What was not measured
 * is NAN. `check` has all of it; `warn`, which is asked before a run, has neither what is measured nor `all`. */

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
} fli_first_round;

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
    fli_first_round first_round;
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

/* ==== conditions ========================================================================================== */

/* What a method's theorem asks for, collected over clients: for each condition, the client where it is tightest. */

enum { FLI_CONDITIONS_MAX = 40 };

typedef enum {
    FLI_CONDITION_BOUND,    /* `have <= most` is asked for */
    FLI_CONDITION_REQUIRED, /* holds or does not, without numbers */
    FLI_CONDITION_ASSUMED,  /* cannot be known from the settings: neither holds nor fails */
    FLI_CONDITION_PRINTED, /* a bound as the paper prints it, beside the one that its proof needs: counts for nothing */
    FLI_CONDITION_OUTSIDE  /* something that the theorem says nothing about: neither holds nor fails */
} fli_condition_kind;

typedef struct {
    fli_condition_kind kind;
    const char *name, *formula;
    double have, most; /* at the tightest client */
    int strict;        /* `have < most` is asked for */
    int whole;         /* of the federation, not of a client */
    uint32_t client;
    size_t failing;  /* clients where it does not hold, */
    uint32_t failed; /* the last of them */
    int has_fix;     /* a row of settings is for it */
} fli_condition_seen;

typedef struct fli_conditions {
    fli_condition_seen seen[FLI_CONDITIONS_MAX];
    size_t count;
    int full; /* there was no room for another one */
} fli_conditions;

/* Whether this one does not hold; what is assumed, printed or left out never fails. */
static inline int fli_condition_fails(const fli_condition_seen *s)
{
    return s->failing && s->kind != FLI_CONDITION_PRINTED;
}

/* How many times too large the left side is; at most 1 when the condition holds, infinite when a side is not a
 * number. */
double fli_condition_excess(double have, double most);

/* Receives conditions `have <= most`, or `have < most`, requirements that hold or do not, assumptions, which cannot be
 * verified here, a paper's own wording of a condition where that is not what its proof needs, and what a theorem leaves
 * out. f NULL: of the federation as a whole. */
void fli_condition(fli_conditions *c, const char *name, const char *formula, const fli_facts *f, double have,
                   double most);
void fli_condition_below(fli_conditions *c, const char *name, const char *formula, const fli_facts *f, double have,
                         double most);
void fli_as_printed(fli_conditions *c, const char *name, const char *formula, const fli_facts *f, double have,
                    double most);
void fli_requirement(fli_conditions *c, const char *name, const char *sentence, const fli_facts *f, int holds);
void fli_assumption(fli_conditions *c, const char *name, const char *sentence);
void fli_not_covered(fli_conditions *c, const char *name, const char *sentence);
/* The requirement of every theorem here that knows a regulariser at all; nothing where there is none. */
void fli_require_convex_g(fli_conditions *c, const fli_facts *f);
/* What a linear rate needs: certain where weight decay is added to a convex f_i, otherwise assumed. */
void fli_ask_strong_convexity(fli_conditions *c, const fli_facts *f);
/* For `warn`: a sentence if a proximal step of this length is too long for the regulariser; `remedy` sets the
 * length. */
void fli_warn_long_prox(const fli_facts *f, double step, const char *remedy, fli_text *out);

/* ==== fixes =============================================================================================== */

/* Settings that satisfy what a theorem asks for: what `check` advises, and what `check --fix` writes. */

enum { FLI_FIXES_MAX = 24, FLI_FIX_VALUE = 48 };

/* One key and its value. It counts where one of the conditions fails: names as `check` has them, separated by '|'; a
 * name also stands for those that go on after a space, "(18)" for "(18) first". */
typedef struct {
    const char *conditions, *key;
    const char *why; /* in brackets behind it; NULL: nothing to add */
    int relative;    /* what the key was, times a factor: where there is one per client they stay as they are */
    char value[FLI_FIX_VALUE]; /* as YAML */
} fli_fix;

typedef struct {
    const struct fli_conditions *found; /* what `check` said */
    fli_fix at[FLI_FIXES_MAX];
    size_t count;
} fli_fixes;

/* A number, rounded to four digits: downwards where less is safe, upwards where more is. One that is not finite, or not
 * above 0, is no setting: nothing is added. */
void fli_fix_most(fli_fixes *out, const char *conditions, const char *key, double value, const char *why);
void fli_fix_least(fli_fixes *out, const char *conditions, const char *key, double value, const char *why);
/* The key's value now, divided or multiplied by how many times too large the left sides of these conditions are. For
 * conditions whose sides have a ratio that grows with the key (falls, for `grow`); whatever else they depend on is
 * looked at when they are checked again. */
void fli_fix_shrink(fli_fixes *out, const char *conditions, const char *key, double now, const char *why);
void fli_fix_grow(fli_fixes *out, const char *conditions, const char *key, double now, const char *why);
/* The same for conditions whose ratio grows with the key's square. */
void fli_fix_shrink_root(fli_fixes *out, const char *conditions, const char *key, double now, const char *why);
/* A value as it stands in a file. */
void fli_fix_word(fli_fixes *out, const char *conditions, const char *key, const char *value, const char *why);

/* What several theorems ask for: everyone in every round, local steps over all samples, no momentum, the same step size
 * in all rounds. */
void fli_fix_everyone(fli_fixes *out, const char *conditions);
void fli_fix_full_batch(fli_fixes *out, const char *conditions);
void fli_fix_plain_steps(fli_fixes *out, const char *conditions);
void fli_fix_constant_lr(fli_fixes *out, const char *conditions);

/* Whether this condition is among those that a row is for. */
int fli_fix_is_for(const fli_fix *f, const char *condition);

#endif
