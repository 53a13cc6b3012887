#include "algo/list.h"

/* One per line. */
/* clang-format off */
const fli_algo *const fli_algo_list[] = {
    &fli_algo_fedavg,
    &fli_algo_local_sgd,
    &fli_algo_fedprox,
    &fli_algo_fednova,
    &fli_algo_scaffold,
    &fli_algo_vrl_sgd,
    &fli_algo_feddyn,
    &fli_algo_fedpd,
    &fli_algo_fedvra,
    &fli_algo_fedadmm,
    &fli_algo_feddr,
    &fli_algo_fedsplit,
    &fli_algo_fedgia,
    &fli_algo_asyncfeddr,
    &fli_algo_fedasync,
    &fli_algo_fedbuff,
    &fli_algo_fedvra_u,
    &fli_algo_fedcpsl,
    &fli_algo_fedshvr,
    &fli_algo_fedshvrp,
    &fli_algo_apfl,
    &fli_algo_apsfl,
    &fli_algo_simfbo,
    &fli_algo_shrofbo,
    &fli_algo_fednest,
    &fli_algo_lfednest,
    &fli_algo_fbo_aggitd,
    &fli_algo_fedadam,
    &fli_algo_fedyogi,
    &fli_algo_fedadagrad,
    &fli_algo_mime_lite,
    NULL,
};
/* clang-format on */
