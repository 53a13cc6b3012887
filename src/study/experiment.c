/* Reading an experiment: expands its file into trials (methods x settings x seeds), each a complete configuration, and
 * binds all of them before the first one runs. */
#include "study/experiment.h"

#include "base/ctx.h"
#include "base/file.h"
#include "base/number.h"
#include "format/stream.h"
#include "format/yaml.h"

#include <stdlib.h>
#include <string.h>

/* ==== keys of all methods at once =========================================================================== */

/* Keys of `algorithm` that an experiment sets for all its methods at once: by --set, or in a section without a kind. A
 * method that has such a key takes its value, unless the method sets its own; a method without the key ignores it. A
 * key that no method has is an error. */

/* The first such key from n on; `section` is the common section. */
static const fli_node *shared_key(const fli_node *section, const fli_node *n)
{
    int plain = !fli_node_find(section, "kind");
    for (; n; n = n->next)
        if (strcmp(n->key, "kind") && (plain || (n->origin && !strncmp(n->origin, "--set ", 6)))) return n;
    return NULL;
}

static const fli_node *first_key(const fli_node *common)
{
    const fli_node *section = fli_node_find(common, "algorithm");
    return section && section->type == FLI_NODE_MAP ? shared_key(section, section->first) : NULL;
}

/* Finds the method that a configuration chooses; 0 if it is unknown, which binding reports later. */
static int method_of(const fl_config *cfg, fli_item *out)
{
    const char *kind = fl_config_get(cfg, "algorithm.kind");
    if (!*kind) kind = fl_config_get(cfg, "algorithm");
    return fli_item_find(fli_kind_find("algorithm"), *kind ? kind : "fedavg", out);
}

static int has_key(const fl_config *cfg, const char *key)
{
    fli_item item;
    return !method_of(cfg, &item) || fli_item_has_key(&item, key);
}

/* fl_name_fn over a method's own keys. */
static const char *item_key(const void *item, size_t i)
{
    const fl_key *row = ((const fli_item *)item)->keys;
    while (row && row->name && i) row++, i--;
    return row ? row->name : NULL;
}

/* fli_meant of a key that none of the methods has. */
static const char *meant_key(const fli_experiment *x, const char *key, char out[FLI_MEANT_LEN])
{
    char full[128];
    const char *near = NULL;
    fli_item item;
    for (size_t i = 0; i < x->count && !near; i++)
        if (method_of(x->trials[i].cfg, &item)) near = fl_nearest(key, item_key, &item);
    if (near) fli_snprintf(full, sizeof full, "algorithm.%s", near);
    return fli_meant(near ? full : NULL, out);
}

/* {algorithm: {key: value}} */
static fl_status give(fl_config *cfg, const fli_node *key)
{
    fli_node *root = fli_node_new(&cfg->arena, FLI_NODE_MAP, NULL, NULL);
    fli_node *section = fli_node_new(&cfg->arena, FLI_NODE_MAP, "algorithm", NULL);
    fli_node *copy = fli_arena_alloc(&cfg->arena, 1, sizeof *copy);
    if (!root || !section || !copy) return FL_ENOMEM;
    *copy = *key;
    copy->next = NULL;
    fli_node_append(section, copy);
    fli_node_append(root, section);
    return fli_config_merge(cfg, root);
}

static int same_place(const fli_node *a, const fli_node *b)
{
    return a->line == b->line && a->column == b->column && a->origin && b->origin && !strcmp(a->origin, b->origin);
}

/* Gives a trial's configuration the keys that its method has, and takes away the others. */
static fl_status apply_method_keys(const fli_node *common, fl_config *cfg)
{
    const fli_node *section = fli_node_find(common, "algorithm");
    fl_status s = FL_OK;
    for (const fli_node *n = first_key(common); n && !s; n = shared_key(section, n->next)) {
        fli_node *own = fli_node_find(fli_config_change(cfg), "algorithm");
        const fli_node *there = own ? fli_node_find(own, n->key) : NULL;
        int has = has_key(cfg, n->key);
        if (has && !there) s = give(cfg, n);
        if (!has && there && same_place(there, n)) fli_node_take(own, n->key); /* mistakes of its own are errors */
    }
    return s;
}

/* What happened to a key: how many trials took it, and the labels of methods that lack the key or set another value. */
typedef struct {
    size_t with, last[2];
    fli_text without, own;
} outcome;

static void note(const fli_experiment *x, const fli_trial *t, fli_text *labels, size_t *last)
{
    if (t->seed != x->first_seed || t->method == *last) return;
    *last = t->method;
    fli_text_addf(labels, "%s%s", labels->n ? ", " : "", x->methods[t->method].label);
}

