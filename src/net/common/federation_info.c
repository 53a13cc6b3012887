#include "net/common/federation_info.h"

#include "base/number.h"
#include "base/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ==== at the server =============================================================================================== */

/* The value of a key as YAML, from fli_alloc; "" if there is no such key, NULL if out of memory. */
static char *value_of(fl_ctx *ctx, const fli_settings *s, const char *key)
{
    fli_text value;
    fli_text_init(&value, ctx);
    fli_settings_print_key(&value, s, key);
    char *copy = fli_text_ok(&value) ? NULL : fli_strdup(ctx, fli_text_get(&value));
    fli_text_fini(&value);
    return copy;
}

/* Comma-separated names as a JSON list; null if there are none. */
static json_t *names(const char *text)
{
    if (!*text) return json_null();
    json_t *list = json_array();
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        at += strspn(at, " ");
        size_t all = strcspn(at, ","), n = all;
        while (n && at[n - 1] == ' ') n--;
        json_array_append_new(list, json_stringn(at, n));
        at += all;
    }
    return list;
}

/* Class names are read from the configuration and not printed as YAML, which could quote them. */
static char *describe_samples(fl_ctx *ctx, const fl_config *cfg, const fli_settings *s)
{
    char *shape = value_of(ctx, s, "data.shape"), *classes = value_of(ctx, s, "data.classes");
    char *scale = value_of(ctx, s, "data.normalize"), *precision = value_of(ctx, s, "precision"), *text = NULL;
    if (shape && classes && scale && precision) {
        locale_t before = fli_locale_enter();
        json_t *j =
            json_pack("{s:o*, s:I, s:o, s:s, s:s}", "shape", json_loads(shape, 0, NULL), "classes",
                      (json_int_t)strtoll(classes, NULL, 10), "class_names",
                      names(fl_config_get(cfg, "data.class_names")), "normalize", scale, "precision", precision);
        text = j ? json_dumps(j, JSON_COMPACT) : NULL;
        json_decref(j);
        fli_locale_leave(before);
    }
    char *all[] = {shape, classes, scale, precision};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fli_free(all[i]);
    return text;
}

fl_status fli_federation_summary_read(fl_ctx *ctx, fl_config *cfg, fli_federation_summary *out)
{
    *out = (fli_federation_summary){0};
    fli_clear(ctx);
    fl_status status = fli_config_hold(cfg, &out->bound);
    if (status) return status;
    const fli_settings *s = &out->bound->settings;
    out->clients = (size_t)s->partition.clients;
    out->method = s->algorithm.item.name;
    out->model = s->objective.item.name;
    out->output = s->top.output;
    if ((out->samples = describe_samples(ctx, cfg, s))) return FL_OK;
    fli_federation_summary_free(out);
    return fli_fail(ctx, FL_ENOMEM, "out of memory");
}

void fli_federation_summary_free(fli_federation_summary *s)
{
    fli_bound_release(s->bound);
    free(s->samples);
    *s = (fli_federation_summary){0};
}

/* ==== at a client ================================================================================================= */

/* v as an integer from 0 to `most`; -1 if v is missing or anything else. */
static long long whole(const json_t *v, long long most)
{
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    return n >= 0 && n <= most ? n : -1;
}

/* An invalid name is ignored, as if the server had not sent it. */
static void read_name(const json_t *v, char *out, size_t n)
{
    const char *said = json_string_value(v);
    if (said && strlen(said) < n && fli_net_name_ok(said)) fli_snprintf(out, n, "%s", said);
}

/* The shape is a list as in the server's settings: [features] or [channels, height, width]. */
static const char *read_wanted(const json_t *samples, fli_wanted_samples *out)
{
    const json_t *shape = json_object_get(samples, "shape");
    size_t n = json_array_size(shape);
    if (n != 1 && n != 3) return "samples.shape is no list of one number or three";
    out->shape[0] = out->shape[1] = 1;
    for (size_t i = 0; i < n; i++) {
        long long v = whole(json_array_get(shape, i), 1000000000);
        if (v < 0) return "samples.shape has something else than whole numbers up to 1e9";
        out->shape[3 - n + i] = (size_t)v;
    }
    long long classes = whole(json_object_get(samples, "classes"), 1000000);
    if (classes < 0) return "samples.classes is no whole number up to 1e6";
    out->classes = (size_t)classes;
    return NULL;
}

/* names: one per class, or null. */
static const char *read_classes(fl_ctx *ctx, const json_t *names, fli_federation_info *out)
{
    size_t n = json_array_size(names), bytes = 0;
    if (!names || json_is_null(names)) return NULL;
    if (!n || n != out->wanted.classes) return "samples.class_names is no list with a name per class";
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(names, i);
        if (!json_is_string(name)) return "samples.class_names has something else than texts";
        bytes += json_string_length(name) + 1;
    }
    if (!(out->class_name = fli_alloc(ctx, n * sizeof *out->class_name + bytes, 1))) return "there is no memory for it";
    char *at = (char *)(out->class_name + n);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        out->class_name[i] = strcpy(at, name);
        at += strlen(name) + 1;
    }
    return NULL;
}

static const char *read_all(fl_ctx *ctx, const json_t *root, fli_federation_info *out)
{
    const char *state = json_string_value(json_object_get(root, "state"));
    const json_t *samples = json_object_get(root, "samples");
    long long clients = whole(json_object_get(root, "clients"), UINT32_MAX);
    long long missing = whole(json_object_get(root, "missing"), UINT32_MAX);
    if (!json_is_object(root)) return "it is no JSON object";
    if (!state) return "it has no \"state\"";
    if (clients < 0 || missing < 0) return "clients or missing is no whole number";
    out->over = !strcmp(state, "over");
    out->clients = (size_t)clients;
    out->missing = (size_t)missing;
    read_name(json_object_get(root, "method"), out->method, sizeof out->method);
    read_name(json_object_get(root, "model"), out->model, sizeof out->model);
    read_name(json_object_get(json_object_get(root, "you"), "name"), out->name, sizeof out->name);
    out->has_wanted = json_is_object(samples);
    if (!out->has_wanted) return NULL;
    const char *wrong = read_wanted(samples, &out->wanted);
    return wrong ? wrong : read_classes(ctx, json_object_get(samples, "class_names"), out);
}

fl_status fli_federation_info_read(fl_ctx *ctx, const void *json, size_t n, fli_federation_info *out)
{
    memset(out, 0, sizeof *out);
    locale_t before = fli_locale_enter();
    json_t *root = n <= FLI_NET_SMALL_BODY ? json_loadb(json, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    fli_locale_leave(before);
    const char *wrong = root ? read_all(ctx, root, out) : "it is no JSON";
    json_decref(root);
    return wrong ? fli_fail(ctx, FL_EFORMAT, "what the server says of its federation cannot be: %s", wrong) : FL_OK;
}

void fli_federation_info_fini(fli_federation_info *info)
{
    fli_free(info->class_name);
    info->class_name = NULL;
}
