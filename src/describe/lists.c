/* fl_list: lists what a configuration can choose from, as text or, by the context's format, as JSON. The kinds come
 * from config/registry.c, the fixed sections from config/settings.c; this file names none of them. */
#include "base/number.h"
#include "base/text.h"
#include "config/registry.h"
#include "config/settings.h"
#include "describe/describe.h"
#include "device/device.h"
#include "format/json.h"

#include <string.h>

/* ==== either text or JSON =================================================================================== */

/* A listing: lines of text, or {"NAME": [{...}, ...]}. */
typedef struct {
    fli_text *t;
    fli_json json;
    int as_json;
} listing;

static listing open_listing(fl_ctx *ctx, fli_text *t, const char *name)
{
    listing l = {.t = t, .as_json = fli_wants_json(ctx)};
    fli_json_init(&l.json, t);
    if (l.as_json) fli_json_map(&l.json, NULL);
    if (l.as_json) fli_json_list(&l.json, name);
    return l;
}

static void close_listing(listing *l)
{
    while (l->json.depth) fli_json_end(&l->json);
}

/* `section` and `count` may be NULL; lines of text have no section. */
static void add_thing(listing *l, const char *name, const char *section, const char *title, const size_t *count)
{
    if (!l->as_json) {
        fli_text_addf(l->t, "%-16s %s", name, title);
        if (count) fli_text_addf(l->t, " (%zu)", *count);
        fli_text_add(l->t, "\n");
        return;
    }
    fli_json_map(&l->json, NULL);
    fli_json_text(&l->json, "name", name);
    if (section) fli_json_text(&l->json, "section", section);
    fli_json_text(&l->json, "title", title);
    if (count) fli_json_whole(&l->json, "count", *count);
    fli_json_end(&l->json);
}

/* ==== devices of this machine =============================================================================== */

/* The values of `device` on this machine, for `fedloom list devices`. */

static int has_cuda(void)
{
    for (const fli_backend *const *b = fli_backend_list; *b; b++)
        if (!strcmp((*b)->name, "cuda")) return 1;
    return 0;
}

const char *fl_devices(void) { return has_cuda() ? "cpu, cuda, twin" : "cpu, twin"; }

static void put_device(fli_json *j, const char *name, const fli_engine_info *i, const char *why)
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

/* Adds a device or, with `why`, a line that there is none. */
static void add_device(listing *l, const char *name, const fli_engine_info *i, const char *why)
{
    if (l->as_json)
        put_device(&l->json, name, i, why);
    else if (why)
        fli_text_addf(l->t, "%-16s none here: %s\n", name, why);
    else {
        fli_text_addf(l->t, "%-16s %s", name, i->name);
        if (i->memory > 0) fli_text_addf(l->t, ", %.1f GiB, %.1f GiB free", i->memory / 0x1p30, i->free / 0x1p30);
        fli_text_addf(l->t, "%s%s\n", *i->more ? ", " : "", i->more);
    }
}

/* Adds all devices of a kind, numbered if there are several, or the reason for having none. */
static fl_status add_backend(fl_ctx *ctx, listing *l, const fli_backend *b)
{
    char why[256] = "", name[64];
    size_t count = b->count(why, sizeof why);
    if (!count) add_device(l, b->name, NULL, why);
    for (size_t i = 0; i < count; i++) {
        fli_engine_info info = {0};
        fl_status s = b->describe(ctx, i, &info);
        if (s) return s;
        fli_snprintf(name, sizeof name, count > 1 ? "%s:%zu" : "%s", b->name, i);
        add_device(l, name, &info, NULL);
    }
    return FL_OK;
}

static fl_status add_devices(fl_ctx *ctx, listing *l)
{
    fl_status s = FL_OK;
    add_device(l, "cpu", &(fli_engine_info){.name = "the processors of this machine"}, NULL);
    for (const fli_backend *const *b = fli_backend_list; !s && *b; b++) s = add_backend(ctx, l, *b);
    if (!has_cuda()) add_device(l, "cuda", NULL, "this fedloom was built without the CUDA toolkit");
    return s;
}

/* Lists all devices. */
static fl_status list_devices(fl_ctx *ctx, fli_text *t)
{
    listing l = open_listing(ctx, t, "devices");
    fl_status s = add_devices(ctx, &l);
    if (!l.as_json) fli_text_add(t, "\n`device: NAME` in a configuration computes there.\n");
    close_listing(&l);
    return s;
}

/* ==== keys, and one thing in full, as JSON =================================================================== */

/* The allowed words of a value. */
static void put_choices(fli_json *j, const fl_key *row)
{
    char word[64];
    if (!row->choices && row->type != FL_KEY_BOOL) return;
    fli_json_list(j, "choices");
    for (int i = 0; fli_choice_word(row->choices ? row->choices : "true|false", i, word, sizeof word); i++)
        fli_json_text(j, NULL, word);
    fli_json_end(j);
}

