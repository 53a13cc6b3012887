/* Metrics of the global model and, where asked for, of the clients' own ones. Clients are asked for their figures
 * (exec/figures.h); the test set is the server's. Sums run over a fixed number of lanes, each in order, so that they
 * do not depend on the number of threads. */
#ifndef FLI_RUN_MEASURE_H
#define FLI_RUN_MEASURE_H

#include "exec/exec.h"
#include "run/settings.h"

/* One client's figures under the global model. */
typedef struct {
    uint32_t client;
    size_t samples;
    double loss;     /* on its training samples, weight decay included */
    double accuracy; /* on its own test part, or its training samples if it has none; NaN for regression */
    double
        own_accuracy; /* of its own model, or its mixture of that and the global one, on its own test part; NaN: not measured */
    double own_mix; /* the own model's share in that mixture */
} fli_client_figures;

typedef struct fli_measure fli_measure;

fl_status fli_measure_new(fl_ctx *ctx, fli_exec *exec, const fli_model *model, const fli_fed *fed,
                          const fli_metrics_settings *what, fli_measure **out);
void fli_measure_free(fli_measure *m);
/* What it takes at least, in bytes. */
double fli_measure_bytes(const fli_model *model, const fli_metrics_settings *what, size_t clients);
/* Fills the losses, accuracies, gradient and quantiles of a row, and adds what that sent; what is not measured becomes
 * NaN. */
fl_status fli_measure_take(fli_measure *m, const void *x, fl_row *row);
/* The newest per-client figures; 0 before the first measurement, or when clients are not measured. */
size_t fli_measure_clients(const fli_measure *m, const fli_client_figures **out);

#endif
