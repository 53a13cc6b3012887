/* What `device` can name, here and now: for `fedloom list devices`. */
#include "device/device.h"
#include "run/list.h"

#include "base/number.h"

#include <string.h>

static int has_cuda(void)
{
    for (const fli_backend *const *b = fli_backend_list; *b; b++)
        if (!strcmp((*b)->name, "cuda")) return 1;
    return 0;
}

const char *fl_devices(void) { return has_cuda() ? "cpu, cuda, twin" : "cpu, twin"; }

static void add(fli_text *t, const char *name, const fli_engine_info *i)
{
    fli_text_addf(t, "%-16s %s", name, i->name);
    if (i->memory > 0) fli_text_addf(t, ", %.1f GiB, %.1f GiB free", i->memory / 0x1p30, i->free / 0x1p30);
    fli_text_addf(t, "%s%s\n", *i->more ? ", " : "", i->more);
}

/* All devices of a kind, numbered where there are several; or why there is none. */
static fl_status add_backend(fl_ctx *ctx, fli_text *t, const fli_backend *b)
{
    char why[256] = "", name[64];
    size_t count = b->count(why, sizeof why);
    if (!count) fli_text_addf(t, "%-16s none here: %s\n", b->name, why);
    for (size_t i = 0; i < count; i++) {
        fli_engine_info info = {0};
        fl_status s = b->describe(ctx, i, &info);
        if (s) return s;
        fli_snprintf(name, sizeof name, count > 1 ? "%s:%zu" : "%s", b->name, i);
        add(t, name, &info);
    }
    return FL_OK;
}

fl_status fli_list_devices(fl_ctx *ctx, fli_text *t)
{
    fl_status s = FL_OK;
    fli_text_addf(t, "%-16s the processors of this machine\n", "cpu");
    for (const fli_backend *const *b = fli_backend_list; !s && *b; b++) s = add_backend(ctx, t, *b);
    if (!has_cuda()) fli_text_addf(t, "%-16s none here: this fedloom was built without the CUDA toolkit\n", "cuda");
    fli_text_add(t, "\n`device: NAME` in a configuration computes there.\n");
    return s;
}
