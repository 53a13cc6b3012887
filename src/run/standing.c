#include "run/standing.h"

#include "base/file.h"
#include "base/number.h"
#include "run/folder.h"

#include <jansson.h>
#include <string.h>

/* Whether the settings of a result are the wanted ones. They are read as a configuration, so that a key that did not exist when the
 * result was made has its default. A result may have more than is wanted (the model), not less. */
static fl_status compare_settings(fl_ctx *ctx, const char *folder, const fli_settings *wanted, fli_standing *out)
{
    fli_settings had;
    fli_arena arena;
    fli_text a, b;
    fl_config *cfg = fl_config_new(ctx);
    char *path = fli_strf(ctx, "%s/config.yaml", folder);
    fli_arena_init(&arena, ctx);
    fli_text_init(&a, ctx);
    fli_text_init(&b, ctx);
    fl_status s = cfg && path ? fl_config_load(cfg, path) : FL_ENOMEM;
    if (!s) s = fli_settings_bind(ctx, &arena, cfg->root, &had);
    if (!s) {
        fli_settings_print_essence(&a, &had);
        fli_settings_print_essence(&b, wanted);
        s = fli_text_ok(&a) ? FL_ENOMEM : fli_text_ok(&b);
    }
    if (!s) {
        int same = !strcmp(fli_text_get(&a), fli_text_get(&b)) && had.top.output_model >= wanted->top.output_model;
        *out = same ? FLI_STANDS_SAME : FLI_STANDS_OTHER_SETTINGS;
    }
    fli_text_fini(&a);
    fli_text_fini(&b);
    fli_arena_fini(&arena);
    fl_config_free(cfg);
    fli_free(path);
    return s;
}

/* Whether its run came to its end by itself. */
static fl_status is_finished(fl_ctx *ctx, const char *folder, int *finished)
{
    json_error_t e;
    char *path = fli_strf(ctx, "%s/result.json", folder);
    if (!path) return FL_ENOMEM;
    locale_t before = fli_locale_enter();
    json_t *json = json_load_file(path, 0, &e);
    fli_locale_leave(before);
    const char *why = json_string_value(json_object_get(json, "stopped_by"));
    *finished = why && strcmp(why, "asked") && strcmp(why, "not finished");
    json_decref(json);
    fli_free(path);
    return FL_OK;
}

static fl_status find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                      const fli_manifest *m, fli_standing *out)
{
    int finished = 0;
    fl_status s = is_finished(ctx, folder, &finished);
    *out = FLI_STANDS_STOPPED;
    if (!s && finished) s = compare_settings(ctx, folder, wanted, out);
    if (!s && *out == FLI_STANDS_SAME && data && !(m->has_data && fli_digest_same(&m->data, data)))
        *out = FLI_STANDS_OTHER_DATA;
    return s;
}

fl_status fli_standing_find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                            fli_standing *out)
{
    fli_manifest m;
    *out = FLI_STANDS_NOTHING;
    if (!fli_path_kind(folder)) return FL_OK;
    *out = FLI_STANDS_BROKEN;
    fli_manifest_init(&m, ctx);
    fl_status s = fli_result_check(ctx, folder, &m);
    if (!s) s = find(ctx, folder, wanted, data, &m, out);
    if (s) *out = FLI_STANDS_BROKEN;
    fli_manifest_fini(&m);
    if (s == FL_ENOMEM) return s;
    fli_clear(ctx);
    return FL_OK;
}
