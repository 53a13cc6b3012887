/* What a method's theorem asks for, collected over clients: for each condition, the client where it is tightest. */
#ifndef FLI_ALGO_CONDITIONS_H
#define FLI_ALGO_CONDITIONS_H

#include "algo/facts.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

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

/* "holds", "fails", "assumed", "printed" or "left out". */
const char *fli_condition_verdict(const fli_condition_seen *s);

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

#endif
