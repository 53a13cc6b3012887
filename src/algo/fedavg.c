/* FedAvg.
 *
 *   client   x_i = Q_i steps of SGD on f_i from x                     up: x_i - x
 *   server   normalized   x <- x + server_lr sum_S (w_i / sum_S w) (x_i - x)
 *            unbiased     x <- x + server_lr (N/m) sum_S w_i (x_i - x)       [VRA] (21)
 *   f + g    then x <- prox_{h g}(x), h = server_lr times the averaged lr Q_i (more with momentum): the baseline for
 *            composite problems
 *
 * McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-efficient learning of deep networks from decentralized
 * data, AISTATS 2017. With Q_i > 1 on different data it does not converge to the optimum; it is the baseline of
 * everything else. */
#include "algo/algo.h"
#include "algo/family_average.h"

enum { X };

static const fl_key keys[] = {FLI_AVERAGE_KEYS, FLI_KEY_END};

static int pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[X];
    return 0;
}

const fl_method fli_algo_fedavg = {
    .name = "fedavg",
    .title = "federated averaging: local SGD, then the average",
    .citation = "McMahan et al., AISTATS 2017",
    .traits = FL_METHOD_COMPOSITE,
    .keys = keys,
    .params_size = sizeof(fli_average_params),
    FLI_AVERAGE_PARTS,
    .absorb = fli_average_absorb,
    .theory.warn = fli_average_warn,
    .pose = pose,
};
