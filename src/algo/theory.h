/* The interface between a method and its theorem: facts about a federation, conditions, and settings that satisfy them.
 * Measuring, printing and applying are elsewhere: plan/constants.h, theory/. */
#ifndef FLI_ALGO_THEORY_H
#define FLI_ALGO_THEORY_H

#include "base/text.h"
#include "fedloom_extend.h"
#include "model/model.h"

#include <stddef.h>
#include <stdint.h>

/* ==== conditions ========================================================================================== */

/* The conditions of a method's theorem, collected over clients: for each, the client where it is tightest. */

enum { FLI_CONDITIONS_MAX = 40 };

typedef enum {
    FLI_CONDITION_BOUND,    /* requires `have <= most` */
    FLI_CONDITION_REQUIRED, /* holds or does not, without numbers */
    FLI_CONDITION_ASSUMED,  /* cannot be known from the settings: neither holds nor fails */
    FLI_CONDITION_PRINTED,  /* a bound as the paper prints it, beside the one that its proof needs: never fails */
    FLI_CONDITION_OUTSIDE   /* a case that the theorem does not cover: neither holds nor fails */
} fli_condition_kind;

typedef struct {
    fli_condition_kind kind;
    const char *name, *formula;
    double have, most; /* at the tightest client */
    int strict;        /* requires `have < most` */
    int whole;         /* for the federation as a whole */
    uint32_t client;
    size_t failing;  /* clients where it fails, */
    uint32_t failed; /* the last of them */
    int has_fix;     /* a row of settings is for this condition */
} fli_condition_seen;

struct fl_conditions {
    fli_condition_seen seen[FLI_CONDITIONS_MAX];
    size_t count;
    int full; /* a condition was dropped for lack of room */
};

/* Whether the condition fails; assumed, printed and uncovered ones never do. */
static inline int fli_condition_fails(const fli_condition_seen *s)
{
    return s->failing && s->kind != FLI_CONDITION_PRINTED;
}

/* The ratio of left to right side; at most 1 if the condition holds, infinite if a side is not a number. */
double fli_condition_excess(double have, double most);

/* The requirement of all theorems here that cover a regulariser; without a regulariser, nothing. */
void fli_require_convex_g(fl_conditions *c, const fl_facts *f);
/* The condition of a linear rate: certain if weight decay is added to a convex f_i, otherwise assumed. */
void fli_ask_strong_convexity(fl_conditions *c, const fl_facts *f);
/* For `warn`: adds a sentence if a proximal step of this length is too long for the regulariser; `remedy` names the
 * keys that set the length. */
void fli_warn_long_prox(const fl_facts *f, double step, const char *remedy, fli_text *out);

/* ==== fixes =============================================================================================== */

/* Settings that satisfy a theorem's conditions: `check` advises them, `check --fix` writes them. */

enum { FLI_FIXES_MAX = 24, FLI_FIX_VALUE = 48 };

/* One key and its value. It counts if one of the conditions fails: names as `check` has them, separated by '|'; a name
 * also matches longer ones that continue after a space: "(18)" matches "(18) first". */
typedef struct {
    const char *conditions, *key;
    const char *why;           /* printed behind it in brackets; NULL: nothing */
    int relative;              /* the key's old value times a factor: lists per client are not changed */
    char value[FLI_FIX_VALUE]; /* as YAML */
} fli_fix;

struct fl_fixes {
    const fl_conditions *found; /* the result of `check` */
    fli_fix at[FLI_FIXES_MAX];
    size_t count;
};

/* Whether a row is for this condition. */
int fli_fix_is_for(const fli_fix *f, const char *condition);

#endif
