/* The box of a method: ranges of its descriptor, overridden by those of the file for all methods, and these by the
 * method's own in the file. */
#include "algo/algo.h"
#include "base/number.h"
#include "study/experiment.h"
#include "study/tune.h"

#include <math.h>
#include <string.h>

/* A range of the file: its key and its node. */
typedef struct {
    const char *key;
    const fli_node *node;
} file_range;

typedef struct {
    file_range *v;
    size_t n, capacity;
} file_ranges;

static fl_status wrong(fl_ctx *ctx, const fli_node *at, const char *key, const char *what)
{
    char where[512];
    return fli_fail_also(ctx, FL_ECONFIG, "%stune.%s %s", fli_node_where(at, where, sizeof where), key, what);
}

/* ---- the file's ranges ---------------------------------------------------------------------------------- */

static int is_range(const fli_node *n)
{
    static const char *const keys[] = {"from", "to", "log", "values"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (fli_node_find(n, keys[i])) return 1;
    return n->type != FLI_NODE_MAP || !n->first;
}

static fl_status add_file_range(fl_tune *t, file_ranges *e, const char *key, const fli_node *n)
{
    if (e->n == e->capacity) { /* the arena frees the old one */
        size_t more = e->capacity ? 2 * e->capacity : 16;
        file_range *v = fli_arena_alloc(&t->arena, more, sizeof *v);
        if (!v) return FL_ENOMEM;
        if (e->n) memcpy(v, e->v, e->n * sizeof *v);
        e->v = v;
        e->capacity = more;
    }
    e->v[e->n++] = (file_range){key, n};
    return FL_OK;
}

/* {local: {lr: RANGE}} means {local.lr: RANGE}: --set writes it that way. */
static fl_status flatten(fl_tune *t, const fli_node *map, const char *prefix, file_ranges *e)
{
    fl_status s = FL_OK;
    for (const fli_node *n = map->first; n && !s; n = n->next) {
        int own = !*prefix && (!strcmp(n->key, "goal") || !strcmp(n->key, "seeds") || !strcmp(n->key, "budget"));
        if (own) continue;
        char *joined = fli_strf(t->ctx, "%s%s%s", prefix, *prefix ? "." : "", n->key);
        const char *key = joined ? fli_arena_strdup(&t->arena, joined) : NULL;
        fli_free(joined);
        s = !key ? FL_ENOMEM : is_range(n) ? add_file_range(t, e, key, n) : flatten(t, n, key, e);
    }
    return s;
}

static fl_status ranges_of_file(fl_tune *t, const fli_node *tune, int is_method, file_ranges *e)
{
    char where[512];
    *e = (file_ranges){0};
    if (!tune) return FL_OK;
    if (tune->type != FLI_NODE_MAP)
        return fli_fail_also(t->ctx, FL_ECONFIG,
                             "%stune must be a map, e.g. {local.lr: {from: 0.001, to: 1, log: true}}",
                             fli_node_where(tune, where, sizeof where));
    for (const fli_node *n = tune->first; n && is_method; n = n->next)
        if (!strcmp(n->key, "goal") || !strcmp(n->key, "seeds") || !strcmp(n->key, "budget"))
            return wrong(t->ctx, n, n->key, "is the same for all methods; it cannot be a method's own");
    return flatten(t, tune, "", e);
}

/* ---- one range ------------------------------------------------------------------------------------------ */

/* Keys of a run's length, the problem and the metrics cannot be tuned: a search would choose the easiest problem. */
static int is_out_of_bounds(const char *key)
{
    static const char *const keys[] = {"rounds",           "threads",      "memory", "executor", "device",
                                       "checkpoint_every", "output_model", "clock",  "data",     "partition",
                                       "metrics",          "stop",         "server"};
    size_t n = strcspn(key, ".");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == n && !strncmp(keys[i], key, n)) return 1;
    return fli_is_shared_key(key);
}

typedef struct {
    double from, to;
    int log;
} bounds;

static const fl_key bounds_table[] = {
    FLI_KEY_REAL(bounds, from, NULL, -FLI_NO_MAX, FLI_NO_MAX, "the least value"),
    FLI_KEY_REAL(bounds, to, NULL, -FLI_NO_MAX, FLI_NO_MAX, "the greatest value"),
    FLI_KEY_BOOL(bounds, log, "false", "spread evenly over powers of ten, not over values"),
    FLI_KEY_END,
};

