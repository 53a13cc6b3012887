/* Common to SimFBO and ShroFBO: one loop for y, v and x, with one upload per round. */
#ifndef FLI_ALGO_FAMILY_SIMFBO_H
#define FLI_ALGO_FAMILY_SIMFBO_H

#include "algo/algo.h"

typedef struct {
    double lr_y, lr_v, lr_x, server_lr_y, server_lr_v, server_lr_x;
    fl_reals coef, coef_rounds;
    int64_t coef_steps;
    double coef_decay;
    fl_reals radius; /* empty: auto */
} fli_simfbo_params;

extern const fl_key fli_simfbo_keys[];
enum { FLI_FBO_V = 2 }; /* 1 + the index of v among the server's vectors */
extern const fl_tune_range fli_simfbo_tune[];
extern const char *const fli_simfbo_server[], *const fli_simfbo_sums[];
extern const fl_part fli_simfbo_down[];
enum { FLI_FBO_L_F, FLI_FBO_SCALARS };   /* up, and on the server: the largest ||grad_y f_i|| seen, for radius: auto */
enum { FLI_FBO_NORM = FLI_FBO_SCALARS }; /* up, ShroFBO: ||a_i||_1 */
enum { FLI_FBO_RHO, FLI_FBO_SCALAR_SUMS }; /* sum pt_i ||a_i||_1 */

int fli_simfbo_validate(const void *params, size_t clients, fl_failure *f);
/* The conditions of Theorems 1 and 2 at one client, and of all; `divides`: the method divides as ShroFBO does. */
void fli_simfbo_check(const void *params, const fl_facts *f, fl_conditions *out);
void fli_simfbo_check_all(int divides, const void *params, const fl_facts_all *all, fl_conditions *out);
void fli_simfbo_promise(const void *params, const fl_facts_all *all, const fl_start_values *start, fl_promise *out);
void fli_simfbo_fix(const void *params, const fl_facts *worst, fl_fixes *out);
int fli_simfbo_pose(const fl_turn *t, fl_problem *p);
/* Uploads q times `scale`, and the estimate of L_f. */
void fli_simfbo_upload(const fl_turn *t, const fl_answer *a, double scale);
int fli_simfbo_absorb(const fl_coordinator *s, const fl_upload *t);
/* One step of the server with its step sizes times `scale`. */
void fli_simfbo_step(const fl_coordinator *s, double scale);
/* The stages: L_f is sent only if the radius depends on it. */
enum { FLI_FBO_AUTO_RADIUS, FLI_FBO_FIXED_RADIUS };
size_t fli_simfbo_stage(const void *params, size_t phase, size_t phases);

/* (37) for K_1 = K_2 = 1. */
#define FLI_FBO_POTENTIAL "Psi of (37) for K_1 = K_2 = 1"
double fli_simfbo_potential(double value, double lower_distance, double system_distance);
/* ||a_i||_1 of a first round with that many steps. */
double fli_simfbo_length(const void *params, size_t client, size_t steps);

/* The uploads of both methods. */
#define FLI_FBO_UPLOADS                                                                                                \
    {"(q_x, q_y)", FL_PART_VECTOR, 0, FL_PART_CHANGE}, {"q_v", FL_PART_LOWER, 1, FL_PART_CHANGE},                      \
    {                                                                                                                  \
        "||grad_y f_i||", FL_PART_NUMBER, FLI_FBO_L_F, FL_PART_VALUE, FL_IN_PHASE(FLI_FBO_AUTO_RADIUS)                 \
    }

/* The parts of a descriptor that both methods share. */
#define FLI_FBO_PARTS                                                                                                  \
    .traits = FL_METHOD_BILEVEL | FL_METHOD_WHOLE_ADVANCE, .keys = fli_simfbo_keys,                                    \
    .params_size = sizeof(fli_simfbo_params), .server = fli_simfbo_server, .down = fli_simfbo_down,                    \
    .server_scalars = FLI_FBO_SCALARS, .rounds.stage = fli_simfbo_stage, .rounds.counts_as = fli_simfbo_counts_as,     \
    .sums = fli_simfbo_sums, .remedy = "smaller algorithm.lr_x, lr_y, lr_v or server_lr_x, server_lr_y, server_lr_v",  \
    .tune = fli_simfbo_tune, .validate = fli_simfbo_validate, .theory.check = fli_simfbo_check,                        \
    .theory.fix = fli_simfbo_fix, .theory.promise = fli_simfbo_promise,                                                \
    .theory.potential = {.name = FLI_FBO_POTENTIAL, .levels = fli_simfbo_potential}, .solver = "bilevel",              \
    .pose = fli_simfbo_pose

size_t fli_simfbo_counts_as(const void *params, size_t stage, size_t steps, const fl_epochs *e);

#endif