static void look(const fli_experiment *x, const fli_node *key, outcome *o)
{
    for (size_t i = 0; i < x->count; i++) {
        const fli_trial *t = &x->trials[i];
        const fli_node *n = fli_node_find(fli_node_find(t->cfg->root, "algorithm"), key->key);
        int has = has_key(t->cfg, key->key);
        o->with += has != 0;
        if (!has) note(x, t, &o->without, &o->last[0]);
        if (has && n && !same_place(n, key)) note(x, t, &o->own, &o->last[1]);
    }
}

static fl_status report(const fli_experiment *x, const fli_node *key, const outcome *o)
{
    char where[512], meant[FLI_MEANT_LEN];
    fli_node_where(key, where, sizeof where);
    if (fli_text_ok(&o->without) || fli_text_ok(&o->own)) return FL_ENOMEM;
    if (!o->with)
        return fli_fail_also(x->ctx, FL_ECONFIG, "%salgorithm.%s is not a key of any method that is compared%s", where,
                             key->key, meant_key(x, key->key, meant));
    if (o->without.n)
        fli_log(x->ctx, FL_LOG_WARNING, "%salgorithm.%s holds for the methods that have it; these have not: %s", where,
                key->key, fli_text_get(&o->without));
    if (o->own.n)
        fli_log(x->ctx, FL_LOG_WARNING, "%salgorithm.%s: these methods have a value of their own: %s", where, key->key,
                fli_text_get(&o->own));
    return FL_OK;
}

/* After all trials are made: refuses keys that no trial took, and logs which methods ignored a key. */
static fl_status check_method_keys(const fli_experiment *x, const fli_node *common)
{
    const fli_node *section = fli_node_find(common, "algorithm");
    fl_status status = FL_OK;
    for (const fli_node *n = first_key(common); n && status != FL_ENOMEM; n = shared_key(section, n->next)) {
        outcome o = {.last = {SIZE_MAX, SIZE_MAX}};
        fli_text_init(&o.without, x->ctx);
        fli_text_init(&o.own, x->ctx);
        look(x, n, &o);
        fl_status s = report(x, n, &o);
        if (s) status = s;
        fli_text_fini(&o.without);
        fli_text_fini(&o.own);
    }
    return status;
}

/* ==== from the file to trials =============================================================================== */

enum {
    MOST_TRIALS = 100000,
    NAME_LENGTH = 200 /* of a folder; file systems allow 255 bytes */
};

typedef struct {
    char *description;
    int64_t seeds, seed;
} own_settings;

static const fl_key own_table[] = {
    FLI_KEY_STRING(own_settings, description, "", "what the experiment is about"),
    FLI_KEY_INT(own_settings, seeds, "1", 1, 10000, "number of seeds: seed, seed + 1, ..."),
    FLI_KEY_INT(own_settings, seed, "1", 0, 9007199254740992.0, "the first seed"),
    FLI_KEY_END,
};

static fl_status wrong(fl_ctx *ctx, const fli_node *at, const char *what)
{
    char where[512];
    return fli_fail_also(ctx, FL_ECONFIG, "%s%s", fli_node_where(at, where, sizeof where), what);
}

/* ==== settings of a method =================================================================================== */

/* The settings to try a method with, every combination of a grid or a list of points: read here, and applied to
 * trials. */

enum {
    MOST_SETTINGS = 100000,
    MOST_PARTS = 8 /* of a dotted key */
};

