/* fl_*_register: parts of users' own, under names that nothing else has. */
#include "base/own.h"
#include "base/sized.h"
#include "local/own_solver.h"
#include "model/own.h"
#include "run/metric.h"
#include "run/registry.h"

#include <string.h>

static fl_status refuse_taken(fl_ctx *ctx, const char *section, const char *name)
{
    fli_item item;
    if (!fli_item_find(fli_kind_find(section), name, &item) || item.own) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "%s %s comes with fedloom; another one needs another name", section, name);
}

fl_status fl_objective_register(fl_ctx *ctx, const fl_objective *given)
{
    fl_objective o;
    fli_clear(ctx);
    if (!given) return fli_fail(ctx, FL_ECONFIG, "there is no objective to register");
    fl_status s = fli_take_sized(ctx, "fl_objective", given, given->size, &o, sizeof o);
    if (!s) s = fli_own_check_name(ctx, "an objective", o.name);
    if (!s) s = refuse_taken(ctx, "model", o.name);
    if (!s) s = fli_own_objective_check(ctx, &o);
    if (!s) s = fli_metrics_add(ctx, o.metrics);
    return s ? s : fli_own_objective_add(ctx, &o);
}

/* Names by which methods ask for a solver, and those in messages. */
static fl_status refuse_solver(fl_ctx *ctx, const char *name)
{
    static const fli_solver *const ours[] = {
        &fli_solver_sgd,   &fli_solver_blocks,   &fli_solver_gradient, &fli_solver_sgd_gradient, &fli_solver_pair,
        &fli_solver_exact, &fli_solver_accurate, &fli_solver_gram,     &fli_solver_diagonal,     &fli_solver_bilevel};
    int taken = !strcmp(name, "sgd_gradient");
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) taken |= !strcmp(ours[i]->name, name);
    if (!taken) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "solver %s comes with fedloom; another one needs another name", name);
}

fl_status fl_solver_register(fl_ctx *ctx, const fl_solver *given)
{
    fl_solver s;
    fli_clear(ctx);
    if (!given) return fli_fail(ctx, FL_ECONFIG, "there is no solver to register");
    fl_status status = fli_take_sized(ctx, "fl_solver", given, given->size, &s, sizeof s);
    if (!status) status = fli_own_check_name(ctx, "a solver", s.name);
    if (!status) status = refuse_solver(ctx, s.name);
    return status ? status : fli_own_solver_add(ctx, &s);
}
