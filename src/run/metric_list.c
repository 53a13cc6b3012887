/* The list of metrics, in the order of the columns of metrics.csv: new ones come last. */
#include "run/metric_list.h"

/* clang-format off */
const fli_metric *const fli_metrics[] = {
    &fli_metric_round,
    &fli_metric_cohort,
    &fli_metric_train_loss,
    &fli_metric_train_accuracy,
    &fli_metric_test_loss,
    &fli_metric_test_accuracy,
    &fli_metric_gradient2,
    &fli_metric_client_q10,
    &fli_metric_client_q50,
    &fli_metric_client_q90,
    &fli_metric_regularizer,
    &fli_metric_local_train_loss,
    &fli_metric_local_train_accuracy,
    &fli_metric_local_test_loss,
    &fli_metric_local_test_accuracy,
    &fli_metric_bytes_up,
    &fli_metric_bytes_down,
    &fli_metric_local_steps,
    &fli_metric_seconds,
    &fli_metric_simulated_seconds,
    &fli_metric_staleness,
    &fli_metric_staleness_max,
    &fli_metric_local_q10,
    &fli_metric_local_q50,
    &fli_metric_local_q90,
    &fli_metric_local_worst,
    &fli_metric_pseudo_accuracy,
    &fli_metric_cluster_accuracy,
    &fli_metric_cluster_nmi,
    &fli_metric_communications,
    &fli_metric_evaluation_bytes_up,
    &fli_metric_evaluation_bytes_down,
    &fli_metric_local_std,
    NULL,
};
/* clang-format on */
_Static_assert(sizeof fli_metrics / sizeof *fli_metrics - 1 <= FL_METRICS_MAX, "a row has no room for all metrics");
