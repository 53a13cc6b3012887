/* The settings that a method is tried with: every combination of a grid, or a list of points; read, and applied to a
 * trial. */
#include "study/experiment.h"

#include "format/yaml.h"

#include <string.h>

enum {
    MOST_SETTINGS = 100000,
    MOST_PARTS = 8 /* of a dotted key */
};

int fli_is_shared_key(const char *key)
{
    return !strcmp(key, "seed") || !strcmp(key, "name") || !strcmp(key, "output") || fli_is_experiment_key(key);
}

static fl_status wrong(fl_ctx *ctx, const fli_node *at, const char *what)
{
    char where[512];
    return fli_fail_also(ctx, FL_ECONFIG, "%s%s", fli_node_where(at, where, sizeof where), what);
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

fl_status fli_variants_read(fli_experiment *x, const fli_node *common, const fli_node *node, fli_method *m)
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

/* The last part of a key, if that says which of the map's keys is meant; else all of it. */
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

/* The map whose keys a setting is about, and the value that it has for one of them; `left` counts combinations. */
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

fl_status fli_variants_apply(fli_experiment *x, const fli_method *m, fli_trial *t)
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
