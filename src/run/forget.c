/* What users registered, taken out of the lists again, by the section that it is chosen in. */
#include "algo/own.h"
#include "local/own_solver.h"
#include "model/own.h"

#include <string.h>

static const struct {
    const char *section;
    int (*forget)(const char *name); /* 0: there is none of that name */
} lists[] = {
    {"algorithm", fli_own_method_forget},
    {"model", fli_own_model_forget},
    {"solver", fli_own_solver_forget},
};

fl_status fl_forget(fl_ctx *ctx, const char *section, const char *name)
{
    fli_clear(ctx);
    if (!section || !name) return fli_fail(ctx, FL_ECONFIG, "nothing is named that could be forgotten");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].section, section)) continue;
        if (lists[i].forget(name)) return FL_OK;
        return fli_fail(ctx, FL_ECONFIG, "nothing was registered as %s: %s", section, name);
    }
    return fli_fail(ctx, FL_ECONFIG, "nothing can be registered for the section '%s'", section);
}
