/* Rows of metrics made by hand. */
#ifndef TESTS_ROW_H
#define TESTS_ROW_H

#include "fedloom.h"

#include <math.h>

/* The counters are 0, nothing has been measured. */
__attribute__((unused)) static fl_row empty_row(void)
{
    return (fl_row){
        .train_loss = NAN,
        .train_accuracy = NAN,
        .test_loss = NAN,
        .test_accuracy = NAN,
        .gradient2 = NAN,
        .client_q10 = NAN,
        .client_q50 = NAN,
        .client_q90 = NAN,
        .regularizer = NAN,
        .local_train_loss = NAN,
        .local_train_accuracy = NAN,
        .local_test_loss = NAN,
        .local_test_accuracy = NAN,
        .simulated_seconds = NAN,
        .staleness = NAN,
        .staleness_max = NAN,
        .local_q10 = NAN,
        .local_q50 = NAN,
        .local_q90 = NAN,
        .local_worst = NAN,
        .pseudo_accuracy = NAN,
        .cluster_accuracy = NAN,
        .cluster_nmi = NAN,
    };
}

#endif
