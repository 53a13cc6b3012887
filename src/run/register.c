/* fl_*_register: parts of users' own, under names that nothing else has. */
#include "base/own.h"
#include "base/sized.h"
#include "model/own.h"
#include "run/registry.h"

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
    fl_status s = fli_take_sized(ctx, "fl_objective", given, given->size, &o, sizeof o);
    if (!s) s = fli_own_check_name(ctx, "an objective", o.name);
    if (!s) s = refuse_taken(ctx, "model", o.name);
    return s ? s : fli_own_objective_add(ctx, &o);
}
