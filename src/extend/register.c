/* fl_*_register and fl_forget: register users' objectives, solvers, methods and regularisers under unused names, and
 * remove them. The folder of each kind checks its parts. */
#include "algo/user_method.h"
#include "base/ctx.h"
#include "base/user_registry.h"
#include "config/registry.h"
#include "metric/metric.h"
#include "model/user_objective.h"
#include "regularizer/user_regularizer.h"
#include "solver/user_solver.h"

#include <string.h>

/* ---- objectives, solvers, methods, regularisers ----------------------------------------------------------- */

static fl_status taken(fl_ctx *ctx, const char *section, const char *name)
{
    return fli_fail(ctx, FL_ECONFIG, "%s %s comes with fedloom; another one needs another name", section, name);
}

/* `what` is for messages, as in "an objective". */
static fl_status check_name(fl_ctx *ctx, const char *what, const char *section, const char *name)
{
    fli_item item;
    fl_status s = fli_registry_check_name(ctx, what, name);
    if (s || !fli_item_find(fli_kind_find(section), name, &item) || item.by_user) return s;
    return taken(ctx, section, name);
}

fl_status fl_objective_register(fl_ctx *ctx, const fl_objective *given)
{
    fl_objective o;
    fli_clear(ctx);
    if (!given) return fli_fail(ctx, FL_ECONFIG, "there is no objective to register");
    fl_status s = fli_take_versioned(ctx, "fl_objective", given, given->size, &o, sizeof o);
    if (!s) s = check_name(ctx, "an objective", "model", o.name);
    if (!s) s = fli_user_objective_check(ctx, &o);
    if (!s) s = fli_metrics_add(ctx, o.metrics);
    return s ? s : fli_user_objective_add(ctx, &o);
}

/* Also refuses names of solvers that only methods choose, because messages contain them. */
static fl_status check_solver_name(fl_ctx *ctx, const char *name)
{
    fl_status s = check_name(ctx, "a solver", "solver", name);
    int known = !s && fli_algo_solver_named(name) && !fli_user_solver(name);
    for (size_t i = 0; !s && fli_solver_list[i]; i++) known |= !strcmp(fli_solver_list[i]->name, name);
    return known ? taken(ctx, "solver", name) : s;
}

fl_status fl_solver_register(fl_ctx *ctx, const fl_solver *given)
{
    fl_solver solver;
    fli_clear(ctx);
    if (!given) return fli_fail(ctx, FL_ECONFIG, "there is no solver to register");
    fl_status s = fli_take_versioned(ctx, "fl_solver", given, given->size, &solver, sizeof solver);
    if (!s) s = check_solver_name(ctx, solver.name);
    return s ? s : fli_user_solver_add(ctx, &solver);
}

fl_status fl_method_register(fl_ctx *ctx, const fl_method *given)
{
    fl_method m;
    fli_clear(ctx);
    if (!given) return fli_fail(ctx, FL_ECONFIG, "there is no method to register");
    fl_status s = fli_take_versioned(ctx, "fl_method", given, given->size, &m, sizeof m);
    if (!s) s = check_name(ctx, "a method", "algorithm", m.name);
    return s ? s : fli_user_method_add(ctx, &m);
}

fl_status fl_regularizer_register(fl_ctx *ctx, const fl_regularizer *given)
{
    fl_regularizer g;
    fli_clear(ctx);
    if (!given) return fli_fail(ctx, FL_ECONFIG, "there is no regularizer to register");
    fl_status s = fli_take_versioned(ctx, "fl_regularizer", given, given->size, &g, sizeof g);
    if (!s) s = check_name(ctx, "a regularizer", "regularizer", g.name);
    return s ? s : fli_user_regularizer_add(ctx, &g);
}

/* ---- out of the lists again --------------------------------------------------------------------------------- */

static const struct {
    const char *section;
    int (*forget)(const char *name);
} lists[] = {
    {"algorithm", fli_user_method_forget},
    {"model", fli_user_model_forget},
    {"regularizer", fli_user_regularizer_forget},
    {"solver", fli_user_solver_forget},
};

fl_status fl_forget(fl_ctx *ctx, const char *section, const char *name)
{
    fli_clear(ctx);
    if (!name) return fli_fail(ctx, FL_ECONFIG, "fl_forget: there is no name");
    for (size_t i = 0; section && i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].section, section)) continue;
        if (lists[i].forget(name)) return FL_OK;
        return fli_fail(ctx, FL_ECONFIG, "no %s called %s was registered", section, name);
    }
    return fli_fail(ctx, FL_ECONFIG, "%s is no section that things are registered in", section ? section : "NULL");
}
