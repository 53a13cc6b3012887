#include "run/standing.h"

#include "base/file.h"
#include "base/number.h"
#include "run/folder.h"

#include <jansson.h>
#include <string.h>

/* Whether the settings of a result are the wanted ones. They are read as a configuration, so that a key that did not
 * exist when the result was made has its default. A result may have more than is wanted (the model), not less. */
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
    *out = FLI_STANDS_OTHER_SETTINGS; /* also if they are settings that this version does not know */
    fl_status s = cfg && path ? fl_config_load(cfg, path) : FL_ENOMEM;
    if (!s) s = fli_settings_bind(ctx, &arena, cfg->root, &had);
    if (!s) {
        fli_settings_print_essence(&a, &had);
        fli_settings_print_essence(&b, wanted);
        s = fli_text_ok(&a) ? FL_ENOMEM : fli_text_ok(&b);
    }
    if (!s) {
        int same = !strcmp(fli_text_get(&a), fli_text_get(&b)) && had.top.output_model >= wanted->top.output_model;
        if (same) *out = FLI_STANDS_SAME;
    }
    fli_text_fini(&a);
    fli_text_fini(&b);
    fli_arena_fini(&arena);
    fl_config_free(cfg);
    fli_free(path);
    return s == FL_ENOMEM ? s : FL_OK;
}

/* Whether its run came to its end by itself. */
static fl_status is_finished(fl_ctx *ctx, const char *folder, int *finished)
{
    enum { MOST_BYTES = 1 << 24 };
    json_error_t e;
    char *text = NULL, *path = fli_strf(ctx, "%s/result.json", folder);
    size_t n;
    fl_status s = path ? fli_file_read(ctx, path, MOST_BYTES, &text, &n) : FL_ENOMEM;
    locale_t before = fli_locale_enter();
    json_t *json = s ? NULL : json_loadb(text, n, 0, &e);
    fli_locale_leave(before);
    const char *why = json_string_value(json_object_get(json, "stopped_by"));
    *finished = why && strcmp(why, "asked") && strcmp(why, "not finished");
    json_decref(json);
    fli_free(text);
    fli_free(path);
    return s;
}

/* Of a folder that agrees with its manifest. */
static fl_status find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                      const fli_manifest *m, fli_standing *out)
{
    int finished = 0;
    *out = FLI_STANDS_OTHER_VERSION;
    if (!m->this_version) return FL_OK;
    fl_status s = is_finished(ctx, folder, &finished);
    *out = FLI_STANDS_STOPPED;
    if (!s && finished) s = compare_settings(ctx, folder, wanted, out);
    if (!s && *out == FLI_STANDS_SAME && data && !(m->has_data && fli_digest_same(&m->data, data)))
        *out = FLI_STANDS_OTHER_DATA;
    return s;
}

/* Of a folder without a manifest: results had none once. */
static fl_status find_unlisted(fl_ctx *ctx, const char *folder, fli_standing *out)
{
    char *result = fli_strf(ctx, "%s/result.json", folder);
    if (!result) return FL_ENOMEM;
    *out = fli_path_kind(result) ? FLI_STANDS_UNKNOWN : FLI_STANDS_BROKEN;
    fli_free(result);
    return FL_OK;
}

static fl_status find_listed(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                             fli_standing *out)
{
    fli_manifest m;
    fli_manifest_init(&m, ctx);
    fl_status s = fli_result_check(ctx, folder, &m);
    if (!s) s = find(ctx, folder, wanted, data, &m, out);
    if (s) *out = s == FL_EIO ? FLI_STANDS_UNKNOWN : FLI_STANDS_BROKEN;
    fli_manifest_fini(&m);
    if (s == FL_ENOMEM) return s;
    fli_clear(ctx);
    return FL_OK;
}

fl_status fli_standing_find(fl_ctx *ctx, const char *folder, const fli_settings *wanted, const fli_digest *data,
                            fli_standing *out)
{
    *out = FLI_STANDS_NOTHING;
    if (!fli_path_kind(folder)) return FL_OK;
    char *manifest = fli_strf(ctx, "%s/%s", folder, FLI_MANIFEST_NAME);
    if (!manifest) return FL_ENOMEM;
    fl_status s =
        fli_path_kind(manifest) ? find_listed(ctx, folder, wanted, data, out) : find_unlisted(ctx, folder, out);
    fli_free(manifest);
    return s;
}
