/* The algorithms there are. To add one: its file, a line here, a line in list.c. */
#ifndef FLI_ALGO_LIST_H
#define FLI_ALGO_LIST_H

#include "algo/algo.h"

extern const fli_algo fli_algo_fedavg;
extern const fli_algo fli_algo_local_sgd;
extern const fli_algo fli_algo_fedprox;
extern const fli_algo fli_algo_fednova;
extern const fli_algo fli_algo_scaffold;
extern const fli_algo fli_algo_vrl_sgd;
extern const fli_algo fli_algo_feddyn;
extern const fli_algo fli_algo_fedpd;
extern const fli_algo fli_algo_fedvra;
extern const fli_algo fli_algo_fedadmm;
extern const fli_algo fli_algo_feddr;
extern const fli_algo fli_algo_fedsplit;
extern const fli_algo fli_algo_fedgia;
extern const fli_algo fli_algo_asyncfeddr;
extern const fli_algo fli_algo_fedasync;
extern const fli_algo fli_algo_fedbuff;
extern const fli_algo fli_algo_fedvra_u;
extern const fli_algo fli_algo_fedcpsl;
extern const fli_algo fli_algo_fedshvr;
extern const fli_algo fli_algo_fedshvrp;
extern const fli_algo fli_algo_apfl;
extern const fli_algo fli_algo_apsfl;
extern const fli_algo fli_algo_simfbo;
extern const fli_algo fli_algo_shrofbo;
extern const fli_algo fli_algo_fednest;
extern const fli_algo fli_algo_lfednest;
extern const fli_algo fli_algo_fbo_aggitd;
extern const fli_algo fli_algo_fedadam;
extern const fli_algo fli_algo_fedyogi;
extern const fli_algo fli_algo_fedadagrad;
extern const fli_algo fli_algo_mime_lite;
extern const fli_algo fli_algo_fedlin;
extern const fli_algo fli_algo_scaffnew;

#endif
