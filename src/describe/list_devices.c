/* What `device` can name, here and now: for `fedloom list devices`. */
#include "device/device.h"
#include "describe/list.h"

#include "format/json.h"
#include "base/number.h"

#include <string.h>

static int has_cuda(void)
{
    for (const fli_backend *const *b = fli_backend_list; *b; b++)
        if (!strcmp((*b)->name, "cuda")) return 1;
    return 0;
}

const char *fl_devices(void) { return has_cuda() ? "cpu, cuda, twin" : "cpu, twin"; }

/* Text, or with `json` a document. */
typedef struct {
    fli_text *t;
    fli_json *json;
} listing;

static void add_json(fli_json *j, const char *name, const fli_engine_info *i, const char *why)
{
    fli_json_map(j, NULL);
    fli_json_text(j, "name", name);
    fli_json_truth(j, "here", !why);
    fli_json_text(j, why ? "why" : "is", why ? why : i->name);
    if (!why && i->memory > 0) {
        fli_json_real(j, "bytes", i->memory);
        fli_json_real(j, "bytes_free", i->free);
    }
    if (!why && *i->more) fli_json_text(j, "more", i->more);
    fli_json_end(j);
}

/* One that is here; or, with `why`, that there is none. */
static void add(const listing *l, const char *name, const fli_engine_info *i, const char *why)
{
    if (l->json)
        add_json(l->json, name, i, why);
    else if (why)
        fli_text_addf(l->t, "%-16s none here: %s\n", name, why);
    else {
        fli_text_addf(l->t, "%-16s %s", name, i->name);
        if (i->memory > 0) fli_text_addf(l->t, ", %.1f GiB, %.1f GiB free", i->memory / 0x1p30, i->free / 0x1p30);
        fli_text_addf(l->t, "%s%s\n", *i->more ? ", " : "", i->more);
    }
}

/* All devices of a kind, numbered where there are several; or why there is none. */
static fl_status add_backend(fl_ctx *ctx, const listing *l, const fli_backend *b)
{
    char why[256] = "", name[64];
    size_t count = b->count(why, sizeof why);
    if (!count) add(l, b->name, NULL, why);
    for (size_t i = 0; i < count; i++) {
        fli_engine_info info = {0};
        fl_status s = b->describe(ctx, i, &info);
        if (s) return s;
        fli_snprintf(name, sizeof name, count > 1 ? "%s:%zu" : "%s", b->name, i);
        add(l, name, &info, NULL);
    }
    return FL_OK;
}

static fl_status add_all(fl_ctx *ctx, const listing *l)
{
    fl_status s = FL_OK;
    add(l, "cpu", &(fli_engine_info){.name = "the processors of this machine"}, NULL);
    for (const fli_backend *const *b = fli_backend_list; !s && *b; b++) s = add_backend(ctx, l, *b);
    if (!has_cuda()) add(l, "cuda", NULL, "this fedloom was built without the CUDA toolkit");
    return s;
}

fl_status fli_list_devices(fl_ctx *ctx, fli_text *t)
{
    fli_json j;
    fl_status s;
    fli_json_init(&j, t);
    if (!fli_wants_json(ctx)) {
        s = add_all(ctx, &(listing){t, NULL});
        fli_text_add(t, "\n`device: NAME` in a configuration computes there.\n");
        return s;
    }
    fli_json_map(&j, NULL);
    fli_json_list(&j, "devices");
    s = add_all(ctx, &(listing){t, &j});
    fli_json_end(&j);
    fli_json_end(&j);
    return s;
}
