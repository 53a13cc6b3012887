#include "study/method_keys.h"

#include "base/number.h"

#include <string.h>

/* The first such key at or behind n; `section` is the common one. */
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

/* The method that a configuration chooses; 0: it is not known, which others will say. */
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
    const fli_key *row = ((const fli_item *)item)->keys;
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

static void take_away(fli_node *map, const char *key)
{
    for (fli_node **at = &map->first; *at; at = &(*at)->next)
        if (!strcmp((*at)->key, key)) {
            *at = (*at)->next;
            return;
        }
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

fl_status fli_method_keys_apply(const fli_node *common, fl_config *cfg)
{
    const fli_node *section = fli_node_find(common, "algorithm");
    fl_status s = FL_OK;
    for (const fli_node *n = first_key(common); n && !s; n = shared_key(section, n->next)) {
        fli_node *own = fli_node_find(cfg->root, "algorithm");
        const fli_node *there = own ? fli_node_find(own, n->key) : NULL;
        int has = has_key(cfg, n->key);
        if (has && !there) s = give(cfg, n);
        if (!has && there && same_place(there, n)) take_away(own, n->key); /* its own mistakes are errors */
    }
    return s;
}

/* What became of a key: how many trials have it, and the labels of methods that have no such key, or another value. */
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

fl_status fli_method_keys_check(const fli_experiment *x, const fli_node *common)
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