int fli_is_shared_key(const char *key)
{
    return !strcmp(key, "seed") || !strcmp(key, "name") || !strcmp(key, "output") || fli_is_experiment_key(key);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static fl_status check_key(fl_ctx *ctx, const fli_node *k, const char *shared)
{
    size_t dots = 0;
    for (const char *c = k->key; *c; c++) {
        if (*c == '.' && (c == k->key || !c[1] || c[1] == '.')) return wrong(ctx, k, "a part of this key is empty");
        dots += *c == '.';
    }
    if (dots >= MOST_PARTS) return wrong(ctx, k, "this key has too many parts");
    return fli_is_shared_key(k->key) ? wrong(ctx, k, shared) : FL_OK;
}

static fl_status check_grid(fl_ctx *ctx, const fli_node *grid)
{
    if (!grid) return FL_OK;
    if (grid->type != FLI_NODE_MAP) return wrong(ctx, grid, "grid must be a map from keys to lists of values");
    for (const fli_node *k = grid->first; k; k = k->next) {
        fl_status s = check_key(ctx, k, "all runs share this; it cannot be in a grid");
        if (s) return s;
        if (k->type != FLI_NODE_LIST || !k->first)
            return wrong(ctx, k, "a grid needs a list of values, e.g. {local.lr: [0.01, 0.1]}");
    }
    return FL_OK;
}

static fl_status check_points(fl_ctx *ctx, const fli_node *points)
{
    if (!points) return FL_OK;
    if (points->type != FLI_NODE_LIST || !points->first)
        return wrong(ctx, points, "points must be a list of settings, e.g. [{local.lr: 0.1, algorithm.mu: 1}]");
    for (const fli_node *p = points->first; p; p = p->next) {
        if (p->type != FLI_NODE_MAP) return wrong(ctx, p, "a point must be a map from keys to values");
        for (const fli_node *k = p->first; k; k = k->next) {
            fl_status s = check_key(ctx, k, "all runs share this; it cannot be in a point");
            if (s) return s;
        }
    }
    return FL_OK;
}

static fl_status add_grid(fli_experiment *x, fli_method *m, const fli_node *grid)
{
    if (!grid) return FL_OK;
    if (!m->grid && !(m->grid = fli_node_new(&x->arena, FLI_NODE_MAP, NULL, NULL))) return FL_ENOMEM;
    return fli_yaml_merge(x->ctx, &x->arena, m->grid, grid);
}

static fl_status count_settings(fli_experiment *x, fli_method *m)
{
    m->settings = m->points ? fli_node_count(m->points) : 1;
    for (const fli_node *k = m->grid ? m->grid->first : NULL; k; k = k->next) {
        m->settings *= fli_node_count(k);
        if (m->settings > MOST_SETTINGS) return wrong(x->ctx, k, "the grid has too many combinations");
    }
    return m->settings > MOST_SETTINGS ? wrong(x->ctx, m->points, "these are too many points") : FL_OK;
}

/* Reads the method's settings from its node, which override those of `common`; either may be NULL. */
static fl_status read_variants(fli_experiment *x, const fli_node *common, const fli_node *node, fli_method *m)
{
    const fli_node *from[] = {common, node};
    fl_status s = FL_OK;
    for (size_t i = 0; i < 2 && !s; i++) {
        const fli_node *grid = fli_node_find(from[i], "grid"), *points = fli_node_find(from[i], "points");
        if (!(s = check_grid(x->ctx, grid))) s = check_points(x->ctx, points);
        if (!s) s = add_grid(x, m, grid);
        if (points) m->points = points;
    }
    if (!s && m->grid && m->points) s = wrong(x->ctx, m->points, "a method has a grid or points, not both");
    return s ? s : count_settings(x, m);
}

/* ---- applying ------------------------------------------------------------------------------------------ */

void fli_value_words(fli_text *t, const fli_node *v)
{
    int map = v->type == FLI_NODE_MAP;
    if (v->type == FLI_NODE_SCALAR) {
        for (const char *c = v->text; *c; c++) fli_text_addn(t, (unsigned char)*c < ' ' || *c == 0x7F ? " " : c, 1);
        return;
    }
    fli_text_add(t, map ? "{" : "[");
    for (const fli_node *c = v->first; c; c = c->next) {
        if (map) fli_text_addf(t, "%s: ", c->key);
        fli_value_words(t, c);
        if (c->next) fli_text_add(t, ", ");
    }
    fli_text_add(t, map ? "}" : "]");
}

/* The last part of a key, if it is unique among the map's keys; else the whole key. */
static const char *short_key(const fli_node *map, const char *key)
{
    const char *dot = strrchr(key, '.'), *last = dot ? dot + 1 : key;
    size_t twins = 0;
    for (const fli_node *k = map->first; k; k = k->next) {
        const char *d = strrchr(k->key, '.');
        twins += !strcmp(d ? d + 1 : k->key, last);
    }
    return twins > 1 ? key : last;
}

fli_node *fli_nest(fli_arena *a, const char *key, const fli_node *value)
{
    fli_node *root = fli_node_new(a, FLI_NODE_MAP, NULL, NULL), *map = root;
    char *part = fli_arena_strdup(a, key);
    if (!root || !part) return NULL;
    for (char *next; part; part = next) {
        fli_node *n = fli_arena_alloc(a, 1, sizeof *n);
        if (!n) return NULL;
        if ((next = strchr(part, '.'))) *next++ = 0;
        *n = *value;
        n->next = NULL;
        if (next) n->type = FLI_NODE_MAP, n->first = NULL, n->text = NULL;
        n->key = part;
        fli_node_put(map, n);
        map = n;
    }
    return root;
}

/* The map with a setting's keys, and the setting's value for one of them; `left` counts combinations. */
static const fli_node *keys_of(const fli_method *m, size_t setting)
{
    const fli_node *p = m->points ? m->points->first : NULL;
    while (p && setting--) p = p->next;
    return m->points ? p : m->grid;
}

static const fli_node *value_of(const fli_method *m, const fli_node *key, size_t *left)
{
    if (m->points) return key;
    size_t n = fli_node_count(key), pick = *left % n;
    const fli_node *v = key->first;
    *left /= n;
    while (pick--) v = v->next;
    return v;
}

/* Applies the trial's setting to its configuration, and writes setting_text. */
static fl_status apply_variant(fli_experiment *x, const fli_method *m, fli_trial *t)
{
    size_t left = t->setting;
    fl_status s = FL_OK;
    fli_text words;
    const fli_node *keys = keys_of(m, t->setting);
    fli_text_init(&words, x->ctx);
    for (const fli_node *k = keys ? keys->first : NULL; k && !s; k = k->next) {
        const fli_node *v = value_of(m, k, &left);
        fli_node *over = fli_nest(&x->arena, k->key, v);
        s = over ? fli_config_merge(t->cfg, over) : FL_ENOMEM;
        fli_text_addf(&words, "%s%s=", words.n ? ", " : "", short_key(keys, k->key));
        fli_value_words(&words, v);
    }
    if (!s) s = fli_text_ok(&words);
    if (!s && !(t->setting_text = fli_arena_strdup(&x->arena, fli_text_get(&words)))) s = FL_ENOMEM;
    fli_text_fini(&words);
    return s;
}

/* ---- ${data} ------------------------------------------------------------------------------------------- */

static const char placeholder[] = "${data}";

/* Replaces the placeholder at the start of every text of the tree. */
static fl_status fill_in(fli_arena *a, fli_node *n, const char *data)
{
    size_t skip = sizeof placeholder - 1;
    fl_status s = FL_OK;
    if (n->type == FLI_NODE_SCALAR && n->text && !strncmp(n->text, placeholder, skip)) {
        if (!data)
            return wrong(a->ctx, n,
                         "${data} stands for the folder with the data sets: give it by --data DIR or FEDLOOM_DATA");
        char *full = fli_arena_alloc(a, strlen(data) + strlen(n->text) - skip + 1, 1);
        if (!full) return FL_ENOMEM;
        strcat(strcpy(full, data), n->text + skip);
        n->text = full;
    }
    for (fli_node *c = n->type == FLI_NODE_SCALAR ? NULL : n->first; c && !s; c = c->next) s = fill_in(a, c, data);
    return s;
}

static const char *text_of(const fli_node *map, const char *key, const char *otherwise)
{
    const fli_node *n = fli_node_find(map, key);
    return n && n->type == FLI_NODE_SCALAR && n->text ? n->text : otherwise;
}

/* Looks for a name in `needs`: a file, plain or compressed, or, with a slash at the end, a folder. FL_EIO: missing. */
static fl_status look_for(fl_ctx *ctx, const char *data, const char *name)
{
    size_t n = strlen(name);
    int folder = n && name[n - 1] == '/';
    char *path = folder ? fli_strf(ctx, "%s/%s", data, name) : NULL;
    fl_status s = !folder ? fli_find_file(ctx, data, name, &path) : !path ? FL_ENOMEM : FL_OK;
    if (!s && folder && fli_path_kind(path) != 1) s = FL_EIO;
    fli_free(path);
    return s;
}

/* Before anything starts: an error for missing data names all files of the set and where they are published. */
static fl_status check_needs(fl_ctx *ctx, const fli_node *needs, const char *data)
{
    const fli_node *files = fli_node_find(needs, "files");
    const char *what = text_of(needs, "what", "data"), *published = text_of(needs, "published", "");
    fl_status s = FL_OK;
    fli_text missing;
    if (!needs) return FL_OK;
    if (files && files->type != FLI_NODE_LIST) return wrong(ctx, files, "needs.files must be a list of names");
    for (const fli_node *f = files ? files->first : NULL; f; f = f->next)
        if (f->type != FLI_NODE_SCALAR) return wrong(ctx, f, "needs.files must be a list of names");
    fli_text_init(&missing, ctx);
    for (const fli_node *f = files ? files->first : NULL; f && !s; f = f->next) {
        s = data ? look_for(ctx, data, f->text) : FL_EIO;
        if (s != FL_EIO) continue;
        fli_clear(ctx);
        s = FL_OK;
        fli_text_addf(&missing, "\n  %s/%s", data ? data : "DIR", f->text);
    }
    if (!s) s = fli_text_ok(&missing);
    if (!s && (missing.n || !data))
        s = fli_fail(ctx, data ? FL_EIO : FL_ECONFIG, "%s%s%s%s", what,
                     data ? " was not found"
                          : " is needed; give the folder with the data sets by --data DIR or FEDLOOM_DATA",
                     missing.n ? "; wanted (plain, .gz or .xz):" : "", fli_text_get(&missing));
    if (s && s != FL_ENOMEM && *published) fli_fail_also(ctx, s, "published at %s", published);
    fli_text_fini(&missing);
    return s;
}

/* ---- methods and grids --------------------------------------------------------------------------------- */

/* FNV-1a: distinguishes names that are cut because they are too long. */
static unsigned long long digest(const char *s)
{
    unsigned long long h = 0xCBF29CE484222325;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001B3;
    return h;
}

/* Folder names come from labels: lower-case letters, digits, single dashes and all characters beyond ASCII; no dot at
 * either end. */
static const char *slug(fli_arena *a, const char *label)
{
    char *out = fli_arena_alloc(a, strlen(label) + 2, 1);
    size_t n = 0;
    if (!out) return NULL;
    for (const char *p = label; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c >= 'A' && c <= 'Z')
            out[n++] = (char)(c - 'A' + 'a');
        else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '=' || c == '+' || c >= 0x80 ||
                 (c == '.' && n))
            out[n++] = (char)c;
        else if (n && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n && (out[n - 1] == '-' || out[n - 1] == '.')) out[--n] = 0;
    if (!n) out[n++] = 'x';
    if (n > NAME_LENGTH) {
        n = NAME_LENGTH - 18;
        while ((unsigned char)out[n] >= 0x80 && (unsigned char)out[n] < 0xC0)
            n--; /* not in the middle of a character */
        fli_snprintf(out + n, 18, "-%016llx", digest(label));
    }
    return out;
}

