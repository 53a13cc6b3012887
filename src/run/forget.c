/* fl_forget: what was registered goes, by the section that it is chosen in. */
#include "algo/own.h"
#include "base/ctx.h"
#include "local/own_solver.h"
#include "model/own.h"

#include <string.h>

static const struct {
    const char *section;
    int (*forget)(const char *name);
} lists[] = {
    {"algorithm", fli_own_method_forget},
    {"model", fli_own_model_forget},
    {"solver", fli_own_solver_forget},
};

fl_status fl_forget(fl_ctx *ctx, const char *section, const char *name)
{
    fli_clear(ctx);
    for (size_t i = 0; section && name && i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].section, section)) continue;
        if (lists[i].forget(name)) return FL_OK;
        return fli_fail(ctx, FL_ECONFIG, "no %s called %s was registered", section, name);
    }
    return fli_fail(ctx, FL_ECONFIG, "%s is no section that things are registered in", section ? section : "NULL");
}
