/* A recorded run: its model and its metrics after every round, or how it failed. For conform.c. */
#ifndef FLI_EXTEND_CONFORM_TRACE_H
#define FLI_EXTEND_CONFORM_TRACE_H

#include "base/text.h"
#include "config/config.h"

typedef struct {
    size_t n, rounds; /* parameters; rounds, without the start, that there is room for */
    double *x;        /* rounds + 1 models */
    fl_row *rows;
    fl_status status; /* of the run: FL_OK, FL_EDIVERGED or FL_ECALLBACK */
    char *error;      /* its sentence, if that is not FL_OK */
} fli_trace;

#endif
