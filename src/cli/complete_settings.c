/* KEY=VALUE, and names of things, for completion: all that the library's listings say. */
#include "cli/complete.h"
#include "cli/json_out.h"

#include <string.h>

/* fl_list as a document; NULL: there is no such thing. */
static json_t *listing(fl_ctx *ctx, const char *kind, const char *name)
{
    json_t *all = NULL;
    fl_ctx_format(ctx, FL_FORMAT_JSON);
    return fl_list(ctx, kind, name, json_take, &all) ? NULL : all;
}

static const char *text(const json_t *of, const char *key)
{
    const char *s = json_string_value(json_object_get(of, key));
    return s ? s : "";
}

/* Every listing is a map with one list in it. */
static json_t *only_list(const json_t *all) { return json_object_iter_value(json_object_iter((json_t *)all)); }

static void offer_items(fl_ctx *ctx, const complete_word *w, const char *kind, const char *meaning)
{
    json_t *all = listing(ctx, kind, NULL), *one;
    size_t i;
    json_array_foreach(only_list(all), i, one)
    {
        if (!json_is_false(json_object_get(one, "here"))) /* a device that there is not */
            complete_offer(w, text(one, "name"), "", text(one, meaning));
    }
    json_decref(all);
}

void complete_kind(fl_ctx *ctx, const complete_word *w, const char *kind)
{
    offer_items(ctx, w, kind, kind && !strcmp(kind, "devices") ? "is" : "title");
    if (kind) return;
    complete_offer(w, "settings", "", "the keys that do not depend on a choice");
    complete_offer(w, "devices", "", "where a run can be computed, on this machine");
}

/* Those that are not among `seen`, where they are put: several kinds have keys of one name. */
static void offer_keys(const complete_word *w, const json_t *keys, json_t *seen)
{
    json_t *key;
    size_t i;
    json_array_foreach(keys, i, key)
    {
        if (json_object_get(seen, text(key, "name"))) continue;
        complete_offer(w, text(key, "name"), "=", text(key, "help"));
        json_object_set(seen, text(key, "name"), key);
    }
}

/* The values of a key, where they are words. */
static void offer_words(const complete_word *w, const json_t *keys, const char *name, json_t *seen)
{
    json_t *key, *word;
    size_t i, k;
    json_array_foreach(keys, i, key)
    {
        if (strcmp(text(key, "name"), name)) continue;
        json_array_foreach(json_object_get(key, "choices"), k, word)
        {
            const char *value = json_string_value(word);
            if (!json_object_get(seen, value)) complete_offer(w, value, "", "");
            json_object_set(seen, value, word);
        }
    }
}

/* Either the keys of a section, or with `name` the values of one of them. */
static void offer_section(fl_ctx *ctx, const complete_word *w, const json_t *section, const char *name)
{
    const char *kinds = text(section, "kinds");
    json_t *all = *kinds ? listing(ctx, kinds, NULL) : NULL, *seen = json_object(), *one;
    size_t i, n = json_array_size(only_list(all));
    if (all && !name) complete_offer(w, "kind", "=", text(section, "title"));
    if (all && name && !strcmp(name, "kind")) offer_items(ctx, w, kinds, "title");
    for (i = 0; i <= n; i++) { /* its own, then those of its kinds */
        one = i ? listing(ctx, kinds, text(json_array_get(only_list(all), i - 1), "name")) : NULL;
        const json_t *keys = json_object_get(i ? one : section, "keys");
        if (name)
            offer_words(w, keys, name, seen);
        else
            offer_keys(w, keys, seen);
        json_decref(one);
    }
    json_decref(seen);
    json_decref(all);
}

/* At the top: keys, and sections, of which some may be given by the name of a kind alone. */
static void offer_top(const complete_word *w, const json_t *sections)
{
    json_t *section;
    size_t i;
    json_array_foreach(sections, i, section)
    {
        const char *name = text(section, "name");
        if (!*name) offer_keys(w, json_object_get(section, "keys"), NULL);
        if (*name && *text(section, "kinds")) complete_offer(w, name, "=", text(section, "title"));
        if (*name) complete_offer(w, name, ".", text(section, "title"));
    }
}

static const json_t *find_section(const json_t *sections, const char *name)
{
    json_t *section;
    size_t i;
    json_array_foreach(sections, i, section) if (!strcmp(text(section, "name"), name)) return section;
    return NULL;
}

void complete_setting(fl_ctx *ctx, const complete_word *w)
{
    json_t *all = listing(ctx, "settings", NULL);
    const char *typed = w->current + strlen(w->before), *dot = strchr(typed, '.'), *equals = strchr(typed, '=');
    complete_word own = {.current = w->current};
    char section[64] = "", name[64] = "";
    if (dot && equals && dot > equals) dot = NULL; /* it is in the value */
    if (dot) snprintf(section, sizeof section, "%.*s", (int)(dot - typed), typed);
    const char *key = dot ? dot + 1 : typed, *part = equals ? equals + 1 : key;
    if (equals) snprintf(name, sizeof name, "%.*s", (int)(equals - key), key);
    snprintf(own.before, sizeof own.before, "%.*s", (int)(part - w->current), w->current);
    const json_t *top = only_list(all), *within = find_section(top, section), *named = find_section(top, name);
    if (!dot && equals && named)
        offer_items(ctx, &own, text(named, "kinds"), "title"); /* algorithm=NAME */
    else if (dot || equals)
        offer_section(ctx, &own, within, equals ? name : NULL);
    else
        offer_top(&own, top);
    json_decref(all);
}