static void put_key(fli_json *j, const fl_key *row)
{
    fli_text type;
    fli_text_init(&type, j->t->ctx);
    fli_key_print_type(&type, row);
    fli_json_map(j, NULL);
    fli_json_text(j, "name", row->name);
    fli_json_text(j, "type", fli_text_get(&type));
    fli_json_text(j, "default", row->def); /* null: required */
    fli_json_text(j, "help", row->help);
    put_choices(j, row);
    fli_json_end(j);
    j->t->failed |= type.failed;
    fli_text_fini(&type);
}

static void put_keys(fli_json *j, const char *name, const fl_key *rows)
{
    fli_json_list(j, name);
    for (const fl_key *row = rows; row && row->name; row++) put_key(j, row);
    fli_json_end(j);
}

/* fli_fact_fn */
static void put_fact(void *j, const char *label, const char *text) { fli_json_text(j, label, text); }

static fl_status item_json(fl_ctx *ctx, fli_text *t, const fli_kind *kind, const fli_item *item)
{
    fli_json j;
    fli_json_init(&j, t);
    fli_json_map(&j, NULL);
    fli_json_text(&j, "section", kind->section);
    fli_json_text(&j, "name", item->name);
    fli_json_text(&j, "title", item->title);
    fli_json_map(&j, "facts");
    fl_status s = fli_list_facts(ctx, item, put_fact, &j);
    fli_json_end(&j);
    put_keys(&j, "keys", item->keys);
    put_keys(&j, "section_keys", fli_settings_common(kind->section));
    fli_json_end(&j);
    return s;
}

/* section NULL: all sections */
static void settings_json(fl_ctx *ctx, fli_text *t, const char *section)
{
    listing l = open_listing(ctx, t, "sections");
    fli_section s;
    for (size_t i = 0; fli_settings_section(i, &s); i++) {
        if (section && strcmp(section, s.name)) continue;
        fli_json_map(&l.json, NULL);
        fli_json_text(&l.json, "name", s.name);
        fli_json_text(&l.json, "title", s.title);
        fli_json_text(&l.json, "kinds", s.kind ? s.kind->plural : NULL);
        put_keys(&l.json, "keys", s.keys);
        fli_json_end(&l.json);
    }
    close_listing(&l);
}

/* ==== the choice of a listing =============================================================================== */

/* The keys that do not depend on a choice, listed as if they were a kind. */
static const char settings_name[] = "settings", settings_title[] = "the keys that do not depend on a choice";

/* The devices of this machine, listed as a kind. */
static const char devices_name[] = "devices", devices_title[] = "where a run can be computed, on this machine";

static void list_kinds(fl_ctx *ctx, fli_text *t)
{
    fli_item item;
    listing l = open_listing(ctx, t, "kinds");
    for (const fli_kind *k = fli_kinds; k->section; k++) {
        size_t n = 0;
        while (k->item(n, &item)) n++;
        add_thing(&l, k->plural, k->section, k->title, &n);
    }
    if (!l.as_json) {
        add_thing(&l, settings_name, NULL, settings_title, NULL);
        add_thing(&l, devices_name, NULL, devices_title, NULL);
        fli_text_add(t,
                     "\n`fedloom list KIND` lists one of these, `fedloom list KIND NAME` shows one thing in full.\n");
    }
    close_listing(&l);
}

static void list_items(fl_ctx *ctx, fli_text *t, const fli_kind *kind)
{
    fli_item item;
    listing l = open_listing(ctx, t, kind->plural);
    for (size_t i = 0; kind->item(i, &item); i++) add_thing(&l, item.name, NULL, item.title, NULL);
    if (!l.as_json) fli_text_addf(t, "\n`fedloom list %s NAME` shows one of these and its keys.\n", kind->section);
    close_listing(&l);
}

/* Required keys are part of the example. */
void fli_list_example(fli_text *t, const fli_kind *kind, const fli_item *item)
{
    int needed = 0;
    if (kind->within) {
        fli_text_addf(t, "  %s: {%s: %s}\n", kind->within, kind->section, item->name);
        return;
    }
    for (const fl_key *k = item->keys; k && k->name; k++) needed += !k->def;
    fli_text_addf(t, needed ? "  %s: {kind: %s" : "  %s: %s", kind->section, item->name);
    for (const fl_key *k = item->keys; k && k->name; k++)
        if (!k->def) fli_text_addf(t, ", %s: ...", k->name);
    fli_text_add(t, needed ? "}\n" : "\n");
    if (!needed && item->keys && item->keys->name)
        fli_text_addf(t, "  %s: {kind: %s, %s: %s}\n", kind->section, item->name, item->keys->name,
                      *item->keys->def ? item->keys->def : "...");
}

