#include "net/client/limits.h"

#include "base/number.h"

#include <string.h>

const fli_key fli_join_limit_keys[] = {
    FLI_KEY_INT(fli_join_limits, steps, "1000000", 0, FLI_NO_MAX,
                "at most this many local steps per ask; 0: any number"),
    FLI_KEY_INT(fli_join_limits, samples, "0", 0, FLI_NO_MAX,
                "at most this many samples passed over per ask, each as often as it is; 0: any number"),
    FLI_KEY_SIZE(fli_join_limits, bytes, "auto",
                 "at most this many bytes per ask: 64MiB; auto: what the method and the model need"),
    FLI_KEY_SIZE(fli_join_limits, memory, "auto", "at most this much memory for model and turns: 2GiB; auto: any"),
    FLI_KEY_REAL(fli_join_limits, seconds, "0", 0, FLI_NO_MAX, "at most this many seconds per ask; 0: any number"),
    FLI_KEY_STRING(fli_join_limits, methods, "", "methods that it takes part in: [fedavg, scaffold]; '' for all"),
    FLI_KEY_STRING(fli_join_limits, models, "", "models that it trains: [mlp, softmax]; '' for all"),
    FLI_KEY_END,
};

/* A list of names becomes one text. */
static fl_status join_names(fl_ctx *ctx, fli_arena *a, fli_node *n)
{
    fli_text names;
    if (!n || n->type != FLI_NODE_LIST) return FL_OK;
    fli_text_init(&names, ctx);
    for (const fli_node *item = n->first; item; item = item->next) {
        if (item->type != FLI_NODE_SCALAR) goto odd; /* is complained of as a list */
        fli_text_addf(&names, "%s%s", item == n->first ? "" : ",", item->text);
    }
    fl_status s = fli_text_ok(&names);
    n->text = s ? NULL : fli_arena_strdup(a, fli_text_get(&names));
    if (n->text) n->type = FLI_NODE_SCALAR;
    fli_text_fini(&names);
    return n->text ? FL_OK : FL_ENOMEM;
odd:
    fli_text_fini(&names);
    return FL_OK;
}

/* The names of a text, one by one, up to a NULL. */
static const char **split_names(fli_arena *a, const char *names)
{
    const char **list = fli_arena_alloc(a, strlen(names) / 2 + 2, sizeof *list);
    char *copy = fli_arena_strdup(a, names), *rest = copy;
    if (!list || !copy) return NULL;
    for (size_t i = 0; (list[i] = strtok_r(rest, ", ", &rest)); i++) continue;
    return list;
}

static int is_among(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (!strcmp(*names, name)) return 1;
    return 0;
}

/* fl_name_fn */
static const char *kind_at(const void *section, size_t i) { return fl_kind_at(section, i); }

/* Names of a section ("algorithm", "model") that nothing has are slips of a finger. */
static fl_status check_names(fl_ctx *ctx, const fli_node *where, const char *key, const char *section,
                             const char *const *names)
{
    char place[256], meant[FLI_MEANT_LEN];
    fl_status s = FL_OK;
    for (; *names; names++) {
        size_t k = 0;
        const char *known;
        while ((known = fl_kind_at(section, k)) && strcmp(known, *names)) k++;
        if (!known)
            s = fli_fail_also(ctx, FL_ECONFIG, "%slimits.%s: there is no %s called %.64s%s `fedloom list` has them",
                              where ? fli_node_where(where, place, sizeof place) : "", key, section, *names,
                              *fli_meant(fl_nearest(*names, kind_at, section), meant) ? meant : ";");
    }
    return s;
}

fl_status fli_join_limits_bind(fl_ctx *ctx, fli_arena *a, fli_node *section, fli_join_limits *out)
{
    const fli_table table = {fli_join_limit_keys, out};
    fli_node *methods = fli_node_find(section, "methods"), *models = fli_node_find(section, "models");
    memset(out, 0, sizeof *out);
    fl_status s = join_names(ctx, a, methods);
    if (!s) s = join_names(ctx, a, models);
    if (!s) s = fli_bind(ctx, a, "limits", section, NULL, &table, 1);
    if (s) return s;
    if (!(out->method = split_names(a, out->methods)) || !(out->model = split_names(a, out->models))) return FL_ENOMEM;
    s = check_names(ctx, methods, "methods", "algorithm", out->method);
    fl_status t = check_names(ctx, models, "models", "model", out->model);
    return s ? s : t;
}

const char *fli_join_limits_wrong(const fli_join_limits *l, const char *method, const char *model, char *sentence,
                                  size_t n)
{
    if (method && *l->method && !is_among(l->method, method))
        fli_snprintf(sentence, n, "the method is %.64s, and this client takes part in %.200s alone", method,
                     l->methods);
    else if (model && *l->model && !is_among(l->model, model))
        fli_snprintf(sentence, n, "the model is %.64s, and this client trains %.200s alone", model, l->models);
    else
        return NULL;
    return sentence;
}

fl_status fli_join_limits_set(const fli_join_limits *l, fl_client *client)
{
    const fl_client_limits limits = {.size = sizeof limits,
                                     .bytes = (uint64_t)l->bytes,
                                     .memory = (uint64_t)l->memory,
                                     .steps = (uint64_t)l->steps,
                                     .samples = (uint64_t)l->samples,
                                     .seconds = l->seconds,
                                     .methods = *l->method ? l->method : NULL,
                                     .models = *l->model ? l->model : NULL};
    return fl_client_limit(client, &limits);
}
