/* Golden cases (`fedloom verify`), through any executor. */
#ifndef FLI_EXTEND_VERIFY_H
#define FLI_EXTEND_VERIFY_H

#include "config/config.h"
#include "data/federation/federation.h"
#include "executor/executor.h"

#include <jansson.h>

/* A golden case as a configuration and samples in memory, so that it is planned like any run. What settings cannot
 * express (weights, cohorts, numbers of steps, expected models) stays JSON. */
typedef struct {
    fl_ctx *ctx;
    const char *path;
    json_t *json;
    fl_config *cfg;
    fli_fed *fed; /* NULL: unknown objective, which planning reports */
} fli_golden;

/* fl_verify on an executor that is listed. */
fl_status fli_verify_on(fl_ctx *ctx, const fli_executor *executor, const char *path, double tolerance, double *error);

#endif