/* C0, DEL and, as UTF-8, C1. */
static int has_control(const char *s)
{
    for (; *s; s++) {
        const unsigned char *c = (const unsigned char *)s;
        if (c[0] < ' ' || c[0] == 0x7F || (c[0] == 0xC2 && c[1] >= 0x80 && c[1] < 0xA0)) return 1;
    }
    return 0;
}

/* Whether a method's key is for the experiment, not for its runs. */
static int is_own_key(const char *key)
{
    static const char *const keys[] = {"label", "grid", "points", "tune"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(keys[i], key)) return 1;
    return 0;
}

static fl_status read_method(fli_experiment *x, const fli_node *node, const fli_node *root, fli_method *m)
{
    if (node->type != FLI_NODE_MAP)
        return wrong(x->ctx, node, "a method must be a map, e.g. {label: FedAvg, algorithm: fedavg}");
    if (!(m->over = fli_node_new(&x->arena, FLI_NODE_MAP, NULL, NULL))) return FL_ENOMEM;
    for (const fli_node *n = node->first; n; n = n->next) {
        if (is_own_key(n->key)) continue;
        if (fli_is_shared_key(n->key)) return wrong(x->ctx, n, "methods share this; it cannot be a method's own");
        fli_node *copy = fli_arena_alloc(&x->arena, 1, sizeof *copy);
        if (!copy) return FL_ENOMEM;
        *copy = *n;
        fli_node_put(m->over, copy);
    }
    const fli_node *algorithm = fli_node_find(node, "algorithm");
    const char *kind =
        algorithm && algorithm->type == FLI_NODE_SCALAR ? algorithm->text : text_of(algorithm, "kind", NULL);
    fli_item item; /* item.name lacks the number that the name of a registered method may have ("mine@2") */
    if (kind && fli_item_find(fli_kind_find("algorithm"), kind, &item)) kind = item.name;
    m->label = text_of(node, "label", kind);
    if (!m->label || !*m->label) return wrong(x->ctx, node, "a method needs a label or an algorithm");
    if (has_control(m->label)) return wrong(x->ctx, node, "a label may not hold control characters");
    if (!(m->folder = slug(&x->arena, m->label))) return FL_ENOMEM;
    m->tune = fli_node_find(node, "tune");
    return read_variants(x, root, node, m);
}

