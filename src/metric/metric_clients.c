/* How the global model x serves the clients, each by its own samples. */
#include "metric/metric_list.h"

static int wants_clients(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)model, what->clients;
}

static double q10(fli_moment *m) { return fli_quantile(m->accuracies, 10); }
static double q50(fli_moment *m) { return fli_quantile(m->accuracies, 50); }
static double q90(fli_moment *m) { return fli_quantile(m->accuracies, 90); }

const fli_metric fli_metric_client_q10 = {
    .is = {.name = "client_q10",
           .title = "client accuracy, 10% quantile",
           .help = "accuracy of x on each client's own samples: a tenth of the clients are at or below this,",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"clients/q10"}, [FL_VIEW_CHART] = {"client-accuracy-q10", 11}}},
    .measure = q10,
    .wanted = wants_clients,
    .asks = FLI_FIGURES_EITHER,
};

const fli_metric fli_metric_client_q50 = {
    .is = {.name = "client_q50",
           .title = "client accuracy, median",
           .help = "half of them,",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"clients/q50"}, [FL_VIEW_CHART] = {"client-accuracy", 10}}},
    .measure = q50,
    .wanted = wants_clients,
    .asks = FLI_FIGURES_EITHER,
};

const fli_metric fli_metric_client_q90 = {
    .is = {.name = "client_q90",
           .title = "client accuracy, 90% quantile",
           .help = "nine in ten",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"clients/q90"}}},
    .measure = q90,
    .wanted = wants_clients,
    .asks = FLI_FIGURES_EITHER,
};
