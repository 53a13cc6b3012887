/* Common to personalised methods: a client's own model beside the global one, and its share in predictions. */
#ifndef FLI_ALGO_FAMILY_PERSONAL_H
#define FLI_ALGO_FAMILY_PERSONAL_H

#include "algo/algo.h"

typedef struct {
    fl_reals mix;    /* one for all, or one per client; empty: the solver chooses, unless the method does */
    double lr_local; /* 0: the method's default, a multiple of the global model's step size */
} fli_personal_params;

/* Their rows in a table; field `f` of struct `s` is a fli_personal_params. `words` are the words of mix, auto first;
 * `meaning` explains the others; `usual` names the lr_local that 0 stands for. */
#define FLI_OWN_KEYS(s, f, words, meaning, usual)                                                                      \
    {"mix",                                                                                                            \
     FL_KEY_REALS,                                                                                                     \
     "0.75",                                                                                                           \
     0,                                                                                                                \
     1,                                                                                                                \
     words,                                                                                                            \
     "share of the client's own model in its predictions; auto: the one under which a fifth of its labelled samples, " \
     "held out from training, are likeliest" meaning,                                                                  \
     offsetof(s, f.mix),                                                                                               \
     1},                                                                                                               \
    {                                                                                                                  \
        "lr_local", FL_KEY_REAL, "0", 0, FLI_NO_MAX, NULL,                                                             \
            "step size of the clients' own models; 0: " usual ", with its schedule", offsetof(s, f.lr_local)           \
    }

/* `own` is the index of the own model among the client's vectors, `mix` that of its share among its scalars; the step
 * size is `times` local.lr if lr_local is 0. */
void fli_personal_pose(const fli_personal_params *p, const fl_turn *t, size_t own, double times, fl_problem *out);
void fli_personal_answer(const fl_turn *t, const fl_answer *a, size_t own, size_t mix);
/* `mix` of the descriptor: the first of the client's scalars, or before its first turn the initial share. */
double fli_personal_mix(const fli_personal_params *p, size_t client, const double *scalars);
/* The descriptor's solver. */

#endif