/* Among equal folders the earlier method comes first, so that the error names the later one. */
static int by_method_folder(const void *a, const void *b)
{
    const fli_method *x = *(const fli_method *const *)a, *y = *(const fli_method *const *)b;
    int order = strcmp(x->folder, y->folder);
    return order ? order : (x > y) - (x < y);
}

/* No two methods may share a folder. */
static fl_status check_labels(fli_experiment *x)
{
    const fli_method **sorted = fli_alloc(x->ctx, x->method_count, sizeof *sorted), *duplicate = NULL;
    if (!sorted) return FL_ENOMEM;
    for (size_t i = 0; i < x->method_count; i++) sorted[i] = &x->methods[i];
    qsort(sorted, x->method_count, sizeof *sorted, by_method_folder);
    for (size_t i = 1; i < x->method_count; i++)
        if (!strcmp(sorted[i - 1]->folder, sorted[i]->folder) && (!duplicate || sorted[i] < duplicate))
            duplicate = sorted[i];
    fli_free(sorted);
    return duplicate ? wrong(x->ctx, duplicate->node,
                             "another method has this label, or one that gives the same folder; give each its own")
                     : FL_OK;
}

static fl_status read_methods(fli_experiment *x, const fli_node *root)
{
    const fli_node *list = fli_node_find(root, "methods");
    fl_status s;
    if (list && (list->type != FLI_NODE_LIST || !list->first))
        return wrong(x->ctx, list, "methods must be a list with at least one method");
    x->method_count = list ? fli_node_count(list) : 1;
    x->methods = fli_arena_alloc(&x->arena, x->method_count, sizeof *x->methods);
    if (!x->methods) return FL_ENOMEM;
    if (!list) { /* no list: the configuration's method, with a grid or several seeds */
        const fli_node *algorithm = fli_node_find(root, "algorithm");
        fli_node *only = fli_node_new(&x->arena, FLI_NODE_MAP, NULL, NULL), *copy = NULL;
        if (!only || (algorithm && !(copy = fli_arena_alloc(&x->arena, 1, sizeof *copy)))) return FL_ENOMEM;
        if (copy) *copy = *algorithm;
        if (!copy && !(copy = fli_node_new(&x->arena, FLI_NODE_SCALAR, "algorithm", "fedavg"))) return FL_ENOMEM;
        fli_node_put(only, copy);
        return read_method(x, only, root, x->methods);
    }
    size_t i = 0;
    for (const fli_node *n = list->first; n; n = n->next, i++) {
        if ((s = read_method(x, n, root, &x->methods[i]))) return s;
        x->methods[i].node = n;
    }
    return check_labels(x);
}

