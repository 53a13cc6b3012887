/* What a method's theorem asks for, collected over clients: for each condition, the client where it is tightest. */
#ifndef FLI_ALGO_CONDITIONS_H
#define FLI_ALGO_CONDITIONS_H

#include "algo/algo.h"

enum { FLI_CONDITIONS_MAX = 16 };

typedef enum {
    FLI_CONDITION_BOUND,    /* `have <= most` is asked for */
    FLI_CONDITION_REQUIRED, /* holds or does not, without numbers */
    FLI_CONDITION_ASSUMED   /* nobody can tell: neither holds nor fails */
} fli_condition_kind;

typedef struct {
    fli_condition_kind kind;
    const char *name, *formula;
    double have, most; /* at the tightest client */
    uint32_t client;
    size_t failing;  /* clients where it does not hold, */
    uint32_t failed; /* the last of them */
} fli_condition_seen;

struct fli_conditions {
    fli_condition_seen seen[FLI_CONDITIONS_MAX];
    size_t count;
};

/* How many times too large the left side is; at most 1 when the condition holds, infinite when a side is not a
 * number. */
double fli_condition_excess(double have, double most);

#endif
