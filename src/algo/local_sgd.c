/* LocalSGD: FedAvg with everyone taking part in every round.
 *
 *   client   x_i = Q_i steps of SGD on f_i from x                     up: x_i - x
 *   server   x <- x + server_lr sum w_i (x_i - x)
 *
 * Stich: Local SGD converges fast and communicates little, ICLR 2019. */
#include "algo/algo.h"
#include "algo/family_average.h"

enum { X };

static const fl_key keys[] = {FLI_AVERAGE_KEYS, FLI_KEY_END};

static int pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[X];
    return 0;
}

const fl_method fli_algo_local_sgd = {
    .name = "local-sgd",
    .title = "FedAvg with everyone taking part",
    .citation = "Stich, ICLR 2019",
    .traits = FL_METHOD_EVERYONE | FL_METHOD_COMPOSITE,
    .keys = keys,
    .params_size = sizeof(fli_average_params),
    FLI_AVERAGE_PARTS,
    .absorb = fli_average_absorb,
    .theory.warn = fli_average_warn,
    .pose = pose,
};
