/* The metrics there are. To add one: its file, a line here, a line in metric_list.c. */
#ifndef FLI_METRIC_METRIC_LIST_H
#define FLI_METRIC_METRIC_LIST_H

#include "metric/metric.h"

extern const fli_metric fli_metric_round;
extern const fli_metric fli_metric_cohort;
extern const fli_metric fli_metric_train_loss;
extern const fli_metric fli_metric_train_accuracy;
extern const fli_metric fli_metric_test_loss;
extern const fli_metric fli_metric_test_accuracy;
extern const fli_metric fli_metric_gradient2;
extern const fli_metric fli_metric_client_q10;
extern const fli_metric fli_metric_client_q50;
extern const fli_metric fli_metric_client_q90;
extern const fli_metric fli_metric_regularizer;
extern const fli_metric fli_metric_local_train_loss;
extern const fli_metric fli_metric_local_train_accuracy;
extern const fli_metric fli_metric_local_test_loss;
extern const fli_metric fli_metric_local_test_accuracy;
extern const fli_metric fli_metric_bytes_up;
extern const fli_metric fli_metric_bytes_down;
extern const fli_metric fli_metric_local_steps;
extern const fli_metric fli_metric_seconds;
extern const fli_metric fli_metric_simulated_seconds;
extern const fli_metric fli_metric_staleness;
extern const fli_metric fli_metric_staleness_max;
extern const fli_metric fli_metric_idle;
extern const fli_metric fli_metric_idle_most;
extern const fli_metric fli_metric_local_q10;
extern const fli_metric fli_metric_local_q50;
extern const fli_metric fli_metric_local_q90;
extern const fli_metric fli_metric_local_worst;
extern const fli_metric fli_metric_pseudo_accuracy, fli_metric_labelled_loss, fli_metric_labels_move;
extern const fli_metric fli_metric_cluster_accuracy;
extern const fli_metric fli_metric_cluster_nmi;
extern const fli_metric fli_metric_communications;
extern const fli_metric fli_metric_evaluation_bytes_up;
extern const fli_metric fli_metric_evaluation_bytes_down;
extern const fli_metric fli_metric_local_std;
extern const fli_metric fli_metric_hypergradient;
extern const fli_metric fli_metric_lower_distance;
extern const fli_metric fli_metric_system_distance;
extern const fli_metric fli_metric_gradient_mapping;
extern const fli_metric fli_metric_potential;
extern const fli_metric fli_metric_potential_rise;
extern const fli_metric fli_metric_weighted_hypergradient;
extern const fli_metric fli_metric_gap;
extern const fli_metric fli_metric_local_gradient2;

#endif
