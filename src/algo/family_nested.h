/* Common to FedNest, LFedNest and FBO-AggITD: several exchanges of a round work on the lower level, later ones return
 * to the upper level. Each phase uploads one vector, and the server averages it over the cohort. */
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

/* FedNest and LFedNest. */
typedef struct {
    fli_nested_params nest;
    int64_t tau, neumann;
    int64_t inner_steps, inner_epochs, outer_steps, outer_epochs;
    double ell;
    int anchor;   /* FLI_NEST_BATCH, FLI_NEST_FULL */
    int cohort;   /* FLI_NEST_ROUND, ... */
    int estimate; /* FLI_NEST_SUM, FLI_NEST_RANDOM */
} fli_fednest_params;
enum { FLI_NEST_SUM, FLI_NEST_RANDOM };
enum { FLI_NEST_BATCH, FLI_NEST_FULL };
enum { FLI_NEST_ROUND, FLI_NEST_LEVEL, FLI_NEST_EACH };

#define FLI_FEDNEST_KEYS                                                                                               \
    FLI_NEST_KEYS,                                                                                                     \
        FLI_KEY_INT(fli_fednest_params, tau, "0", 0, 1000000, "local steps on either level; 0: as `local` says"),      \
        FLI_KEY_INT(fli_fednest_params, inner_steps, "0", 0, 1000000, "local steps on the lower level; 0: tau"),       \
        FLI_KEY_INT(fli_fednest_params, inner_epochs, "0", 0, 1000000,                                                 \
                    "instead of inner_steps: passes over the client's samples of the lower level; 0: steps"),          \
        FLI_KEY_INT(fli_fednest_params, outer_steps, "0", 0, 1000000, "local steps on the upper level; 0: tau"),       \
        FLI_KEY_INT(fli_fednest_params, outer_epochs, "0", 0, 1000000,                                                 \
                    "instead of outer_steps: passes over the client's samples of the upper level; 0: steps"),          \
        FLI_KEY_CHOICE(fli_fednest_params, anchor, "batch", "batch|full",                                              \
                       "what all derivatives but those of the inner steps are taken over: a mini-batch, or all of "    \
                       "the client's samples of that level"),                                                          \
        FLI_KEY_CHOICE(fli_fednest_params, cohort, "round", "round|level|each",                                        \
                       "who is met in a round: the same clients throughout; others for the upper level; or others "    \
                       "for every inner round as well"),                                                               \
        FLI_KEY_INT(fli_fednest_params, neumann, "5", 0, 10000,                                                        \
                    "last power N in the sum that stands for the inverse Hessian"),                                    \
        FLI_KEY_REAL(fli_fednest_params, ell, "100", FLI_ABOVE_0, FLI_NO_MAX,                                          \
                     "the sum's terms are (I - H/ell)^n/ell; it must be at least the largest eigenvalue of H, the "    \
                     "Hessian of g "                                                                                   \
                     "in y, or the sum explodes")

extern const char *const fli_nested_sums[];

/* up = the answer; sum += p_i/(sum_S p) up */
int fli_nested_answer(const fl_turn *t, const fl_answer *a);
int fli_nested_absorb(const fl_coordinator *s, const fl_upload *t);
/* The blocks of a server's vector. */
void fli_nested_blocks(const fl_coordinator *s, fl_space *upper, fl_space *lower);
void *fli_nested_lower(const fl_coordinator *s, void *vector);
/* The sum approximates the inverse only if ell is at least the smoothness of g in y. */
void fli_nested_check(const void *params, const fl_facts *f, fl_conditions *out);
void fli_nested_fix(const void *params, const fl_facts *worst, fl_fixes *out);
/* Fills in the work of a client on a level and returns its number of steps; `asked` is that of `local`, used unless the
 * parameters set steps or tau. */
size_t fli_nested_inner(const fli_fednest_params *p, size_t asked, fl_levels *l);
size_t fli_nested_outer(const fli_fednest_params *p, size_t asked, fl_levels *l);
int fli_nested_validate(const void *params, size_t clients, fl_failure *f);

#endif
