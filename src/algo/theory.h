/* What a method says of its theorem: the facts about a federation that it goes by, the conditions that the theorem asks
 * for, and settings that satisfy them. Measuring, printing and applying are elsewhere: plan/constants.h, theory/. */
#ifndef FLI_ALGO_THEORY_H
#define FLI_ALGO_THEORY_H

#include "base/text.h"
#include "fedloom_extend.h"
#include "model/model.h"

#include <stddef.h>
#include <stdint.h>

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

struct fl_conditions {
    fli_condition_seen seen[FLI_CONDITIONS_MAX];
    size_t count;
    int full; /* there was no room for another one */
};

/* Whether this one does not hold; what is assumed, printed or left out never fails. */
static inline int fli_condition_fails(const fli_condition_seen *s)
{
    return s->failing && s->kind != FLI_CONDITION_PRINTED;
}

/* How many times too large the left side is; at most 1 when the condition holds, infinite when a side is not a
 * number. */
double fli_condition_excess(double have, double most);

/* The requirement of every theorem here that knows a regulariser at all; nothing where there is none. */
void fli_require_convex_g(fl_conditions *c, const fl_facts *f);
/* What a linear rate needs: certain where weight decay is added to a convex f_i, otherwise assumed. */
void fli_ask_strong_convexity(fl_conditions *c, const fl_facts *f);
/* For `warn`: a sentence if a proximal step of this length is too long for the regulariser; `remedy` sets the
 * length. */
void fli_warn_long_prox(const fl_facts *f, double step, const char *remedy, fli_text *out);

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

struct fl_fixes {
    const fl_conditions *found; /* what `check` said */
    fli_fix at[FLI_FIXES_MAX];
    size_t count;
};

/* Whether this condition is among those that a row is for. */
int fli_fix_is_for(const fli_fix *f, const char *condition);

#endif
