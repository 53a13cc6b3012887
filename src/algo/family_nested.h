/* What FedNest, LFedNest and FBO-AggITD share: they go down to the lower level for several exchanges of a round and
 * come back up. One vector of whatever a phase is about goes up, and its average over the cohort is taken. */
#ifndef FLI_ALGO_FAMILY_NESTED_H
#define FLI_ALGO_FAMILY_NESTED_H

#include "algo/algo.h"

typedef struct {
    double lr_in, lr_out;
    int64_t inner_rounds;
} fli_nested_params;

#define FLI_NEST_KEYS                                                                                                  \
    FLI_KEY_REAL(fli_nested_params, lr_in, "0.01", FLI_ABOVE_0, FLI_NO_MAX,                                            \
                 "step size of y, the lower level, instead of local.lr"),                                              \
        FLI_KEY_REAL(fli_nested_params, lr_out, "0.01", FLI_ABOVE_0, FLI_NO_MAX,                                       \
                     "step size of x, the upper level, instead of local.lr"),                                          \
        FLI_KEY_INT(fli_nested_params, inner_rounds, "1", 1, 10000, "averaged rounds T on the lower level per round")

/* FedNest and its light version. */
typedef struct {
    fli_nested_params nest;
    int64_t tau, neumann;
    double ell;
    int estimate; /* FLI_NEST_SUM, FLI_NEST_RANDOM */
} fli_fednest_params;
enum { FLI_NEST_SUM, FLI_NEST_RANDOM };

#define FLI_FEDNEST_KEYS                                                                                               \
    FLI_NEST_KEYS,                                                                                                     \
        FLI_KEY_INT(fli_fednest_params, tau, "0", 0, 1000000, "local steps on either level; 0: as `local` says"),      \
        FLI_KEY_INT(fli_fednest_params, neumann, "5", 0, 10000,                                                        \
                    "last power N in the sum that stands for the inverse Hessian"),                                    \
        FLI_KEY_REAL(fli_fednest_params, ell, "100", FLI_ABOVE_0, FLI_NO_MAX,                                          \
                     "the sum's terms are (I - H/ell)^n/ell; it must be at least the largest eigenvalue of H, the "    \
                     "Hessian of g "                                                                                   \
                     "in y, or the sum explodes")

extern const char *const fli_nested_sums[];

const fli_solver *fli_nested_solver(const void *params, size_t stage);
/* up = the answer; sum += p_i/(sum_S p) up */
void fli_nested_answer(const fli_turn *t, const fli_answer *a);
void fli_nested_absorb(const fli_server *s, const fli_upload *t);
/* The blocks of a server's vector. */
void fli_nested_blocks(const fli_server *s, fli_space *upper, fli_space *lower);
void *fli_nested_lower(const fli_server *s, void *vector);
/* The sum stands for an inverse only if ell is at least the smoothness of g in y. */
void fli_nested_check(const void *params, const fli_facts *f, fli_conditions *out);
void fli_nested_fix(const void *params, const fli_facts *worst, fli_fixes *out);
/* Steps that a client takes on a level. */
size_t fli_nested_steps(const fli_fednest_params *p, size_t asked);

#endif
