/* What a method's theorem asks for, collected over clients: for each condition, the client where it is tightest. */
#ifndef FLI_ALGO_CONDITIONS_H
#define FLI_ALGO_CONDITIONS_H

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

struct fli_conditions {
    fli_condition_seen seen[FLI_CONDITIONS_MAX];
    size_t count;
    int full; /* there was no room for another one */
};

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

#endif
