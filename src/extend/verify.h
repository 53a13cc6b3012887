/* Golden cases, through any executor. */
#ifndef FLI_EXTEND_VERIFY_H
#define FLI_EXTEND_VERIFY_H

#include "executor/executor.h"

/* fl_verify on an executor that is listed. */
fl_status fli_verify_on(fl_ctx *ctx, const fli_executor *executor, const char *path, double tolerance, double *error);

#endif