static fl_status check_bounds(fl_tune *t, const fli_span *r, const fl_key *row)
{
    char where[512];
    fl_status s = FL_OK;
    fli_text type;
    fli_node_where(r->at, where, sizeof where);
    if (row->type != FL_KEY_REAL && row->type != FL_KEY_INT && row->type != FL_KEY_REALS)
        return wrong(t->ctx, r->at, r->key, "is not a number; give what is to be tried as {values: [...]}");
    if (!(r->from < r->to))
        return fli_fail_also(t->ctx, FL_ECONFIG, "%stune.%s goes from %g to %g; `from` must be less than `to`", where,
                             r->key, r->from, r->to);
    if (r->log && !(r->from > 0))
        return fli_fail_also(t->ctx, FL_ECONFIG, "%stune.%s is a log range from %g; that must be more than 0", where,
                             r->key, r->from);
    if (r->whole && ceil(r->from) > floor(r->to))
        return fli_fail_also(t->ctx, FL_ECONFIG, "%stune.%s goes from %g to %g, with no whole number between", where,
                             r->key, r->from, r->to);
    fli_text_init(&type, t->ctx);
    fli_key_print_type(&type, row);
    if (row->min < row->max && (r->from < row->min || r->to > row->max))
        s = fli_fail_also(t->ctx, FL_ECONFIG, "%stune.%s goes from %g to %g, but %s must be %s", where, r->key, r->from,
                          r->to, r->key, fli_text_get(&type));
    fli_text_fini(&type);
    return s;
}

static fl_status read_values(fl_tune *t, const fli_node *list, fli_span *r)
{
    for (const fli_node *n = list->type == FLI_NODE_LIST ? list->first : NULL; n; n = n->next) r->count++;
    r->values = list;
    return r->count ? FL_OK : wrong(t->ctx, list, r->key, "needs a list of values, e.g. {values: [1, 5, 10]}");
}

static fl_status read_range(fl_tune *t, const file_range *e, const fl_key *row, fli_span *r)
{
    char section[256];
    bounds v;
    const fli_node *n = e->node, *values = fli_node_find(n, "values");
    *r = (fli_span){.key = e->key, .at = n, .whole = row->type == FL_KEY_INT};
    if (n->type == FLI_NODE_LIST) return read_values(t, n, r);
    if (n->type != FLI_NODE_MAP)
        return wrong(t->ctx, n, e->key, "must be a range {from: 0.001, to: 1, log: true}, a list of values, or fixed");
    if (values && n->first->next) return wrong(t->ctx, n, e->key, "has values, so nothing else belongs there");
    if (values) return read_values(t, values, r);
    fli_snprintf(section, sizeof section, "tune.%s", e->key);
    fl_status s = fli_bind(t->ctx, &t->arena, section, n, NULL, &(fli_table){bounds_table, &v}, 1);
    if (s) return s;
    r->from = v.from;
    r->to = v.to;
    r->log = v.log;
    return check_bounds(t, r, row);
}

double fli_span_place(const fli_span *r, double v)
{
    return r->log ? log(v / r->from) / log(r->to / r->from) : (v - r->from) / (r->to - r->from);
}

/* ---- the box of a method -------------------------------------------------------------------------------- */

/* Finds the range of that key, or appends one. */
static fli_span *place_for(fli_tuned *c, const char *key)
{
    size_t i = 0;
    while (i < c->range_count && strcmp(c->ranges[i].key, key)) i++;
    if (i == c->range_count) c->ranges[c->range_count++] = (fli_span){.key = key};
    return &c->ranges[i];
}

static void drop_range(fli_tuned *c, const char *key)
{
    fli_span *r = place_for(c, key);
    memmove(r, r + 1, (size_t)(c->ranges + --c->range_count - r) * sizeof *r);
}

static void add_defaults(fli_tuned *c)
{
    for (const fl_tune_range *r = fli_algo_tune(c->settings->algorithm.item.desc); r->key; r++) {
        const fl_key *row = fli_settings_key(c->settings, r->key);
        *place_for(c, r->key) =
            (fli_span){.key = r->key, .from = r->from, .to = r->to, .log = r->log, .whole = row->type == FL_KEY_INT};
    }
}