/* ---- trials -------------------------------------------------------------------------------------------- */

void fli_collect(void *arg, const char *text) { fli_text_add(arg, text); }

/* Resolves the configuration and extracts what the data depend on: seed, data and partition. */
static fl_status resolve(fli_experiment *x, fli_trial *t)
{
    fli_text all, key;
    fl_status s = fli_config_hold(t->cfg, &t->bound);
    if (s) return s;
    t->settings = &t->bound->settings;
    fli_text_init(&all, x->ctx);
    fli_text_init(&key, x->ctx);
    fli_settings_print(&all, t->settings);
    if (!(s = fli_text_ok(&all))) {
        const char *from = strstr(fli_text_get(&all), "\ndata:\n"), *to = strstr(fli_text_get(&all), "\nmodel:\n");
        fli_text_addf(&key, "seed %llu, precision %d", (unsigned long long)t->seed, t->settings->top.precision);
        if (from && to) fli_text_addn(&key, from, (size_t)(to - from));
        t->config = fli_arena_strdup(&x->arena, fli_text_get(&all));
        t->data_key = fli_arena_strdup(&x->arena, fli_text_get(&key));
        t->rounds = (size_t)t->settings->top.rounds;
        s = fli_text_ok(&key);
        if (!s && (!t->config || !t->data_key)) s = FL_ENOMEM;
    }
    fli_text_fini(&all);
    fli_text_fini(&key);
    return s;
}

static fl_status make_folder_name(fli_experiment *x, const fli_method *m, fli_trial *t)
{
    const char *b = slug(&x->arena, t->setting_text);
    char *path = b ? fli_strf(x->ctx, "%s/runs/%s%s%s/seed-%llu", x->output, m->folder, *t->setting_text ? "/" : "",
                              *t->setting_text ? b : "", (unsigned long long)t->seed)
                   : NULL;
    if (path) t->folder = fli_arena_strdup(&x->arena, path);
    fli_free(path);
    return t->folder ? FL_OK : FL_ENOMEM;
}

static fl_status make_trial(fli_experiment *x, const fli_node *common, fli_trial *t)
{
    const fli_method *m = &x->methods[t->method];
    char seed[40];
    fl_status s;
    fli_snprintf(seed, sizeof seed, "%llu", (unsigned long long)t->seed);
    if (!(t->cfg = fl_config_new(x->ctx))) return FL_ENOMEM;
    t->cfg->compared = 1;
    t->cfg->memory = x->file->memory;
    if ((s = fli_config_merge(t->cfg, common)) || (s = fli_config_merge(t->cfg, m->over)) ||
        (s = apply_variant(x, m, t)) || (m->node && (s = apply_method_keys(common, t->cfg))) ||
        (s = make_folder_name(x, m, t)) || (s = fli_config_put(t->cfg, "name", m->label)) ||
        (s = fli_config_put(t->cfg, "seed", seed)) || (s = fli_config_put(t->cfg, "output", t->folder)))
        return s;
    return resolve(x, t);
}

