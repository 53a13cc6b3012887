/* The steps that FedVRA and federated ADMM share; fedvra.c describes the method. */
#ifndef FLI_ALGO_FAMILY_VRA_H
#define FLI_ALGO_FAMILY_VRA_H

#include "algo/algo.h"

/* The three step sizes of one client in one round. */
typedef struct {
    double gamma, a, d;
} fli_vra;

extern const char *const fli_vra_server[], *const fli_vra_client[], *const fli_vra_sums[];
extern const fl_part fli_vra_down[], fli_vra_up[];

#define FLI_VRA_PARTS                                                                                                  \
    .server = fli_vra_server, .down = fli_vra_down, .client = fli_vra_client, .up = fli_vra_up, .sums = fli_vra_sums,  \
    .server_scalars = 1

#define FLI_VRA_POTENTIAL "P^r of (45)"

void fli_vra_pose(const fl_turn *t, const fli_vra *c, fl_problem *p);
void fli_vra_answer(const fl_turn *t, const fli_vra *c, const fl_answer *a);
void fli_vra_absorb(const fl_coordinator *s, const fli_vra *c, const fl_upload *t);
int fli_vra_advance(const fl_coordinator *s);
/* Sets beta = 1 / sum w_i gamma_i over all clients, from their gamma; NULL: the limit gamma = 0. */
void fli_vra_start(const fl_coordinator *s, const fl_reals *gamma);
double fli_vra_beta(const fl_coordinator *s); /* 0: the limit */
/* The potential P^r of (45) without its expectations: f(x) + 4 beta sum w_i ||grad f_i(x) - lam_i||^2/(p_i C_i) with
 * C_i = a_i gamma_i lr Qt_i. NaN if a dual does not move. */
const void *fli_vra_point(const fl_turn *t);
void fli_vra_contribute(const fl_turn *t, const fli_vra *c, double f, void *gradient, double *out);
double fli_vra_potential(const fl_coordinator *s, const double *sum, double g);
/* The conditions under which P^r surely falls: Theorem 1, full participation, gradients over all samples. */
void fli_vra_falls(const fli_vra *c, int one_gamma, const fl_facts *f, fl_conditions *out);

/* Qt = sum_{t<Q} (1 - gamma lr)^t */
double fli_vra_steps(double gamma, double lr, size_t steps);
/* Theorem 1's conditions at one client; `one_gamma`: all clients have the same gamma, so that (17) suffices. */
void fli_vra_check(const fli_vra *c, int one_gamma, const fl_facts *f, fl_conditions *out);
/* Theorem 2's (27) to (29) instead, for a block y_i beside x; beta is 1 / sum w_i gamma_i, or more. */
void fli_vra_check_blocks(const fli_vra *c, int one_gamma, double beta, const fl_facts *f, fl_conditions *out);
/* The condition that replaces (17), or with `blocks` (27), if clients differ in gamma_i. `at`: a client's sizes. */
void fli_vra_check_sum(int blocks, double beta, fli_vra (*at)(const void *params, const fl_facts *f),
                       const void *params, const fl_facts_all *all, fl_conditions *out);
/* Theorem 1's number of rounds (fl_theory.promise). */
void fli_vra_promise(fli_vra (*at)(const void *params, const fl_facts *f), const void *params, double beta,
                     const fl_facts_all *all, const fl_start_values *start, fl_promise *out);
/* Adds a warning if gamma_i lr > 1, which Lemma 1 does not cover. */
void fli_vra_warn(double gamma, const fl_facts *f, fli_text *out);
/* The names of the conditions, for `fix`. */
#define FLI_VRA_CONDITIONS "Lemma 1|(17)|(18)|(27)|(28)|d_i"
/* Adds gamma and lr that satisfy the conditions of Theorem 1 or, with `blocks`, of Theorem 2 for a given a and d (the
 * construction of the paper's appendix B, below (42)); and the settings for its other conditions. */
void fli_vra_fix(int blocks, double a, double d, const fl_facts *worst, fl_fixes *out);

#endif