/* Adds a range of the file to the box of a method that has the key. */
static fl_status add_range(fl_tune *t, fli_tuned *c, const file_range *e, const fl_key *row)
{
    fli_span r;
    if (e->node->type == FLI_NODE_SCALAR && !strcmp(e->node->text, "fixed")) return drop_range(c, e->key), FL_OK;
    fl_status s = read_range(t, e, row, &r);
    if (!s) *place_for(c, e->key) = r;
    return s;
}

static fl_status new_box(fl_tune *t, fli_tuned *c, size_t room)
{
    c->settings = t->x.trials[c - t->tuned].settings;
    for (const fl_tune_range *r = fli_algo_tune(c->settings->algorithm.item.desc); r->key; r++) room++;
    c->ranges = fli_arena_alloc(&t->arena, room + 1, sizeof *c->ranges);
    if (!c->ranges) return FL_ENOMEM;
    add_defaults(c);
    return FL_OK;
}

/* Adds a range to the boxes of all methods that have the key. */
static fl_status add_common(fl_tune *t, const file_range *e)
{
    char where[512], what[256], meant[FLI_MEANT_LEN] = "";
    size_t with = 0;
    fl_status s = FL_OK;
    fli_text without;
    fli_text_init(&without, t->ctx);
    for (size_t i = 0; i < t->x.method_count && !s; i++) {
        fli_tuned *c = &t->tuned[i];
        const fl_key *row = fli_settings_key(c->settings, e->key);
        with += row != NULL;
        if (row) {
            s = add_range(t, c, e, row);
            continue;
        }
        if (!*meant) fli_settings_meant(c->settings, e->key, meant);
        fli_text_addf(&without, "%s%s", without.n ? ", " : "", c->method->label);
    }
    if (!s) s = fli_text_ok(&without);
    fli_snprintf(what, sizeof what, "is not a key of any method that is tuned%s", meant);
    if (!s && !with) s = wrong(t->ctx, e->node, e->key, what);
    if (!s && without.n)
        fli_log(t->ctx, FL_LOG_INFO, "%stune.%s holds for the methods that have it; these have not: %s",
                fli_node_where(e->node, where, sizeof where), e->key, fli_text_get(&without));
    fli_text_fini(&without);
    return s;
}

static fl_status add_own(fl_tune *t, fli_tuned *c, const file_range *e)
{
    char what[512], meant[FLI_MEANT_LEN];
    const fl_key *row = fli_settings_key(c->settings, e->key);
    if (row) return add_range(t, c, e, row);
    fli_snprintf(what, sizeof what, "is not a key of %.256s%s", c->method->label,
                 fli_settings_meant(c->settings, e->key, meant));
    return wrong(t->ctx, e->node, e->key, what);
}

static fl_status check_allowed(fl_tune *t, const file_ranges *e)
{
    for (size_t k = 0; k < e->n; k++)
        if (is_out_of_bounds(e->v[k].key))
            return wrong(t->ctx, e->v[k].node, e->v[k].key,
                         "cannot be tuned: it says what the problem is, how long a run is or what is measured");
    return FL_OK;
}

static fl_status add_method(fl_tune *t, fli_tuned *c)
{
    file_ranges own;
    fl_status s = ranges_of_file(t, c->method->tune, 1, &own);
    if (!s) s = check_allowed(t, &own);
    if (s || !own.n) return s;
    fli_span *more = fli_arena_alloc(&t->arena, c->range_count + own.n + 1, sizeof *more);
    if (!more) return FL_ENOMEM;
    memcpy(more, c->ranges, c->range_count * sizeof *more);
    c->ranges = more;
    for (size_t k = 0; k < own.n && !s; k++) s = add_own(t, c, &own.v[k]);
    return s;
}

fl_status fli_tune_ranges(fl_tune *t)
{
    file_ranges common;
    fl_status s = ranges_of_file(t, t->x.tune, 0, &common);
    if (!s) s = check_allowed(t, &common);
    for (size_t i = 0; i < t->x.method_count && !s; i++) s = new_box(t, &t->tuned[i], common.n);
    for (size_t k = 0; k < common.n && !s; k++) s = add_common(t, &common.v[k]);
    for (size_t i = 0; i < t->x.method_count && !s; i++) {
        fli_tuned *c = &t->tuned[i];
        s = add_method(t, c);
        if (!s && !c->range_count)
            s = fli_fail_also(t->ctx, FL_ECONFIG, "%s has nothing to tune: give it a range, e.g. tune: {local.lr: ...}",
                              c->method->label);
    }
    return s;
}
