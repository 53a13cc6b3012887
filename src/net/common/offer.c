#include "net/common/offer.h"

#include "base/number.h"

#include <jansson.h>
#include <string.h>

/* A whole number from 0 to `most`; -1: it is not that, or not there. */
static long long whole(const json_t *v, long long most)
{
    json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    return n >= 0 && n <= most ? n : -1;
}

/* Names are letters, digits and a few marks; anything else is as good as not said. */
static void read_name(const json_t *v, char *out, size_t n)
{
    const char *said = json_string_value(v);
    if (said && strlen(said) < n && fli_net_name_ok(said)) fli_snprintf(out, n, "%s", said);
}

/* As in the server's settings: features, or channels, height and width. */
static const char *read_wanted(const json_t *samples, fli_wanted *out)
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

/* One per class, or null. */
static const char *read_classes(fl_ctx *ctx, const json_t *names, fli_offer *out)
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

static const char *read_all(fl_ctx *ctx, const json_t *root, fli_offer *out)
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

fl_status fli_offer_read(fl_ctx *ctx, const void *json, size_t n, fli_offer *out)
{
    memset(out, 0, sizeof *out);
    locale_t before = fli_locale_enter();
    json_t *root = n <= FLI_NET_SMALL_BODY ? json_loadb(json, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    fli_locale_leave(before);
    const char *wrong = root ? read_all(ctx, root, out) : "it is no JSON";
    json_decref(root);
    return wrong ? fli_fail(ctx, FL_EFORMAT, "what the server says of its federation cannot be: %s", wrong) : FL_OK;
}

void fli_offer_fini(fli_offer *o)
{
    fli_free(o->class_name);
    o->class_name = NULL;
}
