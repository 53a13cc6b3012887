#include "algo/list.h"

#include <string.h>

const fli_algo *const fli_algo_list[] = {
    &fli_algo_fedavg,   &fli_algo_local_sgd,  &fli_algo_fedprox,    &fli_algo_fednova,
    &fli_algo_scaffold, &fli_algo_vrl_sgd,    &fli_algo_feddyn,     &fli_algo_fedpd,
    &fli_algo_fedvra,   &fli_algo_fedadmm,    &fli_algo_feddr,      &fli_algo_fedsplit,
    &fli_algo_fedgia,   &fli_algo_asyncfeddr, &fli_algo_fedasync,   &fli_algo_fedbuff,
    &fli_algo_fedvra_u, &fli_algo_fedcpsl,    &fli_algo_fedshvr,    &fli_algo_fedshvrp,
    &fli_algo_apfl,     &fli_algo_apsfl,      &fli_algo_simfbo,     &fli_algo_shrofbo,
    &fli_algo_fednest,  &fli_algo_lfednest,   &fli_algo_fbo_aggitd, NULL,
};

const char *fli_algo_remedy(const fli_algo *a)
{
    if (a->remedy) return a->remedy;
    for (const fli_key *k = a->keys; k && k->name; k++)
        if (!strcmp(k->name, "server_lr")) return "a smaller local.lr or algorithm.server_lr";
    return FLI_LOCAL_REMEDY;
}

size_t fli_names_count(const char *const *names)
{
    size_t n = 0;
    while (names && names[n]) n++;
    return n;
}
