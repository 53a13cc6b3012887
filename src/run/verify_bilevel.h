/* Golden cases on the quadratic bilevel problem: what verify.c does differently for them. Private to this folder. */
#ifndef FLI_RUN_VERIFY_BILEVEL_H
#define FLI_RUN_VERIFY_BILEVEL_H

#include "data/fed.h"
#include "exec/exec.h"
#include "model/model.h"

#include <jansson.h>

int fli_golden_is_bilevel(const json_t *json);
/* The clients as a federation of one sample each, and the problem. Parameters live in the arena. */
fl_status fli_golden_bilevel_new(fl_ctx *ctx, const char *path, const json_t *json, fli_arena *a, fli_fed **fed,
                                 fli_model **model);
/* lr: {y, v, x} -> lr_y, lr_v, lr_x, and server_lr likewise. */
fl_status fli_golden_bilevel_params(fl_ctx *ctx, json_t *params);
/* The start: x0, y0 and, where there is one, v0. */
fl_status fli_golden_bilevel_start(fl_ctx *ctx, const char *path, const json_t *json, const fli_exec_spec *spec,
                                   fli_exec *exec);
/* What is expected after a round, as (x, y), and the largest relative difference of v; 0 where no v is expected. */
fl_status fli_golden_bilevel_expect(fl_ctx *ctx, const char *path, const json_t *json, const fli_exec_spec *spec,
                                    fli_exec *exec, size_t round, double *xy, double *v_error);

#endif