fl_status fli_list_facts(fl_ctx *ctx, const fli_item *item, fli_fact_fn *fact, void *arg)
{
    fli_text lines;
    if (item->citation) fact(arg, "from", item->citation);
    if (item->needs) fact(arg, "needs", item->needs);
    if (!item->more) return FL_OK;
    fli_text_init(&lines, ctx);
    item->more(&lines, item->desc);
    fl_status status = fli_text_ok(&lines);
    for (char *line = lines.s, *end; !status && line && (end = strchr(line, '\n')); line = end + 1) {
        char *colon = strstr(line, ": ");
        *end = 0;
        if (colon) *colon = 0;
        fact(arg, line, colon ? colon + 2 : "");
    }
    fli_text_fini(&lines);
    return status;
}

static void add_item(fli_text *t, const fli_kind *kind, const fli_item *item)
{
    const fl_key *common = fli_settings_common(kind->section);
    fli_text_addf(t, "%s: %s\n", item->name, item->title);
    if (item->citation) fli_text_addf(t, "from: %s\n", item->citation);
    if (item->needs) fli_text_addf(t, "needs: %s\n", item->needs);
    if (item->more) item->more(t, item->desc);
    fli_text_add(t, "\nin a configuration:\n");
    fli_list_example(t, kind, item);
    if (item->keys && item->keys->name) {
        fli_text_add(t, "\nits keys:\n");
        fli_keys_print_help(t, item->keys, 2);
    } else
        fli_text_add(t, "\nIt has no keys of its own.\n");
    if (common) {
        fli_text_addf(t, "\nkeys of the section %s, whatever its kind:\n", kind->section);
        fli_keys_print_help(t, common, 2);
    }
}

/* fl_name_fn over everything that can follow `list`. */
static const char *kind_name(const void *arg, size_t i)
{
    (void)arg;
    size_t n = 0;
    for (const fli_kind *k = fli_kinds; k->section; k++, n += 2) {
        if (i == n) return k->plural;
        if (i == n + 1) return k->section;
    }
    return i == n ? settings_name : i == n + 1 ? devices_name : NULL;
}

static fl_status unknown(fl_ctx *ctx, const char *what, const char *name, const char *near, const char *hint)
{
    return fli_fail(ctx, FL_ECONFIG, "there is no %s called %s%s%s%s `fedloom list%s` shows what there is", what, name,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : ";", hint);
}

static fl_status list_settings(fl_ctx *ctx, fli_text *t, const char *section)
{
    const fl_key *keys = section ? fli_settings_common(section) : NULL;
    if (!section || keys) {
        if (fli_wants_json(ctx))
            settings_json(ctx, t, section);
        else if (keys)
            fli_keys_print_help(t, keys, 0);
        else
            fli_settings_help(t);
        return FL_OK;
    }
    return unknown(ctx, "section with keys of its own", section, fli_settings_nearest_section(section), " settings");
}

static fl_status list_kind(fl_ctx *ctx, fli_text *t, const char *kind_text, const char *name)
{
    fli_item item;
    char hint[32];
    const fli_kind *kind = fli_kind_find(kind_text);
    if (!kind) return unknown(ctx, "kind of thing", kind_text, fl_nearest(kind_text, kind_name, NULL), "");
    if (!name) {
        list_items(ctx, t, kind);
        return FL_OK;
    }
    fli_snprintf(hint, sizeof hint, " %s", kind->plural);
    if (!fli_item_find(kind, name, &item))
        return unknown(ctx, kind->section, name, fl_nearest(name, fli_item_name, kind), hint);
    if (fli_wants_json(ctx)) return item_json(ctx, t, kind, &item);
    add_item(t, kind, &item);
    return FL_OK;
}

fl_status fl_list(fl_ctx *ctx, const char *kind, const char *name, fl_text_fn *out, void *arg)
{
    fl_status s = FL_OK;
    fli_text t;
    fli_clear(ctx);
    fli_text_init(&t, ctx);
    if (!kind)
        list_kinds(ctx, &t);
    else if (!strcmp(kind, settings_name) || !strcmp(kind, "setting"))
        s = list_settings(ctx, &t, name);
    else if (!strcmp(kind, devices_name) || !strcmp(kind, "device"))
        s = name ? fli_fail(ctx, FL_ECONFIG, "`fedloom list devices` says all there is to say of %s", name)
                 : list_devices(ctx, &t);
    else
        s = list_kind(ctx, &t, kind, name);
    if (!s) s = fli_text_ok(&t);
    if (!s) out(arg, fli_text_get(&t));
    fli_text_fini(&t);
    return s;
}