static int by_folder(const void *a, const void *b)
{
    return strcmp((*(const fli_trial *const *)a)->folder, (*(const fli_trial *const *)b)->folder);
}

/* Two combinations of a grid must not share a folder: this refuses equal ones, and values that differ only in
 * characters that names leave out. */
static fl_status check_folders(fli_experiment *x, size_t per_seed)
{
    char where[512];
    const fli_trial **sorted = fli_arena_alloc(&x->arena, per_seed, sizeof *sorted);
    if (!sorted) return FL_ENOMEM;
    for (size_t i = 0; i < per_seed; i++) sorted[i] = &x->trials[i];
    qsort(sorted, per_seed, sizeof *sorted, by_folder);
    for (size_t i = 1; i < per_seed; i++) {
        const fli_method *m = &x->methods[sorted[i]->method];
        if (strcmp(sorted[i - 1]->folder, sorted[i]->folder)) continue;
        return fli_fail_also(x->ctx, FL_ECONFIG, "%stwo %s are the same or too alike: %s and %s",
                             fli_node_where(m->grid ? m->grid->first : m->points, where, sizeof where),
                             m->grid ? "combinations of the grid" : "points", sorted[i - 1]->setting_text,
                             sorted[i]->setting_text);
    }
    return FL_OK;
}

static int has_line(const char *text, const char *line, size_t n)
{
    while (*text && (strncmp(text, line, n) || (text[n] && text[n] != '\n'))) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return *text != 0;
}

/* Adds a trial's errors, line by line; errors that several trials have in common appear once. */
static void note_mistakes(const fli_experiment *x, const fli_trial *t, fli_text *said)
{
    size_t before = said->n;
    for (const char *line = fl_ctx_error(x->ctx); *line;) {
        size_t n = strcspn(line, "\n");
        if (!has_line(fli_text_get(said), line, n)) {
            fli_text_add(said, said->n ? "\n" : "");
            fli_text_addn(said, line, n);
        }
        line += n + (line[n] == '\n');
    }
    if (said->n > before) fli_text_addf(said, "\n(this is the method labelled %s)", x->methods[t->method].label);
    fli_clear(x->ctx);
}

/* Makes the trials of one seed, from x->trials[at] on. Reports all errors in their configurations at once. */
static fl_status make_seed(fli_experiment *x, const fli_node *common, uint64_t seed, size_t at)
{
    fl_status s = FL_OK;
    fli_text said;
    fli_text_init(&said, x->ctx);
    for (size_t i = 0; i < x->method_count; i++)
        for (size_t j = 0; j < x->methods[i].settings && !s; j++, at++) {
            x->trials[at] = (fli_trial){.method = i, .setting = j, .seed = seed};
            s = make_trial(x, common, &x->trials[at]);
            if (s != FL_ECONFIG) continue;
            note_mistakes(x, &x->trials[at], &said);
            s = fli_text_ok(&said);
        }
    if (!s && said.n) s = fli_fail(x->ctx, FL_ECONFIG, "%s", fli_text_get(&said));
    fli_text_fini(&said);
    return s;
}

