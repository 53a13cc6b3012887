/* The clients' side of figures (figures.h): models on a client's samples. */
#ifndef FLI_CLIENT_EVALUATE_H
#define FLI_CLIENT_EVALUATE_H

#include "data/federation/fed.h"
#include "message/figures.h"
#include "client/store.h"

/* What it is done with. */
typedef struct {
    fl_ctx *ctx;
    const fli_model *model;
    fli_space space; /* of vectors in messages and state */
    const fli_fed *fed;
    const fli_algo *algo;
    const void *params;
    fli_store *store;
    uint64_t seed;
    void *const *kept; /* per client that is here: where a solver keeps the second block; NULL: nobody may look */
    int watch;         /* see fli_clients_spec */
} fli_evaluate_side;

/* Answers asks that are no turns; each has its status then. */
void fli_evaluate(const fli_evaluate_side *side, fli_eval *eval, fli_exchange *const *list, size_t n);

#endif
