/* Golden cases (`fedloom verify`), through any executor. */
#ifndef FLI_EXTEND_VERIFY_H
#define FLI_EXTEND_VERIFY_H

#include "config/config.h"
#include "data/federation/federation.h"
#include "executor/executor.h"

#include <jansson.h>

/* A golden case as a configuration and samples in memory: what the file says in its own words, in those of settings, so
 * that it is planned like any other run. What it says beyond settings (weights, who takes part in which round with how
 * many steps, what comes out) stays JSON. */
typedef struct {
    fl_ctx *ctx;
    const char *path;
    json_t *json;
    fl_config *cfg;
    fli_fed *fed; /* NULL: the objective is not known, which planning will say */
} fli_golden;

/* fl_verify on an executor that is listed. */
fl_status fli_verify_on(fl_ctx *ctx, const fli_executor *executor, const char *path, double tolerance, double *error);

#endif