static fl_status make_trials(fli_experiment *x, const fli_node *common)
{
    size_t per_seed = 0;
    fl_status s = FL_OK;
    for (size_t i = 0; i < x->method_count; i++) per_seed += x->methods[i].settings;
    if (x->seeds > MOST_TRIALS / per_seed)
        return fli_fail(x->ctx, FL_ECONFIG, "%zu settings over %zu seeds are too many runs", per_seed, x->seeds);
    x->count = per_seed * x->seeds;
    if (!(x->trials = fli_arena_alloc(&x->arena, x->count, sizeof *x->trials))) return FL_ENOMEM;
    for (size_t k = 0; k < x->seeds && !s; k++) s = make_seed(x, common, x->first_seed + k, k * per_seed);
    if (!s && x->methods[0].node) s = check_method_keys(x, common);
    return s ? s : check_folders(x, per_seed);
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

/* Splits the tree into what runs share and the experiment's own keys. */
static fl_status split(fli_experiment *x, const fli_node *root, fli_node *common, fli_node *own)
{
    for (const fli_node *n = root->first; n; n = n->next) {
        fli_node *copy = fli_arena_alloc(&x->arena, 1, sizeof *copy);
        if (!copy) return FL_ENOMEM;
        *copy = *n;
        if (!strcmp(n->key, "seeds") || !strcmp(n->key, "description") || !strcmp(n->key, "seed"))
            fli_node_put(own, copy);
        else if (!fli_is_experiment_key(n->key))
            fli_node_put(common, copy);
    }
    return FL_OK;
}

static fl_status read_own(fli_experiment *x, const fli_node *root, const fli_node *common, const fli_node *own,
                          const fl_study_options *o)
{
    own_settings settings;
    fl_status s = fli_bind(x->ctx, &x->arena, "", own, NULL, &(fli_table){own_table, &settings}, 1);
    if (s) return s;
    x->name = text_of(common, "name", "comparison");
    x->description = settings.description;
    x->first_seed = (uint64_t)settings.seed;
    x->seeds = o->seeds ? o->seeds : (size_t)settings.seeds;
    x->paper = fli_node_find(root, "paper");
    x->tune = fli_node_find(root, "tune");
    for (const char *const *key = (const char *const[]){"name", "output", NULL}; *key; key++) {
        const fli_node *n = fli_node_find(common, *key);
        if (n && n->type != FLI_NODE_SCALAR) return wrong(x->ctx, n, "this must be a text");
    }
    x->output = o->output && *o->output ? o->output : text_of(common, "output", "");
    if (!*x->output) {
        const char *name = slug(&x->arena, x->name);
        char *path = name ? fli_strf(x->ctx, "results/%s%s", name, o->quick ? "-quick" : "") : NULL;
        x->output = path ? fli_arena_strdup(&x->arena, path) : NULL;
        fli_free(path);
    } else
        x->output = fli_arena_strdup(&x->arena, x->output);
    return x->output ? FL_OK : FL_ENOMEM;
}

fl_status fli_study_options_take(fl_ctx *ctx, const fl_study_options *given, fl_study_options *out)
{
    if (given) return fli_take_versioned(ctx, "fl_study_options", given, given->size, out, sizeof *out);
    *out = (fl_study_options){.size = sizeof *out};
    return FL_OK;
}

fl_status fli_experiment_apply_quick(fli_arena *a, fli_node *root)
{
    const fli_node *quick = fli_node_find(root, "quick");
    if (!quick) return FL_OK;
    if (quick->type != FLI_NODE_MAP) return wrong(a->ctx, quick, "quick must be a map of keys and values");
    return fli_yaml_merge(a->ctx, a, root, quick);
}

/* NULL: unknown. */
static const char *data_folder(const char *given)
{
    const char *data = given ? given : getenv("FEDLOOM_DATA");
    return data && *data ? data : NULL;
}

fl_status fli_experiment_data(const fl_config *cfg, const char *data, fl_config **out)
{
    data = data_folder(data);
    fl_status s = check_needs(cfg->ctx, fli_node_find(cfg->root, "needs"), data);
    if (s) return s;
    if (!(*out = fl_config_copy(cfg))) return FL_ENOMEM;
    (*out)->ranks = cfg->ranks;
    fli_arena *a = &(*out)->arena;
    fli_node *keys = fli_data_keys(a, fli_config_change(*out));
    if (!keys) return FL_ENOMEM;
    (*out)->root = keys;
    return fill_in(a, keys, data);
}

fl_status fli_experiment_init(fl_config *cfg, const fl_study_options *o, fli_experiment *x)
{
    const char *data = data_folder(o->data);
    fli_node *root, *common, *own;
    fl_status s;
    memset(x, 0, sizeof *x);
    x->ctx = cfg->ctx;
    fli_arena_init(&x->arena, cfg->ctx);
    x->file = fl_config_copy(cfg);
    common = fli_node_new(&x->arena, FLI_NODE_MAP, NULL, NULL);
    own = fli_node_new(&x->arena, FLI_NODE_MAP, NULL, NULL);
    if (!x->file || !common || !own) return FL_ENOMEM;
    root = fli_config_change(x->file);
    if (o->quick && (s = fli_experiment_apply_quick(&x->arena, root))) return s;
    if ((s = check_needs(x->ctx, fli_node_find(root, "needs"), data)) || (s = fill_in(&x->arena, root, data)) ||
        (s = split(x, root, common, own)) || (s = read_own(x, root, common, own, o)) || (s = read_methods(x, root)))
        return s;
    return make_trials(x, common);
}

void fli_experiment_fini(fli_experiment *x)
{
    for (size_t i = 0; i < x->count && x->trials; i++) {
        fl_config_free(x->trials[i].cfg);
        fli_bound_release(x->trials[i].bound);
    }
    fl_config_free(x->file);
    fli_arena_fini(&x->arena);
}
