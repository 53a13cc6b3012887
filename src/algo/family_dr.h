/* The steps that FedDR, asyncFedDR and FedSplit share; feddr.c describes the method. */
#ifndef FLI_ALGO_FAMILY_DR_H
#define FLI_ALGO_FAMILY_DR_H

#include "algo/algo.h"

typedef struct {
    fl_reals eta;   /* one number; empty: auto */
    double settled; /* the settled value of eta, to which eta.v then points */
    double alpha;
    int init;   /* 0 lazy, 1 exact */
    int solver; /* fli_dr_solver_word */
    double accuracy, accuracy_power, relative, weak_convexity;
    int64_t most_steps;
    int64_t tau; /* asyncFedDR */
} fli_dr_params;

typedef enum { FLI_DR_SGD, FLI_DR_EXACT, FLI_DR_ACCURATE } fli_dr_solver_word;

#define FLI_DR_KEYS                                                                                                    \
    {"eta",                                                                                                            \
     FL_KEY_REALS,                                                                                                     \
     "auto",                                                                                                           \
     FLI_ABOVE_0,                                                                                                      \
     FLI_NO_MAX,                                                                                                       \
     "auto",                                                                                                           \
     "the local problem's proximal parameter: rho = 1/eta; auto: with solver sgd local.lr times the clients' mean "    \
     "number of local steps, with the others 10/L for convex models and 1/L for the rest; see the notes",              \
     offsetof(fli_dr_params, eta)},                                                                                    \
        FLI_KEY_CHOICE(fli_dr_params, solver, "sgd", "sgd|exact|accurate",                                             \
                       "of the local problem: SGD as in `local`; the exact minimiser (least squares); or L-BFGS to "   \
                       "an accuracy, with gradients over all samples whatever `local` says of batches and steps"),     \
        FLI_KEY_REAL(fli_dr_params, accuracy, "0", 0, FLI_NO_MAX,                                                      \
                     "accurate: round k = 0, 1, ... ends within accuracy/(k+1)^accuracy_power of the minimiser; "      \
                     "0: not required"),                                                                               \
        FLI_KEY_REAL(fli_dr_params, accuracy_power, "1", 0, FLI_NO_MAX,                                                \
                     "accurate: how fast that shrinks; above 0.5 the squared errors are summable"),                    \
        FLI_KEY_REAL(fli_dr_params, relative, "0", 0, FLI_NO_MAX,                                                      \
                     "accurate: ends within this times the distance from its start; 0: not required"),                 \
        FLI_KEY_REAL(fli_dr_params, weak_convexity, "0", 0, FLI_NO_MAX,                                                \
                     "accurate: L_-, how negative the curvature of a client's objective can be; 0: convex"),           \
        FLI_KEY_INT(fli_dr_params, most_steps, "1000", 1, FLI_NO_MAX,                                                  \
                    "accurate: most gradients per local problem, whether accurate by then or not"),                    \
        FLI_KEY_CHOICE(fli_dr_params, init, "lazy", "lazy|exact",                                                      \
                       "lazy: clients begin at the start model; exact: everyone computes its prox before round 1")

extern const char *const fli_dr_server[], *const fli_dr_client[], *const fli_dr_sums[];
extern const fl_part fli_dr_down[], fli_dr_up[];

double fli_dr_eta(const fli_dr_params *p); /* 1 until it is settled */
/* `auto` is a rule of thumb, not from a theorem. With exact proxes and quadratics of equal curvature h, a round shrinks
 * the common part of the clients' errors by alpha (1 - 1/(1 + eta h)) of it, and their differences by alpha/(1 + eta
 * h): eta L should be large for the first and not too large for the second; 10 is a compromise. SGD moves at most lr Q
 * in a turn: a larger eta does not help the first and harms the second. See fl_settling. */
unsigned fli_dr_unsettled(const void *params);
void fli_dr_settle(void *params, const fl_facts *f);
int fli_dr_validate(const void *params, size_t clients, fl_failure *f);
const char *fli_dr_solver(const void *params, size_t stage);
int fli_dr_warms_up(const void *params);
double fli_dr_mapping_eta(const void *params); /* (4) */
/* The Lyapunov function (25), for clients that are not within a turn; `contribute_at` uses the given x_i. */
const void *fli_dr_point(const fl_turn *t);
void fli_dr_contribute_at(const fl_turn *t, const void *x, double f, void *gradient, double *out);
double fli_dr_potential(const fl_coordinator *s, const double *sum, double g);
/* Requirements and assumptions on the local solver that hold for any theorem about its errors; and the setting for the
 * requirements. */
void fli_dr_assume(const fli_dr_params *p, const fl_facts *f, fl_conditions *out);
void fli_dr_fix_steps(const fl_facts *worst, fl_fixes *out);
/* For turns of one step: an `auto` eta is then the step itself, and no step is short beside it, so eta is fixed at its
 * current value. Call it after adding the rows of other conditions on eta. */
void fli_dr_fix_auto(const fli_dr_params *p, const fl_facts *worst, fl_fixes *out);
/* A warning about the server's proximal step, which has length eta. */
void fli_dr_warn(const void *params, const fl_facts *f, fli_text *out);
int fli_dr_start(const fl_coordinator *s);
int fli_dr_pose(const fl_turn *t, fl_problem *p);
int fli_dr_answer(const fl_turn *t, const fl_answer *a);
int fli_dr_absorb(const fl_coordinator *s, const fl_upload *t);
int fli_dr_advance(const fl_coordinator *s);

#define FLI_DR_PARTS                                                                                                   \
    .params_size = sizeof(fli_dr_params), .settling = {fli_dr_unsettled, fli_dr_settle}, .server = fli_dr_server,      \
    .down = fli_dr_down, .client = fli_dr_client, .own_model = "x_i", .up = fli_dr_up, .sums = fli_dr_sums,            \
    .remedy = "a smaller algorithm.eta, or local.lr with solver sgd", .validate = fli_dr_validate,                     \
    .solver_for = fli_dr_solver, .rounds.warms_up = fli_dr_warms_up, .theory.mapping_eta = fli_dr_mapping_eta,         \
    .start = fli_dr_start, .pose = fli_dr_pose, .absorb = fli_dr_absorb, .advance = fli_dr_advance

#endif
