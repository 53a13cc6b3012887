/* The steps that FedDR and FedSplit share; see feddr.c for the method. */
#ifndef FLI_ALGO_DR_H
#define FLI_ALGO_DR_H

#include "algo/algo.h"

typedef struct {
    double eta, alpha;
    int init;    /* 0 lazy, 1 exact */
    int solver;  /* 0 sgd, 1 exact */
    int64_t tau; /* asyncFedDR */
} fli_dr_params;

/* Of the local problem. */
#define FLI_DR_LOCAL_KEYS                                                                                              \
    FLI_KEY_REAL(fli_dr_params, eta, "1", FLI_ABOVE_0, FLI_NO_MAX,                                                     \
                 "the local problem's proximal parameter: rho = 1/eta"),                                               \
        FLI_KEY_CHOICE(fli_dr_params, solver, "sgd", "sgd|exact",                                                      \
                       "of the local problem: SGD as in `local`, or the exact minimiser (least squares)")

#define FLI_DR_KEYS                                                                                                    \
    FLI_DR_LOCAL_KEYS,                                                                                                 \
        FLI_KEY_CHOICE(fli_dr_params, init, "lazy", "lazy|exact",                                                      \
                       "lazy: clients begin at the start model; exact: everyone computes its prox before round 1")

extern const char *const fli_dr_server[], *const fli_dr_client[], *const fli_dr_up[], *const fli_dr_sums[];

const fli_solver *fli_dr_solver(const void *params);
int fli_dr_warms_up(const void *params);
void fli_dr_start(const fli_server *s);
void fli_dr_pose(const fli_turn *t, fli_problem *p);
void fli_dr_answer(const fli_turn *t, const fli_answer *a);
void fli_dr_absorb(const fli_server *s, const fli_turn *t);
void fli_dr_advance(const fli_server *s);

#define FLI_DR_PARTS                                                                                                   \
    .params_size = sizeof(fli_dr_params), .server = fli_dr_server, .down = 1, .client = fli_dr_client,                 \
    .own_model = 2 /* x_i */, .up = fli_dr_up, .sums = fli_dr_sums, .solver = fli_dr_solver,                           \
    .warms_up = fli_dr_warms_up, .start = fli_dr_start, .pose = fli_dr_pose, .answer = fli_dr_answer,                  \
    .absorb = fli_dr_absorb, .advance = fli_dr_advance

#endif
